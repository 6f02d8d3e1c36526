/* Real functions of float, without branches, so that a loop over them is vectorised: exp, expm1, tanh,
 * normal_cdf, sin and cos are at most 2, 2, 3, 7, 2 and 2 units in the last place off
 * (tests/native/test_elements.py measures it).  NaN goes through.  A product and a sum may be rounded once or
 * twice (OPDB_FUSED_CLONES): the bound holds for both.  Coefficients are from tools/approximations.py. */
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

/* v = 2 n log(2) + r with |r| <= log(2): returns 2^n, for v from -105 on.  n is held at 65, where r goes on:
 * what is infinite in float becomes so.  Adding 1.5 * 2^23 rounds to an integer; with 127 more the low bits
 * are the exponent of 2^n. */
static inline float real_exp_rootf(float v, float *r) {
    const float shift = 0x1.8p23f + 127, per_step = 0x1.715476p-1f; /* 1 / (2 log(2)) */
    int32_t bits = (int32_t)real_bitsf(v * per_step + shift), top = (int32_t)real_bitsf(shift) + 65;
    bits = bits < top ? bits : top;
    float n = real_of_bitsf((uint32_t)bits) - shift;
    *r = (v - n * 0x1.62e4p+0f) - n * 0x1.7f7d1cp-19f; /* 2 log(2) in two parts; the first product is exact */
    return real_of_bitsf((uint32_t)bits << 23);
}

/* exp(r) - 1 for |r| <= log(2). */
static inline float real_expm1_nearf(float r) {
    static const float EXPM1[] = {0.5f,          0.1666667f,     0.04166667f,   0.008332772f,
                                  0.0013888329f, 0.00020074275f, 2.5034381e-05f};
    enum { LAST = (int)(sizeof EXPM1 / sizeof EXPM1[0]) - 1 };
    float sum = EXPM1[LAST]; /* not 0 * r: r may be infinite */
    for (int i = LAST - 1; i >= 0; i--)
        sum = sum * r + EXPM1[i];
    return sum * (r * r) + r;
}

static inline float real_expf(float v) {
    float r, root = real_exp_rootf(v < -105 ? -105 : v, &r);
    return (1 + real_expm1_nearf(r)) * root * root;
}

/* exp(v) - 1 as root * (root * exp(r) - 1 / root): neither root * root nor 1 / root leaves float. */
static inline float real_expm1f(float v) {
    float r, root = real_exp_rootf(v < -20 ? -20 : v, &r);
    return ((root - 1 / root) + root * real_expm1_nearf(r)) * root;
}

static inline float real_tanhf(float v) {
    float x = fabsf(v), r, root = real_exp_rootf(2 * (x > 10 ? 10 : x), &r), power = root * root;
    float e = (power - 1) + power * real_expm1_nearf(r);
    return copysignf(e / (e + 2), v);
}

/* The chance that a normal number is at most v.  Above x = |v|: exp(-x * x / 2) times a polynomial of
 * t = 1 / (1 + 0.35 x), with x * x in two parts, of which `high * high` is exact. */
static inline float real_normal_cdff(float v) {
    static const float TAIL[] = {0.13961864f, 0.13991433f,  0.119425096f, 0.1072125f,   -0.02732191f,
                                 0.16551016f, -0.26141053f, 0.146784f,    -0.029732276f};
    enum { LAST = (int)(sizeof TAIL / sizeof TAIL[0]) - 1 };
    float x = fabsf(v), t, sum = TAIL[LAST], r;
    x = x > 15 ? 15 : x;
    t = 1 / (1 + 0.35f * x);
    for (int i = LAST - 1; i >= 0; i--)
        sum = sum * t + TAIL[i];
    float high = real_of_bitsf(real_bitsf(x) & 0xfffff000u);
    float root = real_exp_rootf(-0.5f * high * high, &r), tail = t * sum;
    float near = real_expm1_nearf(r - 0.5f * (x - high) * (x + high));
    float upper = (tail + tail * near) * root * root;
    return v < 0 ? upper : 1 - upper;
}

/* v is n quarters of a turn and r radians, |r| <= pi / 4, for |v| < 2^28: pi / 2 in two parts, of which the
 * first has 25 bits, so that its product with n is exact. */
static inline float real_anglef(float v, uint32_t *n) {
    uint64_t quarters;
    double whole = real_rounded(v * (1 / REAL_HALF_PI), &quarters);
    *n = (uint32_t)quarters;
    return (float)(v - whole * 0x1.921fb5p+0 - whole * 0x1.110b4611a6263p-26);
}

/* The sine of n quarters of a turn and r.  The sum takes the sign from -0, which is put back. */
static inline float real_sin_quarterf(uint32_t n, float r) {
    float z = r * r;
    float sine = ((-0.00019587830f * z + 0.0083327480f) * z - 0.16666665f) * (z * r) + r;
    float cosine = (((2.4547881e-05f * z - 0.0013888303f) * z + 0.041666665f) * z - 0.5f) * z + 1;
    uint32_t bits = real_bitsf(sine) | (real_bitsf(r) & 0x80000000u);
    bits = n & 1 ? real_bitsf(cosine) : bits;
    return real_of_bitsf(bits ^ (n & 2) << 30);
}

/* For |v| < 2^28. */
static inline float real_sinf(float v) {
    uint32_t n;
    float r = real_anglef(v, &n);
    return real_sin_quarterf(n, r);
}

/* For |v| < 2^28. */
static inline float real_cosf(float v) {
    uint32_t n;
    float r = real_anglef(v, &n);
    return real_sin_quarterf(n + 1, r);
}

#endif
