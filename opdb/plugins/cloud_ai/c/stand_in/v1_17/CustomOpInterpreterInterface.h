/* Stand-in, opdb's own text: a kernel that runs on the host, generation of SDK 1.10 to 1.17 (the SDK's page
 * "Custom operations"). */
#ifndef CUSTOM_OP_INTERPRETER_INTERFACE_H
#define CUSTOM_OP_INTERPRETER_INTERFACE_H

#include "CustomOpContext.h"

typedef void (*customOpInterpreterKernel_t)(CustomOpIOTensor *inputs, int32_t numInputs,
                                            CustomOpIOTensor *outputs, int32_t numOutputs,
                                            CustomOpParam *params, int32_t numParams, CustomOpContext *ctx);

#endif
