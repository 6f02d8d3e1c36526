/* Stand-in, opdb's own text: exports of the functions library of an op, and helpers for tiles, generation
 * 5.0.0.
 *
 * Names and arguments are those of packages of quic/efficient-transformers, which say "Interface version:
 * 5.0.0".  It is not public if tileEndIndices is inclusive or exclusive; here it is exclusive. */
#ifndef CUSTOM_OP_FUNCTIONS_H
#define CUSTOM_OP_FUNCTIONS_H

#include "CustomOpTypes.h"

#include <string.h>
#include <vector>

extern "C" {
bool customOpVerify(const CustomOpProperties *const opProp);
const char *customOpSelectImpl(const CustomOpProperties *const opProp,
                               const CustomOpKernelInfo *const kernelInfos, const int32_t numKernels,
                               const char *backend);
bool customOpInferShape(CustomOpProperties *const opProp);
bool customOpSetProperties(CustomOpProperties *const opProp);
bool customOpMapTiles(CustomOpProperties *const opProp);
}

/* The output of this name may be sliced along `axes`. */
inline void setTileConfig(CustomOpProperties *opProp, const char *output, const std::vector<int32_t> &axes) {
    for (size_t i = 0; i < opProp->outputNames.size(); i++) {
        if (strcmp(opProp->outputNames[i], output) != 0)
            continue;
        CustomOpTileAxes &tile = opProp->tiles[i];
        tile.numAxes = 0;
        for (size_t a = 0; a < axes.size() && a < CUSTOM_OP_MAX_AXES; a++)
            tile.axes[tile.numAxes++] = axes[a];
    }
}

inline std::vector<int32_t> tileStartIndices(const CustomOpIOTensor &tensor) {
    return std::vector<int32_t>(tensor.tileStart, tensor.tileStart + tensor.rank);
}

inline std::vector<int32_t> tileEndIndices(const CustomOpIOTensor &tensor) {
    return std::vector<int32_t>(tensor.tileEnd, tensor.tileEnd + tensor.rank);
}

/* The part of an input that the tile reads. */
inline void createInputTile(CustomOpProperties *opProp, int32_t inputIdx, const std::vector<int32_t> &start,
                            const std::vector<int32_t> &end) {
    CustomOpIOTensor &input = opProp->inputs[(size_t)inputIdx];
    for (size_t d = 0; d < start.size() && d < end.size(); d++) {
        input.tileStart[d] = start[d];
        input.tileEnd[d] = end[d];
    }
}

#endif
