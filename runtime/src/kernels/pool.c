/* The mean, the greatest number or the root of the mean of squares under a window: [N, D, H, W, C], or
 * without D. */
#include <math.h>

#include "clones.h"
#include "kernel.h"

enum { CHANNELS = 256, AXES = 3 };

typedef enum { MEAN, GREATEST, ROOT_MEAN_SQUARE } pooling;

typedef struct {
    pooling how;
    bool count_margin;
    int64_t in[AXES], out[AXES], channels;
    int64_t size[AXES], stride[AXES], before[AXES], after[AXES];
} window;

/* The part of a window inside the image, and its number of positions in the padded image. */
typedef struct {
    int64_t from[AXES], to[AXES];
    double count;
} place;

static place place_at(const window *w, const int64_t *at) {
    place p;
    p.count = 1;
    for (int d = 0; d < AXES; d++) {
        int64_t from = at[d] * w->stride[d] - w->before[d], to = from + w->size[d];
        int64_t limit = w->in[d] + w->after[d];
        int64_t padded = (to < limit ? to : limit) - from;
        p.from[d] = from > 0 ? from : 0;
        p.to[d] = to < w->in[d] ? to : w->in[d];
        p.count *= (double)(w->count_margin ? padded : p.to[d] - p.from[d]);
    }
    return p;
}

/* n channels of one position of y; x points at the first of them in the image. */
OPDB_CLONES static void pool(const window *w, const place *p, const float *x, float *y, int64_t n) {
    double into[CHANNELS];
    for (int64_t c = 0; c < n; c++)
        into[c] = w->how == GREATEST ? -INFINITY : 0;
    for (int64_t i = p->from[0]; i < p->to[0]; i++)
        for (int64_t j = p->from[1]; j < p->to[1]; j++)
            for (int64_t k = p->from[2]; k < p->to[2]; k++) {
                const float *pixel = x + ((i * w->in[1] + j) * w->in[2] + k) * w->channels;
                if (w->how == GREATEST)
                    for (int64_t c = 0; c < n; c++)
                        into[c] = pixel[c] > into[c] || pixel[c] != pixel[c] ? pixel[c] : into[c];
                else if (w->how == MEAN)
                    for (int64_t c = 0; c < n; c++)
                        into[c] += pixel[c];
                else
                    for (int64_t c = 0; c < n; c++)
                        into[c] += (double)pixel[c] * pixel[c];
            }
    for (int64_t c = 0; c < n; c++)
        y[c] = (float)(w->how == MEAN               ? into[c] / p->count
                       : w->how == ROOT_MEAN_SQUARE ? sqrt(into[c] / p->count)
                                                    : into[c]);
}

/* `axes` is 2 or 3; pad_amount has a row for each. */
static opdb_status run(const opdb_tensor *x, int axes, opdb_ints size, opdb_ints stride, opdb_rows pad_amount,
                       pooling how, bool count_margin, const opdb_tensor *y) {
    if (!is_f32(x) || !is_f32(y))
        return OPDB_UNSUPPORTED;
    window w = {.how = how, .count_margin = count_margin, .channels = x->dims[axes + 1]};
    for (int d = 0; d < AXES; d++) {
        int own = d - (AXES - axes);
        w.in[d] = own < 0 ? 1 : x->dims[1 + own];
        w.out[d] = own < 0 ? 1 : y->dims[1 + own];
        w.size[d] = own < 0 ? 1 : size.v[own];
        w.stride[d] = own < 0 ? 1 : stride.v[own];
        w.before[d] = own < 0 ? 0 : pad_amount.v[own * pad_amount.width];
        w.after[d] = own < 0 ? 0 : pad_amount.v[own * pad_amount.width + 1];
    }
    int64_t image = size_between(x, 1, x->rank), pixels = size_between(y, 0, (int64_t)y->rank - 1);
    for (int64_t i = 0; i < pixels; i++) {
        int64_t rest = i, at[AXES];
        for (int d = AXES - 1; d >= 0; rest /= w.out[d], d--)
            at[d] = rest % w.out[d];
        place p = place_at(&w, at);
        for (int64_t c = 0; c < w.channels; c += CHANNELS)
            pool(&w, &p, (const float *)x->data + rest * image + c, (float *)y->data + i * w.channels + c,
                 w.channels - c < CHANNELS ? w.channels - c : CHANNELS);
    }
    return OPDB_OK;
}

opdb_status opdb_pool_avg2d(const opdb_tensor *x, opdb_ints filter_size, opdb_ints stride,
                            opdb_rows pad_amount, bool count_pad_for_edges, const opdb_tensor *y) {
    return run(x, 2, filter_size, stride, pad_amount, MEAN, count_pad_for_edges, y);
}

opdb_status opdb_pool_avg3d(const opdb_tensor *x, opdb_ints filter_size, opdb_ints stride,
                            opdb_rows pad_amount, bool count_pad_for_edges, const opdb_tensor *y) {
    return run(x, 3, filter_size, stride, pad_amount, MEAN, count_pad_for_edges, y);
}

opdb_status opdb_pool_max2d(const opdb_tensor *x, opdb_ints filter_size, opdb_ints stride,
                            opdb_rows pad_amount, const opdb_tensor *y) {
    return run(x, 2, filter_size, stride, pad_amount, GREATEST, false, y);
}

opdb_status opdb_pool_max3d(const opdb_tensor *x, opdb_ints filter_size, opdb_ints stride,
                            opdb_rows pad_amount, const opdb_tensor *y) {
    return run(x, 3, filter_size, stride, pad_amount, GREATEST, false, y);
}

/* The root of the mean of squares, as in NNAPI's L2_POOL_2D and QNN CPU 2.47. */
opdb_status opdb_l2_pool2d(const opdb_tensor *x, opdb_ints filter_size, opdb_ints stride,
                           opdb_rows pad_amount, const opdb_tensor *y) {
    return run(x, 2, filter_size, stride, pad_amount, ROOT_MEAN_SQUARE, false, y);
}
