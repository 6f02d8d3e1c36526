#include "gemm.h"

#include "clones.h"

#include <string.h>

/* Rows of A multiplied with a packed part of B before the next part is packed: they stay in the L2 cache. */
enum { BLOCK_M = 512 };

/* The block multiplied at once: `taps` taps from `tap` on, `depth` elements of each from `d` on. */
typedef struct {
    int64_t tap, d;
    int taps, depth;
} part;

typedef struct {
    float b[GEMM_DEPTH * GEMM_COLUMNS];
    float a[GEMM_ROWS][GEMM_DEPTH];
    const float *rows[GEMM_TAPS * GEMM_ROWS];
    float sum[GEMM_ROWS * GEMM_COLUMNS];
} workspace;

static inline int64_t at_most(int64_t n, int64_t limit) { return n < limit ? n : limit; }

/* sum[r, c] += rows[r][d] b[d, c] over the taps and the depth; rows of b are `down` apart. */
OPDB_FUSED_CLONES static void multiply(const float *const *rows, int taps, int depth, const float *restrict b,
                                       int64_t down, float *restrict sum) {
    float s[GEMM_ROWS][GEMM_COLUMNS];
    memcpy(s, sum, sizeof s);
    for (int t = 0; t < taps; t++, rows += GEMM_ROWS)
        for (int d = 0; d < depth; d++, b += down)
            for (int r = 0; r < GEMM_ROWS; r++)
                for (int c = 0; c < GEMM_COLUMNS; c++)
                    s[r][c] += rows[r][d] * b[c];
    memcpy(sum, s, sizeof s);
}

void opdb_gemm_rows(const void *a, int64_t row, int rows, int64_t tap, int taps, int64_t d,
                    const float **to) {
    const gemm_matrix *m = a;
    (void)tap, (void)taps;
    for (int r = 0; r < rows; r++)
        to[r] = m->v + (row + r) * m->down + d * m->along;
}

/* Packs columns j .. j + n of a part of B side by side, with zeros up to the width of a tile. */
OPDB_CLONES static void pack(const gemm_job *job, const part *p, int64_t j, int n, float *to) {
    if (n < GEMM_COLUMNS)
        memset(to, 0, sizeof(float) * (size_t)(p->taps * p->depth * GEMM_COLUMNS));
    for (int t = 0; t < p->taps; t++, to += p->depth * GEMM_COLUMNS) {
        const float *from = job->b + (p->tap + t) * job->b_tap + p->d * job->b_down + j * job->b_along;
        if (job->b_along == 1)
            for (int d = 0; d < p->depth; d++)
                memcpy(to + d * GEMM_COLUMNS, from + d * job->b_down, sizeof(float) * (size_t)n);
        else
            for (int c = 0; c < n; c++)
                for (int d = 0; d < p->depth; d++)
                    to[d * GEMM_COLUMNS + c] = from[c * job->b_along + d * job->b_down];
    }
}

/* Packs the elements of rows of A side by side; for one tap. */
static void gather(workspace *w, int rows, int depth, int64_t along) {
    for (int r = 0; r < rows; r++) {
        for (int d = 0; d < depth; d++)
            w->a[r][d] = w->rows[r][d * along];
        w->rows[r] = w->a[r];
    }
}

/* The tile of sums as stored in y, or the start values of the sums. */
static void load(const gemm_job *job, bool first, const float *y, int64_t j, int m, int n, float *sum) {
    memset(sum, 0, sizeof(float) * GEMM_ROWS * GEMM_COLUMNS);
    for (int r = 0; r < m; r++, sum += GEMM_COLUMNS)
        if (!first)
            memcpy(sum, y + r * job->y_down, sizeof(float) * (size_t)n);
        else if (job->bias != NULL)
            memcpy(sum, job->bias + j, sizeof(float) * (size_t)n);
}

