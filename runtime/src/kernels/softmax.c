#include "clones.h"
#include "kernel.h"
#include "real_math.h"

enum { COLUMNS = 64, LANES = 16 };

/* The largest beta x of a row. */
OPDB_CLONES static double greatest(const float *restrict x, int64_t n, double beta) {
    double top[LANES], most = -INFINITY;
    int64_t i = 0;
    for (int j = 0; j < LANES; j++)
        top[j] = -INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            top[j] = beta * x[i + j] > top[j] ? beta * x[i + j] : top[j];
    for (; i < n; i++)
        most = beta * x[i] > most ? beta * x[i] : most;
    for (int j = 0; j < LANES; j++)
        most = top[j] > most ? top[j] : most;
    return most;
}

/* y = exp(beta x - top) where it is wanted; returns the sum. */
OPDB_CLONES static double exponentials(const float *restrict x, float *restrict y, int64_t n, double beta,
                                       double top) {
    double lane[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        double e[LANES];
        for (int j = 0; j < LANES; j++)
            e[j] = real_exp(beta * x[i + j] - top);
        for (int j = 0; j < LANES; j++)
            lane[j] += e[j];
        for (int j = 0; j < LANES; j++)
            y[i + j] = (float)e[j];
    }
    for (; i < n; i++) {
        double e = real_exp(beta * x[i] - top);
        sum += e;
        y[i] = (float)e;
    }
    for (int j = 0; j < LANES; j++)
        sum += lane[j];
    return sum;
}

/* y = x * scale - shift; y may be x. */
OPDB_CLONES static void scale_row(const float *x, float *y, int64_t n, double scale, double shift) {
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)(x[i] * scale - shift);
}

static void softmax_row(const float *x, float *y, int64_t n, double beta, bool log) {
    double top = greatest(x, n, beta), sum = exponentials(x, y, n, beta, top);
    if (log)
        scale_row(x, y, n, beta, top + real_log(sum));
    else
        scale_row(y, y, n, 1 / sum, 0);
}

/* `columns` neighbouring vectors of n elements, `step` apart. */
OPDB_CLONES static void softmax_columns(const float *restrict x, float *restrict y, int64_t n, int64_t step,
                                        int64_t columns, double beta, bool log) {
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
        for (int64_t j = 0; j < columns; j++)
            sum[j] += real_exp(beta * x[i * step + j] - top[j]);
    for (int64_t j = 0; log && j < columns; j++)
        top[j] += real_log(sum[j]);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < columns; j++) {
            double v = beta * x[i * step + j] - top[j];
            y[i * step + j] = (float)(log ? v : real_exp(v) / sum[j]);
        }
}

static opdb_status softmax(const opdb_tensor *x, int64_t axis, double beta, bool log, const opdb_tensor *y) {
    if (!is_f32(x) || !is_f32(y))
        return OPDB_UNSUPPORTED;
    int64_t outer = size_between(x, 0, axis), n = x->dims[axis], inner = size_between(x, axis + 1, x->rank);
    for (int64_t i = 0; i < outer && inner == 1; i++)
        softmax_row((const float *)x->data + i * n, (float *)y->data + i * n, n, beta, log);
    for (int64_t i = 0; i < outer && inner != 1; i++)
        for (int64_t j = 0; j < inner; j += COLUMNS) {
            int64_t at = i * n * inner + j, columns = inner - j < COLUMNS ? inner - j : COLUMNS;
            softmax_columns((const float *)x->data + at, (float *)y->data + at, n, inner, columns, beta, log);
        }
    return OPDB_OK;
}

/* exp(beta x) over its sum along `axis`, shifted by the largest beta x. */
opdb_status opdb_softmax(const opdb_tensor *x, int64_t axis, double beta, const opdb_tensor *y) {
    return softmax(x, axis, beta, false, y);
}

/* Its logarithm: beta x minus the logarithm of that sum. */
opdb_status opdb_log_softmax(const opdb_tensor *x, int64_t axis, double beta, const opdb_tensor *y) {
    return softmax(x, axis, beta, true, y);
}
