/* Converts a node of Cloud AI's compiler and kernels to the op that generated validators and shims take.
 *
 * All memory is in opdb_aic_node; files that include this one may set its size before. */
#ifndef OPDB_AIC_NODE_H
#define OPDB_AIC_NODE_H

#include <string.h>

#include "aic.h"
#include "cloud_ai_api.h"

#ifndef OPDB_AIC_TENSORS
#define OPDB_AIC_TENSORS 64
#define OPDB_AIC_PARAMS 32
#define OPDB_AIC_VALUES 4096 /* of all parameters together */
#endif

typedef struct {
    opdb_op op;
    opdb_tensor tensors[OPDB_AIC_TENSORS]; /* inputs, then outputs */
    const opdb_tensor *slots[OPDB_AIC_TENSORS];
    int64_t dims[OPDB_AIC_TENSORS][OPDB_AIC_RANK];
    opdb_quant quants[OPDB_AIC_TENSORS];
    float scales[OPDB_AIC_TENSORS];
    int32_t offsets[OPDB_AIC_TENSORS];
    opdb_param params[OPDB_AIC_PARAMS + 1];
    int64_t shapes[OPDB_AIC_PARAMS + 1][2];
    int64_t ints[OPDB_AIC_VALUES];
    double reals[OPDB_AIC_VALUES];
} opdb_aic_node;

/* Cloud AI's type for one of opdb's; -1: it has none.  Stored integers and indices of 32 bits have the same
 * bits as opdb's types of their size. */
static int opdb_aic_type(enum opdb_dtype dtype) {
    switch ((int)dtype) {
    case OPDB_F32:
        return DTFloat32;
    case OPDB_F16:
        return DTFloat16;
    case OPDB_BF16:
        return DTBFloat16;
    case OPDB_I8:
    case OPDB_SQ8:
        return DTQInt8;
    case OPDB_UQ8:
        return DTQUInt8;
    case OPDB_I16:
    case OPDB_SQ16:
        return DTQInt16;
    case OPDB_SQ32:
        return DTQInt32;
    case OPDB_I32:
    case OPDB_U32:
        return DTIInt32;
    case OPDB_I64:
        return DTIInt64;
    case OPDB_BOOL8:
        return DTBool;
    default:
        return -1;
    }
}

/* The types of tensor `i` among the slots from `first` on. */
static enum opdb_dtype opdb_aic_slot(const enum opdb_dtype *row, size_t first, size_t slots, int32_t i) {
    return row[first + ((size_t)i < slots ? (size_t)i : slots - 1)];
}

/* The first row of the op for these tensors; outputs do not count if there are none. NULL: none. */
static const enum opdb_dtype *opdb_aic_row(const opdb_aic_op *aic, const CustomOpIOTensor *inputs,
                                           int32_t num_inputs, const CustomOpIOTensor *outputs,
                                           int32_t num_outputs) {
    for (size_t r = 0; r < aic->num_rows; r++) {
        const enum opdb_dtype *row = aic->rows + r * (aic->num_inputs + aic->num_outputs);
        bool fits = true;
        for (int32_t i = 0; fits && i < num_inputs; i++)
            fits = opdb_aic_type(opdb_aic_slot(row, 0, aic->num_inputs, i)) == (int)inputs[i].dtype;
        for (int32_t i = 0; fits && i < num_outputs; i++)
            fits = opdb_aic_type(opdb_aic_slot(row, aic->num_inputs, aic->num_outputs, i)) ==
                   (int)outputs[i].dtype;
        if (fits)
            return row;
    }
    return NULL;
}

/* The encoding of tensor `i`, whose type is set: Cloud AI's real = (stored - offset) * scale. */
static void opdb_aic_encode(opdb_aic_node *node, size_t i, float scale, int32_t offset) {
    opdb_tensor *out = &node->tensors[i];
    const int bits = out->dtype == OPDB_SQ8 || out->dtype == OPDB_UQ8 ? 8
                     : out->dtype == OPDB_SQ16                        ? 16
                     : out->dtype == OPDB_SQ32                        ? 32
                                                                      : 0;
    out->encoding = OPDB_ENCODING_NONE;
    out->symmetric = true;
    out->quant = NULL;
    if (bits == 0)
        return;
    node->scales[i] = scale;
    node->offsets[i] = -offset;
    node->quants[i] = (opdb_quant){1, &node->scales[i], &node->offsets[i], 0};
    out->encoding = OPDB_ENCODING_SCALE_OFFSET;
    out->symmetric = offset == (out->dtype == OPDB_UQ8 ? 1 << (bits - 1) : 0);
    out->quant = &node->quants[i];
}

