/* What QNN hands to an op package, as the ops that generated validators and shims take. */
#ifndef OPDB_PACKAGE_VIEW_H
#define OPDB_PACKAGE_VIEW_H

#include "opdb/binding.h"
#include "opdb/op_package.h"

/* An op as the generated code takes it, with the memory behind it. */
typedef struct {
    opdb_op op;
    opdb_tensor *tensors;           /* inputs, then outputs */
    const opdb_tensor **slots;      /* for each tensor its address, or NULL where it is omitted */
    int64_t (*dims)[OPDB_MAX_RANK]; /* for each tensor */
    opdb_param *params;
    int64_t (*shapes)[OPDB_MAX_RANK]; /* for each parameter */
    int64_t *ints;                    /* the values of all parameters */
} opdb_op_view;

/* What createOpImpl leaves with the backend. */
typedef struct {
    QnnCpuOpPackage_OpImpl_t impl;
    const opdb_package_op *op;
    opdb_op_view view;
    size_t num_tensors;
    const QnnCpuOpPackage_Tensor_t **tensors; /* the backend's: inputs, then outputs */
    void *scratch;                            /* what the kernel needs besides, from the first run on */
} opdb_node;

/* Whether QNN's CPU backend shows tensors of this type to packages. */
bool opdb_is_shown(enum opdb_dtype dtype);

/* The view of an op config.  Returns why it cannot be taken, or NULL; free the view in any case. */
const char *opdb_op_view_config(opdb_op_view *view, const Qnn_OpConfigV1_t *in);
void opdb_op_view_free(opdb_op_view *view);

/* The view of a node whose `op` is set and whose rest is zero.  Returns why it cannot be taken, or NULL. */
const char *opdb_op_view_node(opdb_node *state, const QnnCpuOpPackage_Node_t *in);
/* Dims and data as they are now; false for more dims than a view holds. */
bool opdb_node_refresh(opdb_node *node);
/* Gives the kernel the scratch that it needs; false where there is no memory. */
bool opdb_node_scratch(opdb_node *node);
void opdb_node_free(opdb_node *node);

#endif
