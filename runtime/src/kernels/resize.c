/* Images of other sizes: each spatial dim on its own, [N, ..., C]. */
#include <math.h>
#include <string.h>

#include "clones.h"
#include "kernel.h"

enum { AXES = 3, CUBIC_TAPS = 4 };

/* One element along a dim that contributes to an element of y. */
typedef struct {
    int64_t index;
    double weight;
} tap;

typedef enum { NEAREST, LINEAR, CUBIC, SMOOTH } method; /* SMOOTH: linear over all that a pixel of y covers */
typedef enum { CENTRES, CENTRES_OR_ZERO, CORNERS, ORIGINS } transformation;
typedef enum { TIES_DOWN, TIES_UP, DOWN, UP } rounding;

typedef struct {
    method by;
    transformation from;
    rounding nearest;
    bool exclude_outside;
    double cubic; /* the coefficient a */
} resizing;

/* The taps of a dim: `n` for each element of y, in the caller's memory. */
typedef struct {
    int64_t in, out, n;
    tap *taps;
} axis;

static double source(const resizing *r, const axis *a, int64_t i) {
    double scale = (double)a->in / (double)a->out;
    switch (r->from) {
    case CORNERS:
        return a->out == 1 ? 0 : (double)i * (double)(a->in - 1) / (double)(a->out - 1);
    case ORIGINS:
        return (double)i * scale;
    case CENTRES_OR_ZERO:
        return a->out == 1 ? 0 : ((double)i + 0.5) * scale - 0.5;
    default:
        return ((double)i + 0.5) * scale - 0.5;
    }
}

static int64_t held(int64_t i, int64_t n) { return i < 0 ? 0 : i < n ? i : n - 1; }

static int64_t nearest(double at, rounding by) {
    double low = floor(at), rest = at - low;
    bool up = by == UP ? rest > 0 : by == TIES_UP ? rest >= 0.5 : by == TIES_DOWN ? rest > 0.5 : false;
    return (int64_t)low + up;
}