static const char *opdb_aic_read_tensor(opdb_aic_node *node, size_t i, const CustomOpIOTensor *in,
                                        enum opdb_dtype dtype) {
    opdb_tensor *out = &node->tensors[i];
    if (in->rank < 0 || in->rank > OPDB_AIC_RANK)
        return "a tensor has more than 8 dimensions";
    memset(out, 0, sizeof *out);
    for (int32_t d = 0; d < in->rank; d++)
        node->dims[i][d] = AIC_SIZES(in)[d];
    out->rank = (uint32_t)in->rank;
    out->dims = node->dims[i];
    out->dtype = dtype;
    out->type = OPDB_TENSOR_NATIVE;
    out->axis = -1;
    out->data = in->data;
    node->slots[i] = out;
    opdb_aic_encode(node, i, in->scale, (int32_t)in->offset);
    return NULL;
}

/* Parameter `given` of the node, its values from number `at` on; returns their number, or -1. */
static int64_t opdb_aic_read_param(opdb_aic_node *node, const opdb_aic_param *of, size_t given, int64_t at,
                                   const CustomOpParam *in) {
    opdb_param *out = &node->params[given];
    const int64_t n = of->rank == 0 ? 1 : in->size;
    if ((of->rank == 0) != (in->size == 0) || at + n > OPDB_AIC_VALUES || in->data == NULL)
        return -1;
    const bool real = of->dtype == OPDB_F32 || of->dtype == OPDB_F64;
    if (real != (in->dtype == DTFloat32))
        return -1;
    for (int64_t k = 0; k < n; k++) {
        node->ints[at + k] = 0;
        node->reals[at + k] = 0.0;
        if (in->dtype == DTFloat32)
            node->reals[at + k] = (double)((const float *)in->data)[k];
        else if (in->dtype == DTIInt32)
            node->ints[at + k] = ((const int32_t *)in->data)[k];
        else if (in->dtype == DTIInt64)
            node->ints[at + k] = ((const int64_t *)in->data)[k];
        else if (in->dtype == DTBool)
            node->ints[at + k] = ((const uint8_t *)in->data)[k] != 0;
        else
            return -1;
    }
    memset(out, 0, sizeof *out);
    out->name = of->name;
    out->dtype = of->dtype;
    out->rank = of->rank;
    node->shapes[given][0] = of->rank == 2 ? n / of->width : n;
    node->shapes[given][1] = of->width;
    out->dims = node->shapes[given];
    out->count = n;
    out->ints = &node->ints[at];
    out->real = node->reals[at];
    out->reals = real && of->rank > 0 ? &node->reals[at] : NULL;
    return n;
}

/* Fills `node`.  Returns why it cannot, or NULL. */
static const char *opdb_aic_read(opdb_aic_node *node, const opdb_aic_op *aic, const CustomOpIOTensor *inputs,
                                 int32_t num_inputs, const CustomOpIOTensor *outputs, int32_t num_outputs,
                                 const CustomOpParam *params, int32_t num_params) {
    const enum opdb_dtype *row = opdb_aic_row(aic, inputs, num_inputs, outputs, num_outputs);
    const char *why = NULL;
    int64_t at = 0;
    size_t given = 0;
    if (num_inputs + num_outputs > OPDB_AIC_TENSORS || num_params > OPDB_AIC_PARAMS)
        return "more tensors or parameters than it was made for";
    if (row == NULL)
        return "there is no kernel for these data types";
    for (int32_t i = 0; why == NULL && i < num_inputs; i++)
        why = opdb_aic_read_tensor(node, (size_t)i, &inputs[i], opdb_aic_slot(row, 0, aic->num_inputs, i));
    for (int32_t i = 0; why == NULL && i < num_outputs; i++)
        why = opdb_aic_read_tensor(node, (size_t)(num_inputs + i), &outputs[i],
                                   opdb_aic_slot(row, aic->num_inputs, aic->num_outputs, i));
    for (int32_t i = 0; why == NULL && i < num_params; i++) {
        size_t p = 0;
        while (p < aic->num_params && strcmp(aic->params[p].name, params[i].name) != 0)
            p++;
        const int64_t n =
            p < aic->num_params ? opdb_aic_read_param(node, &aic->params[p], given, at, &params[i]) : -1;
        if (n < 0)
            why = p < aic->num_params
                      ? "a parameter has another type than its spec, or none or too many values"
                      : "a parameter is none of its spec";
        at += n;
        given++;
    }
    node->op = (opdb_op){aic->name,
                         (size_t)num_inputs,
                         node->slots,
                         (size_t)num_outputs,
                         node->slots + num_inputs,
                         given,
                         node->params,
                         NULL,
                         0};
    return why;
}

#endif
