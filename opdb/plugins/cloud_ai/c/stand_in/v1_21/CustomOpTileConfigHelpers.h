/* Stand-in, opdb's own text: helpers for tiles, generation of SDK 1.21.
 *
 * destroyTileConfigsAndMergeConfigs is public; the meaning of merge configs is not.  createTileConfig is
 * opdb's. */
#ifndef CUSTOM_OP_TILE_CONFIG_HELPERS_H
#define CUSTOM_OP_TILE_CONFIG_HELPERS_H

#include "CustomOpFunctions.h"

#include <stdlib.h>

namespace CustomOpTileConfigHelpers {

/* A new one for this output, without axes; NULL if there is no memory. */
inline CustomOpTileConfigHandle *createTileConfig(CustomOpPropertiesHandle *opProp, int32_t output) {
    free(opProp->tileConfigs[output]);
    opProp->tileConfigs[output] =
        static_cast<CustomOpTileConfigHandle *>(calloc(1, sizeof(CustomOpTileConfigHandle)));
    return opProp->tileConfigs[output];
}

inline void destroyTileConfigsAndMergeConfigs(CustomOpPropertiesHandle *opProp) {
    for (int32_t i = 0; opProp->tileConfigs != nullptr && i < opProp->numOutputs; i++) {
        free(opProp->tileConfigs[i]);
        opProp->tileConfigs[i] = nullptr;
    }
}

} // namespace CustomOpTileConfigHelpers

#endif
