/* Boxes of four numbers (two opposite corners, in any order), and greedy suppression among them. */
#ifndef OPDB_BOXES_H
#define OPDB_BOXES_H

#include <math.h>

#include "elements.h"

static inline double lesser(double a, double b) { return a < b ? a : b; }
static inline double greater(double a, double b) { return a > b ? a : b; }

/* The part that two intervals share; their ends are in any order. */
static inline double box_overlap(double a0, double a1, double b0, double b1) {
    double low = greater(lesser(a0, a1), lesser(b0, b1)), high = lesser(greater(a0, a1), greater(b0, b1));
    return high > low ? high - low : 0;
}

static inline double box_area(const float *a) {
    return fabs((double)a[2] - a[0]) * fabs((double)a[3] - a[1]);
}

/* Intersection over union of two boxes; 0 for boxes without area. */
static inline double box_iou(const float *a, const float *b) {
    double shared = box_overlap(a[0], a[2], b[0], b[2]) * box_overlap(a[1], a[3], b[1], b[3]);
    return shared > 0 ? shared / (box_area(a) + box_area(b) - shared) : 0;
}

/* Boxes of one class: box i is at boxes + i * step.  `left` holds the scores of boxes that are neither taken
 * nor suppressed, and NaN for the others. */
typedef struct {
    const float *boxes;
    int64_t step, n;
    float *left;
} box_set;

/* Boxes whose scores, `score_step` apart, reach the threshold; `left` has room for n. */
static inline box_set box_set_of(const float *boxes, int64_t step, const float *scores, int64_t score_step,
                                 int64_t n, double threshold, float *left) {
    for (int64_t i = 0; i < n; i++)
        left[i] = (double)scores[i * score_step] >= threshold ? scores[i * score_step] : NAN;
    box_set set = {boxes, step, n, left};
    return set;
}

/* The box with the best score, the first of equal ones; -1 if none is left. */
static inline int64_t box_best(const box_set *set) {
    int64_t best = -1;
    for (int64_t i = 0; i < set->n; i++)
        if (!isnan(set->left[i]) && (best < 0 || set->left[i] > set->left[best]))
            best = i;
    return best;
}

/* Takes the best box. */
static inline int64_t box_take(const box_set *set) {
    int64_t best = box_best(set);
    if (best >= 0)
        set->left[best] = NAN;
    return best;
}

/* Suppresses the boxes that overlap `taken` by more than the threshold. */
static inline void box_suppress(const box_set *set, int64_t taken, double iou_threshold) {
    const float *box = set->boxes + taken * set->step;
    for (int64_t i = 0; i < set->n; i++)
        if (!isnan(set->left[i]) && box_iou(box, set->boxes + i * set->step) > iou_threshold)
            set->left[i] = NAN;
}

/* A box that stayed. */
typedef struct {
    double score;
    int64_t category, box;
} detection;

/* Inserts one into the best `most`, best first, the earlier of equal ones first. Returns their number. */
static inline int64_t detection_put(detection *best, int64_t n, int64_t most, detection one) {
    if (n == most && (most == 0 || !(one.score > best[n - 1].score)))
        return n;
    int64_t at = n < most ? n++ : n - 1;
    for (; at > 0 && one.score > best[at - 1].score; at--)
        best[at] = best[at - 1];
    best[at] = one;
    return n;
}

#endif
