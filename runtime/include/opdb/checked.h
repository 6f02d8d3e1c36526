/* The C side of the rule language: checked 64-bit arithmetic, views of lists, and (through the two
 * headers below) computed lists and reports.  A partial operation takes `bool *ok` and clears it, and
 * returns 0 or an empty list, where Python would raise: out of range, division by zero, overflow,
 * reading an absent value.  It never sets `*ok`, so that one flag serves a whole expression. */
#ifndef OPDB_CHECKED_H
#define OPDB_CHECKED_H

#include "opdb/lists.h"
#include "opdb/report.h"
#include "opdb/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Arithmetic.  The overflow builtins are GNU C (gcc >= 5, clang); there is no C99 spelling as cheap. */

static inline int64_t opdb_add(int64_t a, int64_t b, bool *ok) {
    int64_t r;
    if (!__builtin_add_overflow(a, b, &r))
        return r;
    *ok = false;
    return 0;
}

static inline int64_t opdb_sub(int64_t a, int64_t b, bool *ok) {
    int64_t r;
    if (!__builtin_sub_overflow(a, b, &r))
        return r;
    *ok = false;
    return 0;
}

static inline int64_t opdb_mul(int64_t a, int64_t b, bool *ok) {
    int64_t r;
    if (!__builtin_mul_overflow(a, b, &r))
        return r;
    *ok = false;
    return 0;
}

static inline int64_t opdb_neg(int64_t a, bool *ok) { return opdb_sub(0, a, ok); }

/* Python's //: rounds towards minus infinity. */
static inline int64_t opdb_floordiv(int64_t a, int64_t b, bool *ok) {
    if (b == 0 || (a == INT64_MIN && b == -1)) {
        *ok = false;
        return 0;
    }
    return a / b - ((a % b != 0) & ((a < 0) != (b < 0)));
}

/* Python's %: the result has the sign of b. */
static inline int64_t opdb_floormod(int64_t a, int64_t b, bool *ok) {
    if (b == 0) {
        *ok = false;
        return 0;
    }
    if (b == -1)
        return 0; /* INT64_MIN % -1 traps */
    int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static inline int64_t opdb_min(int64_t a, int64_t b) { return b < a ? b : a; }
static inline int64_t opdb_max(int64_t a, int64_t b) { return b > a ? b : a; }
static inline double opdb_to_float(int64_t a) { return (double)a; }

/* Indexing.  A negative index counts from the end, as in Python. */

/* The index i of a list of n values as one of 0 .. n - 1. */
static inline int64_t opdb_index(int64_t i, int64_t n, bool *ok) {
    if (i < 0)
        i += n;
    if (i >= 0 && i < n)
        return i;
    *ok = false;
    return -1;
}

static inline int64_t opdb_at(opdb_ints s, int64_t i, bool *ok) {
    i = opdb_index(i, s.n, ok);
    return i < 0 ? 0 : s.v[i];
}

/* Tensor number i of a variadic slot; the empty tensor where there is none. */
static inline const opdb_tensor *opdb_nth(opdb_tensors s, int64_t i, bool *ok) {
    i = opdb_index(i, s.n, ok);
    if (i >= 0 && s.v[i] != NULL)
        return s.v[i];
    *ok = false;
    return &opdb_no_tensor;
}

/* Row i of a parameter of rank 2. */
static inline opdb_ints opdb_row(opdb_rows s, int64_t i, bool *ok) {
    opdb_ints row = {0, NULL};
    i = opdb_index(i, s.n, ok);
    if (i < 0)
        return row;
    row.n = s.width;
    row.v = s.width > 0 ? s.v + i * s.width : NULL;
    return row;
}

/* Views. */

static inline opdb_ints opdb_shape(const opdb_tensor *t) {
    opdb_ints s = {(int64_t)t->rank, t->dims};
    return s;
}

/* The values of a tensor; undecidable where they are not known. */
static inline opdb_ints opdb_values(const opdb_tensor *t, bool *ok) {
    const opdb_ints none = {0, NULL};
    *ok &= t->values != NULL;
    return t->values != NULL ? *t->values : none;
}

/* The shape of a tensor that may have been left out. */
static inline opdb_ints opdb_shape_of(const opdb_tensor *t, bool *ok) {
    if (t != NULL)
        return opdb_shape(t);
    *ok = false;
    return opdb_shape(&opdb_no_tensor);
}

static inline opdb_ints opdb_view(const opdb_list *list) {
    opdb_ints s = {list->n, list->v};
    return s;
}

/* s[lo:hi] without a copy; bounds are clamped as in Python, `has_lo` false means "from the start". */
static inline opdb_ints opdb_slice(opdb_ints s, bool has_lo, int64_t lo, bool has_hi, int64_t hi) {
    if (!has_lo)
        lo = 0;
    if (!has_hi)
        hi = s.n;
    if (lo < 0)
        lo = opdb_max(lo + s.n, 0);
    if (hi < 0)
        hi = opdb_max(hi + s.n, 0);
    hi = opdb_min(hi, s.n);
    opdb_ints r = {0, NULL};
    if (lo >= hi)
        return r;
    r.n = hi - lo;
    r.v = s.v + lo;
    return r;
}

#ifdef __cplusplus
}
#endif
#endif
