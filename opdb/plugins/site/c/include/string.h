/* What the validators take of C's string.h: wasm32 has no C library. */
#ifndef OPDB_WEB_STRING_H
#define OPDB_WEB_STRING_H
#include <stddef.h>
void *memcpy(void *to, const void *from, size_t n);
void *memset(void *to, int byte, size_t n);
size_t strlen(const char *s);
int strcmp(const char *a, const char *b);
#endif
