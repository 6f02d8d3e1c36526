/* What reports take of C's stdio.h. */
#ifndef OPDB_WEB_STDIO_H
#define OPDB_WEB_STDIO_H
#include <stddef.h>
int snprintf(char *text, size_t size, const char *format, ...);
#endif
