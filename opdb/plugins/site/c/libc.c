/* The few functions of C's library that validators call, for wasm32, which has none.
 *
 * snprintf knows the conversions of reports and nothing else: %s, %.Ns, %lld and %.9g.  The last one is the
 * page's: JavaScript rounds decimals exactly, as C libraries do. */
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Writes %.9g of `value`, at most 31 characters and a 0, to `text`: in opdb/author/site/assets/verdict.js. */
__attribute__((import_module("page"), import_name("format_real"))) void opdb_web_format_real(double value,
                                                                                             char *text);

void *memcpy(void *to, const void *from, size_t n) {
    char *a = to;
    const char *b = from;
    for (size_t i = 0; i < n; i++)
        a[i] = b[i];
    return to;
}

void *memset(void *to, int byte, size_t n) {
    char *a = to;
    for (size_t i = 0; i < n; i++)
        a[i] = (char)byte;
    return to;
}

size_t strlen(const char *s) {
    size_t n = 0;
    while (s[n] != '\0')
        n++;
    return n;
}

int strcmp(const char *a, const char *b) {
    while (*a != '\0' && *a == *b) {
        a++;
        b++;
    }
    return (unsigned char)*a - (unsigned char)*b;
}

/* The product of 128 bits that the compiler calls for a checked product of 64, from products of 32 bits. */
__int128 __multi3(__int128 a, __int128 b) {
    const uint64_t al = (uint64_t)a, bl = (uint64_t)b, low = UINT32_MAX;
    const uint64_t ll = (al & low) * (bl & low), hl = (al >> 32) * (bl & low), lh = (al & low) * (bl >> 32);
    const uint64_t middle = (ll >> 32) + (hl & low) + (lh & low);
    const uint64_t high = (al >> 32) * (bl >> 32) + (hl >> 32) + (lh >> 32) + (middle >> 32);
    const uint64_t rest = (uint64_t)(a >> 64) * bl + al * (uint64_t)(b >> 64);
    return (__int128)((unsigned __int128)(high + rest) << 64 | (middle << 32 | (ll & low)));
}

typedef struct {
    char *text;
    size_t size, used; /* used counts what does not fit, too */
} output;

static void put(output *out, char c) {
    if (out->used + 1 < out->size)
        out->text[out->used] = c;
    out->used++;
}

static void put_int(output *out, int64_t value) {
    char digits[20];
    int n = 0;
    uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        digits[n++] = (char)('0' + left % 10);
        left /= 10;
    } while (left > 0);
    if (value < 0)
        put(out, '-');
    while (n > 0)
        put(out, digits[--n]);
}

int snprintf(char *text, size_t size, const char *format, ...) {
    output out = {text, size, 0};
    va_list values;
    va_start(values, format);
    for (const char *f = format; *f != '\0'; f++) {
        if (*f != '%') {
            put(&out, *f);
            continue;
        }
        size_t precision = SIZE_MAX;
        f++;
        if (*f == '.')
            for (f++, precision = 0; *f >= '0' && *f <= '9'; f++)
                precision = precision * 10 + (size_t)(*f - '0');
        while (*f == 'l')
            f++;
        if (*f == 'd') {
            put_int(&out, va_arg(values, long long));
            continue;
        }
        char real[32];
        const char *s = real;
        if (*f == 'g') {
            opdb_web_format_real(va_arg(values, double), real);
            precision = SIZE_MAX;
        } else
            s = va_arg(values, const char *);
        for (size_t i = 0; i < precision && s[i] != '\0'; i++)
            put(&out, s[i]);
    }
    va_end(values);
    if (size > 0)
        text[out.used < size ? out.used : size - 1] = '\0';
    return (int)out.used;
}
