/* Regions of interest of images: rows (x1, y1, x2, y2) in pixels of the picture that the feature map was
 * computed from. */
#include "pixels.h"
#include "places.h"

/* One region: in an image that begins at x, of y's height and width. */
typedef struct {
    const float *x;
    double top, left, bottom, right; /* in pixels of the image */
} region;

static opdb_status region_of(const opdb_tensor *feature_map, const opdb_tensor *rois,
                             const opdb_tensor *batch_idx, opdb_reals img_size_ratio, int64_t i,
                             region *made) {
    const float *roi = (const float *)rois->data + 4 * i;
    int64_t batch = opdb_place(batch_idx, i);
    if (batch < 0 || batch >= feature_map->dims[0])
        return OPDB_OUTSIDE;
    double down = img_size_ratio.v[0], along = img_size_ratio.v[1];
    region r = {(const float *)feature_map->data + batch * size_between(feature_map, 1, 4), roi[1] / down,
                roi[0] / along, roi[3] / down, roi[2] / along};
    *made = r;
    return OPDB_OK;
}

static bool takes(const opdb_tensor *feature_map, const opdb_tensor *rois, const opdb_tensor *batch_idx,
                  const opdb_tensor *y) {
    return is_f32(feature_map) && is_f32(rois) && is_f32(y) && opdb_kind_of(batch_idx) == OPDB_WHOLE;
}

/* The positions of n samples in each of `bins` parts of a side. */
typedef struct {
    double start, bin;
    int64_t n;
} side;

static side side_of(double start, double end, int64_t bins, int64_t samples, bool aligned) {
    double length = aligned ? end - start : held_between(end - start, 1, INFINITY);
    side s = {aligned ? start - 0.5 : start, length / (double)bins, samples};
    if (samples <= 0)
        s.n = (int64_t)held_between(ceil(s.bin), 0, INT32_MAX);
    return s;
}

static double sample_at(const side *s, int64_t bin, int64_t i) {
    return s->start + (double)bin * s->bin + ((double)i + 0.5) * s->bin / (double)s->n;
}

/* The samples from `low` up to `high`. */
typedef struct {
    int64_t low, high;
} run;

/* The samples of a bin inside the image or within a pixel of it: a region can be far larger. */
static run near_image(const side *s, int64_t bin, double last) {
    double step = s->bin / (double)s->n, first = sample_at(s, bin, 0);
    run every = {0, s->n}, none = {0, 0};
    if (!isfinite(step) || !isfinite(first))
        return none;
    if (step <= 0)
        return every;
    double most = (double)s->n;
    run r = {(int64_t)held_between(floor((-1 - first) / step), 0, most),
             (int64_t)held_between(ceil((last + 1 - first) / step) + 1, 0, most)};
    return r;
}

/* The sum of a bin's samples; samples more than a pixel outside are 0, nearer ones move to the edge. */
static double sum_of_bin(const float *x, const side *rows, const side *columns, int64_t row, int64_t column,
                         const opdb_tensor *image) {
    double sum = 0, last_row = (double)(image->dims[1] - 1), last_column = (double)(image->dims[2] - 1);
    run near_rows = near_image(rows, row, last_row), near_columns = near_image(columns, column, last_column);
    for (int64_t i = near_rows.low; i < near_rows.high; i++) {
        double down = sample_at(rows, row, i);
        if (!(down >= -1 && down <= last_row + 1))
            continue;
        for (int64_t j = near_columns.low; j < near_columns.high; j++) {
            double along = sample_at(columns, column, j);
            if (along >= -1 && along <= last_column + 1)
                sum += pixel_at(x, held_between(down, 0, last_row), held_between(along, 0, last_column),
                                image, false);
        }
    }
    return sum;
}

enum { MOST_SAMPLES = 1024 }; /* along one side of a bin, if a number is given */

/* The mean of samples in each bin of a region.  The caller decides if invalid regions are allowed. */
opdb_status opdb_roi_align(const opdb_tensor *feature_map, const opdb_tensor *rois,
                           const opdb_tensor *batch_idx, opdb_reals img_size_ratio, int64_t num_samples_y,
                           int64_t num_samples_x, bool aligned, const opdb_tensor *y) {
    if (!takes(feature_map, rois, batch_idx, y) || num_samples_y > MOST_SAMPLES ||
        num_samples_x > MOST_SAMPLES)
        return OPDB_UNSUPPORTED;
    int64_t height = y->dims[1], width = y->dims[2], channels = y->dims[3];
    float *to = y->data;
    for (int64_t i = 0; i < y->dims[0]; i++) {
        region r;
        if (region_of(feature_map, rois, batch_idx, img_size_ratio, i, &r) != OPDB_OK)
            return OPDB_OUTSIDE;
        side rows = side_of(r.top, r.bottom, height, num_samples_y, aligned);
        side columns = side_of(r.left, r.right, width, num_samples_x, aligned);
        double count = held_between((double)rows.n * (double)columns.n, 1, INFINITY);
        for (int64_t bin = 0; bin < height * width; bin++)
            for (int64_t c = 0; c < channels; c++)
                *to++ = (float)(sum_of_bin(r.x + c, &rows, &columns, bin / width, bin % width, feature_map) /
                                count);
    }
    return OPDB_OK;
}

/* The nearest pixel; of two equally near, the one farther from 0. */
static int64_t pixel_of(double at) {
    return (int64_t)held_between(at < 0 ? ceil(at - 0.5) : floor(at + 0.5), INT32_MIN, INT32_MAX);
}

/* The pixels of one of `bins` parts of a side, within the image. */
static run run_of(double start, double end, int64_t bins, int64_t i, int64_t size) {
    int64_t first = pixel_of(start), length = pixel_of(end) - first + 1;
    length = length < 1 ? 1 : length;
    run r = {first + i * length / bins, first + ((i + 1) * length + bins - 1) / bins};
    r.low = r.low < 0 ? 0 : r.low;
    r.high = r.high > size ? size : r.high;
    return r;
}

static float largest_of(const float *x, run rows, run columns, const opdb_tensor *image) {
    float largest = rows.low < rows.high && columns.low < columns.high ? -INFINITY : 0;
    for (int64_t row = rows.low; row < rows.high; row++)
        for (int64_t column = columns.low; column < columns.high; column++) {
            float pixel = x[(row * image->dims[2] + column) * image->dims[3]];
            largest = pixel > largest ? pixel : largest;
        }
    return largest;
}

/* The largest pixel in each bin of a region; 0 if a bin has none. */
opdb_status opdb_roi_pooling(const opdb_tensor *feature_map, const opdb_tensor *rois,
                             const opdb_tensor *batch_idx, opdb_reals img_size_ratio, const opdb_tensor *y) {
    if (!takes(feature_map, rois, batch_idx, y))
        return OPDB_UNSUPPORTED;
    int64_t height = y->dims[1], width = y->dims[2], channels = y->dims[3];
    float *to = y->data;
    for (int64_t i = 0; i < y->dims[0]; i++) {
        region r;
        if (region_of(feature_map, rois, batch_idx, img_size_ratio, i, &r) != OPDB_OK)
            return OPDB_OUTSIDE;
        for (int64_t bin = 0; bin < height * width; bin++) {
            run rows = run_of(r.top, r.bottom, height, bin / width, feature_map->dims[1]);
            run columns = run_of(r.left, r.right, width, bin % width, feature_map->dims[2]);
            for (int64_t c = 0; c < channels; c++)
                *to++ = largest_of(r.x + c, rows, columns, feature_map);
        }
    }
    return OPDB_OK;
}
