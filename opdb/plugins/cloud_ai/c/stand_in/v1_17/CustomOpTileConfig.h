/* Stand-in, opdb's own text: how an output may be divided into tiles.
 *
 * Public is that it says, for each output, the axes along which it may be sliced and the alignment of each;
 * all names of members and CustomOpTile are opdb's. */
#ifndef CUSTOM_OP_TILE_CONFIG_H
#define CUSTOM_OP_TILE_CONFIG_H

#include <stdint.h>

enum { CUSTOM_OP_MAX_AXES = 8 };

typedef struct {
    int32_t numAxes;
    int32_t axes[CUSTOM_OP_MAX_AXES];
    int32_t alignment[CUSTOM_OP_MAX_AXES]; /* of a tile's start along that axis, in elements */
} TileConfig;

/* A part of a tensor; `end` is behind it. */
typedef struct {
    int32_t start[CUSTOM_OP_MAX_AXES];
    int32_t end[CUSTOM_OP_MAX_AXES];
} CustomOpTile;

#endif
