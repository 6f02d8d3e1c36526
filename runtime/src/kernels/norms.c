/* Numbers minus their mean, over their spread, times gamma plus beta. */
#include <math.h>

#include "clones.h"
#include "sums.h"

/* A run of y = (x - mean) * scale * gamma + beta, in float: the mean is in two parts, so that small
 * differences stay exact; each operation is off by half a unit in the last place. */
static inline void normalize(const float *restrict x, float *restrict y, opdb_loop run, const float *gamma,
                             const float *beta, double mean, double factor) {
    const float high = (float)mean, low = (float)(mean - high), scale = (float)factor;
    for (int64_t i = 0; i < run.n; i++) {
        float v = ((x[i * run.step[0]] - high) - low) * scale;
        if (gamma != NULL)
            v *= gamma[i * run.step[1]];
        if (beta != NULL)
            v += beta[i * run.step[2]];
        y[i * run.step[0]] = v;
    }
}

/* The calls pass different constants to the compiler, so that the common cases vectorize. */
OPDB_CLONES static void normalize_run(const float *x, float *y, opdb_loop run, const float *gamma,
                                      const float *beta, double mean, double scale) {
    opdb_loop ones = {run.n, {1, 1, 1}}, whole = {run.n, {1, 0, 0}};
    bool dense = run.step[0] == 1;
    if (dense && gamma != NULL && beta != NULL && run.step[1] == 1 && run.step[2] == 1)
        normalize(x, y, ones, gamma, beta, mean, scale);
    else if (dense && gamma != NULL && beta == NULL && run.step[1] == 1)
        normalize(x, y, ones, gamma, NULL, mean, scale);
    else if (dense && run.step[1] == 0 && run.step[2] == 0)
        normalize(x, y, whole, gamma, beta, mean, scale);
    else
        normalize(x, y, run, gamma, beta, mean, scale);
}

OPDB_CLONES static double sum_of(const float *p, opdb_loop run, double center, int power) {
    return sum_run(p, run, center, power);
}

static double sum_over(const float *x, opdb_nest *over, opdb_loop run, double center, int power) {
    double sum = 0;
    do {
        sum += sum_of(x + over->at[0], run, center, power);
    } while (nest_next(over));
    return sum;
}

/* The data to normalize: x, with steps of gamma and beta; the loops in `over` share one mean and spread. */
typedef struct {
    const opdb_tensor *x, *gamma, *beta, *y;
    opdb_nest kept, over;
    bool centered, scaled;
    double epsilon;
} norm;

static const float *data_of(const opdb_tensor *t, int64_t at) {
    return t == NULL ? NULL : (const float *)t->data + at;
}

static opdb_status run_norm(norm *n) {
    if (!is_f32(n->x) || !is_f32(n->gamma) || !is_f32(n->beta) || !is_f32(n->y))
        return OPDB_UNSUPPORTED;
    if (size_of(n->x) == 0)
        return OPDB_OK;
    opdb_nest *kept = &n->kept, *over = &n->over;
    double count = (double)nest_size(over);
    opdb_loop run = nest_pop(over);
    do {
        const float *in = data_of(n->x, kept->at[0]);
        float *out = (float *)n->y->data + kept->at[0];
        double mean = n->centered ? sum_over(in, over, run, 0, 1) / count : 0, scale = 1;
        if (n->scaled)
            scale = 1 / sqrt(sum_over(in, over, run, mean, 2) / count + n->epsilon);
        do {
            const float *gamma = data_of(n->gamma, kept->at[1] + over->at[1]);
            const float *beta = data_of(n->beta, kept->at[2] + over->at[2]);
            normalize_run(in + over->at[0], out + over->at[0], run, gamma, beta, mean, scale);
        } while (nest_next(over));
    } while (nest_next(kept));
    return OPDB_OK;
}

/* The step of t, which is broadcast to the dims of `axes`, along axes[place]. */
static int64_t step_of(const opdb_tensor *t, int64_t place, int64_t axes) {
    int64_t own = t == NULL ? -1 : place - (axes - (int64_t)t->rank);
    return own < 0 || t->dims[own] == 1 ? 0 : size_between(t, own + 1, t->rank);
}

/* Over `axes`, any set in any order; gamma and beta are broadcast to the dims of the axes in that order. */
static opdb_status over_axes(norm n, opdb_ints axes) {
    for (int64_t d = 0; d < (int64_t)n.x->rank; d++) {
        int64_t step = size_between(n.x, d + 1, n.x->rank), place = 0;
        while (place < axes.n && axes.v[place] != d)
            place++;
        if (place < axes.n)
            nest_add(&n.over, n.x->dims[d], step, step_of(n.gamma, place, axes.n),
                     step_of(n.beta, place, axes.n));
        else
            nest_add(&n.kept, n.x->dims[d], step, 0, 0);
    }
    return run_norm(&n);
}

