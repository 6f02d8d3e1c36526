/* Real functions of double for results in float: 2^-36 of the value off at most, without branches, so that a
 * loop over them is vectorized.  Arguments are float numbers, or results of a few operations on them; results
 * beyond float become infinite there.  NaN goes through.
 *
 * Series are the textbook ones, cut where they are exact enough; the other coefficients are from
 * tools/approximations.py. */
#ifndef OPDB_REAL_MATH_H
#define OPDB_REAL_MATH_H

#include "quarter_turns.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define REAL_LOG_2 0.693147180559945309417
#define REAL_HALF_PI 1.57079632679489661923
#define REAL_PI 3.14159265358979323846

/* Bits are unsigned: shifting those of NaN and of negative numbers wraps. */
static inline uint64_t real_bits(double v) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static inline double real_of_bits(uint64_t bits) {
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static inline double real_clamped(double v, double low, double high) {
    v = v < low ? low : v;
    return v > high ? high : v;
}

/* Adding 1.5 * 2^52 rounds to an integer, which the low bits then hold. */
static inline double real_rounded(double v, uint64_t *integer) {
    const double shift = 0x1.8p52;
    double moved = v + shift;
    *integer = real_bits(moved) - real_bits(shift);
    return moved - shift;
}

/* exp(r) - 1 for |r| <= log(2) / 2, by its series. */
static inline double real_expm1_near(double r) {
    double sum = 1.0 / 3628800;
    sum = sum * r + 1.0 / 362880;
    sum = sum * r + 1.0 / 40320;
    sum = sum * r + 1.0 / 5040;
    sum = sum * r + 1.0 / 720;
    sum = sum * r + 1.0 / 120;
    sum = sum * r + 1.0 / 24;
    sum = sum * r + 1.0 / 6;
    sum = sum * r + 1.0 / 2;
    return (sum * r + 1) * r;
}

/* v = n log(2) + r: `near` is exp(r) - 1, and 2^n is returned. */
static inline double real_exp_parts(double v, double *near) {
    uint64_t n;
    v = real_clamped(v, -708, 709);
    double whole = real_rounded(v * (1 / REAL_LOG_2), &n);
    *near = real_expm1_near(v - whole * REAL_LOG_2);
    return real_of_bits((n + 1023) << 52);
}

static inline double real_exp(double v) {
    double near, power = real_exp_parts(v, &near);
    return power + power * near;
}

static inline double real_expm1(double v) {
    double near, power = real_exp_parts(v, &near);
    return (power - 1) + power * near;
}

/* v = m 2^e with m from sqrt(1/2) to sqrt(2); log(m) by the series of artanh((m - 1) / (m + 1)). */
static inline double real_log_positive(double v) {
    const double shift = 0x1.8p52;
    uint64_t bits = real_bits(v);
    int64_t e = (int64_t)(bits - real_bits(0.70710678118654752440)) >> 52;
    double m = real_of_bits(bits - ((uint64_t)e << 52)), s = (m - 1) / (m + 1), z = s * s;
    double sum = 1.0 / 17;
    sum = sum * z + 1.0 / 15;
    sum = sum * z + 1.0 / 13;
    sum = sum * z + 1.0 / 11;
    sum = sum * z + 1.0 / 9;
    sum = sum * z + 1.0 / 7;
    sum = sum * z + 1.0 / 5;
    sum = sum * z + 1.0 / 3;
    double exponent = real_of_bits((uint64_t)e + real_bits(shift)) - shift;
    return exponent * REAL_LOG_2 + (2 * s + 2 * s * z * sum);
}

static inline double real_log(double v) {
    double found = real_log_positive(v);
    found = v > 0 ? found : v == 0 ? -INFINITY : NAN;
    return v == INFINITY ? v : found;
}

/* 1 + v is rounded; the lost part is added back. */
static inline double real_log1p(double v) {
    double u = 1 + v, found = real_log(u) + (v - (u - 1)) / u;
    return u == 0 || u == INFINITY ? real_log(u) : found;
}

static inline double real_tanh(double v) {
    double e = real_expm1(2 * real_clamped(v, -20, 20));
    return e / (e + 2);
}

/* exp(-x * x) times a polynomial of t = 2 / (2 + x) for x = |v|; 2 - that below zero. */
static inline double real_erfc(double v) {
    static const double TAIL[] = {0.2820948364977185,   0.28209450766150895, 0.24681126130319123,
                                  0.17682238286799556,  0.07815717752187239, 0.032799813229876754,
                                  -0.22264227495174885, 0.46059578161918613, -1.1182817158396128,
                                  1.70392444803127,     -1.519809048016651,  0.8053179099556771,
                                  -0.23866276760501273, 0.030777687739489225};
    double x = fabs(v), t, sum = 0;
    x = x > 27 ? 27 : x;
    t = 2 / (2 + x);
    for (int i = (int)(sizeof TAIL / sizeof TAIL[0]) - 1; i >= 0; i--)
        sum = sum * t + TAIL[i];
    double upper = x == 27 ? 0 : real_exp(-x * x) * (t * sum); /* too small, also times the largest float */
    return v < 0 ? 2 - upper : upper;
}

/* v times the probability that a normal variable is at most v. */
static inline double real_gelu(double v) { return 0.5 * v * real_erfc(-0.70710678118654752440 * v); }

/* v is n + f quarters of a turn, f up to 1/2: returns f in radians.  v is 2^k times a number below 2^24,
 * which is whole unless k is 0: whole turns of 2^k can be dropped before the product. */
static inline double real_angle(double v, uint64_t *n) {
    int64_t k = (int64_t)(real_bits(v) >> 52 & 0x7ff) - (1023 + 23);
    k = k < 0 ? 0 : k;
    k = k > QUARTER_TURNS - 1 ? QUARTER_TURNS - 1 : k;
    double s = v * real_of_bits((uint64_t)(1023 - k) << 52);
    double high = s * QUARTER_TURNS_HIGH[k], middle = s * QUARTER_TURNS_MIDDLE[k];
    double whole = real_rounded(high + middle, n);
    return ((high - whole) + middle + s * QUARTER_TURNS_LOW[k]) * REAL_HALF_PI;
}

/* The sine of n quarter turns plus r, for |r| <= pi / 4, by its series and that of the cosine. */
static inline double real_sin_of(uint64_t n, double r) {
    double z = r * r, sine = 1.0 / 6227020800, cosine = 1.0 / 479001600;
    sine = sine * z - 1.0 / 39916800;
    sine = sine * z + 1.0 / 362880;
    sine = sine * z - 1.0 / 5040;
    sine = sine * z + 1.0 / 120;
    sine = sine * z - 1.0 / 6;
    cosine = cosine * z - 1.0 / 3628800;
    cosine = cosine * z + 1.0 / 40320;
    cosine = cosine * z - 1.0 / 720;
    cosine = cosine * z + 1.0 / 24;
    cosine = cosine * z - 1.0 / 2;
    double found = n & 1 ? 1 + z * cosine : r * (1 + z * sine);
    return real_of_bits(real_bits(found) ^ (n & 2) << 62);
}

static inline double real_sin(double v) {
    uint64_t n;
    double r = real_angle(v, &n);
    return real_sin_of(n, r);
}

static inline double real_cos(double v) {
    uint64_t n;
    double r = real_angle(v, &n);
    return real_sin_of(n + 1, r);
}

static inline double real_atan(double v) {
    static const double ATAN[] = {0.9999999999293037,    -0.3333333129088999,  0.19999901102171555,
                                  -0.14283813255743194,  0.11091922963683302,  -0.08974171958363882,
                                  0.07228278345377252,   -0.05395668057137172, 0.033826218952786875,
                                  -0.015828322749149415, 0.00473248419342192,  -0.0006633954571104787};
    double x = fabs(v), inner = x > 1 ? 1 / x : x, z = inner * inner, sum = 0;
    for (int i = (int)(sizeof ATAN / sizeof ATAN[0]) - 1; i >= 0; i--)
        sum = sum * z + ATAN[i];
    double found = x > 1 ? REAL_HALF_PI - inner * sum : inner * sum;
    return copysign(found, v);
}

/* Above 1/2: pi / 2 - 2 asin(sqrt((1 - x) / 2)). */
static inline double real_asin(double v) {
    static const double ASIN[] = {0.9999999999863537,    0.16666667364186447, 0.07499941908754719,
                                  0.04466113930866896,   0.03010250689966149, 0.024650862660604088,
                                  0.0074010072390753795, 0.0347484248080839};
    double x = fabs(v), far = (1 - x) / 2, z = x > 0.5 ? far : x * x, sum = 0;
    for (int i = (int)(sizeof ASIN / sizeof ASIN[0]) - 1; i >= 0; i--)
        sum = sum * z + ASIN[i];
    double root = x > 0.5 ? sqrt(far) : x, found = root * sum;
    return copysign(x > 0.5 ? REAL_HALF_PI - 2 * found : found, v);
}

/* C's pow.  The sign is that of a if b is odd. */
static inline double real_power(double a, double b) {
    double size = fabs(a), found = real_exp(b * real_log(size));
    bool whole = b == rint(b), odd = whole && b / 2 != rint(b / 2);
    found = a < 0 && !whole && size != INFINITY ? NAN : found;
    found = odd ? copysign(found, a) : found;
    bool one = b == 0 || a == 1 || (size == 1 && fabs(b) == INFINITY);
    return one ? 1 : found;
}

#endif
