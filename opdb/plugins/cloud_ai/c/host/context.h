/* Common to the interfaces: parameters, and the context of a kernel. */
#pragma once

#include "host.h"

#include <dlfcn.h>

namespace api {

inline std::vector<CustomOpParam> params_of(Job &job) {
    std::vector<CustomOpParam> out;
    for (Param &p : job.params)
        out.push_back({p.data.data(), static_cast<CustomOpDataType>(p.dtype), p.name.c_str(), p.size});
    return out;
}

/* Copies the outputs of the shape inference into the job. */
inline void take(Output &to, const CustomOpIOTensor &from) {
    to.rank = from.rank;
    to.dtype = from.dtype;
}

/* The arguments of a node, as long as a call needs them. */
struct Arguments {
    std::vector<CustomOpIOTensor> inputs, outputs;
    std::vector<CustomOpParam> params;
    std::vector<CustomOpScratchBuffer> scratch;
    CustomOpContext context = {};

    Arguments(Job &job, void (*sync)(int32_t)) : params(params_of(job)) {
        for (Input &t : job.inputs)
            inputs.push_back(tensor(t));
        for (Output &t : job.outputs)
            outputs.push_back(tensor(t));
        for (Scratch &s : job.scratch)
            scratch.push_back({s.buffer.data, static_cast<int32_t>(s.buffer.size)});
        context.inputs = inputs.data();
        context.outputs = outputs.data();
        context.params = params.data();
        context.scratchBuffers = scratch.data();
        context.syncThread = sync;
        context.numInputs = static_cast<int32_t>(inputs.size());
        context.numOutputs = static_cast<int32_t>(outputs.size());
        context.numParams = static_cast<int32_t>(params.size());
        context.numScratchBuffers = static_cast<int32_t>(scratch.size());
    }

    template <typename T> static CustomOpIOTensor tensor(T &t) {
        CustomOpIOTensor out = {};
        out.data = t.buffer.data;
        out.TENSOR_SIZES = t.dims.data();
        out.rank = t.rank;
        out.dtype = static_cast<CustomOpDataType>(t.dtype);
        out.scale = t.scale;
        out.offset = t.offset;
        return out;
    }
};

/* A function of a library; records its name if it is missing. */
template <typename F> bool found(void *library, const char *name, F *function, std::string *missing) {
    *function = reinterpret_cast<F>(dlsym(library, name));
    if (*function == nullptr)
        *missing += (missing->empty() ? "" : ", ") + std::string(name);
    return *function != nullptr;
}

} // namespace api
