/* Softmax of one row, for kernels that contain one. */
#ifndef OPDB_SOFTMAX_H
#define OPDB_SOFTMAX_H

#include "kernel.h"

/* y = exp(beta x) over its sum, n numbers; its logarithm if `log`.  y is not x. */
void opdb_softmax_row(const float *x, float *y, int64_t n, float beta, bool log);

#endif
