/* Reduces the numbers along one or several axes to one. */
#include <math.h>

#include "clones.h"
#include "elements.h"
#include "sums.h"

/* One way to fold numbers: `run` folds n contiguous numbers into one, `columns` folds each of n into its
 * own. */
typedef struct {
    void (*run)(const void *v, int64_t n, void *into);
    void (*columns)(const void *v, int64_t n, void *into);
} fold;

enum { SIDE_BY_SIDE = 16, FLOATS = 64 }; /* lanes */

/* Lanes, so that gcc can compute them in parallel. */
#define FOLD(NAME, TYPE, INTO, START, STEP, JOIN)                                                            \
    OPDB_CLONES static void NAME##_run(const void *from, int64_t n, void *to) {                              \
        const TYPE *restrict p = from;                                                                       \
        INTO lane[SIDE_BY_SIDE], *into = to;                                                                 \
        int64_t i = 0;                                                                                       \
        for (int j = 0; j < SIDE_BY_SIDE; j++)                                                               \
            lane[j] = START;                                                                                 \
        for (; i + SIDE_BY_SIDE <= n; i += SIDE_BY_SIDE)                                                     \
            for (int j = 0; j < SIDE_BY_SIDE; j++) {                                                         \
                INTO a = lane[j], v = (INTO)p[i + j];                                                        \
                lane[j] = STEP;                                                                              \
            }                                                                                                \
        for (; i < n; i++) {                                                                                 \
            INTO a = lane[0], v = (INTO)p[i];                                                                \
            lane[0] = STEP;                                                                                  \
        }                                                                                                    \
        for (int j = 0; j < SIDE_BY_SIDE; j++) {                                                             \
            INTO a = *into, v = lane[j];                                                                     \
            *into = JOIN;                                                                                    \
        }                                                                                                    \
    }                                                                                                        \
    OPDB_CLONES static void NAME##_columns(const void *from, int64_t n, void *to) {                          \
        const TYPE *restrict p = from;                                                                       \
        INTO *restrict into = to;                                                                            \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            INTO a = into[i], v = (INTO)p[i];                                                                \
            into[i] = STEP;                                                                                  \
        }                                                                                                    \
    }

/* The greatest or the least of floats, in floats; NaN stays. */
#define EXTREME(NAME, IS_BEYOND, START)                                                                      \
    OPDB_CLONES static void NAME##_run(const void *from, int64_t n, void *to) {                              \
        const float *restrict p = from;                                                                      \
        float lane[FLOATS], most = START;                                                                    \
        uint32_t none[FLOATS] = {0}, any = 0;                                                                \
        double *into = to;                                                                                   \
        int64_t i = 0;                                                                                       \
        for (int j = 0; j < FLOATS; j++)                                                                     \
            lane[j] = START;                                                                                 \
        for (; i + FLOATS <= n; i += FLOATS)                                                                 \
            for (int j = 0; j < FLOATS; j++) {                                                               \
                lane[j] = p[i + j] IS_BEYOND lane[j] ? p[i + j] : lane[j];                                   \
                none[j] |= (uint32_t)(p[i + j] != p[i + j]);                                                 \
            }                                                                                                \
        for (; i < n; i++) {                                                                                 \
            most = p[i] IS_BEYOND most ? p[i] : most;                                                        \
            any |= (uint32_t)(p[i] != p[i]);                                                                 \
        }                                                                                                    \
        for (int j = 0; j < FLOATS; j++) {                                                                   \
            most = lane[j] IS_BEYOND most ? lane[j] : most;                                                  \
            any |= none[j];                                                                                  \
        }                                                                                                    \
        *into = any || *into != *into ? NAN : most IS_BEYOND * into ? most : *into;                          \
    }                                                                                                        \
    OPDB_CLONES static void NAME##_columns(const void *from, int64_t n, void *to) {                          \
        const float *restrict p = from;                                                                      \
        double *restrict into = to;                                                                          \
        for (int64_t i = 0; i < n; i++)                                                                      \
            into[i] = p[i] IS_BEYOND into[i] ? p[i] : p[i] == p[i] ? into[i] : NAN;                          \
    }

FOLD(add, float, double, 0, a + v, a + v)
FOLD(squares, float, double, 0, a + v * v, a + v)
FOLD(product, float, double, 1, a *v, a *v)
EXTREME(greatest, >, -INFINITY)
EXTREME(least, <, INFINITY)
/* Integers wrap, as unsigned ones do. */
FOLD(whole_sum, int64_t, uint64_t, 0, a + v, a + v)
FOLD(whole_squares, int64_t, uint64_t, 0, a + v * v, a + v)
FOLD(whole_product, int64_t, uint64_t, 1, a *v, a *v)
FOLD(whole_greatest, int64_t, int64_t, INT64_MIN, (v > a ? v : a), (v > a ? v : a))
FOLD(whole_least, int64_t, int64_t, INT64_MAX, (v < a ? v : a), (v < a ? v : a))

typedef struct {
    fold real, whole;
    double real_start;
    int64_t whole_start;
    bool mean;
} reduction;

static const reduction SUM = {{add_run, add_columns}, {whole_sum_run, whole_sum_columns}, 0, 0, false};
static const reduction MEAN = {{add_run, add_columns}, {NULL, NULL}, 0, 0, true};
static const reduction SQUARES = {
    {squares_run, squares_columns}, {whole_squares_run, whole_squares_columns}, 0, 0, false};
static const reduction PRODUCT = {
    {product_run, product_columns}, {whole_product_run, whole_product_columns}, 1, 1, false};
static const reduction GREATEST = {{greatest_run, greatest_columns},
                                   {whole_greatest_run, whole_greatest_columns},
                                   -INFINITY,
                                   INT64_MIN,
                                   false};
