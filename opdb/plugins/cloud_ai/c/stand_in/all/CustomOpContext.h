/* Stand-in, opdb's own text: a kernel's context, besides its arguments.
 *
 * Public are scratchBuffers[i].buf and .size, syncThread(threadId), inputs, outputs and params (5.0.0), and
 * the four functions for scales and offsets.  The layout, and the members num*, are not: they are opdb's. */
#ifndef CUSTOM_OP_CONTEXT_H
#define CUSTOM_OP_CONTEXT_H

#include "CustomOpTypes.h"

typedef struct {
    void *buf;
    int32_t size; /* bytes */
} CustomOpScratchBuffer;

typedef struct CustomOpContext {
    CustomOpIOTensor *inputs;
    CustomOpIOTensor *outputs;
    CustomOpParam *params;
    CustomOpScratchBuffer *scratchBuffers; /* in the order of the configuration */
    void (*syncThread)(int32_t threadId);  /* returns when all threads are there; NULL for Interpreter */
    int32_t numInputs;
    int32_t numOutputs;
    int32_t numParams;
    int32_t numScratchBuffers;
} CustomOpContext;

static inline float getInputScale(const CustomOpContext *ctx, const int32_t inputIdx) {
    return ctx->inputs[inputIdx].scale;
}
static inline int32_t getInputOffset(const CustomOpContext *ctx, const int32_t inputIdx) {
    return (int32_t)ctx->inputs[inputIdx].offset;
}
static inline float getOutputScale(const CustomOpContext *ctx, const int32_t outputIdx) {
    return ctx->outputs[outputIdx].scale;
}
static inline int32_t getOutputOffset(const CustomOpContext *ctx, const int32_t outputIdx) {
    return (int32_t)ctx->outputs[outputIdx].offset;
}

#endif
