/* Non-maximum suppression: among overlapping boxes, the one with the best score stays. */
#include "boxes.h"
#include "move.h"

/* The (batch, class, box) that stay for each batch and class, best first. Each batch has the same number of
 * result rows; rows after its last box copy it, or are (batch, 0, 0) if no box stays. */
opdb_status opdb_non_max_suppression(const opdb_tensor *boxes, const opdb_tensor *scores,
                                     double iou_threshold, double score_threshold, int64_t max_boxes_selected,
                                     const opdb_tensor *selected_indices, const opdb_tensor *num_valid,
                                     void *scratch) {
    if (!is_f32(boxes) || !is_f32(scores) || opdb_kind_of(selected_indices) != OPDB_WHOLE)
        return OPDB_UNSUPPORTED;
    int64_t classes = scores->dims[1], n = scores->dims[2];
    int64_t rows = scores->dims[0] > 0 ? selected_indices->dims[0] / scores->dims[0] : 0;
    for (int64_t batch = 0; batch < scores->dims[0]; batch++) {
        int64_t row[3] = {batch, 0, 0}, valid = 0;
        for (int64_t c = 0; c < classes; c++) {
            box_set set = box_set_of((const float *)boxes->data + batch * n * 4, 4,
                                     (const float *)scores->data + (batch * classes + c) * n, 1, n,
                                     score_threshold, scratch);
            int64_t taken = 0;
            for (int64_t k = 0; k < max_boxes_selected && (taken = box_take(&set)) >= 0; k++) {
                box_suppress(&set, taken, iou_threshold);
                row[1] = c;
                row[2] = taken;
                opdb_write(selected_indices, 3 * (batch * rows + valid++), 3, OPDB_WHOLE, row);
            }
        }
        for (int64_t i = valid; i < rows; i++)
            opdb_write(selected_indices, 3 * (batch * rows + i), 3, OPDB_WHOLE, row);
        if (num_valid != NULL)
            opdb_write(num_valid, batch, 1, OPDB_WHOLE, &valid);
    }
    return OPDB_OK;
}

/* One batch of the scores [batch, box, class] and of the boxes. */
typedef struct {
    const float *boxes, *scores;
    int64_t n, classes, places; /* boxes, classes, boxes of each: 1 or one for each class */
} batch_of_boxes;

/* The box of a class: 4 numbers. */
static const float *box_of(const batch_of_boxes *b, int64_t box, int64_t category) {
    return b->boxes + (box * b->places + (b->places > 1 ? category : 0)) * 4;
}

/* Suppresses in each class, keeps `per_class` boxes of each at most, and the best `most` of all. */
static int64_t best_of_batch(const batch_of_boxes *b, double iou_threshold, double score_threshold,
                             int64_t per_class, int64_t most, detection *best, float *left) {
    int64_t found = 0, taken = 0;
    for (int64_t c = 0; c < b->classes; c++) {
        box_set set = box_set_of(box_of(b, 0, c), b->places * 4, b->scores + c, b->classes, b->n,
                                 score_threshold, left);
        for (int64_t k = 0; k < per_class && (taken = box_take(&set)) >= 0; k++) {
            detection one = {b->scores[taken * b->classes + c], c, taken};
            box_suppress(&set, taken, iou_threshold);
            found = detection_put(best, found, most, one);
        }
    }
    return found;
}

/* Writes row `row` of the results; zeros for NULL. */
static void write_row(const batch_of_boxes *b, const detection *d, bool clip, int64_t row,
                      const opdb_tensor *boxes_, const opdb_tensor *scores_, const opdb_tensor *classes) {
    const float *box = d != NULL ? box_of(b, d->box, d->category) : NULL;
    float *to = (float *)boxes_->data + 4 * row;
    int64_t category = d != NULL ? d->category : 0;
    for (int i = 0; i < 4; i++) {
        to[i] = box != NULL ? box[i] : 0;
        to[i] = clip ? (float)held_between(to[i], 0, 1) : to[i];
    }
    ((float *)scores_->data)[row] = d != NULL ? (float)d->score : 0;
    opdb_write(classes, row, 1, OPDB_WHOLE, &category);
}

static bool takes_batches(const opdb_tensor *boxes, const opdb_tensor *scores, const opdb_tensor *boxes_,
                          const opdb_tensor *scores_, const opdb_tensor *classes) {
    return is_f32(boxes) && is_f32(scores) && is_f32(boxes_) && is_f32(scores_) &&
           opdb_kind_of(classes) == OPDB_WHOLE;
}

