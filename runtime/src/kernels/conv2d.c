#include "gemm.h"

#include <string.h>

/* The input as a matrix: a row per output pixel, a column per (filter row, filter column, channel of the
 * group).  It is never made; gemm asks for blocks of it. */
typedef struct {
    const float *x; /* at the first channel of the group */
    int64_t height, width, channels, group_channels;
    int64_t out_height, out_width, filter_width;
    int64_t stride_h, stride_w, dilation_h, dilation_w, top, left;
} patches;

static void pack_patches(const void *source, int64_t row, int rows, int64_t k, int depth, double *to) {
    const patches *p = source;
    memset(to, 0, sizeof(double) * (size_t)(GEMM_ROWS * depth)); /* padding, in both senses */
    for (int r = 0; r < rows; r++) {
        int64_t pixel = row + r, ow = pixel % p->out_width, oh = pixel / p->out_width % p->out_height;
        int64_t image = pixel / p->out_width / p->out_height, c = k % p->group_channels,
                tap = k / p->group_channels;
        for (int d = 0; d < depth; tap++, c = 0) { /* one filter tap: neighbouring channels */
            int64_t n = p->group_channels - c < depth - d ? p->group_channels - c : depth - d;
            int64_t h = oh * p->stride_h - p->top + tap / p->filter_width * p->dilation_h;
            int64_t w = ow * p->stride_w - p->left + tap % p->filter_width * p->dilation_w;
            if (h >= 0 && h < p->height && w >= 0 && w < p->width) {
                const float *from = p->x + ((image * p->height + h) * p->width + w) * p->channels + c;
                for (int64_t i = 0; i < n; i++)
                    to[(d + i) * GEMM_ROWS + r] = from[i];
            }
            d += (int)n;
        }
    }
}

/* x [N, H, W, C], filter [h, w, C / group, K], bias [K], y [N, OH, OW, K]; pad_amount is
 * [[top, bottom], [left, right]]. */
opdb_status opdb_conv2d(const opdb_tensor *x, const opdb_tensor *filter, const opdb_tensor *bias,
                        opdb_ints stride, opdb_rows pad_amount, int64_t group, opdb_ints dilation,
                        const opdb_tensor *y) {
    if (!is_f32(x) || !is_f32(filter) || !is_f32(bias) || !is_f32(y))
        return OPDB_UNSUPPORTED;
    if (size_of(y) == 0)
        return OPDB_OK;
    int64_t channels_out = y->dims[3], group_out = channels_out / group, group_in = filter->dims[2];
    patches p = {
        .x = x->data,
        .height = x->dims[1],
        .width = x->dims[2],
        .channels = x->dims[3],
        .group_channels = group_in,
        .out_height = y->dims[1],
        .out_width = y->dims[2],
        .filter_width = filter->dims[1],
        .stride_h = stride.v[0],
        .stride_w = stride.v[1],
        .dilation_h = dilation.v[0],
        .dilation_w = dilation.v[1],
        .top = pad_amount.v[0],
        .left = pad_amount.v[pad_amount.width],
    };
    for (int64_t g = 0; g < group; g++, p.x += group_in) {
        gemm_matrix weights = {(const float *)filter->data + g * group_out, channels_out, 1};
        gemm_job job = {
            .m = size_between(y, 0, 3),
            .n = group_out,
            .k = size_between(filter, 0, 3),
            .pack = pack_patches,
            .a = &p,
            .b = weights,
            .bias = bias == NULL ? NULL : (const float *)bias->data + g * group_out,
            .y = (float *)y->data + g * group_out,
            .y_down = channels_out,
        };
        opdb_gemm(&job);
    }
    return OPDB_OK;
}
