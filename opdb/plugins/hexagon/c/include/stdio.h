/* Text.  %c %d %i %u %x %p %s %g %%, precisions, the lengths h, l, ll, z and j; widths, and zeros in front,
 * of whole numbers. */
#ifndef OPDB_HEXAGON_STDIO_H
#define OPDB_HEXAGON_STDIO_H

#include <stdarg.h>
#include <stddef.h>

int snprintf(char *to, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
int printf(const char *format, ...) __attribute__((format(printf, 1, 2))); /* to the standard error */
int vsnprintf(char *to, size_t size, const char *format, va_list arguments);

#endif
