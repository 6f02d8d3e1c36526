/* snprintf, as far as messages of validators need it. %g is exact: a double has finitely many decimal
 * digits. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "reals.h"

enum { LIMBS = 90, DIGITS = 9 * LIMBS }; /* 2^1023 has 309 digits, 5^1074 * 2^53 has 767 */

typedef struct {
    char *at, *end; /* position of the next character, and the end */
    size_t n;       /* of all characters */
} text;

static void add(text *t, char c) {
    if (t->at < t->end)
        *t->at++ = c;
    t->n++;
}

static int digits_of(uint64_t v, unsigned base, char digits[20]) {
    int n = 0;
    do {
        digits[n++] = "0123456789abcdef"[v % base];
        v /= base;
    } while (v > 0);
    return n;
}

static void add_digits(text *t, uint64_t v, unsigned base) {
    char digits[20];
    for (int n = digits_of(v, base, digits); n > 0;)
        add(t, digits[--n]);
}

/* An integer with a minimum width, padded with zeros or blanks. */
static void add_whole(text *t, uint64_t v, unsigned base, bool negative, int width, bool zeros) {
    char digits[20];
    int n = digits_of(v, base, digits);
    const int blank = width - n - negative;
    for (int i = 0; i < blank && !zeros; i++)
        add(t, ' ');
    if (negative)
        add(t, '-');
    for (int i = 0; i < blank && zeros; i++)
        add(t, '0');
    while (n > 0)
        add(t, digits[--n]);
}

/* An integer, in limbs of nine digits, the lowest first. */
typedef struct {
    int n;
    uint32_t limbs[LIMBS];
} whole;

static void multiply(whole *w, uint32_t factor) {
    uint64_t carry = 0;
    for (int i = 0; i < w->n; i++) {
        carry += (uint64_t)w->limbs[i] * factor;
        w->limbs[i] = (uint32_t)(carry % 1000000000u);
        carry /= 1000000000u;
    }
    if (carry > 0)
        w->limbs[w->n++] = (uint32_t)carry;
}

/* The digits of a positive double, the highest first; *exponent: v = 0.ddd... * 10^*exponent. */
static int decimal(double v, char digits[DIGITS], int *exponent) {
    int e;
    const uint64_t m = parts_of(v, &e);
    whole w = {2, {(uint32_t)(m % 1000000000u), (uint32_t)(m / 1000000000u)}};
    for (int i = 0; i < (e > 0 ? e : -e); i++) /* m * 2^-e = m * 5^e / 10^e */
        multiply(&w, e > 0 ? 2 : 5);
    int n = 0;
    for (int i = w.n; i-- > 0;)
        for (uint32_t unit = 100000000; unit > 0; unit /= 10) {
            const char digit = (char)('0' + w.limbs[i] / unit % 10);
            if (n > 0 || digit != '0')
                digits[n++] = digit;
        }
    *exponent = n + (e < 0 ? e : 0);
    return n;
}

/* Rounds to `precision` digits, half to even, and drops zeros at the end; returns the number of digits
 * left. */
static int shortened(char *digits, int n, int precision, int *exponent) {
    if (n > precision) {
        const char next = digits[precision];
        bool up = next > '5';
        if (next == '5') {
            up = (digits[precision - 1] & 1) != 0;
            for (int i = precision + 1; i < n && !up; i++)
                up = digits[i] != '0';
        }
        n = precision;
        while (up && n > 0 && digits[n - 1] == '9')
            n--;
        if (up && n == 0) {
            digits[n++] = '1';
            ++*exponent;
        } else if (up) {
            digits[n - 1]++;
        }
    }
    while (n > 1 && digits[n - 1] == '0')
        n--;
    return n;
}

static void add_string(text *t, const char *s, int most) {
    for (; *s != '\0' && most != 0; s++, most--)
        add(t, *s);
}

static void add_real(text *t, double v, int precision) {
    char digits[DIGITS];
    if (bits_of(v) & SIGN_BIT) {
        add(t, '-');
        v = -v;
    }
    if (v == 0 || !__builtin_isfinite(v)) {
        add_string(t, v == 0 ? "0" : v != v ? "nan" : "inf", -1);
        return;
    }
    int point;
    precision = precision < 0 ? 6 : precision == 0 ? 1 : precision;
    const int n = shortened(digits, decimal(v, digits, &point), precision, &point);
    const bool scientific = point < -3 || point > precision;
    const int before = scientific ? 1 : point; /* digits before the point */
    if (before <= 0)
        add_string(t, "0.000", 2 - before);
    for (int i = 0; i < (n > before ? n : before); i++) {
        if (i == before && i > 0)
            add(t, '.');
        add(t, i < n ? digits[i] : '0');
    }
    if (!scientific)
        return;
    const int exponent = point - 1;
    add(t, 'e');
    add(t, exponent < 0 ? '-' : '+');
    if (exponent > -10 && exponent < 10)
        add(t, '0');
    add_digits(t, (uint64_t)(exponent < 0 ? -exponent : exponent), 10);
}

/* The number after the point of a conversion, -1 without one; *format moves past it. */
static int precision_of(const char **format, va_list *arguments) {
    if (**format != '.')
        return -1;
    int precision = 0;
    if (*++*format == '*') {
        ++*format;
        return va_arg(*arguments, int);
    }
    while (**format >= '0' && **format <= '9')
        precision = 10 * precision + *(*format)++ - '0';
    return precision;
}

/* True if the argument of a conversion has 64 bits; *format moves past its length.  long and size_t have
 * 32. */
static bool is_long(const char **format) {
    int letters = 0;
    bool greatest = false;
    for (; **format == 'l' || **format == 'h' || **format == 'z' || **format == 'j'; ++*format) {
        letters += **format == 'l';
        greatest = greatest || **format == 'j';
    }
    return greatest || letters > 1;
}

int vsnprintf(char *to, size_t size, const char *format, va_list given) {
    text t = {to, size > 0 ? to + size - 1 : to, 0};
    va_list arguments;
    va_copy(arguments, given);
    for (; *format != '\0'; format++) {
        if (*format != '%') {
            add(&t, *format);
            continue;
        }
        const bool zeros = *++format == '0';
        int width = 0;
        while (*format >= '0' && *format <= '9')
            width = 10 * width + *format++ - '0';
        const int precision = precision_of(&format, &arguments);
        const bool wide = is_long(&format);
        switch (*format) {
        case 's':
            add_string(&t, va_arg(arguments, const char *), precision);
            break;
        case 'c':
            add(&t, (char)va_arg(arguments, int));
            break;
        case 'd':
        case 'i': {
            const int64_t v = wide ? va_arg(arguments, int64_t) : va_arg(arguments, int);
            add_whole(&t, v < 0 ? -(uint64_t)v : (uint64_t)v, 10, v < 0, width, zeros);
            break;
        }
        case 'u':
        case 'x': {
            const uint64_t v = wide ? va_arg(arguments, uint64_t) : va_arg(arguments, unsigned);
            add_whole(&t, v, *format == 'x' ? 16 : 10, false, width, zeros);
            break;
        }
        case 'p':
            add_string(&t, "0x", 2);
            add_digits(&t, (uintptr_t)va_arg(arguments, void *), 16);
            break;
        case 'g':
            add_real(&t, va_arg(arguments, double), precision);
            break;
        default:
            add(&t, *format);
        }
    }
    va_end(arguments);
    if (size > 0)
        *t.at = '\0';
    return (int)t.n;
}

int snprintf(char *to, size_t size, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(to, size, format, arguments);
    va_end(arguments);
    return n;
}
