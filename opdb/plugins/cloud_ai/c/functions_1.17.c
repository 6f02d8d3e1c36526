/* The exports of the functions library of an op, generation 1.17 of Cloud AI's interface. */
#include "functions.h"

#pragma GCC visibility push(default)
#include "CustomOpFunctions.h"

#define GIVEN {inputs, numInputs, outputs, numOutputs, params, numParams}

bool customOpVerify(CustomOpIOTensor *inputs, int32_t numInputs, CustomOpIOTensor *outputs,
                    int32_t numOutputs, CustomOpParam *params, int32_t numParams) {
    const opdb_aic_given node = GIVEN;
    return opdb_aic_verify(&node);
}

bool customOpInferShape(CustomOpIOTensor *outputs, const int32_t numOutputs, const CustomOpIOTensor *inputs,
                        const int32_t numInputs, const CustomOpParam *params, const int32_t numParams) {
    const opdb_aic_given node = GIVEN;
    return opdb_aic_infer(&node, outputs);
}

const char *customOpSelectImpl(CustomOpIOTensor *inputs, int32_t numInputs, CustomOpIOTensor *outputs,
                               int32_t numOutputs, CustomOpParam *params, int32_t numParams,
                               const char *backend) {
    const opdb_aic_given node = GIVEN;
    return opdb_aic_select(&node, backend);
}

/* The arguments of these two are not public: with Qualcomm's headers they are left out, and the op is not
 * divided. */
#ifdef OPDB_CLOUD_AI_STAND_IN
bool customOpSetTileConfig(CustomOpIOTensor *inputs, int32_t numInputs, CustomOpIOTensor *outputs,
                           int32_t numOutputs, CustomOpParam *params, int32_t numParams,
                           TileConfig *configs) {
    const opdb_aic_given node = GIVEN;
    configs->numAxes = opdb_aic_tile_axes(&node, configs->axes, configs->alignment);
    return configs->numAxes > 0;
}

bool customOpMapTiles(CustomOpIOTensor *inputs, int32_t numInputs, CustomOpIOTensor *outputs,
                      int32_t numOutputs, CustomOpParam *params, int32_t numParams, CustomOpTile *inputTiles,
                      const CustomOpTile *outputTiles) {
    const opdb_aic_given node = GIVEN;
    bool good = true;
    for (int32_t i = 0; good && i < numInputs; i++)
        good = opdb_aic_map_tile(&node, i, outputTiles->start, outputTiles->end, inputTiles[i].start,
                                 inputTiles[i].end);
    return good;
}
#endif
