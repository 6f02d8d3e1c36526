/* Images as the pixels under a window, and back. */
#include "move.h"

/* The path of a window of h x w pixels, `dilation` apart, over an image with a margin. */
typedef struct {
    int64_t size[2], stride[2], dilation[2], before[2];
} window;

/* The indices i along a dim of y for which i * stride + tap * dilation - before lies in an image of
 * `size`. */
typedef struct {
    int64_t first, count;
} covered;

static covered covers(const window *w, int d, int64_t tap, int64_t size, int64_t steps) {
    int64_t from = w->before[d] - tap * w->dilation[d],
            stride = w->stride[d]; /* i * stride in [from, from + size) */
    int64_t first = from > 0 ? (from + stride - 1) / stride : 0;
    int64_t end = from + size > 0 ? (from + size + stride - 1) / stride : 0;
    end = end < steps ? end : steps;
    covered c = {first, end > first ? end - first : 0};
    return c;
}

/* Copies the pixels of x under each tap of the window to positions of y with these steps. */
static void unfold(const opdb_tensor *x, const window *w, int64_t out_h, int64_t out_w, const opdb_tensor *y,
                   const int64_t *steps /* of image, row, column, tap, channel in y */) {
    int64_t height = x->dims[1], width = x->dims[2], channels = x->dims[3];
    bool pixels_inside = steps[4] != 1; /* the order of y */
    for (int64_t tap = 0; tap < w->size[0] * w->size[1]; tap++) {
        int64_t i = tap / w->size[1], j = tap % w->size[1];
        covered rows = covers(w, 0, i, height, out_h), columns = covers(w, 1, j, width, out_w);
        int64_t top = rows.first * w->stride[0] + i * w->dilation[0] - w->before[0];
        int64_t left = columns.first * w->stride[1] + j * w->dilation[1] - w->before[1];
        opdb_nest nest = {0};
        nest_add(&nest, x->dims[0], height * width * channels, steps[0], 0);
        if (pixels_inside)
            nest_add(&nest, channels, 1, steps[4], 0);
        nest_add(&nest, rows.count, w->stride[0] * width * channels, steps[1], 0);
        nest_add(&nest, columns.count, w->stride[1] * channels, steps[2], 0);
        if (!pixels_inside)
            nest_add(&nest, channels, 1, steps[4], 0);
        opdb_move(x, (top * width + left) * channels, y,
                  rows.first * steps[1] + columns.first * steps[2] + tap * steps[3], &nest);
    }
}

/* y [N, C * taps, OH * OW]: the pixels under each tap of the window, zero outside the image. */
opdb_status opdb_im2col(const opdb_tensor *x, opdb_ints kernel_size, opdb_ints stride, opdb_rows pad_amount,
                        opdb_ints dilation, int64_t out_height, int64_t out_width, const opdb_tensor *y) {
    if (!opdb_moves(x, y) || opdb_kind_of(y) == OPDB_NO_KIND)
        return OPDB_UNSUPPORTED;
    window w = {{kernel_size.v[0], kernel_size.v[1]},
                {stride.v[0], stride.v[1]},
                {dilation.v[0], dilation.v[1]},
                {pad_amount.v[0], pad_amount.v[pad_amount.width]}};
    int64_t pixels = out_height * out_width, taps = w.size[0] * w.size[1];
    const int64_t steps[] = {x->dims[3] * taps * pixels, out_width, 1, pixels, taps * pixels};
    opdb_fill(y, 0, size_of(y), 0);
    unfold(x, &w, out_height, out_width, y, steps);
    return OPDB_OK;
}

/* The margin that padding SAME has before the image: half of what the windows reach beyond it. */
static int64_t margin(int64_t out, int64_t stride, int64_t size, int64_t rate, int64_t in) {
    int64_t reach = (out - 1) * stride + (size - 1) * rate + 1 - in;
    return reach > 0 ? reach / 2 : 0;
}

/* y [N, OH, OW, taps * C]: the pixels under the window around each. */
opdb_status opdb_extract_patches(const opdb_tensor *x, opdb_ints size, opdb_ints stride, opdb_ints rate,
                                 int64_t padding, const opdb_tensor *y) {
    if (!opdb_moves(x, y) || opdb_kind_of(y) == OPDB_NO_KIND)
        return OPDB_UNSUPPORTED;
    if (size_of(y) == 0)
        return OPDB_OK;
    window w = {{size.v[0], size.v[1]}, {stride.v[0], stride.v[1]}, {rate.v[0], rate.v[1]}, {0, 0}};
    int64_t channels = x->dims[3], out[] = {y->dims[1], y->dims[2]};
    for (int d = 0; d < 2 && padding == OPDB_EXTRACT_PATCHES_SAME; d++)
        w.before[d] = margin(out[d], w.stride[d], w.size[d], w.dilation[d], x->dims[1 + d]);
    int64_t patch = w.size[0] * w.size[1] * channels;
    const int64_t steps[] = {out[0] * out[1] * patch, out[1] * patch, patch, channels, 1};
    opdb_fill(y, 0, size_of(y), 0);
    unfold(x, &w, out[0], out[1], y, steps);
    return OPDB_OK;
}

/* y [N, H, W, C]: the sums of the pixels that im2col would take from each position; x [N, C * taps, OH *
 * OW]. */
opdb_status opdb_col2im(const opdb_tensor *x, opdb_ints kernel_size, opdb_ints stride, opdb_rows pad_amount,
                        opdb_ints dilation, const opdb_tensor *y) {
    if (!is_f32(x) || !is_f32(y))
        return OPDB_UNSUPPORTED;
    window w = {{kernel_size.v[0], kernel_size.v[1]},
                {stride.v[0], stride.v[1]},
                {dilation.v[0], dilation.v[1]},
                {pad_amount.v[0], pad_amount.v[pad_amount.width]}};
    int64_t height = y->dims[1], width = y->dims[2], channels = y->dims[3], taps = w.size[0] * w.size[1],
            out[2];
    for (int d = 0; d < 2; d++)
        out[d] = (y->dims[1 + d] + w.before[d] + pad_amount.v[d * pad_amount.width + 1] -
                  (w.size[d] - 1) * w.dilation[d] - 1) /
                     w.stride[d] +
                 1;
    const float *from = x->data;
    float *to = y->data;
    for (int64_t i = 0; i < size_of(y); i++) {
        int64_t c = i % channels, column = i / channels % width, row = i / channels / width % height,
                n = i / channels / width / height;
        double sum = 0;
        for (int64_t tap = 0; tap < taps; tap++) {
            int64_t h = row + w.before[0] - tap / w.size[1] * w.dilation[0];
            int64_t v = column + w.before[1] - tap % w.size[1] * w.dilation[1];
            if (h < 0 || v < 0 || h % w.stride[0] != 0 || v % w.stride[1] != 0 || h / w.stride[0] >= out[0] ||
                v / w.stride[1] >= out[1])
                continue;
            sum += from[((n * channels + c) * taps + tap) * out[0] * out[1] + h / w.stride[0] * out[1] +
                        v / w.stride[1]];
        }
        to[i] = (float)sum;
    }
    return OPDB_OK;
}
