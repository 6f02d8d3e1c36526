/* snprintf alone: kernels print nothing.  %c %d %i %u %x %p %s %g %%, precisions, the lengths h, l, ll, z and
 * j; no widths and no flags. */
#ifndef OPDB_HEXAGON_STDIO_H
#define OPDB_HEXAGON_STDIO_H

#include <stdarg.h>
#include <stddef.h>

int snprintf(char *to, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
int vsnprintf(char *to, size_t size, const char *format, va_list arguments);

#endif
