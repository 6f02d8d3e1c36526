/* The matrix product behind MatMul, FullyConnected and Conv2d. */
#ifndef OPDB_GEMM_H
#define OPDB_GEMM_H

#include "kernel.h"

enum { GEMM_ROWS = 4, GEMM_COLUMNS = 8 }; /* of the block that stays in registers */

/* Writes A[row + r, k + d] to to[d * GEMM_ROWS + r], r < rows, d < depth. */
typedef void gemm_pack(const void *source, int64_t row, int rows, int64_t k, int depth, double *to);

/* A matrix in memory; the elements of a row are `along` apart, those of a column `down`. */
typedef struct {
    const float *v;
    int64_t down, along;
    int64_t run, jump; /* of B: each `run` rows start `jump` after the last ones; 0: all rows are one run */
} gemm_matrix;

typedef struct {
    int64_t m, n, k;
    gemm_pack *pack; /* gives A: m x k; opdb_gemm_pack where `a` is a gemm_matrix */
    const void *a;
    gemm_matrix b;     /* k x n */
    const float *bias; /* n values, or NULL */
    float *y;          /* m x n, rows y_down apart */
    int64_t y_down;
} gemm_job;

/* y = A b + bias: products are exact and sums are kept in double, rounded once at the end. */
void opdb_gemm(const gemm_job *job);

gemm_pack opdb_gemm_pack;

#endif