static const reduction LEAST = {
    {least_run, least_columns}, {whole_least_run, whole_least_columns}, INFINITY, INT64_MAX, false};

/* Intermediate numbers. */
typedef union {
    double real[OPDB_TILE];
    int64_t whole[OPDB_TILE];
} totals;

static void start(const reduction *r, opdb_kind kind, totals *t, int64_t at, int64_t n) {
    for (int64_t i = at; i < at + n; i++)
        if (kind == OPDB_REAL)
            t->real[i] = r->real_start;
        else
            t->whole[i] = r->whole_start;
}

static void finish(const reduction *r, opdb_kind kind, const totals *t, int64_t n, double count,
                   const opdb_tensor *y, int64_t at) {
    opdb_numbers tile;
    for (int64_t i = 0; i < n; i++)
        if (kind == OPDB_REAL)
            tile.real[i] = (float)(r->mean ? t->real[i] / count : t->real[i]);
        else
            tile.whole[i] = t->whole[i];
    opdb_write(y, at, n, kind, &tile);
}

/* n elements of x, `step` apart, in place or read into the tile; at most OPDB_TILE. */
static const void *elements_of(const opdb_tensor *x, int64_t at, int64_t step, int64_t n, opdb_kind kind,
                               opdb_numbers *tile) {
    if (step == 1 && opdb_is_plain(x))
        return (const char *)x->data + at * (int64_t)opdb_computed_size(kind);
    opdb_read(x, at, step, n, kind, tile);
    return tile;
}

static void fold_run(const fold *f, const opdb_tensor *x, opdb_kind kind, int64_t at, opdb_loop run,
                     void *into) {
    opdb_numbers tile;
    int64_t part = run.step[0] == 1 && opdb_is_plain(x) ? run.n : OPDB_TILE; /* in place: all at once */
    for (int64_t i = 0; i < run.n; i += part) {
        int64_t n = run.n - i < part ? run.n - i : part;
        f->run(elements_of(x, at + i * run.step[0], run.step[0], n, kind, &tile), n, into);
    }
}

static void reduce_columns(const reduction *r, const fold *f, const opdb_tensor *x, opdb_kind kind,
                           opdb_nest *kept, opdb_nest *over, const opdb_tensor *y) {
    opdb_loop run = nest_pop(kept);
    double count = (double)nest_size(over);
    int64_t at = 0;
    do {
        for (int64_t i = 0, n; i < run.n; i += n, at += n) {
            totals t;
            opdb_numbers tile;
            n = run.n - i < OPDB_TILE ? run.n - i : OPDB_TILE;
            start(r, kind, &t, 0, n);
            if (count > 0)
                do {
                    f->columns(elements_of(x, kept->at[0] + over->at[0] + i, 1, n, kind, &tile), n, &t);
                } while (nest_next(over));
            finish(r, kind, &t, n, count, y, at);
        }
    } while (nest_next(kept));
}

static void reduce_runs(const reduction *r, const fold *f, const opdb_tensor *x, opdb_kind kind,
                        opdb_nest *kept, opdb_nest *over, const opdb_tensor *y) {
    double count = (double)nest_size(over);
    opdb_loop run = nest_pop(over);
    totals t;
    int64_t at = 0, n = 0;
    do {
        start(r, kind, &t, n, 1);
        if (count > 0)
            do {
                fold_run(f, x, kind, kept->at[0] + over->at[0], run,
                         kind == OPDB_REAL ? (void *)&t.real[n] : &t.whole[n]);
            } while (nest_next(over));
        if (++n == OPDB_TILE) {
            finish(r, kind, &t, n, count, y, at);
            at += n;
            n = 0;
        }
    } while (nest_next(kept));
    finish(r, kind, &t, n, count, y, at);
}

static opdb_status reduce(const reduction *r, const opdb_tensor *x, opdb_ints axes, const opdb_tensor *y) {
    opdb_kind kind = opdb_kind_of(x);
    const fold *f = kind == OPDB_REAL ? &r->real : &r->whole;
    if (kind < OPDB_WHOLE || opdb_kind_of(y) != kind || f->run == NULL)
        return OPDB_UNSUPPORTED;
    if (size_of(y) == 0)
        return OPDB_OK;
    opdb_nest kept = {0}, over = {0};
    split_axes(x, axes, &kept, &over);
    if (kept.rank > 0 && kept.loop[kept.rank - 1].step[0] == 1)
        reduce_columns(r, f, x, kind, &kept, &over, y);
    else
        reduce_runs(r, f, x, kind, &kept, &over, y);
    return OPDB_OK;
}

/* Without elements the sum is 0, the product 1, the mean NaN, the greatest and the least are infinite. */

opdb_status opdb_reduce_sum(const opdb_tensor *x, opdb_ints axes, const opdb_tensor *y) {
    return reduce(&SUM, x, axes, y);
}

opdb_status opdb_reduce_mean(const opdb_tensor *x, opdb_ints axes, const opdb_tensor *y) {
    return reduce(&MEAN, x, axes, y);
}

opdb_status opdb_reduce_sum_square(const opdb_tensor *x, opdb_ints axes, const opdb_tensor *y) {
    return reduce(&SQUARES, x, axes, y);
}

opdb_status opdb_reduce_prod(const opdb_tensor *x, opdb_ints axes, const opdb_tensor *y) {
    return reduce(&PRODUCT, x, axes, y);
}

opdb_status opdb_reduce_max(const opdb_tensor *x, opdb_ints axes, const opdb_tensor *y) {
    return reduce(&GREATEST, x, axes, y);
}

opdb_status opdb_reduce_min(const opdb_tensor *x, opdb_ints axes, const opdb_tensor *y) {
    return reduce(&LEAST, x, axes, y);
}
