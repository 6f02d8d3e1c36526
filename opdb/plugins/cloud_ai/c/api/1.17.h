/* The parts that differ between generations of Cloud AI's interface, for 1.17: kernels get arrays of tensors
 * and parameters. */
#ifndef OPDB_CLOUD_AI_API_H
#define OPDB_CLOUD_AI_API_H

#include "CustomOpContext.h"
#include "CustomOpTypes.h"

#define AIC_SIZES(tensor) ((tensor)->dims)
#define AIC_ARRAYS                                                                                           \
    const CustomOpIOTensor *inputs, const int32_t numInputs, const CustomOpIOTensor *outputs,                \
        const int32_t numOutputs, const CustomOpParam *params, const int32_t numParams,

/* Define the two kernels of the op `aic`: one for each of the threads of the card, one for the host. */
#define AIC_KERNEL(kernel, aic)                                                                              \
    __attribute__((visibility("default"))) void kernel(AIC_ARRAYS const CustomOpContext *ctx,                \
                                                       const int32_t threadID);                              \
    void kernel(AIC_ARRAYS const CustomOpContext *ctx, const int32_t threadID) {                             \
        opdb_aic_run(aic, inputs, numInputs, outputs, numOutputs, params, numParams, ctx, threadID,          \
                     OPDB_AIC_THREADS);                                                                      \
    }
#define INTERPRETER_KERNEL(kernel, aic)                                                                      \
    __attribute__((visibility("default"))) void kernel(                                                      \
        CustomOpIOTensor *inputs, int32_t numInputs, CustomOpIOTensor *outputs, int32_t numOutputs,          \
        CustomOpParam *params, int32_t numParams, CustomOpContext *ctx);                                     \
    void kernel(CustomOpIOTensor *inputs, int32_t numInputs, CustomOpIOTensor *outputs, int32_t numOutputs,  \
                CustomOpParam *params, int32_t numParams, CustomOpContext *ctx) {                            \
        opdb_aic_run(aic, inputs, numInputs, outputs, numOutputs, params, numParams, ctx, 0, 1);             \
    }

#endif
