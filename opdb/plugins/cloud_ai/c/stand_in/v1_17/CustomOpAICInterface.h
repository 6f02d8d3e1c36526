/* Stand-in, opdb's own text: a kernel that runs on the card, called by each of its four threads; generation
 * of SDK 1.10 to 1.17 (the SDK's page "Custom operations"). */
#ifndef CUSTOM_OP_AIC_INTERFACE_H
#define CUSTOM_OP_AIC_INTERFACE_H

#include "CustomOpContext.h"

typedef void (*customOpAICKernel_t)(const CustomOpIOTensor *inputs, const int32_t numInputs,
                                    const CustomOpIOTensor *outputs, const int32_t numOutputs,
                                    const CustomOpParam *params, const int32_t numParams,
                                    const CustomOpContext *ctx, const int32_t threadID);

#endif
