/* Convolutions of one to three dims, forwards and transposed, in groups: x [N, D, H, W, C], or without D, or
 * without D and H. */
#include <string.h>

#include "clones.h"
#include "gemm.h"

enum { AXES = 3, CHANNELS = 256 };

/* The input as a matrix: a row per output pixel, a column per (filter tap, channel of the group).  It is
 * never made; gemm asks for blocks of it. */
typedef struct {
    const float *x; /* at the first channel of the group */
    int64_t channels, group_channels;
    int64_t in[AXES], out[AXES], taps[AXES], stride[AXES], dilation[AXES], before[AXES];
    bool transposed;
} patches;

/* Where x is read for tap number `tap` of the filter at one output pixel; false beside x, and between its
 * pixels. */
static bool pixel_under(const patches *p, const int64_t *at, int64_t tap, int64_t *pixel) {
    int64_t tap_of[AXES];
    for (int d = AXES - 1; d >= 0; tap /= p->taps[d], d--)
        tap_of[d] = tap % p->taps[d];
    *pixel = 0;
    for (int d = 0; d < AXES; d++) {
        int64_t from;
        if (p->transposed) {
            from = at[d] + p->before[d] - tap_of[d] * p->dilation[d];
            if (from < 0 || from % p->stride[d] != 0)
                return false;
            from /= p->stride[d];
        } else {
            from = at[d] * p->stride[d] - p->before[d] + tap_of[d] * p->dilation[d];
        }
        if (from < 0 || from >= p->in[d])
            return false;
        *pixel = *pixel * p->in[d] + from;
    }
    return true;
}

/* The place of an output pixel; returns its image. */
static int64_t place_of(const patches *p, int64_t pixel, int64_t *at) {
    for (int d = AXES - 1; d >= 0; pixel /= p->out[d], d--)
        at[d] = pixel % p->out[d];
    return pixel;
}

static void pack_patches(const void *source, int64_t row, int rows, int64_t k, int depth, double *to) {
    const patches *p = source;
    memset(to, 0, sizeof(double) * (size_t)(GEMM_ROWS * depth)); /* padding, in both senses */
    for (int r = 0; r < rows; r++) {
        int64_t at[AXES], c = k % p->group_channels, tap = k / p->group_channels, pixel;
        int64_t image = place_of(p, row + r, at) * p->in[0] * p->in[1] * p->in[2];
        for (int d = 0; d < depth; tap++, c = 0) { /* one filter tap: neighbouring channels */
            int64_t n = p->group_channels - c < depth - d ? p->group_channels - c : depth - d;
            if (pixel_under(p, at, tap, &pixel)) {
                const float *from = p->x + (image + pixel) * p->channels + c;
                for (int64_t i = 0; i < n; i++)
                    to[(d + i) * GEMM_ROWS + r] = from[i];
            }
            d += (int)n;
        }
    }
}

/* What all the functions below are given; margins are those before x. */
typedef struct {
    const opdb_tensor *x, *filter, *bias, *y;
    int axes;
    const int64_t *stride, *dilation; /* NULL: 1 */
    opdb_rows pad_amount;
    bool transposed;
} convolution;

static patches patches_of(const convolution *c) {
    patches p = {.x = c->x->data, .channels = c->x->dims[c->axes + 1], .transposed = c->transposed};
    for (int d = 0; d < AXES; d++) {
        int own = d - (AXES - c->axes);
        p.in[d] = own < 0 ? 1 : c->x->dims[1 + own];
        p.out[d] = own < 0 ? 1 : c->y->dims[1 + own];
        p.taps[d] = own < 0 ? 1 : c->filter->dims[own];
        p.stride[d] = own < 0 ? 1 : c->stride[own];
        p.dilation[d] = own < 0 || c->dilation == NULL ? 1 : c->dilation[own];
        p.before[d] = own < 0 ? 0 : c->pad_amount.v[own * c->pad_amount.width];
    }
    return p;
}

/* Whether a bias has a number for each channel of y; rules only warn. */
static bool takes(const convolution *c) {
    bool fits = c->bias == NULL || size_of(c->bias) == c->y->dims[c->axes + 1];
    return fits && is_f32(c->x) && is_f32(c->filter) && is_f32(c->bias) && is_f32(c->y);
}

/* filter [taps, C / group, K], or where transposed [taps, C, K / group]; bias [K]; y [N, out, K]. */
static opdb_status grouped(const convolution *c, int64_t group) {
    if (!takes(c))
        return OPDB_UNSUPPORTED;
    if (size_of(c->y) == 0)
        return OPDB_OK;
    patches p = patches_of(c);
    int64_t outputs = c->y->dims[c->axes + 1], each = outputs / group;
    int64_t columns = c->filter->dims[c->axes + 1], taps = size_between(c->filter, 0, c->axes);
    p.group_channels = p.channels / group;
    for (int64_t g = 0; g < group; g++, p.x += p.group_channels) {
        int64_t first = c->transposed ? g * p.group_channels * columns : g * each;
        gemm_matrix weights = {(const float *)c->filter->data + first, columns, 1, p.group_channels,
                               c->filter->dims[c->axes] * columns};
        gemm_job job = {
            .m = size_between(c->y, 0, c->axes + 1),
            .n = each,
            .k = taps * p.group_channels,
            .pack = pack_patches,
            .a = &p,
            .b = weights,
            .bias = c->bias == NULL ? NULL : (const float *)c->bias->data + g * each,
            .y = (float *)c->y->data + g * each,
            .y_down = outputs,
        };
        opdb_gemm(&job);
    }
    return OPDB_OK;
}

