#include "move.h"

/* A real number as an integer: truncated toward zero; clamped to the type's range; 0 for NaN. */
static int64_t whole_of(float v) {
    if (v != v)
        return 0;
    return v >= 0x1p63f ? INT64_MAX : v < -0x1p63f ? INT64_MIN : (int64_t)v;
}

/* A quantized tensor as the integers that it stores. */
static opdb_tensor stored(const opdb_tensor *t) {
    static const struct {
        enum opdb_dtype quantized, integer;
    } TYPES[] = {{OPDB_SQ8, OPDB_I8},   {OPDB_UQ8, OPDB_U8},   {OPDB_SQ16, OPDB_I16},
                 {OPDB_UQ16, OPDB_U16}, {OPDB_SQ32, OPDB_I32}, {OPDB_UQ32, OPDB_U32}};
    opdb_tensor plain = *t;
    for (size_t i = 0; i < sizeof TYPES / sizeof TYPES[0]; i++)
        if (t->dtype == TYPES[i].quantized)
            plain.dtype = TYPES[i].integer;
    plain.encoding = OPDB_ENCODING_NONE;
    plain.quant = NULL;
    plain.axis = -1;
    return plain;
}

/* The numbers of x in the type of y; encodings are ignored.  Integers wrap, and nonzero numbers become
 * true. */
opdb_status opdb_cast(const opdb_tensor *given, const opdb_tensor *result) {
    const opdb_tensor numbers = stored(given), made = stored(result), *x = &numbers, *y = &made;
    opdb_kind from = opdb_kind_of(x), to = opdb_kind_of(y);
    if (from == OPDB_NO_KIND || to == OPDB_NO_KIND)
        return OPDB_UNSUPPORTED;
    /* A kind can be read as a higher one; the reverse truncates. */
    opdb_kind between = from < to ? to : from;
    for (int64_t i = 0, n; i < size_of(y); i += n) {
        opdb_numbers in, out;
        n = size_of(y) - i < OPDB_TILE ? size_of(y) - i : OPDB_TILE;
        opdb_read(x, i, 1, n, between, &in);
        for (int64_t j = 0; from > to && j < n; j++)
            if (to == OPDB_WHOLE)
                out.whole[j] = whole_of(in.real[j]);
            else
                out.truth[j] = from == OPDB_REAL ? in.real[j] != 0 : in.whole[j] != 0;
        opdb_write(y, i, n, to, from > to ? &out : &in);
    }
    return OPDB_OK;
}

/* The same real numbers in another type or encoding: Convert, Quantize, Dequantize. */
opdb_status opdb_convert(const opdb_tensor *x, const opdb_tensor *y) {
    if (opdb_kind_of(x) != OPDB_REAL || opdb_kind_of(y) != OPDB_REAL)
        return OPDB_UNSUPPORTED;
    opdb_move_run(x, 0, y, 0, size_of(y));
    return OPDB_OK;
}
