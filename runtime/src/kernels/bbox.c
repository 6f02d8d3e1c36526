/* Boxes moved by predicted shifts. */
#include <math.h>

#include "move.h"
#include "places.h"

/* One side of a box (low, high), moved by a fraction of its length and scaled by an exponent, clipped to [0,
 * size]. */
static void moved(double low, double high, double shift, double growth, double size, float *to_low,
                  float *to_high) {
    double length = high - low, center = low + length / 2 + shift * length;
    double half = exp(growth) * length / 2;
    *to_low = (float)held_between(center - half, 0, size);
    *to_high = (float)held_between(center + half, 0, size);
}

/* Moves each box (x1, y1, x2, y2) by the shifts (x, y, width, height) of each class divided by the weights,
 * clipped to the image of its batch (height, width); and counts the boxes of each batch. */
opdb_status opdb_axis_aligned_bbox_transform(const opdb_tensor *boxes, const opdb_tensor *deltas,
                                             const opdb_tensor *batch_idx, const opdb_tensor *image_size,
                                             opdb_reals weights, const opdb_tensor *boxes_,
                                             const opdb_tensor *batch_splits) {
    if (!is_f32(boxes) || !is_f32(deltas) || !is_f32(image_size) || !is_f32(boxes_) ||
        opdb_kind_of(batch_idx) != OPDB_WHOLE)
        return OPDB_UNSUPPORTED;
    int64_t classes = deltas->dims[1] / 4, batches = image_size->dims[0];
    const float *box = boxes->data, *delta = deltas->data;
    float *to = boxes_->data;
    if (batch_splits != NULL)
        opdb_fill(batch_splits, 0, batches, 0);
    for (int64_t i = 0; i < boxes->dims[0]; i++, box += 4) {
        int64_t batch = opdb_place(batch_idx, i), before;
        if (batch < 0 || batch >= batches)
            return OPDB_OUTSIDE;
        const float *size = (const float *)image_size->data + 2 * batch;
        for (int64_t c = 0; c < classes; c++, delta += 4, to += 4) {
            moved(box[0], box[2], delta[0] / weights.v[0], delta[2] / weights.v[2], size[1], &to[0], &to[2]);
            moved(box[1], box[3], delta[1] / weights.v[1], delta[3] / weights.v[3], size[0], &to[1], &to[3]);
        }
        if (batch_splits == NULL)
            continue;
        before = opdb_place(batch_splits, batch) + 1;
        opdb_write(batch_splits, batch, 1, OPDB_WHOLE, &before);
    }
    return OPDB_OK;
}
