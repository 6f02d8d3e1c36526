/* Stand-in, opdb's own text: a kernel that runs on the card, called by each of its four threads;
 * generation 5.0.0. */
#ifndef CUSTOM_OP_AIC_INTERFACE_H
#define CUSTOM_OP_AIC_INTERFACE_H

#include "CustomOpContext.h"

typedef void (*customOpAICKernel_t)(const CustomOpContext *ctx, const int32_t threadId);

#endif
