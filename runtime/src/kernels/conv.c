/* Convolutions of one to three dims, forwards and transposed, in groups: x [N, D, H, W, C], or without D, or
 * without D and H. */
#include <string.h>

#include "clones.h"
#include "gemm.h"

enum { AXES = 3 };

/* The input as a matrix: a row per output pixel, a column per (filter tap, channel of the group).  It is
 * never built; gemm asks for the address of its rows. */
typedef struct {
    const float *x; /* at the first channel of the group */
    int64_t channels, group_channels;
    int64_t in[AXES], out[AXES], taps[AXES], stride[AXES], dilation[AXES], before[AXES];
    bool transposed;
} patches;

/* The position read along dim d of x, for an output pixel and a tap; -1 outside x and between its pixels. */
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

/* Position number `i` in a box; returns the number of boxes before it. */
static int64_t place_of(const int64_t *size, int64_t i, int64_t *at) {
    for (int d = AXES - 1; d >= 0; i /= size[d], d--)
        at[d] = i % size[d];
    return i;
}

/* The elements of x read for one output pixel by taps `step` apart: NULL outside x. */
static void pixels_under(const patches *p, const float *image, const int64_t *at, int64_t first, int taps,
                         int step, const float **to) {
    int64_t tap[AXES];
    const float *line = NULL;
    for (int t = 0; t < taps; t++) {
        if (t == 0 || ++tap[2] == p->taps[2]) {
            place_of(p->taps, first + t, tap);
            int64_t a = place_under(p, 0, at[0], tap[0]), b = place_under(p, 1, at[1], tap[1]);
            line = a >= 0 && b >= 0 ? image + (a * p->in[1] + b) * p->in[2] * p->channels : NULL;
        }
        int64_t c = place_under(p, 2, at[2], tap[2]);
        to[t * step] = line != NULL && c >= 0 ? line + c * p->channels : NULL;
    }
}

/* The number of output pixels along the last dim, from `at` on, whose positions in x just advance by the
 * stride. */
static int64_t run_from(const patches *p, int64_t at) {
    int64_t from = at * p->stride[2] - p->before[2], last = from + (p->taps[2] - 1) * p->dilation[2];
    if (p->transposed || from < 0 || last >= p->in[2])
        return 1;
    int64_t within = (p->in[2] - 1 - last) / p->stride[2] + 1, left = p->out[2] - at;
    return within < left ? within : left;
}

static void rows_of_patches(const void *source, int64_t row, int rows, int64_t tap, int taps, int64_t d,
                            const float **to) {
    static const float ZEROS[GEMM_DEPTH];
    const patches *p = source;
    int64_t at[AXES], image = p->in[0] * p->in[1] * p->in[2] * p->channels, move = p->stride[2] * p->channels;
    for (int r = 0; r < rows;) {
        int64_t n = place_of(p->out, row + r, at), run = run_from(p, at[2]);
        int end = run < rows - r ? r + (int)run : rows;
        pixels_under(p, p->x + n * image, at, tap, taps, GEMM_ROWS, to + r);
        for (int t = 0; t < taps; t++) {
            const float **own = to + t * GEMM_ROWS, *from = own[r];
            for (int i = r; i < end; i++)
                own[i] = from == NULL ? ZEROS : from + d + (i - r) * move;
        }
        r = end;
    }
}

/* Arguments of all functions below; margins are those before x. */
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

/* True if a bias has a number for each channel of y; rules only warn. */
static bool takes(const convolution *c) {
    bool fits = c->bias == NULL || size_of(c->bias) == c->y->dims[c->axes + 1];
    return fits && is_f32(c->x) && is_f32(c->filter) && is_f32(c->bias) && is_f32(c->y);
}

/* filter [taps, C / group, K], or [taps, C, K / group] if transposed; bias [K]; y [N, out, K]. */
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

enum { LANES = 16 }; /* channels whose sums, for four pixels, stay in registers */

/* A run of output pixels; each reads x `move` further on. Each channel of x serves `multiplier` output
 * channels. */
typedef struct {
    int taps; /* those inside x: */
    const float *pixels[GEMM_TAPS], *weights[GEMM_TAPS];
    int64_t n, move, outputs, multiplier;
    float *y;
} depthwise_run;

