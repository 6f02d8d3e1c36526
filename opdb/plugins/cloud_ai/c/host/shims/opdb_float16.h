/* float16_ty of AIC kernels for compilers without __fp16: 16 bits in memory, float in arithmetic, like
 * __fp16. */
#pragma once

#if !defined(__hexagon__) && !defined(__aarch64__)
#ifdef __cplusplus
#include <stdint.h>
#include <string.h>

class float16_ty {
    uint16_t bits;

  public:
    float16_ty() = default;
    float16_ty(float value) {
        uint32_t x;
        memcpy(&x, &value, sizeof x);
        const uint32_t sign = x >> 16 & 0x8000, whole = x & 0x7fffffff;
        if (whole > 0x7f800000) { /* not a number */
            bits = (uint16_t)(sign | 0x7e00);
        } else if (whole >= 0x477ff000) { /* rounds to 2^16 or more */
            bits = (uint16_t)(sign | 0x7c00);
        } else if (whole < 0x38800000) { /* subnormal: the addition rounds to a multiple of 2^-24 */
            float magnitude, bias = 0.5f;
            memcpy(&magnitude, &whole, sizeof magnitude);
            magnitude += bias;
            uint32_t sum, base;
            memcpy(&sum, &magnitude, sizeof sum);
            memcpy(&base, &bias, sizeof base);
            bits = (uint16_t)(sign | (sum - base));
        } else { /* to the nearest, ties to even */
            const uint32_t odd = whole >> 13 & 1;
            bits = (uint16_t)(sign | ((whole - 0x38000000 + 0xfff + odd) >> 13));
        }
    }
    operator float() const {
        const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, whole = bits & 0x7fff;
        float value;
        if (whole < 0x400) {
            value = (float)whole * 5.9604644775390625e-8f; /* 2^-24 */
            return sign != 0 ? -value : value;
        }
        const uint32_t x =
            sign | (whole >= 0x7c00 ? 0x7f800000 | (whole & 0x3ff) << 13 : (whole << 13) + 0x38000000);
        memcpy(&value, &x, sizeof value);
        return value;
    }
    float16_ty &operator+=(float v) { return *this = float16_ty((float)*this + v); }
    float16_ty &operator-=(float v) { return *this = float16_ty((float)*this - v); }
    float16_ty &operator*=(float v) { return *this = float16_ty((float)*this * v); }
    float16_ty &operator/=(float v) { return *this = float16_ty((float)*this / v); }
};
#else
typedef _Float16 float16_ty;
#endif
#define __fp16 float16_ty
#endif
