// The exports of the functions library of an op, generation 1.21 of Cloud AI's interface.
#include "functions.h"

#pragma GCC visibility push(default)
#include "CustomOpFunctions.h"
#include "CustomOpTileConfigHelpers.h"

// The members of the handle are not public: these are the stand-in's.
static opdb_aic_given given(const CustomOpPropertiesHandle &node) {
    return {node.inputs, node.numInputs, node.outputs, node.numOutputs, node.params, node.numParams};
}

extern "C" {
bool customOpVerify(const CustomOpPropertiesHandle *const opProp) {
    const opdb_aic_given node = given(*opProp);
    return opdb_aic_verify(&node);
}

const char *customOpSelectImpl(const CustomOpPropertiesHandle *const opProp, const CustomOpKernelInfo *const,
                               const int32_t, const char *backend) {
    const opdb_aic_given node = given(*opProp);
    return opdb_aic_select(&node, backend);
}

bool customOpInferShape(CustomOpPropertiesHandle *const opProp) {
    const opdb_aic_given node = given(*opProp);
    return opdb_aic_infer(&node, opProp->outputs);
}

// The format of tiles is not public: with Qualcomm's headers the op is not divided, so this returns false.
bool customOpSetProperties(CustomOpPropertiesHandle *opProp) {
#ifdef OPDB_CLOUD_AI_STAND_IN
    const opdb_aic_given node = given(*opProp);
    int32_t axes[8], alignment[8];
    const int32_t n = opdb_aic_tile_axes(&node, axes, alignment);
    CustomOpTileConfigHandle *config =
        n > 0 ? CustomOpTileConfigHelpers::createTileConfig(opProp, 0) : nullptr;
    if (config == nullptr)
        return false;
    config->numAxes = n;
    for (int32_t i = 0; i < n; i++) {
        config->axes[i] = axes[i];
        config->alignment[i] = alignment[i];
    }
    return true;
#else
    (void)opProp;
    return false;
#endif
}

bool customOpMapTiles(CustomOpPropertiesHandle *opProp) {
#ifdef OPDB_CLOUD_AI_STAND_IN
    const opdb_aic_given node = given(*opProp);
    bool good = true;
    for (int32_t i = 0; good && i < node.num_inputs; i++)
        good = opdb_aic_map_tile(&node, i, opProp->outputs[0].tileStart, opProp->outputs[0].tileEnd,
                                 opProp->inputs[i].tileStart, opProp->inputs[i].tileEnd);
    return good;
#else
    (void)opProp;
    return false;
#endif
}

void customOpDeallocateMemory(CustomOpPropertiesHandle *opProp) {
    CustomOpTileConfigHelpers::destroyTileConfigsAndMergeConfigs(opProp);
}
}
