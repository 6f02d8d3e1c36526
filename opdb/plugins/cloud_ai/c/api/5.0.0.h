/* The parts that differ between generations of Cloud AI's interface, for 5.0.0: kernels get a context with
 * everything.
 *
 * The numbers of tensors and parameters in a context are not public: here they are those of the
 * configuration. */
#ifndef OPDB_CLOUD_AI_API_H
#define OPDB_CLOUD_AI_API_H

#include "CustomOpContext.h"
#include "CustomOpTypes.h"

#define AIC_SIZES(tensor) ((tensor)->sizes)

/* Define the two kernels of the op `aic`: one for each of the threads of the card, one for the host. */
#define AIC_KERNEL(kernel, aic)                                                                              \
    __attribute__((visibility("default"))) void kernel(const CustomOpContext *ctx, const int32_t threadId);  \
    void kernel(const CustomOpContext *ctx, const int32_t threadId) {                                        \
        opdb_aic_run(aic, ctx->inputs, AIC_INPUTS(ctx), ctx->outputs, AIC_OUTPUTS(ctx), ctx->params,         \
                     AIC_PARAMS(ctx), ctx, threadId, OPDB_AIC_THREADS);                                      \
    }
#define INTERPRETER_KERNEL(kernel, aic)                                                                      \
    __attribute__((visibility("default"))) void kernel(CustomOpContext *ctx);                                \
    void kernel(CustomOpContext *ctx) {                                                                      \
        opdb_aic_run(aic, ctx->inputs, AIC_INPUTS(ctx), ctx->outputs, AIC_OUTPUTS(ctx), ctx->params,         \
                     AIC_PARAMS(ctx), ctx, 0, 1);                                                            \
    }

#ifdef OPDB_CLOUD_AI_STAND_IN
#define AIC_INPUTS(ctx) ((ctx)->numInputs)
#define AIC_OUTPUTS(ctx) ((ctx)->numOutputs)
#define AIC_PARAMS(ctx) ((ctx)->numParams)
#else
#define AIC_INPUTS(ctx) OPDB_AIC_INPUTS
#define AIC_OUTPUTS(ctx) OPDB_AIC_OUTPUTS
#define AIC_PARAMS(ctx) OPDB_AIC_PARAMS
#endif

#endif
