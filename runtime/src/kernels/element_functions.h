/* Functions of one element that C lacks, or has with another meaning: real_ of float or double, whole_ of
 * int64_t.  Integers wrap; division by zero gives 0. */
#ifndef OPDB_ELEMENT_FUNCTIONS_H
#define OPDB_ELEMENT_FUNCTIONS_H

#include "real_float.h"
#include "real_math.h"

/* NaN goes through maximum and minimum, and has the sign 0, as in PyTorch.  Pass a constant bound as b: the
 * compiler then drops the NaN test. */
#define REAL_FUNCTIONS(TYPE, SUFFIX)                                                                         \
    static inline bool real_isnan##SUFFIX(TYPE v) { return v != v; }                                         \
    static inline bool real_isinf##SUFFIX(TYPE v) { return v == INFINITY || v == -INFINITY; }                \
    static inline TYPE real_maximum##SUFFIX(TYPE a, TYPE b) { return b >= a || b != b ? b : a; }             \
    static inline TYPE real_minimum##SUFFIX(TYPE a, TYPE b) { return b <= a || b != b ? b : a; }             \
    static inline TYPE real_sign##SUFFIX(TYPE v) { return (TYPE)((v > 0) - (v < 0)); }

REAL_FUNCTIONS(float, f)
REAL_FUNCTIONS(double, )

/* Python's a % b, with the sign of b; and a // b, exact even if a / b is not: 1 // 0.1 is 9. */
#define REAL_DIVISIONS(TYPE, SUFFIX)                                                                         \
    static inline TYPE real_modulo##SUFFIX(TYPE a, TYPE b) {                                                 \
        TYPE r = fmod##SUFFIX(a, b);                                                                         \
        return r != 0 && (r < 0) != (b < 0) ? r + b : r;                                                     \
    }                                                                                                        \
    static inline TYPE real_floor_divide##SUFFIX(TYPE a, TYPE b) {                                           \
        if (b == 0)                                                                                          \
            return a / b;                                                                                    \
        TYPE r = fmod##SUFFIX(a, b);                                                                         \
        TYPE q = (a - r) / b - (r != 0 && (r < 0) != (b < 0)); /* an integer, apart from rounding */         \
        TYPE whole = floor##SUFFIX(q);                                                                       \
        if (q == 0)                                                                                          \
            return copysign##SUFFIX(0, a / b);                                                               \
        return q - whole > (TYPE)0.5 ? whole + 1 : whole;                                                    \
    }

REAL_DIVISIONS(float, f)
REAL_DIVISIONS(double, )

static inline int64_t whole_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static inline int64_t whole_subtract(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
static inline int64_t whole_multiply(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
static inline int64_t whole_abs(int64_t v) { return v < 0 ? whole_subtract(0, v) : v; }
static inline int64_t whole_maximum(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t whole_minimum(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t whole_sign(int64_t v) { return (v > 0) - (v < 0); }

/* C's a / b, cut toward zero. */
static inline int64_t whole_quotient(int64_t a, int64_t b) {
    return b == 0 ? 0 : b == -1 ? whole_subtract(0, a) : a / b;
}
static inline int64_t whole_fmod(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
static inline int64_t whole_modulo(int64_t a, int64_t b) {
    int64_t r = whole_fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
static inline int64_t whole_floor_divide(int64_t a, int64_t b) {
    int64_t r = whole_fmod(a, b);
    return whole_quotient(a, b) - (r != 0 && (r < 0) != (b < 0));
}

/* Below zero the exponent gives the whole part of a fraction: 1, -1 or 0. */
static inline int64_t whole_power(int64_t a, int64_t b) {
    if (b < 0)
        return a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : 0;
    int64_t r = 1;
    for (; b > 0; b >>= 1, a = whole_multiply(a, a))
        if (b & 1)
            r = whole_multiply(r, a);
    return r;
}

#endif
