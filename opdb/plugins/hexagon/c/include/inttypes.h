/* The formats of inttypes.h that kernels use; long has 32 bits. */
#ifndef OPDB_HEXAGON_INTTYPES_H
#define OPDB_HEXAGON_INTTYPES_H

#include <stdint.h>

#define PRId32 "d"
#define PRIu32 "u"
#define PRIx32 "x"
#define PRId64 "lld"
#define PRIu64 "llu"
#define PRIx64 "llx"

#endif
