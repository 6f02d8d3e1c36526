#include "gemm.h"

#include "clones.h"

#include <string.h>

/* Blocks of A and B, packed as double, stay in the first two cache levels: 72 KiB of stack in all. */
enum { BLOCK_M = 32, BLOCK_N = 32, BLOCK_K = 128 };

typedef struct {
    double a[BLOCK_M / GEMM_ROWS][BLOCK_K * GEMM_ROWS];
    double b[BLOCK_N / GEMM_COLUMNS][BLOCK_K * GEMM_COLUMNS];
    double sum[BLOCK_M / GEMM_ROWS][BLOCK_N / GEMM_COLUMNS][GEMM_ROWS * GEMM_COLUMNS];
} workspace;

static inline int64_t at_most(int64_t n, int64_t limit) { return n < limit ? n : limit; }

/* sum[r, c] += a[., r] b[., c] over the depth. */
OPDB_CLONES static void multiply(const double *restrict a, const double *restrict b, int depth,
                                 double *restrict sum) {
    double s[GEMM_ROWS][GEMM_COLUMNS];
    memcpy(s, sum, sizeof s);
    for (int d = 0; d < depth; d++, a += GEMM_ROWS, b += GEMM_COLUMNS)
        for (int r = 0; r < GEMM_ROWS; r++)
            for (int c = 0; c < GEMM_COLUMNS; c++)
                s[r][c] += a[r] * b[c];
    memcpy(sum, s, sizeof s);
}

/* Interleaves `lanes` vectors, padded with zeros to `width`: to[d * width + lane]. */
static inline void interleave(const float *from, int64_t lane_step, int64_t step, int lanes, int width,
                              int depth, double *to) {
    if (lanes < width)
        memset(to, 0, sizeof(double) * (size_t)(width * depth));
    if (lane_step == 1)
        for (int d = 0; d < depth; d++)
            for (int lane = 0; lane < lanes; lane++)
                to[d * width + lane] = from[d * step + lane];
    else
        for (int lane = 0; lane < lanes; lane++)
            for (int d = 0; d < depth; d++)
                to[d * width + lane] = from[lane * lane_step + d * step];
}

void opdb_gemm_pack(const void *source, int64_t row, int rows, int64_t k, int depth, double *to) {
    const gemm_matrix *a = source;
    interleave(a->v + row * a->down + k * a->along, a->down, a->along, rows, GEMM_ROWS, depth, to);
}

/* Columns j .. j + lanes of B, rows k .. k + depth, run by run. */
static void pack_columns(const gemm_matrix *b, int64_t k, int depth, int64_t j, int lanes, double *to) {
    int64_t run = b->run > 0 ? b->run : k + depth;
    for (int d = 0, n; d < depth; d += n) {
        int64_t within = (k + d) % run;
        n = (int)at_most(run - within, depth - d);
        interleave(b->v + (k + d) / run * b->jump + within * b->down + j * b->along, b->along, b->down, lanes,
                   GEMM_COLUMNS, n, to + d * GEMM_COLUMNS);
    }
}

/* Adds what columns k .. k + depth of A and those rows of B give to the sums of one block. */
static void add_block(const gemm_job *job, workspace *w, int64_t i, int m, int64_t j, int n, int64_t k,
                      int depth) {
    for (int c = 0; c < n; c += GEMM_COLUMNS)
        pack_columns(&job->b, k, depth, j + c, (int)at_most(n - c, GEMM_COLUMNS), w->b[c / GEMM_COLUMNS]);
    for (int r = 0; r < m; r += GEMM_ROWS) {
        double *a = w->a[r / GEMM_ROWS];
        job->pack(job->a, i + r, (int)at_most(m - r, GEMM_ROWS), k, depth, a);
        for (int c = 0; c < n; c += GEMM_COLUMNS)
            multiply(a, w->b[c / GEMM_COLUMNS], depth, w->sum[r / GEMM_ROWS][c / GEMM_COLUMNS]);
    }
}

static void store(const gemm_job *job, const workspace *w, int64_t i, int m, int64_t j, int n) {
    for (int r = 0; r < m; r++)
        for (int c = 0; c < n; c++) {
            double v =
                w->sum[r / GEMM_ROWS][c / GEMM_COLUMNS][r % GEMM_ROWS * GEMM_COLUMNS + c % GEMM_COLUMNS];
            if (job->bias != NULL)
                v += job->bias[j + c];
            job->y[(i + r) * job->y_down + j + c] = (float)v;
        }
}

void opdb_gemm(const gemm_job *job) {
    workspace w;
    for (int64_t j = 0; j < job->n; j += BLOCK_N)
        for (int64_t i = 0; i < job->m; i += BLOCK_M) {
            int m = (int)at_most(job->m - i, BLOCK_M), n = (int)at_most(job->n - j, BLOCK_N);
            memset(w.sum, 0, sizeof w.sum);
            for (int64_t k = 0; k < job->k; k += BLOCK_K)
                add_block(job, &w, i, m, j, n, k, (int)at_most(job->k - k, BLOCK_K));
            store(job, &w, i, m, j, n);
        }
}
