/* Real functions of float, without branches, so that a loop over them is vectorized: exp, expm1, tanh,
 * gelu, sin and cos are at most 2, 2, 3, 7, 2.1 and 2.1 units in the last place off
 * (tests/runtime/native/test_elements.py measures it).  NaN goes through.  A product and a sum may be rounded
 * once or twice (OPDB_FUSED_CLONES): the bound holds for both.  Coefficients are from
 * tools/approximations.py. */
#ifndef OPDB_REAL_FLOAT_H
#define OPDB_REAL_FLOAT_H

#include "real_math.h"

static inline uint32_t real_bitsf(float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static inline float real_of_bitsf(uint32_t bits) {
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* v = 2 n log(2) + r with |r| <= log(2): returns 2^n, for v from -105 on.  n is limited to 65 while r grows
 * on, so that results beyond float become infinite.  Adding 1.5 * 2^23 rounds to an integer; with 127 more
 * the low bits are the exponent of 2^n. */
static inline float real_exp_rootf(float v, float *r) {
    const float shift = 0x1.8p23f + 127, per_step = 0x1.715476p-1f; /* 1 / (2 log(2)) */
    int32_t bits = (int32_t)real_bitsf(v * per_step + shift), top = (int32_t)real_bitsf(shift) + 65;
    bits = bits < top ? bits : top;
    float n = real_of_bitsf((uint32_t)bits) - shift;
    *r = (v - n * 0x1.62e4p+0f) - n * 0x1.7f7d1cp-19f; /* 2 log(2) in two parts; the first product is exact */
    return real_of_bitsf((uint32_t)bits << 23);
}

/* Coefficients are an array, of the lowest power first.  Evaluation begins with the last: 0 * x must not
 * occur, as x may be infinite. */
static inline float real_polynomialf(const float *coefficients, int last, float x) {
    float sum = coefficients[last];
    for (int i = last - 1; i >= 0; i--)
        sum = sum * x + coefficients[i];
    return sum;
}
#define REAL_POLYNOMIALF(ARRAY, X) real_polynomialf(ARRAY, (int)(sizeof(ARRAY) / sizeof(ARRAY)[0]) - 1, X)

/* exp(r) - 1 for |r| <= log(2). */
static inline float real_expm1_nearf(float r) {
    static const float EXPM1[] = {0.5f,          0.1666667f,     0.04166667f,   0.008332772f,
                                  0.0013888329f, 0.00020074275f, 2.5034381e-05f};
    return REAL_POLYNOMIALF(EXPM1, r) * (r * r) + r;
}

static inline float real_expf(float v) {
    float r, root = real_exp_rootf(v < -105 ? -105 : v, &r);
    return (1 + real_expm1_nearf(r)) * root * root;
}

/* exp(v) - 1 as root * (root * exp(r) - 1 / root): neither root * root nor 1 / root overflows. */
static inline float real_expm1f(float v) {
    float r, root = real_exp_rootf(v < -20 ? -20 : v, &r);
    return ((root - 1 / root) + root * real_expm1_nearf(r)) * root;
}

static inline float real_tanhf(float v) {
    float x = fabsf(v), r, root = real_exp_rootf(2 * (x > 10 ? 10 : x), &r), power = root * root;
    float e = (power - 1) + power * real_expm1_nearf(r);
    return copysignf(e / (e + 2), v);
}

/* v times the probability that a normal variable is at most v: max(v, 0) minus x times the probability of
 * more than x = |v|, which is exp(-x * x / 2) times a fraction of x.  x * x is `high * high`, which is exact,
 * and the rest; with n for 1 / (2 log(2)) of it, r is at most log(2) in size before the rest is added.  Below
 * 2^-126 the power is 0.  v - v is 0, but NaN for minus infinity, as in PyTorch. */
static inline float real_geluf(float v) {
    static const float ABOVE[] = {48.729744f, 42.650192f, 17.810802f, 3.9445617f, 0.39894733f};
    static const float BELOW[] = {97.45949f, 163.06184f, 116.99594f, 45.629948f, 9.888213f, 1};
    static const float HALF_EXP[] = {1,           -0.5f,           0.124999986f,  -0.020833183f,
                                     0.00260444f, -0.00026147018f, 2.1124423e-05f};
    const float shift = 0x1.8p23f + 127, per_step = -0x1.715476p-1f; /* -1 / (2 log(2)) */
    int32_t size = (int32_t)(real_bitsf(v) & 0x7fffffffu), most = (int32_t)real_bitsf(100);
    float x =
        real_of_bitsf((uint32_t)(size < most ? size : most)); /* of NaN too, so that there is no branch */
    float high = real_of_bitsf(real_bitsf(x) & 0xfffff000u);
    float moved = high * high * per_step + shift, n = moved - shift;
    int32_t bits = (int32_t)real_bitsf(moved), least = (int32_t)real_bitsf(shift - 127);
    float power = real_of_bitsf((uint32_t)(bits < least ? least : bits) << 23);
    float r = ((high * high + n * 0x1.62e4p+0f) + n * 0x1.7f7d1cp-19f) + (x - high) * (x + high);
    float tail = x * REAL_POLYNOMIALF(ABOVE, x) / REAL_POLYNOMIALF(BELOW, x);
    return (v < 0 ? v - v : v) - tail * REAL_POLYNOMIALF(HALF_EXP, r) * power;
}

/* The sine for |r| <= pi / 2, but 0 for -0. */
static inline float real_sin_nearf(float r) {
    static const float SINE[] = {-0.16666667f, 0.008333206f, -0.00019817994f, 2.6220202e-06f};
    float z = r * r;
    return REAL_POLYNOMIALF(SINE, z) * (z * r) + r;
}

/* v minus half turns, whole ones and possibly half of one: pi in two parts, of which the first has 25 bits,
 * so that its product is exact. */
static inline float real_less_halvesf(double v, double halves) {
    return (float)(v - halves * 0x1.921fb5p+1 - halves * 0x1.110b4611a6263p-25);
}

/* For |v| < 2^28. */
static inline float real_sinf(float v) {
    uint64_t n;
    float r = real_less_halvesf(v, real_rounded(v * (1 / REAL_PI), &n));
    uint32_t bits = real_bitsf(real_sin_nearf(r)) | (real_bitsf(r) & 0x80000000u);
    return real_of_bitsf(bits ^ (uint32_t)n << 31);
}

/* For |v| < 2^28: the sine of v plus a quarter turn. */
static inline float real_cosf(float v) {
    uint64_t n;
    float r = real_less_halvesf(v, real_rounded(v * (1 / REAL_PI) + 0.5, &n) - 0.5);
    return real_of_bitsf(real_bitsf(real_sin_nearf(r)) ^ (uint32_t)n << 31);
}

#endif
