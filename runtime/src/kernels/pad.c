#include "move.h"

/* A run along one dim of y: n elements from y_at on come from x, from x_at on, `step` apart. */
typedef struct {
    int64_t n, x_at, y_at, step;
} segment;

enum { SEGMENTS = 3 };

/* The segments before x, x itself, and after it; `mirror` is 1 if the border is repeated, else 0. */
static void segments(int64_t before, int64_t size, int64_t after, int64_t scheme, segment *to) {
    bool edge = scheme == OPDB_PAD_EDGE, constant = scheme == OPDB_PAD_CONSTANT;
    int64_t mirror = scheme == OPDB_PAD_MIRROR_SYMMETRIC;
    segment first = {constant ? 0 : before, edge ? 0 : before - mirror, 0, edge ? 0 : -1};
    segment middle = {size, 0, before, 1};
    segment last = {constant ? 0 : after, edge ? size - 1 : size - 2 + mirror, before + size, edge ? 0 : -1};
    to[0] = first;
    to[1] = middle;
    to[2] = last;
}

/* True if the elements that the border needs exist; rules only warn. */
static bool is_within(const opdb_tensor *x, const segment (*parts)[SEGMENTS]) {
    for (uint32_t d = 0; d < x->rank; d++)
        for (int k = 0; k < SEGMENTS; k++) {
            const segment *s = &parts[d][k];
            int64_t end = s->x_at + (s->n - 1) * s->step;
            if (s->n > 0 && (s->x_at < 0 || s->x_at >= x->dims[d] || end < 0 || end >= x->dims[d]))
                return false;
        }
    return true;
}

/* x in the middle of y; around it the value, the mirror image with or without the border, or the border. */
opdb_status opdb_pad(const opdb_tensor *x, int64_t scheme, opdb_rows pad_amount, double pad_constant_value,
                     const opdb_tensor *y) {
    if (!opdb_moves(x, y) || opdb_kind_of(y) == OPDB_NO_KIND)
        return OPDB_UNSUPPORTED;
    segment parts[OPDB_MAX_RANK][SEGMENTS];
    int chosen[OPDB_MAX_RANK] = {0};
    int64_t rank = (int64_t)x->rank, d;
    for (d = 0; d < rank; d++)
        segments(pad_amount.v[d * pad_amount.width], x->dims[d], pad_amount.v[d * pad_amount.width + 1],
                 scheme, parts[d]);
    if (!is_within(x, (const segment(*)[SEGMENTS])parts))
        return OPDB_UNSUPPORTED;
    if (scheme == OPDB_PAD_CONSTANT)
        opdb_fill(y, 0, size_of(y), pad_constant_value);
    do { /* one box of y for each choice of a segment of each dim */
        opdb_nest nest = {0};
        int64_t x_at = 0, y_at = 0;
        for (d = 0; d < rank; d++) {
            const segment *s = &parts[d][chosen[d]];
            int64_t step = size_between(x, d + 1, rank), y_step = size_between(y, d + 1, rank);
            x_at += s->x_at * step;
            y_at += s->y_at * y_step;
            nest_add(&nest, s->n, s->step * step, y_step, 0);
        }
        opdb_move(x, x_at, y, y_at, &nest);
        for (d = rank - 1; d >= 0 && ++chosen[d] == SEGMENTS; d--)
            chosen[d] = 0;
    } while (d >= 0);
    return OPDB_OK;
}
