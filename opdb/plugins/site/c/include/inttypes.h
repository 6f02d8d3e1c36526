/* The formats of C's inttypes.h that reports use. */
#ifndef OPDB_WEB_INTTYPES_H
#define OPDB_WEB_INTTYPES_H
#include <stdint.h>
#define PRId64 "lld"
#endif