/* Adds the products of one part of A and B to n columns from j on, for rows i to `end`. */
static void add_part(const gemm_job *job, workspace *w, const part *p, bool first, int64_t i, int64_t end,
                     int64_t j, int n) {
    bool direct = n == GEMM_COLUMNS && job->b_along == 1 && p->taps == 1 && end - i <= GEMM_ROWS;
    const float *b = w->b;
    if (direct) /* read once */
        b = job->b + p->tap * job->b_tap + p->d * job->b_down + j;
    else
        pack(job, p, j, n, w->b);
    for (; i < end; i += GEMM_ROWS) {
        int m = (int)at_most(end - i, GEMM_ROWS);
        float *y = job->y + i * job->y_down + j;
        job->rows(job->a, i, m, p->tap, p->taps, p->d, w->rows);
        if (job->a_along != 1)
            gather(w, m, p->depth, job->a_along);
        for (int t = 0; t < p->taps; t++)
            for (int r = m; r < GEMM_ROWS; r++) /* any existing row */
                w->rows[t * GEMM_ROWS + r] = w->rows[t * GEMM_ROWS];
        load(job, first, y, j, m, n, w->sum);
        multiply(w->rows, p->taps, p->depth, b, direct ? job->b_down : GEMM_COLUMNS, w->sum);
        for (int r = 0; r < m; r++)
            memcpy(y + r * job->y_down, w->sum + r * GEMM_COLUMNS, sizeof(float) * (size_t)n);
    }
}

/* For few rows of A: packing B would take longer than the products. */
enum { FEW = 16, LANES = 16 };

/* The products of one row of A with four columns of B, which are `along` apart. */
OPDB_FUSED_CLONES static void dots(const float *a, const float *b, int64_t along, int64_t depth, float *to) {
    float w[LANES] = {0}, x[LANES] = {0}, y[LANES] = {0}, z[LANES] = {0};
    const float *c = b + along, *d = c + along, *e = d + along;
    int64_t k = 0;
    for (; k + LANES <= depth; k += LANES)
        for (int i = 0; i < LANES; i++) {
            w[i] += a[k + i] * b[k + i];
            x[i] += a[k + i] * c[k + i];
            y[i] += a[k + i] * d[k + i];
            z[i] += a[k + i] * e[k + i];
        }
    for (int i = 0; k + i < depth; i++) {
        w[i] += a[k + i] * b[k + i];
        x[i] += a[k + i] * c[k + i];
        y[i] += a[k + i] * d[k + i];
        z[i] += a[k + i] * e[k + i];
    }
    float sums[4][4]; /* a quarter of the lanes each */
    for (int i = 0; i < 4; i++) {
        sums[0][i] = (w[i] + w[i + 4]) + (w[i + 8] + w[i + 12]);
        sums[1][i] = (x[i] + x[i + 4]) + (x[i + 8] + x[i + 12]);
        sums[2][i] = (y[i] + y[i + 4]) + (y[i + 8] + y[i + 12]);
        sums[3][i] = (z[i] + z[i + 4]) + (z[i + 8] + z[i + 12]);
    }
    for (int c = 0; c < 4; c++)
        to[c] = (sums[c][0] + sums[c][1]) + (sums[c][2] + sums[c][3]);
}

/* For few rows of A, and B whose columns are contiguous in memory, as the weights of a linear layer are. */
static void multiply_few(const gemm_job *job) {
    const float *row, *bias = job->bias;
    float found[4];
    for (int64_t j = 0, n; j < job->n; j += n) {
        n = job->n - j < 4 ? 1 : 4;
        for (int64_t i = 0; i < job->m; i++) {
            job->rows(job->a, i, 1, 0, 1, 0, &row);
            dots(row, job->b + j * job->b_along, n == 4 ? job->b_along : 0, job->depth, found);
            for (int64_t c = 0; c < n; c++)
                job->y[i * job->y_down + j + c] = found[c] + (bias == NULL ? 0 : bias[j + c]);
        }
    }
}

void opdb_gemm(const gemm_job *job) {
    workspace w;
    if (job->m <= FEW && job->taps == 1 && job->a_along == 1 && job->b_down == 1 && job->b_along != 1) {
        multiply_few(job);
        return;
    }
    int64_t whole = job->depth > 0 && job->depth <= GEMM_DEPTH, tap, d;
    int64_t taps = whole ? at_most(GEMM_DEPTH / job->depth, GEMM_TAPS) : 1;
    for (int64_t i = 0; i < job->m; i += BLOCK_M) {
        int64_t end = i + at_most(job->m - i, BLOCK_M);
        tap = d = 0;
        do { /* at least once: an empty sum is the bias */
            part p = {tap, d, (int)at_most(job->taps - tap, taps), (int)at_most(job->depth - d, GEMM_DEPTH)};
            for (int64_t j = 0; j < job->n; j += GEMM_COLUMNS)
                add_part(job, &w, &p, tap + d == 0, i, end, j, (int)at_most(job->n - j, GEMM_COLUMNS));
            d += GEMM_DEPTH;
            if (d >= job->depth) {
                d = 0;
                tap += taps;
            }
        } while (tap < job->taps);
    }
}
