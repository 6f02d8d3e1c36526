/* Stand-in, opdb's own text: tensors, and the properties of a node, generation 5.0.0.
 *
 * CustomOpProperties is public with inputs, outputs and params, which have size() and [], and the members
 * data, sizes, rank and dtype (packages of quic/efficient-transformers).  Layouts, scale and offset here, and
 * the tiles are opdb's. */
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
} CustomOpTileAxes;

typedef struct {
    const char *name;
    const char *backend;
} CustomOpKernelInfo;

#ifdef __cplusplus
/* A list in the caller's memory. */
template <typename T> struct CustomOpList {
    T *first;
    size_t count;
    size_t size() const { return count; }
    T &operator[](size_t i) { return first[i]; }
    const T &operator[](size_t i) const { return first[i]; }
};

struct CustomOpProperties {
    CustomOpList<CustomOpIOTensor> inputs;
    CustomOpList<CustomOpIOTensor> outputs;
    CustomOpList<CustomOpParam> params;
    CustomOpList<const char *> outputNames; /* as the configuration has them */
    CustomOpList<CustomOpTileAxes> tiles;   /* for each output */
};
#endif

#endif
