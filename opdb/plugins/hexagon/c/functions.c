/* exp, sin and cos: Taylor series of sums of two doubles, which have some 100 bits, rounded at the end. */
#include <math.h>

typedef struct {
    double high, low;
} pair;

static pair sum_of(double a, double b) {
    const double s = a + b, t = s - a;
    return (pair){s, (a - (s - t)) + (b - t)};
}

static pair product_of(double a, double b) {
    const double half = 0x1p27 + 1; /* cuts a double into two of 26 bits */
    const double p = a * half, a1 = p - (p - a), a2 = a - a1;
    const double q = b * half, b1 = q - (q - b), b2 = b - b1, product = a * b;
    return (pair){product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2};
}

static pair plus(pair a, pair b) {
    const pair s = sum_of(a.high, b.high), t = sum_of(a.low, b.low);
    const pair u = sum_of(s.high, s.low + t.high);
    return sum_of(u.high, u.low + t.low);
}

static pair times(pair a, pair b) {
    const pair p = product_of(a.high, b.high);
    return sum_of(p.high, p.low + (a.high * b.low + a.low * b.high));
}

static pair over(pair a, double k) {
    const double first = a.high / k;
    const pair back = product_of(first, k);
    return sum_of(first, ((a.high - back.high) - back.low + a.low) / k);
}

/* v - n * (a sum of three parts, the first two of 33 bits, so that their products with n are exact). */
static pair reduced(double v, double n, const double parts[3]) {
    pair r = sum_of(v, -n * parts[0]);
    r = plus(r, (pair){-n * parts[1], 0});
    return plus(r, (pair){-n * parts[2], 0});
}

static const pair ONE = {1, 0};

double exp(double v) {
    static const double LN2[] = {0x1.62e42fefp-1, 0x1.473de6afp-34, 0x1.3c7673007e5edp-69};
    if (v != v)
        return v;
    if (v > 710)
        return INFINITY;
    if (v < -746)
        return 0;
    const double n = rint(v * 0x1.71547652b82fep0);
    const pair r = reduced(v, n, LN2);
    pair s = ONE;
    for (int k = 22; k > 0; k--)
        s = plus(ONE, over(times(r, s), k));
    return ldexp(s.high, (int)n); /* s.high is s rounded */
}

/* sin(v + quarters * pi / 2). */
static double turned(double v, int quarters) {
    static const double HALF_PI[] = {0x1.921fb544p0, 0x1.0b4611a6p-34, 0x1.3198a2e037073p-69};
    if (!(fabs(v) < 0x1p20))
        return NAN;
    const double n = rint(v * 0x1.45f306dc9c883p-1);
    const pair r = reduced(v, n, HALF_PI), square = times(r, r), minus = {-square.high, -square.low};
    const int quarter = ((int)n + quarters) & 3, odd = quarter & 1;
    pair s = ONE; /* from the last term: 1 - z / (k (k - 1)) (1 - ...) */
    for (int k = odd ? 26 : 27; k > 1; k -= 2)
        s = plus(ONE, over(times(minus, s), k * (k - 1)));
    if (!odd)
        s = times(r, s);
    return quarter & 2 ? -s.high : s.high;
}

double sin(double v) { return v == 0 ? v : turned(v, 0); }

double cos(double v) { return turned(v, 1); }