/* Keys' cubic of the distance. */
static double cubic(double d, double a) {
    d = fabs(d);
    if (d <= 1)
        return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

static void smooth_taps(const axis *a, int64_t i, tap *to) {
    double scale = (double)a->in / (double)a->out, center = scale * ((double)i + 0.5), sum = 0;
    scale = scale > 1 ? scale : 1;
    int64_t first = held((int64_t)floor(center - scale + 0.5), a->in);
    for (int64_t k = 0; k < a->n; k++) {
        double weight = 1 - fabs(((double)(first + k) - center + 0.5) / scale);
        to[k].index = held(first + k, a->in);
        to[k].weight = weight > 0 && first + k < a->in ? weight : 0;
        sum += to[k].weight;
    }
    for (int64_t k = 0; k < a->n; k++)
        to[k].weight /= sum;
}

static void taps_of(const resizing *r, const axis *a, int64_t i, tap *to) {
    double at = source(r, a, i), low = floor(at), sum = 0;
    if (r->by == NEAREST) {
        to[0].index = held(nearest(at, r->nearest), a->in);
        to[0].weight = 1;
        return;
    }
    for (int64_t k = 0; k < a->n; k++) {
        int64_t own = (int64_t)low + k - (r->by == CUBIC);
        double weight = r->by == CUBIC ? cubic(at - (double)own, r->cubic)
                        : k == 0       ? 1 - (at - low)
                                       : at - low;
        to[k].index = held(own, a->in);
        to[k].weight = r->exclude_outside && own != to[k].index ? 0 : weight;
        sum += to[k].weight;
    }
    for (int64_t k = 0; r->exclude_outside && k < a->n; k++)
        to[k].weight /= sum;
}

/* The pixel of an image at three taps. */
static inline const float *pixel_of(const axis *axes, const float *image, const tap *a, const tap *b,
                                    const tap *c, int64_t channels) {
    return image + ((a->index * axes[1].in + b->index) * axes[2].in + c->index) * channels;
}

/* y = the sum of the pixels at the taps, each times its weight. */
static inline void mix(const axis *axes, const tap *const *at, const float *image, int64_t channels,
                       float *restrict y) {
    memset(y, 0, (size_t)channels * sizeof *y);
    for (int64_t i = 0; i < axes[0].n; i++)
        for (int64_t j = 0; j < axes[1].n; j++)
            for (int64_t k = 0; k < axes[2].n; k++) {
                float weight = (float)(at[0][i].weight * at[1][j].weight * at[2][k].weight);
                const float *from = pixel_of(axes, image, &at[0][i], &at[1][j], &at[2][k], channels);
                for (int64_t c = 0; weight != 0 && c < channels; c++)
                    y[c] += weight * from[c];
            }
}

/* The same for two by two pixels. */
static inline void mix_four(const axis *axes, const tap *const *at, const float *image, int64_t channels,
                            float *restrict y) {
    const tap *rows = at[1], *columns = at[2];
    const float *a = pixel_of(axes, image, at[0], &rows[0], &columns[0], channels);
    const float *b = pixel_of(axes, image, at[0], &rows[0], &columns[1], channels);
    const float *c = pixel_of(axes, image, at[0], &rows[1], &columns[0], channels);
    const float *d = pixel_of(axes, image, at[0], &rows[1], &columns[1], channels);
    float upper = (float)rows[0].weight, lower = (float)rows[1].weight;
    float left = (float)columns[0].weight, right = (float)columns[1].weight;
    for (int64_t i = 0; i < channels; i++)
        y[i] = upper * (left * a[i] + right * b[i]) + lower * (left * c[i] + right * d[i]);
}

/* The taps of a position along a dim; a dim that x lacks has one. */
static inline const tap *taps_at(const axis *a, int64_t i) {
    static const tap ONE = {0, 1};
    return a->taps == NULL ? &ONE : a->taps + i * a->n;
}

/* A row of pixels of y; `first` and `second` are its taps along the other dims. */
OPDB_FUSED_CLONES static void mix_row(const axis *axes, const tap *first, const tap *second,
                                      const float *image, int64_t channels, float *y) {
    const axis *last = &axes[2];
    for (int64_t i = 0; i < last->out; i++, y += channels) {
        const tap *at[AXES] = {first, second, taps_at(last, i)};
        if (axes[0].n * axes[1].n * last->n == 1) /* the nearest pixel itself */
            memcpy(y, pixel_of(axes, image, at[0], at[1], at[2], channels), (size_t)channels * sizeof *y);
        else if (axes[0].n == 1 && axes[1].n == 2 && last->n == 2 && at[0]->weight == 1)
            mix_four(axes, at, image, channels, y);
        else
            mix(axes, at, image, channels, y);
    }
}

/* The taps of one dim if their method has this many. */
static int64_t taps(const resizing *r, int64_t in, int64_t out) {
    if (r->by == SMOOTH)
        return in > out ? 2 * ((in + out - 1) / out) + 1 : 3;
    return r->by == NEAREST ? 1 : r->by == LINEAR ? 2 : CUBIC_TAPS;
}

static opdb_status resize(const resizing *r, const opdb_tensor *x, const opdb_tensor *y, tap *scratch) {
    int dims = (int)x->rank - 2;
    if (!is_f32(x) || !is_f32(y) || dims > AXES)
        return OPDB_UNSUPPORTED;
    if (size_of(y) == 0)
        return OPDB_OK;
    if (size_of(x) == 0)
        return OPDB_UNSUPPORTED;
    axis axes[AXES];
    for (int d = 0; d < AXES; d++) {
        int own = d - (AXES - dims);
        axis whole = {1, 1, 1, NULL};
        axes[d] = whole;
        if (own < 0)
            continue;
        axis a = {x->dims[1 + own], y->dims[1 + own], taps(r, x->dims[1 + own], y->dims[1 + own]), scratch};
        axes[d] = a;
        for (int64_t i = 0; i < a.out; i++, scratch += a.n)
            if (r->by == SMOOTH)
                smooth_taps(&a, i, scratch);
            else
                taps_of(r, &a, i, scratch);
    }
    int64_t channels = x->dims[x->rank - 1], image = size_between(x, 1, x->rank);
    float *to = y->data;
    for (int64_t n = 0; n < y->dims[0]; n++)
        for (int64_t i = 0; i < axes[0].out; i++)
            for (int64_t j = 0; j < axes[1].out; j++, to += axes[2].out * channels)
                mix_row(axes, taps_at(&axes[0], i), taps_at(&axes[1], j), (const float *)x->data + n * image,
                        channels, to);
    return OPDB_OK;
}

/* Has the semantics of ONNX's Resize. */
opdb_status opdb_resize(const opdb_tensor *x, bool exclude_outside, int64_t transformation_mode,
                        int64_t interpolation_mode, int64_t nearest_mode, double cubic_coeff,
                        const opdb_tensor *y, void *scratch) {
    static const transformation FROM[] = {CENTRES, CENTRES_OR_ZERO, CORNERS, ORIGINS};
    static const method BY[] = {NEAREST, LINEAR, CUBIC};
    static const rounding TO[] = {TIES_DOWN, TIES_UP, DOWN, UP};
    resizing r = {BY[interpolation_mode], FROM[transformation_mode], TO[nearest_mode], exclude_outside,
                  cubic_coeff};
    return resize(&r, x, y, scratch);
}

/* Without a flag positions are counted from the corners, as in TensorFlow's first version. */
opdb_status opdb_resize_bilinear(const opdb_tensor *x, bool align_corners, bool half_pixel_centers,
                                 bool antialias, const opdb_tensor *y, void *scratch) {
    resizing r = {antialias ? SMOOTH : LINEAR,
                  align_corners        ? CORNERS
                  : half_pixel_centers ? CENTRES
                                       : ORIGINS,
                  DOWN, false, 0};
    return resize(&r, x, y, scratch);
}

/* The center of a pixel of y lies in a pixel of x; aligned corners round to the nearest, ties up. */
opdb_status opdb_resize_nearest_neighbor(const opdb_tensor *x, bool align_corners, bool half_pixel_centers,
                                         const opdb_tensor *y, void *scratch) {
    resizing r = {NEAREST,
                  align_corners        ? CORNERS
                  : half_pixel_centers ? CENTRES
                                       : ORIGINS,
                  align_corners || half_pixel_centers ? TIES_UP : DOWN, false, 0};
    return resize(&r, x, y, scratch);
}
