/* Runs of elements of any data type as what they mean: float, int64_t, or truth values (uint8_t, 0 or 1).
 *
 * Real: f32, f16, bf16, and quantised types, whose value is (stored + offset) * scale.  Whole: integers of
 * 8 to 64 bits.  Truth: bool8.  Writing rounds once, to the nearest, ties to even; a quantised result is
 * held at its smallest and largest stored value, and a NaN is stored as the smallest; integers wrap. */
#ifndef OPDB_ELEMENTS_H
#define OPDB_ELEMENTS_H

#include "kernel.h"

typedef enum { OPDB_NO_KIND, OPDB_TRUTH, OPDB_WHOLE, OPDB_REAL } opdb_kind;

/* Elements of one kind as they are computed with. */
enum { OPDB_TILE = 512 };
typedef union {
    float real[OPDB_TILE];
    int64_t whole[OPDB_TILE];
    uint8_t truth[OPDB_TILE];
} opdb_numbers;

/* What the elements of a tensor are; OPDB_NO_KIND for types without whole bytes, f64, strings, and for
 * encodings in blocks or vectors. */
opdb_kind opdb_kind_of(const opdb_tensor *t);

/* The bytes of one element of a kind as it is computed with: 4, 8 or 1. */
size_t opdb_computed_size(opdb_kind kind);

/* Whether the elements are stored as they are computed with. */
bool opdb_is_plain(const opdb_tensor *t);

/* Reads elements `at`, `at` + step, ... as float, int64_t or uint8_t.  A kind may be read as a higher one. */
void opdb_read(const opdb_tensor *t, int64_t at, int64_t step, int64_t n, opdb_kind as, void *to);

/* Writes n neighbours from `at` on. */
void opdb_write(const opdb_tensor *t, int64_t at, int64_t n, opdb_kind from_kind, const void *from);

#endif
