/* Regions of interest and the levels of a feature pyramid: rows of (x1, y1, x2, y2), optionally preceded by
 * the index of their batch. */
#include <math.h>

#include "boxes.h"
#include "move.h"

enum { FAR = 4096 }; /* powers of two beyond which an area of floats is 0 or infinite */

/* The level above `low`: a region's size is this many powers of two away from the canonical one. */
static int64_t level_of(const float *corners, int64_t low, int64_t high, double scale, int64_t canonical) {
    double area = ((double)corners[2] - corners[0]) * ((double)corners[3] - corners[1]);
    int64_t level = low;
    while (level < high &&
           area >= ldexp(scale * scale, (int)held_between(2 * (double)(level + 1 - canonical), -FAR, FAR)))
        level++;
    return level - low;
}

enum { LEVELS = 4 };

/* Each region goes to the result of its level, in order, followed by zeros. restore_idx: the row of each
 * region among the rows of all results. */
opdb_status opdb_distribute_fpn_proposals(const opdb_tensor *rois, int64_t roi_min_level,
                                          int64_t roi_max_level, int64_t roi_canonical_scale,
                                          int64_t roi_canonical_level, const opdb_tensor *restore_idx,
                                          const opdb_tensor *rois_min_level, opdb_tensors rois_levels) {
    int64_t levels = roi_max_level - roi_min_level + 1, columns = rois->dims[1];
    int64_t filled[LEVELS] = {0}, first[LEVELS + 1] = {0};
    if (!is_f32(rois) || opdb_kind_of(restore_idx) != OPDB_WHOLE || levels > LEVELS)
        return OPDB_UNSUPPORTED;
    for (int64_t k = 0; k < levels; k++) {
        const opdb_tensor *to = k == 0 ? rois_min_level : rois_levels.v[k - 1];
        if (!is_f32(to))
            return OPDB_UNSUPPORTED;
        opdb_fill(to, 0, size_of(to), 0);
        first[k + 1] = first[k] + to->dims[0];
    }
    for (int64_t i = 0; i < rois->dims[0]; i++) {
        const float *corners = (const float *)rois->data + i * columns + columns - 4;
        int64_t k =
            level_of(corners, roi_min_level, roi_max_level, (double)roi_canonical_scale, roi_canonical_level);
        const opdb_tensor *to = k == 0 ? rois_min_level : rois_levels.v[k - 1];
        if (filled[k] == to->dims[0])
            return OPDB_TOO_SMALL;
        int64_t row = first[k] + filled[k];
        opdb_move_run(rois, i * columns, to, filled[k]++ * columns, columns);
        opdb_write(restore_idx, i, 1, OPDB_WHOLE, &row);
    }
    return OPDB_OK;
}

/* The regions of all levels with the best scores, best first; the earlier of equal ones first. */
opdb_status opdb_collect_rpn_proposals(const opdb_tensor *rois_min_level, const opdb_tensor *rois_level_1,
                                       const opdb_tensor *rois_level_2, const opdb_tensor *rois_level_3,
                                       const opdb_tensor *rois_level_4, const opdb_tensor *scores_min_level,
                                       const opdb_tensor *scores_level_1, const opdb_tensor *scores_level_2,
                                       const opdb_tensor *scores_level_3, const opdb_tensor *scores_level_4,
                                       const opdb_tensor *y, void *scratch) {
    const opdb_tensor *rois[] = {rois_min_level, rois_level_1, rois_level_2, rois_level_3, rois_level_4};
    const opdb_tensor *scores[] = {scores_min_level, scores_level_1, scores_level_2, scores_level_3,
                                   scores_level_4};
    detection *best = scratch;
    int64_t n = 0, most = y->dims[0];
    for (int64_t k = 0; k < LEVELS + 1; k++) {
        if (rois[k] == NULL)
            continue;
        if (!is_f32(rois[k]) || !is_f32(scores[k]) || !is_f32(y))
            return OPDB_UNSUPPORTED;
        for (int64_t i = 0; i < rois[k]->dims[0]; i++) {
            detection one = {((const float *)scores[k]->data)[i], k, i};
            n = detection_put(best, n, most, one);
        }
    }
    for (int64_t i = 0; i < n; i++)
        opdb_move_run(rois[best[i].category], 5 * best[i].box, y, 5 * i, 5);
    return OPDB_OK;
}
