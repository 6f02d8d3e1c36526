#include <math.h>

#include "kernel.h"

enum { COLUMNS = 64 };

static void softmax_row(const float *x, float *y, int64_t n, double beta) {
    double top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double v = beta * x[i];
        top = v > top ? v : top;
    }
    for (int64_t i = 0; i < n; i++) {
        double e = exp(beta * x[i] - top);
        sum += e;
        y[i] = (float)e;
    }
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)(y[i] / sum);
}

/* Softmax of `columns` neighbouring vectors of n elements, `step` apart. */
static void softmax_columns(const float *x, float *y, int64_t n, int64_t step, int64_t columns, double beta) {
    double top[COLUMNS], sum[COLUMNS];
    for (int64_t j = 0; j < columns; j++) {
        top[j] = -INFINITY;
        sum[j] = 0;
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < columns; j++) {
            double v = beta * x[i * step + j];
            top[j] = v > top[j] ? v : top[j];
        }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < columns; j++) {
            double e = exp(beta * x[i * step + j] - top[j]);
            sum[j] += e;
            y[i * step + j] = (float)e;
        }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < columns; j++)
            y[i * step + j] = (float)(y[i * step + j] / sum[j]);
}

/* exp(beta x) over its sum along `axis`, shifted by the largest beta x. */
opdb_status opdb_softmax(const opdb_tensor *x, int64_t axis, double beta, const opdb_tensor *y) {
    if (!is_f32(x) || !is_f32(y))
        return OPDB_UNSUPPORTED;
    int64_t outer = size_between(x, 0, axis), n = x->dims[axis], inner = size_between(x, axis + 1, x->rank);
    for (int64_t i = 0; i < outer && inner == 1; i++)
        softmax_row((const float *)x->data + i * n, (float *)y->data + i * n, n, beta);
    for (int64_t i = 0; i < outer && inner != 1; i++)
        for (int64_t j = 0; j < inner; j += COLUMNS) {
            int64_t at = i * n * inner + j, columns = inner - j < COLUMNS ? inner - j : COLUMNS;
            softmax_columns((const float *)x->data + at, (float *)y->data + at, n, inner, columns, beta);
        }
    return OPDB_OK;
}
