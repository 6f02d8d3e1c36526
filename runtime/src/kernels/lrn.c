#include <math.h>

#include "kernel.h"
#include "real_math.h"

/* The sum of squares of n numbers that are `step` apart. */
static double squares(const float *x, int64_t n, int64_t step) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i * step] * x[i * step];
    return sum;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* y = x / (bias + alpha * squares of the neighbors)^beta: channels at most `radius` away, or pixels of the
 * channel at most `radius` away in both coordinates. */
opdb_status opdb_lrn(const opdb_tensor *x, double alpha, double beta, double bias, int64_t radius,
                     int64_t region, const opdb_tensor *y) {
    if (!is_f32(x) || !is_f32(y) || radius < 0)
        return OPDB_UNSUPPORTED;
    const float *in = x->data;
    float *out = y->data;
    int64_t channels = x->dims[x->rank - 1];
    bool within = region == OPDB_LRN_WITHIN_CHANNEL;
    int64_t height = within ? x->dims[1] : 1, width = within ? x->dims[2] : 1;
    for (int64_t i = 0; i < size_of(x); i++) {
        int64_t c = i % channels, column = i / channels % width, row = i / channels / width % height;
        double sum = 0;
        if (!within) {
            int64_t first = most(c - radius, 0), last = least(c + radius, channels - 1);
            sum = squares(in + i - c + first, last - first + 1, 1);
        } else {
            int64_t left = most(column - radius, 0), right = least(column + radius, width - 1);
            for (int64_t r = most(row - radius, 0); r <= least(row + radius, height - 1); r++)
                sum += squares(in + i + ((r - row) * width + left - column) * channels, right - left + 1,
                               channels);
        }
        out[i] = (float)(in[i] / real_power(bias + alpha * sum, beta));
    }
    return OPDB_OK;
}
