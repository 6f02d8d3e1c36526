/* Stand-in, opdb's own text: division of an output into tiles.
 *
 * It is public that it gives, for each output, the axes along which it may be sliced and the alignment of
 * each; all member names and CustomOpTile are opdb's. */
#ifndef CUSTOM_OP_TILE_CONFIG_H
#define CUSTOM_OP_TILE_CONFIG_H

#include <stdint.h>

enum { CUSTOM_OP_MAX_AXES = 8 };

typedef struct {
    int32_t numAxes;
    int32_t axes[CUSTOM_OP_MAX_AXES];
    int32_t alignment[CUSTOM_OP_MAX_AXES]; /* of a tile's start along that axis, in elements */
} TileConfig;

/* A part of a tensor; `end` is exclusive. */
typedef struct {
    int32_t start[CUSTOM_OP_MAX_AXES];
    int32_t end[CUSTOM_OP_MAX_AXES];
} CustomOpTile;

#endif
