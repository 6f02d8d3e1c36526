/* The matrix product behind MatMul, FullyConnected and convolutions. */
#ifndef OPDB_GEMM_H
#define OPDB_GEMM_H

#include "kernel.h"

enum {
    GEMM_ROWS = 8, /* of the tile that stays in registers */
    GEMM_COLUMNS = 32,
#ifdef OPDB_SMALL_STACK
    GEMM_DEPTH = 16, /* of what is multiplied at once */
#else
    GEMM_DEPTH = 256,
#endif
    GEMM_TAPS = 64
};

/* A is m x (taps * depth), B (taps * depth) x n: a matrix has one tap, a convolution as many as its
 * filter. */
typedef struct gemm_job gemm_job;

/* to[t * GEMM_ROWS + r] = where element `d` of row `row` + r and tap `tap` + t is, with GEMM_DEPTH or the
 * rest of `depth` behind it, `a_along` apart; for r < rows and t < taps. */
typedef void gemm_rows(const void *a, int64_t row, int rows, int64_t tap, int taps, int64_t d,
                       const float **to);

struct gemm_job {
    int64_t m, n, taps, depth;
    gemm_rows *rows; /* opdb_gemm_rows for `a` as a gemm_matrix */
    const void *a;
    int64_t a_along; /* other than 1 with one tap only */
    const float *b;  /* its elements are: */
    int64_t b_tap, b_down, b_along;
    const float *bias; /* n values, or NULL */
    float *y;          /* m x n, rows y_down apart */
    int64_t y_down;
};

/* A matrix in memory; the elements of a row are `along` apart, those of a column `down`. */
typedef struct {
    const float *v;
    int64_t down, along;
} gemm_matrix;

/* y = A B + bias, summed in float: off by at most taps * depth * 2^-24 of the sum of the products' sizes. */
void opdb_gemm(const gemm_job *job);

gemm_rows opdb_gemm_rows;

#endif
