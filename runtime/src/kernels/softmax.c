#include "softmax.h"

#include "clones.h"
#include "real_float.h"
#include "real_math.h"

enum { COLUMNS = 64, LANES = 64, BLOCK = 1024 }; /* BLOCK: elements whose sum is kept in lanes of float */

/* The element of a row that makes beta x the largest: the greatest, or the least if beta is negative. */
OPDB_CLONES static float extreme(const float *restrict x, int64_t n, float sign) {
    float top[LANES], most = -INFINITY;
    int64_t i = 0;
    for (int j = 0; j < LANES; j++)
        top[j] = -INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            top[j] = sign * x[i + j] > top[j] ? sign * x[i + j] : top[j];
    for (; i < n; i++)
        most = sign * x[i] > most ? sign * x[i] : most;
    for (int j = 0; j < LANES; j++)
        most = top[j] > most ? top[j] : most;
    return sign * most;
}

/* y = exp(beta (x - top)); returns the sum. */
OPDB_FUSED_CLONES static double exponentials(const float *restrict x, float *restrict y, int64_t n,
                                             float beta, float top) {
    double sum = 0;
    for (int64_t i = 0; i < n;) {
        float lane[LANES] = {0};
        int64_t end = n - i < BLOCK ? n : i + BLOCK;
        for (; i + LANES <= end; i += LANES)
            for (int j = 0; j < LANES; j++) {
                y[i + j] = real_expf(beta * (x[i + j] - top));
                lane[j] += y[i + j];
            }
        for (; i < end; i++)
            sum += y[i] = real_expf(beta * (x[i] - top));
        for (int j = 0; j < LANES; j++)
            sum += lane[j];
    }
    return sum;
}

/* y = x * scale; y may be x. */
OPDB_CLONES static void scale_row(const float *x, float *y, int64_t n, float scale) {
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * scale;
}

/* y = beta (x - top) - shift. */
OPDB_CLONES static void logarithms(const float *restrict x, float *restrict y, int64_t n, float beta,
                                   float top, float shift) {
    for (int64_t i = 0; i < n; i++)
        y[i] = beta * (x[i] - top) - shift;
}

void opdb_softmax_row(const float *x, float *y, int64_t n, float beta, bool log) {
    float top = extreme(x, n, beta < 0 ? -1 : 1);
    double sum = exponentials(x, y, n, beta, top);
    if (log)
        logarithms(x, y, n, beta, top, (float)real_log(sum));
    else
        scale_row(y, y, n, (float)(1 / sum));
}

/* `columns` adjacent vectors of n elements, `step` apart. */
OPDB_FUSED_CLONES static void softmax_columns(const float *restrict x, float *restrict y, int64_t n,
                                              int64_t step, int64_t columns, float beta, bool log) {
    float top[COLUMNS], factor[COLUMNS], sign = beta < 0 ? -1 : 1;
    double sum[COLUMNS];
    for (int64_t j = 0; j < columns; j++) {
        top[j] = -INFINITY;
        sum[j] = 0;
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < columns; j++)
            top[j] = sign * x[i * step + j] > top[j] ? sign * x[i * step + j] : top[j];
    for (int64_t j = 0; j < columns; j++)
        top[j] *= sign;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < columns; j++) {
            y[i * step + j] = real_expf(beta * (x[i * step + j] - top[j]));
            sum[j] += y[i * step + j];
        }
    for (int64_t j = 0; j < columns; j++)
        factor[j] = (float)(log ? real_log(sum[j]) : 1 / sum[j]);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < columns; j++)
            y[i * step + j] =
                log ? beta * (x[i * step + j] - top[j]) - factor[j] : y[i * step + j] * factor[j];
}

static opdb_status softmax(const opdb_tensor *x, int64_t axis, double beta, bool log, const opdb_tensor *y) {
    if (!is_f32(x) || !is_f32(y))
        return OPDB_UNSUPPORTED;
    int64_t outer = size_between(x, 0, axis), n = x->dims[axis], inner = size_between(x, axis + 1, x->rank);
    const float *from = x->data;
    float *to = y->data, times = (float)beta;
    for (int64_t i = 0; i < outer && inner == 1; i++)
        opdb_softmax_row(from + i * n, to + i * n, n, times, log);
    for (int64_t i = 0; i < outer && inner != 1; i++)
        for (int64_t j = 0; j < inner; j += COLUMNS) {
            int64_t at = i * n * inner + j, columns = inner - j < COLUMNS ? inner - j : COLUMNS;
            softmax_columns(from + at, to + at, n, inner, columns, times, log);
        }
    return OPDB_OK;
}

/* exp(beta x) over its sum along `axis`, shifted by the largest.  An element is at most 4 + 2 d units in the
 * last place off, d = |beta (x - largest)|, since that difference is rounded to float. */
opdb_status opdb_softmax(const opdb_tensor *x, int64_t axis, double beta, const opdb_tensor *y) {
    return softmax(x, axis, beta, false, y);
}

/* The logarithm of the softmax: beta x minus the logarithm of the sum. */
opdb_status opdb_log_softmax(const opdb_tensor *x, int64_t axis, double beta, const opdb_tensor *y) {
    return softmax(x, axis, beta, true, y);
}
