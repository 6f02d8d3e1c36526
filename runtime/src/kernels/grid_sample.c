#include <math.h>

#include "clones.h"
#include "kernel.h"

enum { AXES = 3, CHANNELS = 256 };

/* Converts a position in [-1, 1] to pixels. */
static double in_pixels(double at, int64_t size, bool align_corners) {
    return align_corners ? (at + 1) / 2 * (double)(size - 1) : ((at + 1) * (double)size - 1) / 2;
}

/* Mirrors a position until it lies in [low, high]. */
static double reflected(double at, double low, double high) {
    double span = high - low;
    if (span <= 0)
        return 0;
    double off = fabs(at - low), rest = fmod(off, span);
    return fmod(floor(off / span), 2) == 0 ? low + rest : high - rest;
}

static double inside(double at, int64_t size, int64_t padding, bool align_corners) {
    double last = (double)(size - 1);
    if (padding == OPDB_GRID_SAMPLE_ZEROS)
        return at;
    if (padding == OPDB_GRID_SAMPLE_REFLECTION)
        at = align_corners ? reflected(at, 0, last) : reflected(at, -0.5, last + 0.5);
    return at > 0 ? (at < last ? at : last) : 0; /* NaN counts as 0 */
}

/* The two pixels along each dim around a position, and the weight of the second. */
typedef struct {
    int64_t size[AXES], low[AXES];
    double part[AXES];
    int corners; /* of the cube: 1 for the nearest pixel alone */
} place;

/* n channels of a pixel of y; x points at the first of them in the image. */
OPDB_CLONES static void sample(const place *p, const float *x, int64_t channels, int64_t n, float *y) {
    double sum[CHANNELS];
    for (int64_t c = 0; c < n; c++)
        sum[c] = 0;
    for (int corner = 0; corner < p->corners; corner++) {
        int64_t pixel = 0;
        double weight = 1;
        for (int d = 0; d < AXES && weight != 0; d++) {
            int64_t second = corner >> d & 1, at = p->low[d] + second;
            weight *= at < 0 || at >= p->size[d] ? 0 : second ? p->part[d] : 1 - p->part[d];
            pixel = pixel * p->size[d] + at;
        }
        for (int64_t c = 0; c < n && weight != 0; c++)
            sum[c] += weight * x[pixel * channels + c];
    }
    for (int64_t c = 0; c < n; c++)
        y[c] = (float)sum[c];
}

/* y[n, ..., :] = x at the position grid[n, ..., :], whose last number counts along the first spatial dim. */
opdb_status opdb_grid_sample(const opdb_tensor *x, const opdb_tensor *grid, bool align_corners, int64_t mode,
                             int64_t padding_mode, const opdb_tensor *y) {
    int dims = (int)x->rank - 2;
    if (!is_f32(x) || !is_f32(grid) || !is_f32(y))
        return OPDB_UNSUPPORTED;
    if (size_of(y) == 0)
        return OPDB_OK;
    bool near = mode == OPDB_GRID_SAMPLE_NEAREST;
    place p = {{1, 1, 1}, {0, 0, 0}, {0, 0, 0}, near ? 1 : 1 << AXES};
    for (int d = 0; d < dims; d++)
        p.size[AXES - dims + d] = x->dims[1 + d];
    int64_t channels = x->dims[x->rank - 1], pixels = size_of(y) / channels;
    int64_t image = size_between(x, 1, x->rank), per_image = pixels / x->dims[0];
    for (int64_t i = 0; i < pixels; i++) {
        const float *at = (const float *)grid->data + i * dims;
        for (int d = 0; d < dims; d++) {
            int own = AXES - dims + d;
            double v = inside(in_pixels(at[dims - 1 - d], p.size[own], align_corners), p.size[own],
                              padding_mode, align_corners);
            double low = near ? rint(v) : floor(v);
            bool far = !(low > -2) || low > (double)p.size[own]; /* outside the image, or NaN */
            p.low[own] = far ? -2 : (int64_t)low;
            p.part[own] = near || far ? 0 : v - low;
        }
        for (int64_t c = 0; c < channels; c += CHANNELS)
            sample(&p, (const float *)x->data + i / per_image * image + c, channels,
                   channels - c < CHANNELS ? channels - c : CHANNELS, (float *)y->data + i * channels + c);
    }
    return OPDB_OK;
}
