/* The interfaces that have one object for a node: CustomOpProperties (5.0.0), CustomOpPropertiesHandle
 * (1.21). */
#define TENSOR_SIZES sizes
#include "context.h"

#include "CustomOpAICInterface.h"
#include "CustomOpFunctions.h"
#include "CustomOpInterpreterInterface.h"

namespace api {

#ifdef HOST_HANDLE
using Properties = CustomOpPropertiesHandle;
#else
using Properties = CustomOpProperties;
#endif

static decltype(&customOpVerify) verify_function;
static decltype(&customOpInferShape) infer_function;
static decltype(&customOpSelectImpl) select_function;
static decltype(&customOpSetProperties) set_function;
static decltype(&customOpMapTiles) map_function;
#ifdef HOST_HANDLE
static decltype(&customOpDeallocateMemory) free_function;
#endif

bool open(void *library, std::string *missing) {
    found(library, "customOpVerify", &verify_function, missing);
    found(library, "customOpInferShape", &infer_function, missing);
    found(library, "customOpSelectImpl", &select_function, missing);
    found(library, "customOpSetProperties", &set_function, missing);
    found(library, "customOpMapTiles", &map_function, missing);
#ifdef HOST_HANDLE
    found(library, "customOpDeallocateMemory", &free_function, missing);
#endif
    return missing->empty();
}

/* A node's properties, as long as a call needs them. */
struct Node {
    Arguments a;
    Properties properties = {};
#ifdef HOST_HANDLE
    std::vector<CustomOpTileConfigHandle *> tiles;
#else
    std::vector<const char *> names;
    std::vector<CustomOpTileAxes> tiles;
#endif

    explicit Node(Job &job) : a(job, nullptr) {
        tiles.resize(a.outputs.size());
#ifdef HOST_HANDLE
        properties.inputs = a.inputs.data();
        properties.outputs = a.outputs.data();
        properties.params = a.params.data();
        properties.tileConfigs = tiles.data();
        properties.numInputs = a.context.numInputs;
        properties.numOutputs = a.context.numOutputs;
        properties.numParams = a.context.numParams;
#else
        for (const Output &t : job.outputs)
            names.push_back(t.name.c_str());
        properties.inputs = {a.inputs.data(), a.inputs.size()};
        properties.outputs = {a.outputs.data(), a.outputs.size()};
        properties.params = {a.params.data(), a.params.size()};
        properties.outputNames = {names.data(), names.size()};
        properties.tiles = {tiles.data(), tiles.size()};
#endif
    }
};

bool infer(Job &job) {
    Node node(job);
    const bool ok = infer_function(&node.properties);
    for (size_t i = 0; i < job.outputs.size(); i++)
        take(job.outputs[i], node.a.outputs[i]);
    return ok;
}

bool verify(Job &job) {
    Node node(job);
    return verify_function(&node.properties);
}

const char *select(Job &job, const char *backend) {
    Node node(job);
    std::vector<CustomOpKernelInfo> kernels;
    for (const KernelInfo &k : job.kernels)
        kernels.push_back({k.name.c_str(), k.backend.c_str()});
    return select_function(&node.properties, kernels.data(), static_cast<int32_t>(kernels.size()), backend);
}

void run(Job &job, void *kernel, bool aic, int thread, void (*sync)(int32_t)) {
    Arguments a(job, aic ? sync : nullptr);
    if (aic)
        reinterpret_cast<customOpAICKernel_t>(kernel)(&a.context, thread);
    else
        reinterpret_cast<customOpInterpreterKernel_t>(kernel)(&a.context);
}

} // namespace api
