#include <math.h>

#include "elements.h"

/* Signed stored integers as real numbers times `scale`, whatever the encoding of the tensor says. */
static int64_t stored_at(const opdb_tensor *t, int64_t i) {
    return t->dtype == OPDB_SQ8 ? ((const int8_t *)t->data)[i] : ((const int16_t *)t->data)[i];
}

static bool is_signed(const opdb_tensor *t) { return t->dtype == OPDB_SQ8 || t->dtype == OPDB_SQ16; }

/* Rounds to the nearest, ties to even, and holds the result between the smallest and the largest integer. */
static void store_at(const opdb_tensor *t, int64_t i, double v) {
    const double most = t->dtype == OPDB_SQ8 ? 127 : 32767, held = held_between(rint(v), -most - 1, most);
    if (t->dtype == OPDB_SQ8)
        ((int8_t *)t->data)[i] = (int8_t)held;
    else
        ((int16_t *)t->data)[i] = (int16_t)held;
}

opdb_status opdb_llama_dequantize(const opdb_tensor *x, double scale, const opdb_tensor *y) {
    if (!is_signed(x) || opdb_kind_of(y) != OPDB_REAL)
        return OPDB_UNSUPPORTED;
    for (int64_t i = 0; i < size_of(x); i++) {
        const float v = (float)((double)stored_at(x, i) * scale);
        opdb_write(y, i, 1, OPDB_REAL, &v);
    }
    return OPDB_OK;
}

/* bias: each axis is that of x, or 1. */
opdb_status opdb_llama_dequantize_add(const opdb_tensor *x, const opdb_tensor *bias, double scale,
                                      const opdb_tensor *y) {
    if (!is_signed(x) || opdb_kind_of(bias) != OPDB_REAL || opdb_kind_of(y) != OPDB_REAL)
        return OPDB_UNSUPPORTED;
    for (int64_t i = 0; i < size_of(x); i++) {
        int64_t at = 0;
        for (int64_t axis = 0; axis < 4; axis++)
            if (bias->dims[axis] > 1)
                at = at * bias->dims[axis] + i / size_between(x, axis + 1, 4) % x->dims[axis];
        float b;
        opdb_read(bias, at, 1, 1, OPDB_REAL, &b);
        const float v = (float)((double)stored_at(x, i) * scale + b);
        opdb_write(y, i, 1, OPDB_REAL, &v);
    }
    return OPDB_OK;
}

opdb_status opdb_llama_quantize(const opdb_tensor *x, double scale, const opdb_tensor *y) {
    if (opdb_kind_of(x) != OPDB_REAL || !is_signed(y))
        return OPDB_UNSUPPORTED;
    for (int64_t i = 0; i < size_of(x); i++) {
        float v;
        opdb_read(x, i, 1, 1, OPDB_REAL, &v);
        store_at(y, i, v / scale);
    }
    return OPDB_OK;
}

/* SiLU of a, times b. */
opdb_status opdb_llama_super_silu(const opdb_tensor *a, const opdb_tensor *b, double a_scale, double b_scale,
                                  double o_scale, const opdb_tensor *y) {
    if (!is_signed(a) || !is_signed(b) || !is_signed(y))
        return OPDB_UNSUPPORTED;
    for (int64_t i = 0; i < size_of(a); i++) {
        const double v = (double)stored_at(a, i) * a_scale;
        store_at(y, i, v / (1 + exp(-v)) * ((double)stored_at(b, i) * b_scale) / o_scale);
    }
    return OPDB_OK;
}

/* Scores [.., queries, keys]: a query sees the keys up to its own, which is the last one for the last query.
 */
opdb_status opdb_llama_causal_mask(const opdb_tensor *x, const opdb_tensor *y) {
    const int64_t queries = x->dims[2], keys = x->dims[3];
    const float hidden = -65504; /* the lowest number of float16 */
    if (opdb_kind_of(x) != OPDB_REAL || opdb_kind_of(y) != OPDB_REAL)
        return OPDB_UNSUPPORTED;
    for (int64_t i = 0; i < size_of(x); i++) {
        float v;
        opdb_read(x, i, 1, 1, OPDB_REAL, &v);
        v = i % keys > i / keys % queries + keys - queries ? hidden : v;
        opdb_write(y, i, 1, OPDB_REAL, &v);
    }
    return OPDB_OK;
}
