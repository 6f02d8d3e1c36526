/* Pictures in other formats, and parts of them in other sizes. */
#include <math.h>

#include "move.h"
#include "places.h"

/* The three colours of each pixel, without what says how opaque it is; the other way round on demand. */
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

/* The places along one dim of a box from `low` to `high`, in parts of the image, that `n` pixels read. */
static double box_place(double low, double high, int64_t i, int64_t n, int64_t size) {
    double last = (double)(size - 1);
    return n > 1 ? low * last + (double)i * (high - low) * last / (double)(n - 1) : 0.5 * (low + high) * last;
}

/* One pixel of an image between four, or the nearest one; `x` is its first channel. */
static double pixel_at(const float *x, double row, double column, const opdb_tensor *image, bool near) {
    int64_t width = image->dims[2], channels = image->dims[3];
    if (near)
        return x[((int64_t)floor(row + 0.5) * width + (int64_t)floor(column + 0.5)) * channels];
    int64_t top = (int64_t)floor(row), left = (int64_t)floor(column);
    int64_t bottom = (int64_t)ceil(row), right = (int64_t)ceil(column);
    double down = row - (double)top, along = column - (double)left;
    double upper =
        x[(top * width + left) * channels] * (1 - along) + x[(top * width + right) * channels] * along;
    double lower =
        x[(bottom * width + left) * channels] * (1 - along) + x[(bottom * width + right) * channels] * along;
    return upper * (1 - down) + lower * down;
}

/* As TensorFlow's crop_and_resize: boxes [y1, x1, y2, x2] in parts of the image; what lies outside becomes
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
