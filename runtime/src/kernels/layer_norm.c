#include <math.h>

#include "sums.h"

/* A run of y = (x - mean) * scale * gamma + beta; gamma and beta have the step `own`. */
static inline void normalise(const float *x, float *y, int64_t n, int64_t step, const float *gamma,
                             const float *beta, int64_t own, double mean, double scale) {
    for (int64_t i = 0; i < n; i++) {
        double v = (x[i * step] - mean) * scale;
        if (gamma != NULL)
            v *= gamma[i * own];
        if (beta != NULL)
            v += beta[i * own];
        y[i * step] = (float)v;
    }
}

/* The calls differ in what the compiler knows, so that the common cases vectorise. */
static void normalise_run(const float *x, float *y, opdb_loop run, const float *gamma, const float *beta,
                          double mean, double scale) {
    bool dense = run.step[0] == 1 && run.step[1] == 1;
    if (dense && gamma != NULL && beta != NULL)
        normalise(x, y, run.n, 1, gamma, beta, 1, mean, scale);
    else if (dense && gamma == NULL && beta == NULL)
        normalise(x, y, run.n, 1, NULL, NULL, 1, mean, scale);
    else
        normalise(x, y, run.n, run.step[0], gamma, beta, run.step[1], mean, scale);
}

static double sum_over(const float *x, opdb_nest *over, opdb_loop run, double centre, int power) {
    double sum = 0;
    do {
        sum += sum_run(x + over->at[0], run, centre, power);
    } while (nest_next(over));
    return sum;
}

/* y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, mean and (biased) variance over `axes`, any
 * set in any order.  gamma and beta have the dims of `axes` in that order. */
opdb_status opdb_layer_norm(const opdb_tensor *x, const opdb_tensor *gamma, const opdb_tensor *beta,
                            double epsilon, opdb_ints axes, const opdb_tensor *y) {
    if (!is_f32(x) || !is_f32(gamma) || !is_f32(beta) || !is_f32(y))
        return OPDB_UNSUPPORTED;
    if (size_of(x) == 0)
        return OPDB_OK;
    opdb_nest kept = {0}, over = {0};
    split_axes(x, axes, &kept, &over);
    double count = (double)nest_size(&over);
    opdb_loop run = nest_pop(&over);
    do {
        const float *in = (const float *)x->data + kept.at[0];
        float *out = (float *)y->data + kept.at[0];
        double mean = sum_over(in, &over, run, 0, 1) / count;
        double scale = 1 / sqrt(sum_over(in, &over, run, mean, 2) / count + epsilon);
        do {
            const float *g = gamma == NULL ? NULL : (const float *)gamma->data + over.at[1];
            const float *b = beta == NULL ? NULL : (const float *)beta->data + over.at[1];
            normalise_run(in + over.at[0], out + over.at[0], run, g, b, mean, scale);
        } while (nest_next(&over));
    } while (nest_next(&kept));
    return OPDB_OK;
}
