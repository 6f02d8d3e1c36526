/* Stand-in, opdb's own text: messages of custom ops, AIC_PRINT_INFO(ctx, format, ...).
 *
 * Names, levels and the limit of ten format specifiers are public (the SDK's page "Custom operations"); the
 * text of the macros is not.  On a host they print, as the page says; they also print in a build for Hexagon,
 * which has nothing else to print with.  More than ten arguments do not compile. */
#ifndef CUSTOM_OP_LOG_H
#define CUSTOM_OP_LOG_H

#include <stdint.h>

#if defined(__hexagon__) && !defined(__linux__)
#ifdef __cplusplus
extern "C"
#endif
    int printf(const char *format, ...);
#else
#include <stdio.h>
#endif

#define AIC_CUSTOMOP_LOG_LEVEL_FATAL 0
#define AIC_CUSTOMOP_LOG_LEVEL_ERROR 1
#define AIC_CUSTOMOP_LOG_LEVEL_WARN 2
#define AIC_CUSTOMOP_LOG_LEVEL_INFO 3
#define AIC_CUSTOMOP_LOG_LEVEL_DEBUG 4

/* Messages above this level are left out; compilerArgs may set it. */
#ifndef AIC_CUSTOMOP_LOG_COMPILE_LEVEL
#define AIC_CUSTOMOP_LOG_COMPILE_LEVEL AIC_CUSTOMOP_LOG_LEVEL_INFO
#endif

/* An argument of 64 bits: "0x" AIC_LOG64X_FMT for its format.  It takes two specifiers. */
#define AIC_LOG64X_FMT "%08x%08x"
#define AIC_LOG64_DATA(x) (unsigned)((uint64_t)(x) >> 32), (unsigned)((uint64_t)(x) & 0xffffffffu)

#ifdef __cplusplus
#define AIC_LOG_ASSERT static_assert
#else
#define AIC_LOG_ASSERT _Static_assert
#endif
#define AIC_LOG_21ST(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, ...) u
#define AIC_LOG_COUNT(...)                                                                                   \
    AIC_LOG_21ST(0, ##__VA_ARGS__, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define AIC_LOG_PRINT(level, ctx, format, ...)                                                               \
    do {                                                                                                     \
        AIC_LOG_ASSERT(AIC_LOG_COUNT(__VA_ARGS__) <= 10, "AIC_PRINT_* takes ten format specifiers at most"); \
        (void)(ctx);                                                                                         \
        if ((level) <= AIC_CUSTOMOP_LOG_COMPILE_LEVEL)                                                       \
            (void)printf(format "\n", ##__VA_ARGS__);                                                        \
    } while (0)

#define AIC_PRINT_DEBUG(ctx, ...) AIC_LOG_PRINT(AIC_CUSTOMOP_LOG_LEVEL_DEBUG, ctx, __VA_ARGS__)
#define AIC_PRINT_INFO(ctx, ...) AIC_LOG_PRINT(AIC_CUSTOMOP_LOG_LEVEL_INFO, ctx, __VA_ARGS__)
#define AIC_PRINT_WARN(ctx, ...) AIC_LOG_PRINT(AIC_CUSTOMOP_LOG_LEVEL_WARN, ctx, __VA_ARGS__)
#define AIC_PRINT_ERROR(ctx, ...) AIC_LOG_PRINT(AIC_CUSTOMOP_LOG_LEVEL_ERROR, ctx, __VA_ARGS__)
#define AIC_PRINT_FATAL(ctx, ...) AIC_LOG_PRINT(AIC_CUSTOMOP_LOG_LEVEL_FATAL, ctx, __VA_ARGS__)

#endif
