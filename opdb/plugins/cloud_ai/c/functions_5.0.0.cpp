// The exports of the functions library of an op, generation 5.0.0 of Cloud AI's interface.
#include "functions.h"

#pragma GCC visibility push(default)
#include "CustomOpFunctions.h"

// It is not public if tileEndIndices and createInputTile mean the position after the end, as in the stand-in,
// or the last one (1).
#ifndef OPDB_AIC_LAST_INCLUDED
#define OPDB_AIC_LAST_INCLUDED 0
#endif

template <typename List> static auto first(List &list) -> decltype(&list[0]) {
    return list.size() > 0 ? &list[0] : nullptr;
}

static opdb_aic_given given(const CustomOpProperties &node) {
    return {first(node.inputs),  static_cast<int32_t>(node.inputs.size()),
            first(node.outputs), static_cast<int32_t>(node.outputs.size()),
            first(node.params),  static_cast<int32_t>(node.params.size())};
}

extern "C" {
bool customOpVerify(const CustomOpProperties *const opProp) {
    const opdb_aic_given node = given(*opProp);
    return opdb_aic_verify(&node);
}

const char *customOpSelectImpl(const CustomOpProperties *const opProp, const CustomOpKernelInfo *const,
                               const int32_t, const char *backend) {
    const opdb_aic_given node = given(*opProp);
    return opdb_aic_select(&node, backend);
}

bool customOpInferShape(CustomOpProperties *const opProp) {
    const opdb_aic_given node = given(*opProp);
    return opdb_aic_infer(&node, first(opProp->outputs));
}

// setTileConfig takes no alignment: axes whose parts must be multiples of something stay whole.
bool customOpSetProperties(CustomOpProperties *const opProp) {
    const opdb_aic_given node = given(*opProp);
    int32_t axes[8], alignment[8];
    const int32_t n = opdb_aic_tile_axes(&node, axes, alignment);
    std::vector<int32_t> free;
    for (int32_t i = 0; i < n; i++)
        if (alignment[i] == 1)
            free.push_back(axes[i]);
    if (free.empty())
        return false;
    setTileConfig(opProp, opdb_aic_output(), free);
    return true;
}

bool customOpMapTiles(CustomOpProperties *const opProp) {
    const opdb_aic_given node = given(*opProp);
    const std::vector<int32_t> start = tileStartIndices(opProp->outputs[0]);
    std::vector<int32_t> end = tileEndIndices(opProp->outputs[0]);
    for (int32_t &e : end)
        e += OPDB_AIC_LAST_INCLUDED;
    for (int32_t i = 0; i < node.num_inputs; i++) {
        const size_t rank = static_cast<size_t>(node.inputs[i].rank);
        std::vector<int32_t> from(rank), to(rank);
        if (!opdb_aic_map_tile(&node, i, start.data(), end.data(), from.data(), to.data()))
            return false;
        for (int32_t &e : to)
            e -= OPDB_AIC_LAST_INCLUDED;
        createInputTile(opProp, i, from, to);
    }
    return true;
}
}