/* Adds the products of the taps to LANES channels from k on: for four pixels at once, then for one. */
OPDB_FUSED_CLONES static void depthwise_lanes(const depthwise_run *run, int64_t k) {
    int64_t p = 0, move = run->move, down = run->outputs;
    float *y = run->y + k;
    for (; p + 4 <= run->n; p += 4, y += 4 * down) {
        float a[LANES], b[LANES], c[LANES], d[LANES];
        memcpy(a, y, sizeof a);
        memcpy(b, y + down, sizeof b);
        memcpy(c, y + 2 * down, sizeof c);
        memcpy(d, y + 3 * down, sizeof d);
        for (int t = 0; t < run->taps; t++) {
            const float *from = run->pixels[t] + p * move + k, *weight = run->weights[t] + k;
            for (int i = 0; i < LANES; i++) {
                a[i] += from[i] * weight[i];
                b[i] += from[move + i] * weight[i];
                c[i] += from[2 * move + i] * weight[i];
                d[i] += from[3 * move + i] * weight[i];
            }
        }
        memcpy(y, a, sizeof a);
        memcpy(y + down, b, sizeof b);
        memcpy(y + 2 * down, c, sizeof c);
        memcpy(y + 3 * down, d, sizeof d);
    }
    for (; p < run->n; p++, y += down) {
        float sum[LANES];
        memcpy(sum, y, sizeof sum);
        for (int t = 0; t < run->taps; t++) {
            const float *from = run->pixels[t] + p * move + k, *weight = run->weights[t] + k;
            for (int i = 0; i < LANES; i++)
                sum[i] += from[i] * weight[i];
        }
        memcpy(y, sum, sizeof sum);
    }
}

/* Does the same one channel at a time. */
static void depthwise_rest(const depthwise_run *run, int64_t first) {
    for (int64_t p = 0; p < run->n; p++)
        for (int t = 0; t < run->taps; t++)
            for (int64_t k = first; k < run->outputs; k++)
                run->y[p * run->outputs + k] +=
                    run->pixels[t][p * run->move + k / run->multiplier] * run->weights[t][k];
}

/* Collects `taps` taps from number `first` on for the run at one output pixel. */
static void take_taps(depthwise_run *run, const patches *p, const float *image, const int64_t *at,
                      int64_t first, int taps, const float *filter) {
    const float *pixels[GEMM_TAPS];
    pixels_under(p, image, at, first, taps, 1, pixels);
    run->taps = 0;
    for (int t = 0; t < taps; t++)
        if (pixels[t] != NULL) {
            run->pixels[run->taps] = pixels[t];
            run->weights[run->taps++] = filter + (first + t) * run->outputs;
        }
}

/* filter [taps, 1, K]: channel k of y reads channel k / (K / C) of x. */
static opdb_status depthwise(const convolution *c) {
    if (!takes(c))
        return OPDB_UNSUPPORTED;
    if (size_of(c->y) == 0)
        return OPDB_OK;
    patches p = patches_of(c);
    int64_t outputs = c->y->dims[c->axes + 1], count = size_between(c->y, 0, c->axes + 1), at[AXES];
    int64_t taps = size_between(c->filter, 0, c->axes), image = size_between(c->x, 1, c->x->rank);
    depthwise_run run = {
        .move = p.stride[2] * p.channels, .outputs = outputs, .multiplier = outputs / p.channels};
    for (int64_t i = 0; i < count; i += run.n) {
        int64_t n = place_of(p.out, i, at), k;
        run.n = run_from(&p, at[2]);
        run.y = (float *)c->y->data + i * outputs;
        for (int64_t j = 0; j < run.n; j++)
            for (k = 0; k < outputs; k++)
                run.y[j * outputs + k] = c->bias == NULL ? 0 : ((const float *)c->bias->data)[k];
        for (int64_t tap = 0; tap < taps; tap += GEMM_TAPS) {
            int some = (int)(taps - tap < GEMM_TAPS ? taps - tap : GEMM_TAPS);
            take_taps(&run, &p, p.x + n * image, at, tap, some, c->filter->data);
            for (k = 0; run.multiplier == 1 && k + LANES <= outputs; k += LANES)
                depthwise_lanes(&run, k);
            depthwise_rest(&run, k);
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
