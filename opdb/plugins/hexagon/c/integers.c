/* Integer division, for which Hexagon has no instruction; clang calls these functions for / and %, so this
 * file must not use either. */
#include <stdint.h>

/* 1 / b to 45 bits or more. */
static double reciprocal(double b) {
    double y = (double)(1.0f / (float)b);
    y *= 2.0 - b * y;
    return y * (2.0 - b * y);
}

/* a / b, and the remainder. Each step subtracts slightly less than what is left, so that nothing becomes
 * negative. */
static uint64_t divided(uint64_t a, uint64_t b, uint64_t *rest) {
    uint64_t quotient = 0;
    if (a >= b && b != 0) {
        const double y = reciprocal((double)b) * (1.0 - 0x1p-40);
        while (a >= b) {
            uint64_t step = (uint64_t)((double)a * y);
            step += step == 0;
            quotient += step;
            a -= step * b;
        }
    }
    *rest = a;
    return quotient;
}

static uint64_t magnitude(int64_t v) { return v < 0 ? -(uint64_t)v : (uint64_t)v; }

static int64_t with_sign(uint64_t v, int negative) { return (int64_t)(negative ? -v : v); }

uint64_t __hexagon_udivdi3(uint64_t a, uint64_t b) {
    uint64_t rest;
    return divided(a, b, &rest);
}

uint64_t __hexagon_umoddi3(uint64_t a, uint64_t b) {
    uint64_t rest;
    divided(a, b, &rest);
    return rest;
}

int64_t __hexagon_divdi3(int64_t a, int64_t b) {
    uint64_t rest;
    return with_sign(divided(magnitude(a), magnitude(b), &rest), (a < 0) != (b < 0));
}

int64_t __hexagon_moddi3(int64_t a, int64_t b) {
    uint64_t rest;
    divided(magnitude(a), magnitude(b), &rest);
    return with_sign(rest, a < 0);
}

uint32_t __hexagon_udivsi3(uint32_t a, uint32_t b) { return (uint32_t)__hexagon_udivdi3(a, b); }
uint32_t __hexagon_umodsi3(uint32_t a, uint32_t b) { return (uint32_t)__hexagon_umoddi3(a, b); }
int32_t __hexagon_divsi3(int32_t a, int32_t b) { return (int32_t)__hexagon_divdi3(a, b); }
int32_t __hexagon_modsi3(int32_t a, int32_t b) { return (int32_t)__hexagon_moddi3(a, b); }