/* y = (x - mean) / sqrt(variance + epsilon) * gamma + beta; the variance is the biased one. */
opdb_status opdb_layer_norm(const opdb_tensor *x, const opdb_tensor *gamma, const opdb_tensor *beta,
                            double epsilon, opdb_ints axes, const opdb_tensor *y) {
    norm n = {x, gamma, beta, y, {0}, {0}, true, true, epsilon};
    return over_axes(n, axes);
}

/* y = x / sqrt(mean of squares + epsilon) * gamma + beta. */
opdb_status opdb_rms_norm(const opdb_tensor *x, const opdb_tensor *gamma, const opdb_tensor *beta,
                          double epsilon, opdb_ints axes, const opdb_tensor *y) {
    norm n = {x, gamma, beta, y, {0}, {0}, false, true, epsilon};
    return over_axes(n, axes);
}

/* The step of a vector along the channels: 0 if one number serves all. */
static int64_t channel_step(const opdb_tensor *t) { return t != NULL && size_of(t) > 1; }

/* Each group of channels of each batch has its own mean and spread. */
opdb_status opdb_group_norm(const opdb_tensor *x, const opdb_tensor *gamma, const opdb_tensor *beta,
                            double epsilon, int64_t group, const opdb_tensor *y) {
    int64_t channels = x->dims[x->rank - 1], each = channels / group, batch = size_between(x, 1, x->rank);
    norm n = {x, gamma, beta, y, {0}, {0}, true, true, epsilon};
    int64_t g = channel_step(gamma), b = channel_step(beta);
    nest_add(&n.kept, x->rank > 1 ? x->dims[0] : 1, batch, 0, 0);
    nest_add(&n.kept, group, each, each * g, each * b);
    if (x->rank > 1)
        nest_add(&n.over, channels > 0 ? batch / channels : 0, channels, 0, 0);
    nest_add(&n.over, each, 1, g, b);
    return run_norm(&n);
}

/* Adjacent channels read at once: a cache line. */
enum { BESIDE = 16 };

/* The numbers that normalize each of BESIDE channels: minus mean, times scale and gamma, plus beta. */
typedef struct {
    double sum[BESIDE], mean[BESIDE];
    float high[BESIDE], low[BESIDE], scale[BESIDE], gamma[BESIDE], beta[BESIDE];
} columns;

/* Adds up the rows of `lanes` channels, each to the power of 1 or 2 around its mean. */
static inline void add_rows(const float *restrict x, int64_t rows, int64_t step, int64_t lanes, int power,
                            columns *restrict c) {
    for (int64_t k = 0; k < lanes; k++)
        c->sum[k] = 0;
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t k = 0; k < lanes; k++) {
            double v = x[r * step + k] - c->mean[k];
            c->sum[k] += power == 2 ? v * v : v;
        }
    }
}

OPDB_CLONES static void sum_rows(const float *x, int64_t rows, int64_t step, int64_t lanes, int power,
                                 columns *c) {
    if (lanes == BESIDE && power == 1)
        add_rows(x, rows, step, BESIDE, 1, c);
    else if (lanes == BESIDE)
        add_rows(x, rows, step, BESIDE, 2, c);
    else
        add_rows(x, rows, step, lanes, power, c);
}

static inline void each_row(const float *restrict x, float *restrict y, int64_t rows, int64_t step,
                            int64_t lanes, const columns *restrict c) {
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t k = 0; k < lanes; k++) {
            float v = ((x[r * step + k] - c->high[k]) - c->low[k]) * c->scale[k];
            y[r * step + k] = v * c->gamma[k] + c->beta[k];
        }
    }
}

OPDB_CLONES static void normalize_rows(const float *x, float *y, int64_t rows, int64_t step, int64_t lanes,
                                       const columns *c) {
    if (lanes == BESIDE)
        each_row(x, y, rows, step, BESIDE, c);
    else
        each_row(x, y, rows, step, lanes, c);
}