/* n channels of one output pixel from k on: each takes up one channel of x, which serves `multiplier`. */
OPDB_CLONES static void depthwise_pixel(const patches *p, const float *filter, const float *bias,
                                        int64_t outputs, int64_t multiplier, const int64_t *at, int64_t image,
                                        int64_t k, int64_t n, float *y) {
    double sum[CHANNELS];
    int64_t taps = p->taps[0] * p->taps[1] * p->taps[2], pixel;
    for (int64_t i = 0; i < n; i++)
        sum[i] = bias == NULL ? 0 : bias[k + i];
    for (int64_t tap = 0; tap < taps; tap++) {
        if (!pixel_under(p, at, tap, &pixel))
            continue;
        const float *from = p->x + (image + pixel) * p->channels, *weight = filter + tap * outputs + k;
        if (multiplier == 1)
            for (int64_t i = 0; i < n; i++)
                sum[i] += (double)from[k + i] * weight[i];
        else
            for (int64_t i = 0; i < n; i++)
                sum[i] += (double)from[(k + i) / multiplier] * weight[i];
    }
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)sum[i];
}

/* filter [taps, 1, K]: channel k of y is that of x which k / (K / C) names. */
static opdb_status depthwise(const convolution *c) {
    if (!takes(c))
        return OPDB_UNSUPPORTED;
    if (size_of(c->y) == 0)
        return OPDB_OK;
    patches p = patches_of(c);
    int64_t outputs = c->y->dims[c->axes + 1], pixels = size_between(c->y, 0, c->axes + 1), at[AXES];
    const float *bias = c->bias == NULL ? NULL : c->bias->data;
    for (int64_t i = 0; i < pixels; i++) {
        int64_t image = place_of(&p, i, at) * p.in[0] * p.in[1] * p.in[2];
        for (int64_t k = 0; k < outputs; k += CHANNELS)
            depthwise_pixel(&p, c->filter->data, bias, outputs, outputs / p.channels, at, image, k,
                            outputs - k < CHANNELS ? outputs - k : CHANNELS,
                            (float *)c->y->data + i * outputs + k);
    }
    return OPDB_OK;
}

static opdb_rows one_row(opdb_ints pad_amount) {
    opdb_rows rows = {1, 2, pad_amount.v};
    return rows;
}

opdb_status opdb_conv1d(const opdb_tensor *x, const opdb_tensor *filter, const opdb_tensor *bias,
                        int64_t stride, opdb_ints pad_amount, int64_t group, int64_t dilation,
                        const opdb_tensor *y) {
    convolution c = {x, filter, bias, y, 1, &stride, &dilation, one_row(pad_amount), false};
    return grouped(&c, group);
}

opdb_status opdb_conv2d(const opdb_tensor *x, const opdb_tensor *filter, const opdb_tensor *bias,
                        opdb_ints stride, opdb_rows pad_amount, int64_t group, opdb_ints dilation,
                        const opdb_tensor *y) {
    convolution c = {x, filter, bias, y, 2, stride.v, dilation.v, pad_amount, false};
    return grouped(&c, group);
}

opdb_status opdb_conv3d(const opdb_tensor *x, const opdb_tensor *filter, const opdb_tensor *bias,
                        opdb_ints stride, opdb_rows pad_amount, int64_t group, opdb_ints dilation,
                        const opdb_tensor *y) {
    convolution c = {x, filter, bias, y, 3, stride.v, dilation.v, pad_amount, false};
    return grouped(&c, group);
}

opdb_status opdb_depth_wise_conv1d(const opdb_tensor *x, const opdb_tensor *filter, const opdb_tensor *bias,
                                   int64_t stride, opdb_ints pad_amount, int64_t dilation,
                                   const opdb_tensor *y) {
    convolution c = {x, filter, bias, y, 1, &stride, &dilation, one_row(pad_amount), false};
    return depthwise(&c);
}

opdb_status opdb_depth_wise_conv2d(const opdb_tensor *x, const opdb_tensor *filter, const opdb_tensor *bias,
                                   opdb_ints stride, opdb_rows pad_amount, opdb_ints dilation,
                                   const opdb_tensor *y) {
    convolution c = {x, filter, bias, y, 2, stride.v, dilation.v, pad_amount, false};
    return depthwise(&c);
}

/* Transposed: each pixel of x spreads over a window of y; output_padding is in the shape of y. */

opdb_status opdb_transpose_conv1d(const opdb_tensor *x, const opdb_tensor *filter, const opdb_tensor *bias,
                                  int64_t stride, opdb_ints pad_amount, int64_t group, const opdb_tensor *y) {
    convolution c = {x, filter, bias, y, 1, &stride, NULL, one_row(pad_amount), true};
    return grouped(&c, group);
}

opdb_status opdb_transpose_conv2d(const opdb_tensor *x, const opdb_tensor *filter, const opdb_tensor *bias,
                                  opdb_ints stride, opdb_rows pad_amount, int64_t group,
                                  const opdb_tensor *y) {
    convolution c = {x, filter, bias, y, 2, stride.v, NULL, pad_amount, true};
    return grouped(&c, group);
}

opdb_status opdb_transpose_conv3d(const opdb_tensor *x, const opdb_tensor *filter, const opdb_tensor *bias,
                                  opdb_ints stride, opdb_rows pad_amount, opdb_ints dilation, int64_t group,
                                  const opdb_tensor *y) {
    convolution c = {x, filter, bias, y, 3, stride.v, dilation.v, pad_amount, true};
    return grouped(&c, group);
}
