/* Stand-in, opdb's own text: exports of the functions library of an op, generation of SDK 1.10 to 1.17.
 *
 * The first three are on the SDK's page "Custom operations".  Of customOpSetTileConfig and customOpMapTiles
 * only names and purpose are public; the arguments are opdb's. */
#ifndef CUSTOM_OP_FUNCTIONS_H
#define CUSTOM_OP_FUNCTIONS_H

#include "CustomOpTileConfig.h"
#include "CustomOpTypes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* True if the op can be computed with these tensors and parameters. */
bool customOpVerify(CustomOpIOTensor *inputs, int32_t numInputs, CustomOpIOTensor *outputs,
                    int32_t numOutputs, CustomOpParam *params, int32_t numParams);

/* Sets dtype, rank and dims of the outputs, whose ranks at first are the largest possible. */
bool customOpInferShape(CustomOpIOTensor *outputs, const int32_t numOutputs, const CustomOpIOTensor *inputs,
                        const int32_t numInputs, const CustomOpParam *params, const int32_t numParams);

/* The `type` of the implementation for "AIC" or "Interpreter"; NULL: none. */
const char *customOpSelectImpl(CustomOpIOTensor *inputs, int32_t numInputs, CustomOpIOTensor *outputs,
                               int32_t numOutputs, CustomOpParam *params, int32_t numParams,
                               const char *backend);

/* The ways in which each output can be divided; false: not at all. */
bool customOpSetTileConfig(CustomOpIOTensor *inputs, int32_t numInputs, CustomOpIOTensor *outputs,
                           int32_t numOutputs, CustomOpParam *params, int32_t numParams, TileConfig *configs);

/* The part of each input that a tile of each output reads. `outputs` are the whole ones. */
bool customOpMapTiles(CustomOpIOTensor *inputs, int32_t numInputs, CustomOpIOTensor *outputs,
                      int32_t numOutputs, CustomOpParam *params, int32_t numParams, CustomOpTile *inputTiles,
                      const CustomOpTile *outputTiles);

#ifdef __cplusplus
}
#endif
#endif