/* Each channel of each batch has its own mean and spread; BESIDE channels at a time. */
static opdb_status run_columns(const norm *n, int64_t batches, int64_t rows, int64_t channels) {
    if (!is_f32(n->x) || !is_f32(n->gamma) || !is_f32(n->beta) || !is_f32(n->y))
        return OPDB_UNSUPPORTED;
    int64_t g = channel_step(n->gamma), b = channel_step(n->beta);
    for (int64_t at = 0, lanes = 0; at < batches * channels; at += lanes) {
        int64_t batch = at / channels, channel = at % channels;
        lanes = channels - channel < BESIDE ? channels - channel : BESIDE;
        const float *x = data_of(n->x, batch * rows * channels + channel);
        float *y = (float *)n->y->data + batch * rows * channels + channel;
        columns c = {{0}, {0}, {0}, {0}, {0}, {0}, {0}};
        if (n->centered) {
            sum_rows(x, rows, channels, lanes, 1, &c);
            for (int64_t k = 0; k < lanes; k++)
                c.mean[k] = c.sum[k] / (double)rows;
        }
        if (n->scaled)
            sum_rows(x, rows, channels, lanes, 2, &c);
        for (int64_t k = 0; k < lanes; k++) {
            c.high[k] = (float)c.mean[k];
            c.low[k] = (float)(c.mean[k] - c.high[k]);
            c.scale[k] = n->scaled ? (float)(1 / sqrt(c.sum[k] / (double)rows + n->epsilon)) : 1;
            c.gamma[k] = n->gamma == NULL ? 1 : *data_of(n->gamma, (channel + k) * g);
            c.beta[k] = n->beta == NULL ? 0 : *data_of(n->beta, (channel + k) * b);
        }
        normalize_rows(x, y, rows, channels, lanes, &c);
    }
    return OPDB_OK;
}

/* Over the spatial dims of each channel, over the channels of each position, or over both. */
opdb_status opdb_instance_norm(const opdb_tensor *x, const opdb_tensor *gamma, const opdb_tensor *beta,
                               double epsilon, int64_t mode, bool normalize_variance, int64_t region,
                               const opdb_tensor *y) {
    int64_t channels = x->dims[x->rank - 1], batch = size_between(x, 1, x->rank);
    int64_t places = channels > 0 ? batch / channels : 0;
    norm n = {x, gamma, beta, y, {0}, {0}, mode == OPDB_INSTANCE_NORM_MU_SIGMA, normalize_variance, epsilon};
    if (region == OPDB_INSTANCE_NORM_ACROSS_SPATIAL)
        return run_columns(&n, x->dims[0], places, channels);
    int64_t g = channel_step(gamma), b = channel_step(beta);
    nest_add(&n.kept, x->dims[0], batch, 0, 0);
    nest_add(region == OPDB_INSTANCE_NORM_ACROSS_CHANNEL ? &n.kept : &n.over, places, channels, 0, 0);
    nest_add(&n.over, channels, 1, g, b);
    return run_norm(&n);
}

/* y = x * weight + bias by channel, the last dim. */
opdb_status opdb_batchnorm(const opdb_tensor *x, const opdb_tensor *weight, const opdb_tensor *bias,
                           const opdb_tensor *y) {
    norm n = {x, weight, bias, y, {0}, {0}, false, false, 0};
    int64_t channels = x->dims[x->rank - 1];
    nest_add(&n.over, size_between(x, 0, (int64_t)x->rank - 1), channels, 0, 0);
    nest_add(&n.over, channels, 1, 1, bias != NULL);
    return run_norm(&n);
}

/* y = x / sqrt(the sum of squares over `axes`), which is at least epsilon. */
opdb_status opdb_l2_norm(const opdb_tensor *x, opdb_ints axes, double epsilon, const opdb_tensor *y) {
    if (!is_f32(x) || !is_f32(y))
        return OPDB_UNSUPPORTED;
    if (size_of(x) == 0)
        return OPDB_OK;
    opdb_nest kept = {0}, over = {0};
    split_axes(x, axes, &kept, &over);
    opdb_loop run = nest_pop(&over);
    do {
        const float *in = data_of(x, kept.at[0]);
        float *out = (float *)y->data + kept.at[0];
        double squares = sum_over(in, &over, run, 0, 2);
        double scale = 1 / sqrt(squares > epsilon ? squares : epsilon);
        do {
            normalize_run(in + over.at[0], out + over.at[0], run, NULL, NULL, 0, scale);
        } while (nest_next(&over));
    } while (nest_next(&kept));
    return OPDB_OK;
}

/* The mean and the (biased) variance over `axes`. */
opdb_status opdb_moments(const opdb_tensor *x, opdb_ints axes, const opdb_tensor *mean,
                         const opdb_tensor *variance) {
    if (!is_f32(x) || !is_f32(mean) || !is_f32(variance))
        return OPDB_UNSUPPORTED;
    if (size_of(mean) == 0)
        return OPDB_OK;
    opdb_nest kept = {0}, over = {0};
    split_axes(x, axes, &kept, &over);
    double count = (double)nest_size(&over);
    opdb_loop run = nest_pop(&over);
    int64_t at = 0;
    do {
        const float *in = data_of(x, kept.at[0]);
        double center = count > 0 ? sum_over(in, &over, run, 0, 1) / count : NAN;
        ((float *)mean->data)[at] = (float)center;
        ((float *)variance->data)[at++] =
            (float)(count > 0 ? sum_over(in, &over, run, center, 2) / count : NAN);
    } while (nest_next(&kept));
    return OPDB_OK;
}
