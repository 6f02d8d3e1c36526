/* Conversion of image formats, and resized crops. */
#include <math.h>

#include "move.h"
#include "pixels.h"
#include "places.h"

/* The three colors of each pixel without alpha; in reverse order on request. */
opdb_status opdb_argb_to_rgb(const opdb_tensor *x, int64_t input_order, bool reverse_output,
                             const opdb_tensor *y) {
    if (!opdb_moves(x, y))
        return OPDB_UNSUPPORTED;
    int64_t first = input_order == OPDB_ARGB_TO_RGB_ARGB ? 1 : 0;
    opdb_nest nest = {0};
    nest_add(&nest, size_between(x, 0, 3), 4, 3, 0);
    nest_add(&nest, 3, reverse_output ? -1 : 1, 1, 0);
    opdb_move(x, reverse_output ? first + 2 : first, y, 0, &nest);
    return OPDB_OK;
}

/* The positions that `n` pixels read along one dim of a box from `low` to `high`, in fractions of the
 * image. */
static double box_place(double low, double high, int64_t i, int64_t n, int64_t size) {
    double last = (double)(size - 1);
    return n > 1 ? low * last + (double)i * (high - low) * last / (double)(n - 1) : 0.5 * (low + high) * last;
}

/* Like TensorFlow's crop_and_resize: boxes [y1, x1, y2, x2] in fractions of the image; pixels outside become
 * extrapolation_value. */
opdb_status opdb_crop_and_resize(const opdb_tensor *image, const opdb_tensor *boxes,
                                 const opdb_tensor *batch_idx, int64_t interpolation_mode,
                                 double extrapolation_value, const opdb_tensor *y) {
    if (!is_f32(image) || !is_f32(boxes) || !is_f32(y) || opdb_kind_of(batch_idx) != OPDB_WHOLE)
        return OPDB_UNSUPPORTED;
    int64_t height = y->dims[1], width = y->dims[2], channels = y->dims[3],
            picture = size_between(image, 1, 4);
    bool near = interpolation_mode == OPDB_CROP_AND_RESIZE_NEAREST_NEIGHBOR;
    float *to = y->data;
    for (int64_t n = 0; n < y->dims[0]; n++) {
        const float *box = (const float *)boxes->data + 4 * n;
        int64_t batch = opdb_place(batch_idx, n);
        if (batch < 0 || batch >= image->dims[0])
            return OPDB_OUTSIDE;
        for (int64_t i = 0; i < height * width; i++, to += channels) {
            double row = box_place(box[0], box[2], i / width, height, image->dims[1]);
            double column = box_place(box[1], box[3], i % width, width, image->dims[2]);
            bool inside = row >= 0 && row <= (double)(image->dims[1] - 1) && column >= 0 &&
                          column <= (double)(image->dims[2] - 1);
            for (int64_t c = 0; c < channels; c++)
                to[c] = (float)(inside ? pixel_at((const float *)image->data + batch * picture + c, row,
                                                  column, image, near)
                                       : extrapolation_value);
        }
    }
    return OPDB_OK;
}

/* Brightness and colors of one pixel as red, green and blue in [0, 255], in reverse order on request: ITU-R
 * BT.601 in 256ths, as in QNN CPU, plus a half so that truncation rounds to the nearest. */
static void rgb_of(double y, double u, double v, bool reverse, float *to) {
    const double made[3] = {y + 359.0 / 256 * (v - 128), y - 88.0 / 256 * (u - 128) - 183.0 / 256 * (v - 128),
                            y + 454.0 / 256 * (u - 128)};
    for (int i = 0; i < 3; i++)
        to[i] = (float)held_between(made[reverse ? 2 - i : i] + 0.5, 0, 255);
}

/* A tensor of bytes as integers, whatever its encoding is; others as they are. */
static opdb_tensor stored_in(const opdb_tensor *t) {
    opdb_tensor stored = *t;
    if (t->dtype == OPDB_UQ8) {
        stored.dtype = OPDB_U8;
        stored.encoding = OPDB_ENCODING_NONE;
        stored.quant = NULL;
    }
    return stored;
}

/* The brightness of all pixels comes first, then a pair of colors for each square of four; number `blue` of
 * the pair is the blue one. */
static opdb_status nv_to_rgb(const opdb_tensor *x, int64_t blue, bool reverse, const opdb_tensor *y) {
    bool bytes = x->dtype == OPDB_UQ8, floats = x->dtype == OPDB_F32 || x->dtype == OPDB_F16;
    int64_t height = y->dims[1], width = y->dims[2], pixels = height * width;
    if ((!bytes && !floats) || y->dtype != x->dtype || height % 2 != 0 || width % 2 != 0)
        return OPDB_UNSUPPORTED;
    opdb_tensor from = stored_in(x), to = stored_in(y);
    for (int64_t i = 0; i < size_of(y) / 3; i++) {
        int64_t picture = i / pixels * x->dims[1], row = i % pixels / width, column = i % width;
        float light, colors[2], made[3];
        opdb_read(&from, picture + i % pixels, 1, 1, OPDB_REAL, &light);
        opdb_read(&from, picture + pixels + row / 2 * width + column / 2 * 2, 1, 2, OPDB_REAL, colors);
        rgb_of(light, colors[blue], colors[1 - blue], reverse, made);
        int64_t cut[3] = {(int64_t)made[0], (int64_t)made[1], (int64_t)made[2]};
        opdb_write(&to, 3 * i, 3, bytes ? OPDB_WHOLE : OPDB_REAL, bytes ? (void *)cut : (void *)made);
    }
    return OPDB_OK;
}

opdb_status opdb_nv12_to_rgb(const opdb_tensor *x, int64_t output_order, const opdb_tensor *y) {
    return nv_to_rgb(x, 0, output_order == OPDB_NV12_TO_RGB_BGR, y);
}

opdb_status opdb_nv21_to_rgb(const opdb_tensor *x, int64_t output_order, const opdb_tensor *y) {
    return nv_to_rgb(x, 1, output_order == OPDB_NV21_TO_RGB_BGR, y);
}
