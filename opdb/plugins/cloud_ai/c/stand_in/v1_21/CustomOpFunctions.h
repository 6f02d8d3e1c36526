/* Stand-in, opdb's own text: exports of the functions library of an op, generation of SDK 1.21.
 *
 * Names and arguments are those of a package that Qualcomm's generator wrote (quic/efficient-transformers,
 * examples/onboarding_guide/customop). */
#ifndef CUSTOM_OP_FUNCTIONS_H
#define CUSTOM_OP_FUNCTIONS_H

#include "CustomOpTypes.h"

#ifdef __cplusplus
extern "C" {
#endif
bool customOpVerify(const CustomOpPropertiesHandle *const opProp);
const char *customOpSelectImpl(const CustomOpPropertiesHandle *const opProp,
                               const CustomOpKernelInfo *const kernelInfos, const int32_t numKernels,
                               const char *backend);
bool customOpInferShape(CustomOpPropertiesHandle *const opProp);
bool customOpSetProperties(CustomOpPropertiesHandle *opProp);
bool customOpMapTiles(CustomOpPropertiesHandle *opProp);
/* Frees what customOpSetProperties and customOpMapTiles made. */
void customOpDeallocateMemory(CustomOpPropertiesHandle *opProp);
#ifdef __cplusplus
}
#endif
#endif
