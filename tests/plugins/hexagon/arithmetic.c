/* Pairs of doubles come in, what the runtime makes of them goes out: the bits of a row of results for each
 * pair. */
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    double a, b;
} pair;

static uint64_t bits(double v) {
    uint64_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

/* Noinline, so that nothing is known of the operands and clang calls the runtime. */
#define OPERATOR(name, type, operator)                                                                       \
    __attribute__((noinline)) static type name(type a, type b) { return a operator b; }
OPERATOR(over, double, /)
OPERATOR(over_float, float, /)
OPERATOR(over_u64, uint64_t, /)
OPERATOR(rest_u64, uint64_t, %)
OPERATOR(over_i64, int64_t, /)
OPERATOR(rest_i64, int64_t, %)
OPERATOR(over_u32, uint32_t, /)
OPERATOR(rest_u32, uint32_t, %)
OPERATOR(over_i32, int32_t, /)
OPERATOR(rest_i32, int32_t, %)

static int whole(void *to, size_t n) {
    char *p = to;
    for (ssize_t k; n > 0 && (k = read(0, p, n)) > 0; p += k)
        n -= (size_t)k;
    return n == 0;
}

int main(void) {
    pair p;
    while (whole(&p, sizeof p)) {
        const uint64_t m = bits(p.a), n = bits(p.b);
        const float a = (float)p.a, b = (float)p.b;
        const uint64_t row[] = {
            bits(over(p.a, p.b)),
            bits((double)over_float(a, b)),
            bits(sqrt(p.a)),
            bits((double)sqrtf(a)),
            bits(fmod(p.a, p.b)),
            bits((double)fmodf(a, b)),
            bits(rint(p.a)),
            bits(floor(p.a)),
            bits(ceil(p.a)),
            bits(ldexp(p.a, (int)(n >> 54))),
            bits(ldexp(p.a, -(int)(n >> 54))),
            bits(exp(p.a)),
            bits(sin(p.a)),
            bits(cos(p.a)),
            over_u64(m, n),
            rest_u64(m, n),
            (uint64_t)over_i64((int64_t)m, (int64_t)n),
            (uint64_t)rest_i64((int64_t)m, (int64_t)n),
            over_u32((uint32_t)(m >> 32), (uint32_t)(n >> 40)),
            rest_u32((uint32_t)(m >> 32), (uint32_t)(n >> 40)),
            (uint64_t)over_i32((int32_t)(m >> 32), (int32_t)(n >> 40)),
            (uint64_t)rest_i32((int32_t)(m >> 32), (int32_t)(n >> 40)),
        };
        write(1, row, sizeof row);
    }
    return 0;
}
