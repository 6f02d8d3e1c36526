/* Doubles as integers times powers of two. */
#ifndef OPDB_HEXAGON_REALS_H
#define OPDB_HEXAGON_REALS_H

#include <stdint.h>
#include <string.h>

#define SIGN_BIT (1ull << 63)
#define INFINITE (0x7ffull << 52)
#define NOT_A_NUMBER (0xfff8ull << 48) /* as x86-64 makes it */

static inline uint64_t bits_of(double v) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static inline double of_bits(uint64_t bits) {
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* |v| = m * 2^*exponent with m in [2^52, 2^53); v is finite and not 0. */
static inline uint64_t parts_of(double v, int *exponent) {
    const uint64_t bits = bits_of(v) & ~SIGN_BIT;
    uint64_t m = bits & ((1ull << 52) - 1);
    int e = (int)(bits >> 52);
    if (e != 0) {
        m |= 1ull << 52;
    } else {
        const int up = __builtin_clzll(m) - 11;
        m <<= up;
        e = 1 - up;
    }
    *exponent = e - 1075;
    return m;
}

/* m * 2^exponent, rounded once to nearest even.  m is not 0, and its last bit says whether anything is below
 * it. */
double opdb_rounded(uint64_t sign, uint64_t m, int exponent);

#endif
