/* What the kernels share.  Every kernel: float32 unless it only moves elements, dense row-major data
 * aligned to its element, outputs that overlap no input, shapes already validated; no allocation, no
 * input or output, no state.  A dtype without a kernel gives OPDB_UNSUPPORTED and writes nothing. */
#ifndef OPDB_KERNEL_H
#define OPDB_KERNEL_H

#include "opdb/kernels.h"

/* The bytes of one element; 0 for types that are not whole bytes, and for strings. */
static inline size_t element_size(enum opdb_dtype t) {
    switch (t) {
    case OPDB_I8:
    case OPDB_U8:
    case OPDB_SQ8:
    case OPDB_UQ8:
    case OPDB_BOOL8:
        return 1;
    case OPDB_I16:
    case OPDB_U16:
    case OPDB_F16:
    case OPDB_BF16:
    case OPDB_SQ16:
    case OPDB_UQ16:
        return 2;
    case OPDB_I32:
    case OPDB_U32:
    case OPDB_F32:
    case OPDB_SQ32:
    case OPDB_UQ32:
        return 4;
    case OPDB_I64:
    case OPDB_U64:
    case OPDB_F64:
        return 8;
    default:
        return 0;
    }
}

/* True for float32, and for a tensor that has been left out. */
static inline bool is_f32(const opdb_tensor *t) { return t == NULL || t->dtype == OPDB_F32; }

/* The number of elements in dims [from, to). */
static inline int64_t size_between(const opdb_tensor *t, int64_t from, int64_t to) {
    int64_t n = 1;
    for (int64_t i = from; i < to; i++)
        n *= t->dims[i];
    return n;
}

static inline int64_t size_of(const opdb_tensor *t) { return size_between(t, 0, t->rank); }

/* A number held between two others; what is no number becomes the low one. */
static inline double held_between(double v, double low, double high) {
    return v > low ? (v < high ? v : high) : low;
}

#endif
