/* Quotients, roots, remainders and roundings of doubles, each rounded once.  Hexagon v68 has instructions for
 * their sums, products, comparisons and conversions, and for quotients of floats. */
#include <math.h>

#include "reals.h"

double opdb_rounded(uint64_t sign, uint64_t m, int exponent) {
    const int top = 63 - __builtin_clzll(m); /* is to be 55: 53 bits, and 3 that decide */
    if (top > 55)
        m = m >> (top - 55) | ((m & ((1ull << (top - 55)) - 1)) != 0);
    else
        m <<= 55 - top;
    int biased = exponent + top + 1023;
    if (biased >= 2047)
        return of_bits(sign | INFINITE);
    if (biased <= 0) { /* subnormal */
        const int down = 1 - biased;
        m = down > 60 ? 1 : m >> down | ((m & ((1ull << down) - 1)) != 0);
        biased = 1; /* without the hidden bit, the sum below makes it 0 */
    }
    uint64_t bits = ((uint64_t)(biased - 1) << 52) + (m >> 3);
    const unsigned below = (unsigned)(m & 7);
    bits += below > 4 || (below == 4 && (bits & 1) != 0); /* may carry into the exponent, as it should */
    return of_bits(sign | bits);
}

double __hexagon_divdf3(double a, double b) {
    const uint64_t sign = (bits_of(a) ^ bits_of(b)) & SIGN_BIT;
    const uint64_t x = bits_of(a) & ~SIGN_BIT, y = bits_of(b) & ~SIGN_BIT;
    if (x > INFINITE || y > INFINITE)
        return a + b;
    if (x == INFINITE || y == 0)
        return of_bits(y == INFINITE || x == 0 ? NOT_A_NUMBER : sign | INFINITE);
    if (x == 0 || y == INFINITE)
        return of_bits(sign);
    int ea, eb;
    const uint64_t m = parts_of(a, &ea), n = parts_of(b, &eb);
    double inverse = (double)(1.0f / (float)n);
    inverse *= 2.0 - (double)n * inverse;
    inverse *= 2.0 - (double)n * inverse;
    /* The quotient of m * 2^55 is off by some units at first; the remainder modulo 2^64 tells by how many. */
    uint64_t quotient = (uint64_t)((double)m * inverse * 0x1p55);
    int64_t rest = (int64_t)((m << 55) - quotient * n);
    const int64_t more = (int64_t)((double)rest * inverse);
    quotient += (uint64_t)more;
    rest -= more * (int64_t)n;
    for (; rest < 0; rest += (int64_t)n)
        quotient--;
    for (; rest >= (int64_t)n; rest -= (int64_t)n)
        quotient++;
    return opdb_rounded(sign, quotient | (rest != 0), ea - eb - 55);
}

double sqrt(double v) {
    const uint64_t bits = bits_of(v);
    if (bits << 1 == 0 || bits == INFINITE)
        return v;
    if ((bits & ~SIGN_BIT) > INFINITE)
        return v + v;
    if (bits & SIGN_BIT)
        return of_bits(NOT_A_NUMBER);
    int e;
    uint64_t m = parts_of(v, &e);
    if (e & 1) {
        m <<= 1;
        e--;
    }
    const double x = (double)m;
    double y = of_bits(0x5fe6eb50c7b537a9ull - (bits_of(x) >> 1)); /* 1 / sqrt(x) to 4 bits */
    for (int i = 0; i < 4; i++)
        y *= 1.5 - 0.5 * x * y * y;
    /* The root of m * 2^56 is off by some units at first; the remainder modulo 2^64 tells by how many. */
    uint64_t root = (uint64_t)(x * y * 0x1p28);
    int64_t rest = (int64_t)((m << 56) - root * root);
    const int64_t more = (int64_t)((double)rest * (y * 0x1p-29));
    rest -= more * (int64_t)(2 * root + (uint64_t)more);
    root += (uint64_t)more;
    for (; rest < 0; rest += (int64_t)(2 * root + 1))
        root--;
    for (; rest > (int64_t)(2 * root); root++)
        rest -= (int64_t)(2 * root + 1);
    return opdb_rounded(0, root | (rest != 0), e / 2 - 28);
}

/* Quotients and roots of floats: rounding those of doubles again gives the right ones (53 >= 2 * 24 + 2). */
float __hexagon_divsf3(float a, float b) { return (float)__hexagon_divdf3(a, b); }
float sqrtf(float v) { return (float)sqrt(v); }
float __hexagon_sqrtf(float v) { return (float)sqrt(v); }
double __hexagon_sqrtdf2(double v) { return sqrt(v); }

/* Small numbers become whole when added to 2^52. */
double rint(double v) {
    const uint64_t sign = bits_of(v) & SIGN_BIT;
    const double size = fabs(v), big = 0x1p52;
    if (!(size < big))
        return v + 0.0;
    return of_bits(bits_of((size + big) - big) | sign);
}

double floor(double v) {
    const double whole = rint(v);
    return whole > v ? whole - 1.0 : whole;
}

double ceil(double v) {
    const double whole = rint(v);
    return whole < v ? copysign(whole + 1.0, v) : whole; /* -0.5 becomes -0 */
}

float rintf(float v) { return (float)rint(v); }
float floorf(float v) { return (float)floor(v); }
float ceilf(float v) { return (float)ceil(v); }

double ldexp(double v, int n) {
    if (v == 0 || !isfinite(v))
        return v;
    int e;
    const uint64_t m = parts_of(v, &e);
    n = n > 5000 ? 5000 : n < -5000 ? -5000 : n;
    return opdb_rounded(bits_of(v) & SIGN_BIT, m << 3, e - 3 + n);
}

double fmod(double a, double b) {
    const uint64_t x = bits_of(a) & ~SIGN_BIT, y = bits_of(b) & ~SIGN_BIT, sign = bits_of(a) & SIGN_BIT;
    if (x > INFINITE || y > INFINITE)
        return a + b;
    if (x == INFINITE || y == 0)
        return of_bits(NOT_A_NUMBER);
    if (x < y)
        return a;
    int ea, eb;
    uint64_t m = parts_of(a, &ea);
    const uint64_t n = parts_of(b, &eb);
    for (; ea > eb; ea--) {
        m -= m >= n ? n : 0;
        m <<= 1;
    }
    m -= m >= n ? n : 0;
    return m == 0 ? of_bits(sign) : opdb_rounded(sign, m << 3, eb - 3);
}

float fmodf(float a, float b) { return (float)fmod(a, b); }
