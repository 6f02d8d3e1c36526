/* Stand-in, opdb's own text: a kernel that runs on the host, generation 1.21. */
#ifndef CUSTOM_OP_INTERPRETER_INTERFACE_H
#define CUSTOM_OP_INTERPRETER_INTERFACE_H

#include "CustomOpContext.h"

typedef void (*customOpInterpreterKernel_t)(CustomOpContext *ctx);

#endif
