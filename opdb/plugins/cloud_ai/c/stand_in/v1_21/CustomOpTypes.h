/* Stand-in, opdb's own text: tensors, and the properties of a node, generation of SDK 1.21.
 *
 * The names CustomOpPropertiesHandle and CustomOpKernelInfo are public. All members are opdb's, modeled on
 * generation 5.0.0. */
#ifndef CUSTOM_OP_TYPES_H
#define CUSTOM_OP_TYPES_H

#include "CustomOpStandIn.h"

enum { CUSTOM_OP_MAX_AXES = 8 };

typedef struct {
    void *data; /* NULL if only shapes and types are needed */
    int32_t *sizes;
    int32_t rank;
    CustomOpDataType dtype;
    float scale;
    float offset;
    int32_t *tileStart; /* of the part that customOpMapTiles is asked about; NULL elsewhere */
    int32_t *tileEnd;   /* behind it */
} CustomOpIOTensor;

/* The division of an output. */
typedef struct {
    int32_t numAxes;
    int32_t axes[CUSTOM_OP_MAX_AXES];
    int32_t alignment[CUSTOM_OP_MAX_AXES]; /* of a tile's start along that axis, in elements */
} CustomOpTileConfigHandle;

typedef struct {
    const char *name;
    const char *backend;
} CustomOpKernelInfo;

typedef struct {
    CustomOpIOTensor *inputs;
    CustomOpIOTensor *outputs;
    CustomOpParam *params;
    CustomOpTileConfigHandle **tileConfigs; /* for each output; NULL: it is not divided */
    int32_t numInputs;
    int32_t numOutputs;
    int32_t numParams;
} CustomOpPropertiesHandle;

#endif
