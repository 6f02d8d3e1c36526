/* Non-maximum suppression: of boxes that overlap the one with the best score stays. */
#include "boxes.h"

/* Of each batch and class the (batch, class, box) that stay, best first.  Each batch has as many rows of the
 * result; those after its last box are copies of it, or (batch, 0, 0) where no box stays. */
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
