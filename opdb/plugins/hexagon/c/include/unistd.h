/* The system calls of the server; they return 0 to n bytes, or -1. */
#ifndef OPDB_HEXAGON_UNISTD_H
#define OPDB_HEXAGON_UNISTD_H

#include <stddef.h>

typedef int ssize_t;

ssize_t read(int file, void *to, size_t n);
ssize_t write(int file, const void *from, size_t n);
_Noreturn void _exit(int status);

#endif