/* True if the parts of a feature that belong to one box can be moved. */
static bool moves_features(opdb_tensors features, opdb_tensors features_) {
    for (int64_t i = 0; i < features.n; i++) {
        const opdb_tensor *x = features.v[i], *y = features_.v[i];
        if (x->rank < 2 || x->rank != y->rank || !opdb_moves(x, y) ||
            size_between(x, 2, x->rank) != size_between(y, 2, y->rank))
            return false;
    }
    return true;
}

/* Copies the features of a box to row `at` of batch `batch`; zeros for no box (-1). */
static void move_features(opdb_tensors features, opdb_tensors features_, int64_t batch, int64_t box,
                          int64_t at) {
    for (int64_t i = 0; i < features.n; i++) {
        const opdb_tensor *x = features.v[i], *y = features_.v[i];
        int64_t size = size_between(x, 2, x->rank), to = (batch * y->dims[1] + at) * size;
        if (box >= 0)
            opdb_move_run(x, (batch * x->dims[1] + box) * size, y, to, size);
        else
            opdb_fill(y, to, size, 0);
    }
}

/* Suppression within each class; the remaining boxes of all classes, best first, with their features. Rows
 * after the last are zeros. */
opdb_status opdb_multi_class_nms(const opdb_tensor *boxes, const opdb_tensor *scores, opdb_tensors features,
                                 double iou_threshold, double score_threshold, double soft_nms_sigma,
                                 const opdb_tensor *boxes_, const opdb_tensor *scores_,
                                 const opdb_tensor *classes, const opdb_tensor *num_valid,
                                 opdb_tensors features_, void *scratch) {
    if (!takes_batches(boxes, scores, boxes_, scores_, classes) || !moves_features(features, features_) ||
        soft_nms_sigma != 0)
        return OPDB_UNSUPPORTED;
    int64_t n = boxes->dims[1], most = boxes_->dims[1];
    detection *best = scratch;
    for (int64_t batch = 0; batch < boxes->dims[0]; batch++) {
        batch_of_boxes b = {(const float *)boxes->data + batch * n * 4,
                            (const float *)scores->data + batch * n * scores->dims[2], n, scores->dims[2], 1};
        int64_t found =
            best_of_batch(&b, iou_threshold, score_threshold, n, most, best, (float *)(best + most));
        for (int64_t i = 0; i < most; i++) {
            write_row(&b, i < found ? &best[i] : NULL, false, batch * most + i, boxes_, scores_, classes);
            move_features(features, features_, batch, i < found ? best[i].box : -1, i);
        }
        opdb_write(num_valid, batch, 1, OPDB_WHOLE, &found);
    }
    return OPDB_OK;
}

/* Like TensorFlow's combined_non_max_suppression: at most max_boxes_per_class boxes per class, and the best
 * of all classes; the shape of the results already includes `pad_per_class`. A score equal to the threshold
 * counts. */
opdb_status opdb_combined_nms(const opdb_tensor *boxes, const opdb_tensor *scores,
                              int64_t max_boxes_per_class, double iou_threshold, double score_threshold,
                              bool clip_boxes, const opdb_tensor *boxes_, const opdb_tensor *scores_,
                              const opdb_tensor *classes, const opdb_tensor *num_valid, void *scratch) {
    if (!takes_batches(boxes, scores, boxes_, scores_, classes))
        return OPDB_UNSUPPORTED;
    int64_t n = boxes->dims[1], most = boxes_->dims[1];
    detection *best = scratch;
    for (int64_t batch = 0; batch < boxes->dims[0]; batch++) {
        batch_of_boxes b = {(const float *)boxes->data + batch * n * boxes->dims[2] * 4,
                            (const float *)scores->data + batch * n * scores->dims[2], n, scores->dims[2],
                            boxes->dims[2]};
        int64_t found = best_of_batch(&b, iou_threshold, score_threshold, max_boxes_per_class, most, best,
                                      (float *)(best + most));
        for (int64_t i = 0; i < most; i++)
            write_row(&b, i < found ? &best[i] : NULL, clip_boxes, batch * most + i, boxes_, scores_,
                      classes);
        opdb_write(num_valid, batch, 1, OPDB_WHOLE, &found);
    }
    return OPDB_OK;
}
