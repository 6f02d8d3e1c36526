/* Soft suppression, like NNAPI's BOX_WITH_NMS_LIMIT: lowers the scores of boxes that overlap a better one. */
#include <math.h>

#include "boxes.h"
#include "move.h"
#include "places.h"

/* The rule by which the scores of boxes that overlap a taken one are lowered. */
typedef struct {
    int64_t method;
    double iou_threshold, sigma, least;
} fall;

/* Boxes [n, classes, 4] and scores [n, classes] of one batch. */
typedef struct {
    const float *boxes, *scores;
    int64_t n, classes;
} batch_of_rois;

/* The rows of the results; the last three may be NULL. `filled`: number of rows written. */
typedef struct {
    const opdb_tensor *boxes, *scores, *classes, *batch_idx, *batch_splits, *keeps, *keeps_size;
    int64_t filled;
} nms_results;

/* The fraction of a score that remains after an overlap. */
static double part_left(const fall *how, double iou) {
    if (how->method == OPDB_BOX_WITH_NMS_LIMIT_GAUSSIAN)
        return iou > 0 ? exp(-iou * iou / how->sigma) : 1;
    if (iou < how->iou_threshold)
        return 1;
    return how->method == OPDB_BOX_WITH_NMS_LIMIT_LINEAR ? 1 - iou : 0;
}

/* Lowers the scores of the boxes left beside `taken`, and drops those that then are below the least score. */
static void lower_scores(const box_set *set, int64_t taken, const fall *how) {
    const float *box = set->boxes + taken * set->step;
    for (int64_t i = 0; i < set->n; i++) {
        if (isnan(set->left[i]))
            continue;
        float score = (float)(set->left[i] * part_left(how, box_iou(box, set->boxes + i * set->step)));
        set->left[i] = (double)score >= how->least ? score : NAN;
    }
}

/* The boxes that stay in each class, with scores above the threshold, in the order in which they were taken;
 * the best `limit` of all classes unless that is negative. Returns their number, -1 if there is no room. */
static int64_t detect(const batch_of_rois *b, double score_threshold, const fall *how, int64_t limit,
                      int64_t room, detection *best, float *left) {
    int64_t found = 0, most = limit < 0 || limit > b->n ? b->n : limit;
    for (int64_t c = 0; c < b->classes; c++) {
        box_set set = box_set_of(b->boxes + 4 * c, 4 * b->classes, b->scores + c, b->classes, b->n,
                                 score_threshold, left);
        for (int64_t i = 0; i < b->n; i++)
            if ((double)left[i] == score_threshold)
                left[i] = NAN;
        int64_t at = 0;
        for (int64_t k = 0; k < most && (at = box_best(&set)) >= 0; k++) {
            detection one = {set.left[at], c, at};
            set.left[at] = NAN;
            lower_scores(&set, at, how);
            if (found == room && (limit < 0 || room < limit))
                return -1;
            if (limit < 0)
                best[found++] = one;
            else
                found = detection_put(best, found, limit, one);
        }
    }
    return found;
}

/* Writes the detections of a batch, class after class. */
static void write_batch(const batch_of_rois *b, const detection *best, int64_t found, int64_t batch,
                        nms_results *to) {
    for (int64_t c = 0; c < b->classes; c++) {
        int64_t before = to->filled;
        for (int64_t i = 0; i < found; i++) {
            if (best[i].category != c)
                continue;
            int64_t row = to->filled++;
            for (int k = 0; k < 4; k++)
                ((float *)to->boxes->data)[4 * row + k] = b->boxes[4 * (best[i].box * b->classes + c) + k];
            ((float *)to->scores->data)[row] = (float)best[i].score;
            opdb_write(to->classes, row, 1, OPDB_WHOLE, &c);
            opdb_write(to->batch_idx, row, 1, OPDB_WHOLE, &batch);
            if (to->keeps != NULL)
                opdb_write(to->keeps, row, 1, OPDB_WHOLE, &best[i].box);
        }
        if (to->keeps_size != NULL) {
            int64_t kept = opdb_place(to->keeps_size, c) + to->filled - before;
            opdb_write(to->keeps_size, c, 1, OPDB_WHOLE, &kept);
        }
    }
}

/* The regions of the batch that begins with row `first`: as many as batch_splits says, or without it the
 * consecutive ones with the same batch_idx. 0 after the last batch, -1 if batch_splits does not match. */
static int64_t batch_at(const opdb_tensor *batch_idx, const opdb_tensor *batch_splits, int64_t batch,
                        int64_t first) {
    int64_t left = batch_idx->dims[0] - first, n = 0;
    if (batch_splits != NULL) {
        n = batch < batch_splits->dims[0] ? opdb_place(batch_splits, batch) : 0;
        return n < 0 || n > left ? -1 : n;
    }
    while (n < left && opdb_place(batch_idx, first + n) == opdb_place(batch_idx, first))
        n++;
    return n;
}

/* Takes the best box of a class again and again; lowers the scores of boxes that overlap it, and drops boxes
 * below nms_score_threshold. `keeps`: row of each kept box in its batch. `keeps_size`: number of each class.
 * Zeros follow the last box. */
opdb_status opdb_box_with_nms_limit(const opdb_tensor *boxes, const opdb_tensor *scores,
                                    const opdb_tensor *batch_idx, const opdb_tensor *batch_splits,
                                    int64_t nms_kernel_method, double nms_score_threshold,
                                    double score_threshold, int64_t pre_nms_limit, double iou_threshold,
                                    double sigma, const opdb_tensor *boxes_, const opdb_tensor *scores_,
                                    const opdb_tensor *classes, const opdb_tensor *batch_idx_,
                                    const opdb_tensor *batch_splits_, const opdb_tensor *keeps,
                                    const opdb_tensor *keeps_size, void *scratch) {
    if (!is_f32(boxes) || !is_f32(scores) || !is_f32(boxes_) || !is_f32(scores_))
        return OPDB_UNSUPPORTED;
    const opdb_tensor *made[] = {boxes_, scores_, classes, batch_idx_, batch_splits_, keeps, keeps_size};
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++)
        if (made[i] != NULL)
            opdb_fill(made[i], 0, size_of(made[i]), 0);
    int64_t rows = boxes_->dims[0], categories = scores->dims[1], first = 0, n = 0;
    fall how = {nms_kernel_method, iou_threshold, sigma, nms_score_threshold};
    nms_results to = {boxes_, scores_, classes, batch_idx_, batch_splits_, keeps, keeps_size, 0};
    int64_t batches = batch_splits != NULL ? batch_splits->dims[0] : scores->dims[0];
    for (int64_t batch = 0; batch < batches; batch++, first += n) {
        n = batch_at(batch_idx, batch_splits, batch, first);
        if (n < 0)
            return OPDB_OUTSIDE;
        if (n == 0)
            continue;
        batch_of_rois b = {(const float *)boxes->data + first * categories * 4,
                           (const float *)scores->data + first * categories, n, categories};
        detection *best = scratch;
        int64_t found =
            detect(&b, score_threshold, &how, pre_nms_limit, rows - to.filled, best, (float *)(best + rows));
        if (found < 0 || (batch_splits_ != NULL && batch >= batch_splits_->dims[0]))
            return OPDB_TOO_SMALL;
        write_batch(&b, best, found, opdb_place(batch_idx, first), &to);
        if (batch_splits_ != NULL)
            opdb_write(batch_splits_, batch, 1, OPDB_WHOLE, &found);
    }
    return OPDB_OK;
}
