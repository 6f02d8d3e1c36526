/* The interface of SDK 1.10 to 1.17, and of pytorch/glow PR 5208: arrays of tensors and parameters. */
#define TENSOR_SIZES dims
#include "context.h"

#include "CustomOpAICInterface.h"
#include "CustomOpFunctions.h"
#include "CustomOpInterpreterInterface.h"

namespace api {

static decltype(&customOpVerify) verify_function;
static decltype(&customOpInferShape) infer_function;
static decltype(&customOpSelectImpl) select_function;

static int32_t count(size_t n) { return static_cast<int32_t>(n); }

bool open(void *library, std::string *missing) {
    found(library, "customOpVerify", &verify_function, missing);
    found(library, "customOpInferShape", &infer_function, missing);
    found(library, "customOpSelectImpl", &select_function, missing);
    return missing->empty();
}

bool infer(Job &job) {
    Arguments a(job, nullptr);
    const bool ok = infer_function(a.outputs.data(), count(a.outputs.size()), a.inputs.data(),
                                   count(a.inputs.size()), a.params.data(), count(a.params.size()));
    for (size_t i = 0; i < a.outputs.size(); i++)
        take(job.outputs[i], a.outputs[i]);
    return ok;
}

bool verify(Job &job) {
    Arguments a(job, nullptr);
    return verify_function(a.inputs.data(), count(a.inputs.size()), a.outputs.data(), count(a.outputs.size()),
                           a.params.data(), count(a.params.size()));
}

const char *select(Job &job, const char *backend) {
    Arguments a(job, nullptr);
    return select_function(a.inputs.data(), count(a.inputs.size()), a.outputs.data(), count(a.outputs.size()),
                           a.params.data(), count(a.params.size()), backend);
}

void run(Job &job, void *kernel, bool aic, int thread, void (*sync)(int32_t)) {
    Arguments a(job, aic ? sync : nullptr);
    if (aic)
        reinterpret_cast<customOpAICKernel_t>(kernel)(
            a.inputs.data(), count(a.inputs.size()), a.outputs.data(), count(a.outputs.size()),
            a.params.data(), count(a.params.size()), &a.context, thread);
    else
        reinterpret_cast<customOpInterpreterKernel_t>(kernel)(
            a.inputs.data(), count(a.inputs.size()), a.outputs.data(), count(a.outputs.size()),
            a.params.data(), count(a.params.size()), &a.context);
}

} // namespace api
