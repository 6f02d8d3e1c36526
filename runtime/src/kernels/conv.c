/* Convolutions of one to three dims, forwards and transposed, in groups: x [N, D, H, W, C], or without D, or
 * without D and H. */
#include <string.h>

#include "clones.h"
#include "gemm.h"

enum { AXES = 3 };

/* The input as a matrix: a row per output pixel, a column per (filter tap, channel of the group).  It is
 * never made; gemm asks where its rows are. */
typedef struct {
    const float *x; /* at the first channel of the group */
    int64_t channels, group_channels;
    int64_t in[AXES], out[AXES], taps[AXES], stride[AXES], dilation[AXES], before[AXES];
    bool transposed;
} patches;

/* Where x is read along dim d, for an output pixel and a tap there; -1 beside x, and between its pixels. */
static inline int64_t place_under(const patches *p, int d, int64_t at, int64_t tap) {
    int64_t from = at * p->stride[d] - p->before[d] + tap * p->dilation[d];
    if (p->transposed) {
        from = at + p->before[d] - tap * p->dilation[d];
        if (from < 0 || from % p->stride[d] != 0)
            return -1;
        from /= p->stride[d];
    }
    return from < p->in[d] ? from : -1;
}

/* Goes to the next place of a box, the last dim first; from the last place to the first. */
static inline void next_place(const int64_t *size, int64_t *at) {
    for (int d = AXES - 1; d >= 0 && ++at[d] == size[d]; d--)
        at[d] = 0;
}

/* The place number `i`; returns how many boxes lie before it. */
static int64_t place_of(const int64_t *size, int64_t i, int64_t *at) {
    for (int d = AXES - 1; d >= 0; i /= size[d], d--)
        at[d] = i % size[d];
    return i;
}

/* Where x is read for one output pixel and each of some taps: NULL beside it. */
static void pixels_under(const patches *p, const float *image, const int64_t *at, const int64_t *first_tap,
                         int taps, int step, const float **to) {
    int64_t tap[AXES] = {first_tap[0], first_tap[1], first_tap[2]};
    for (int t = 0; t < taps; t++, next_place(p->taps, tap)) {
        int64_t a = place_under(p, 0, at[0], tap[0]), b = place_under(p, 1, at[1], tap[1]),
                c = place_under(p, 2, at[2], tap[2]);
        bool within = a >= 0 && b >= 0 && c >= 0;
        to[t * step] = within ? image + ((a * p->in[1] + b) * p->in[2] + c) * p->channels : NULL;
    }
}

static void rows_of_patches(const void *source, int64_t row, int rows, int64_t tap, int taps, int64_t d,
                            const float **to) {
    static const float ZEROS[GEMM_DEPTH];
    const patches *p = source;
    int64_t at[AXES], first_tap[AXES], size = p->in[0] * p->in[1] * p->in[2] * p->channels;
    int64_t image = place_of(p->out, row, at), pixels = p->out[0] * p->out[1] * p->out[2];
    place_of(p->taps, tap, first_tap);
    for (int r = 0; r < rows; r++, next_place(p->out, at)) {
        if (r > 0 && (row + r) % pixels == 0)
            image++;
        pixels_under(p, p->x + image * size, at, first_tap, taps, GEMM_ROWS, to + r);
        for (int t = 0; t < taps; t++)
            to[t * GEMM_ROWS + r] = to[t * GEMM_ROWS + r] == NULL ? ZEROS : to[t * GEMM_ROWS + r] + d;
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
        gemm_job job = {
            .m = size_between(c->y, 0, c->axes + 1),
            .n = each,
            .taps = taps,
            .depth = p.group_channels,
            .rows = rows_of_patches,
            .a = &p,
            .a_along = 1,
            .b = (const float *)c->filter->data + first,
            .b_tap = c->filter->dims[c->axes] * columns,
            .b_down = columns,
            .b_along = 1,
            .bias = c->bias == NULL ? NULL : (const float *)c->bias->data + g * each,
            .y = (float *)c->y->data + g * each,
            .y_down = outputs,
        };
        opdb_gemm(&job);
    }
    return OPDB_OK;
}

/* n channels of one output pixel from k on: each takes up one channel of x, which serves `multiplier`.
 * `pixels`: where x is read for each tap, NULL beside it. */
OPDB_FUSED_CLONES static void depthwise_pixel(const float *const *pixels, int64_t taps, const float *filter,
                                              int64_t outputs, int64_t multiplier, int64_t k, int64_t n,
                                              float *restrict y) {
    for (int64_t tap = 0; tap < taps; tap++) {
        const float *from = pixels[tap], *weight = filter + tap * outputs + k;
        if (from != NULL && multiplier == 1)
            for (int64_t i = 0; i < n; i++)
                y[i] += from[k + i] * weight[i];
        else if (from != NULL)
            for (int64_t i = 0; i < n; i++)
                y[i] += from[(k + i) / multiplier] * weight[i];
    }
}

/* filter [taps, 1, K]: channel k of y is that of x which k / (K / C) names. */
static opdb_status depthwise(const convolution *c) {
    if (!takes(c))
        return OPDB_UNSUPPORTED;
    if (size_of(c->y) == 0)
        return OPDB_OK;
    patches p = patches_of(c);
    int64_t outputs = c->y->dims[c->axes + 1], count = size_between(c->y, 0, c->axes + 1);
    int64_t taps = size_between(c->filter, 0, c->axes), image = size_between(c->x, 1, c->x->rank);
    int64_t at[AXES] = {0}, first_tap[AXES], pixels_of_image = p.out[0] * p.out[1] * p.out[2];
    float *y = c->y->data;
    for (int64_t i = 0; i < count; i++, next_place(p.out, at), y += outputs) {
        if (c->bias == NULL)
            memset(y, 0, sizeof *y * (size_t)outputs);
        else
            memcpy(y, c->bias->data, sizeof *y * (size_t)outputs);
        for (int64_t tap = 0; tap < taps; tap += GEMM_TAPS) {
            const float *pixels[GEMM_TAPS];
            int some = (int)(taps - tap < GEMM_TAPS ? taps - tap : GEMM_TAPS);
            place_of(p.taps, tap, first_tap);
            pixels_under(&p, p.x + i / pixels_of_image * image, at, first_tap, some, 1, pixels);
            depthwise_pixel(pixels, some, (const float *)c->filter->data + tap * outputs, outputs,
                            outputs / p.channels, 0, outputs, y);
        }
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
