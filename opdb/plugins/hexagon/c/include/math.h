/* The part of math.h that kernels use.  sqrt, sqrtf, the roundings, ldexp and the remainders are exact or
 * rounded once; exp, sin and cos are off by less than 0.51 units of the last place. */
#ifndef OPDB_HEXAGON_MATH_H
#define OPDB_HEXAGON_MATH_H

#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define HUGE_VAL __builtin_inf()
#define HUGE_VALF __builtin_inff()
#define isnan(x) __builtin_isnan(x)
#define isinf(x) __builtin_isinf(x)
#define isfinite(x) __builtin_isfinite(x)
#define signbit(x) __builtin_signbit(x)
#define fabs __builtin_fabs
#define fabsf __builtin_fabsf
#define copysign __builtin_copysign
#define copysignf __builtin_copysignf

double sqrt(double v);
double rint(double v);
double floor(double v);
double ceil(double v);
double ldexp(double v, int n);
double fmod(double a, double b);
double exp(double v);
double sin(double v); /* NaN from 2^20 on */
double cos(double v); /* NaN from 2^20 on */
float sqrtf(float v);
float rintf(float v);
float floorf(float v);
float ceilf(float v);
float fmodf(float a, float b);

#endif
