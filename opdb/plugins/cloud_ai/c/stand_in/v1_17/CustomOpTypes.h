/* Stand-in, opdb's own text: tensors of the generation of SDK 1.10 to 1.17.
 *
 * Members and layout are those of pytorch/glow PR 5208 (Apache-2.0), which is that generation's source. */
#ifndef CUSTOM_OP_TYPES_H
#define CUSTOM_OP_TYPES_H

#include "CustomOpStandIn.h"

typedef struct {
    void *data; /* NULL if only shapes and types are needed */
    int32_t *dims;
    int32_t rank;
    CustomOpDataType dtype;
    float scale;
    float offset;
} CustomOpIOTensor;

#endif
