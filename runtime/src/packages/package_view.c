/* See package_view.h. */
#include "package_view.h"

#include <stdlib.h>
#include <string.h>

void opdb_op_view_free(opdb_op_view *view) {
    free(view->tensors);
    free(view->slots);
    free(view->dims);
    free(view->params);
    free(view->shapes);
    free(view->ints);
}

/* Memory for so many tensors, parameters and values of parameters; false where there is none. */
static bool view_new(opdb_op_view *view, const char *op, size_t inputs, size_t outputs, size_t params,
                     size_t values) {
    const size_t tensors = inputs + outputs;
    memset(view, 0, sizeof *view);
    view->tensors = calloc(tensors + 1, sizeof *view->tensors);
    view->slots = calloc(tensors + 1, sizeof *view->slots);
    view->dims = calloc(tensors + 1, sizeof *view->dims);
    view->params = calloc(params + 1, sizeof *view->params);
    view->shapes = calloc(params + 1, sizeof *view->shapes);
    view->ints = calloc(values + 1, sizeof *view->ints);
    view->op =
        (opdb_op){op, inputs, view->slots, outputs, view->slots + inputs, params, view->params, NULL, 0};
    return view->tensors && view->slots && view->dims && view->params && view->shapes && view->ints;
}

bool opdb_is_shown(enum opdb_dtype dtype) {
    return dtype == OPDB_I8 || dtype == OPDB_I32 || dtype == OPDB_U8 || dtype == OPDB_U32 ||
           dtype == OPDB_F32 || dtype == OPDB_BOOL8 || dtype == OPDB_UQ8;
}

/* Whether real zero is the middle of the stored values of `dtype`. */
static bool is_symmetric(enum opdb_dtype dtype, const int32_t *offset, size_t step, size_t count) {
    const int64_t bits = dtype == OPDB_UQ4 ? 4 : dtype == OPDB_UQ8 ? 8 : dtype == OPDB_UQ16 ? 16 : 32;
    const bool from_zero = dtype == OPDB_UQ4 || dtype == OPDB_UQ8 || dtype == OPDB_UQ16 || dtype == OPDB_UQ32;
    const int64_t middle = from_zero ? -(INT64_C(1) << (bits - 1)) : 0;
    for (size_t i = 0; i < count; i++)
        if (offset[i * step] != middle)
            return false;
    return true;
}

static void read_encoding(opdb_tensor *out, const Qnn_QuantizeParams_t *quant) {
    out->encoding = OPDB_ENCODING_NONE;
    out->symmetric = true;
    out->axis = -1;
    out->quant = NULL; /* QNN keeps the numbers in several layouts; no rule of a package reads them yet */
    if (quant->encodingDefinition != QNN_DEFINITION_DEFINED)
        return;
    out->encoding = (opdb_encoding)quant->quantizationEncoding;
    switch (quant->quantizationEncoding) {
    case QNN_QUANTIZATION_ENCODING_SCALE_OFFSET:
        out->symmetric = is_symmetric(out->dtype, &quant->u.scaleOffsetEncoding.offset, 1, 1);
        break;
    case QNN_QUANTIZATION_ENCODING_BW_SCALE_OFFSET:
        out->symmetric = is_symmetric(out->dtype, &quant->u.bwScaleOffsetEncoding.offset, 1, 1);
        break;
    case QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET:
        out->axis = quant->u.axisScaleOffsetEncoding.axis;
        out->symmetric = is_symmetric(out->dtype, &quant->u.axisScaleOffsetEncoding.scaleOffset->offset,
                                      sizeof(Qnn_ScaleOffset_t) / sizeof(int32_t),
                                      quant->u.axisScaleOffsetEncoding.numScaleOffsets);
        break;
    case QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET:
        out->axis = quant->u.bwAxisScaleOffsetEncoding.axis;
        if (quant->u.bwAxisScaleOffsetEncoding.offsets != NULL)
            out->symmetric = is_symmetric(out->dtype, quant->u.bwAxisScaleOffsetEncoding.offsets, 1,
                                          quant->u.bwAxisScaleOffsetEncoding.numElements);
        break;
    default:
        break;
    }
}

/* The value number `i` of a parameter's data; false for a type that is no integer. */
static bool read_int(enum opdb_dtype dtype, const void *data, size_t i, int64_t *out) {
    switch ((int)dtype) {
    case OPDB_I8:
        *out = ((const int8_t *)data)[i];
        return true;
    case OPDB_U8:
    case OPDB_BOOL8:
        *out = ((const uint8_t *)data)[i];
        return true;
    case OPDB_I16:
        *out = ((const int16_t *)data)[i];
        return true;
    case OPDB_U16:
        *out = ((const uint16_t *)data)[i];
        return true;
    case OPDB_I32:
        *out = ((const int32_t *)data)[i];
        return true;
    case OPDB_U32:
        *out = ((const uint32_t *)data)[i];
        return true;
    default:
        return false;
    }
}

/* The number of elements; 0 where there are more than fit. */
static size_t count_of(const uint32_t *dims, uint32_t rank) {
    size_t n = 1;
    for (uint32_t d = 0; d < rank; d++)
        if (__builtin_mul_overflow(n, (size_t)dims[d], &n))
            return 0;
    return n;
}

/* A tensor parameter's place, shape and values.  Returns why it cannot be taken, or NULL. */
static const char *read_list(opdb_op_view *view, size_t i, size_t from, enum opdb_dtype dtype,
                             const uint32_t *dims, uint32_t rank, const void *data) {
    opdb_param *out = &view->params[i];
    const size_t count = count_of(dims, rank);
    if (rank > OPDB_MAX_RANK)
        return "a parameter has more than 16 dimensions";
    if (count > 0 && data == NULL)
        return "a tensor parameter has no data";
    for (uint32_t d = 0; d < rank; d++)
        view->shapes[i][d] = dims[d];
    for (size_t k = 0; k < count; k++)
        if (!read_int(dtype, data, k, &view->ints[from + k]))
            return "a tensor parameter must be of integers of up to 32 bits, or of bool8";
    out->dtype = dtype;
    out->rank = rank;
    out->dims = view->shapes[i];
    out->count = (int64_t)count;
    out->ints = &view->ints[from];
    return NULL;
}

/* -- from Qnn_OpConfig_t */

/* The members that Qnn_TensorV1_t and Qnn_TensorV2_t share stand at the same places. */
static const char *read_tensor(opdb_op_view *view, size_t i, const Qnn_Tensor_t *tensor) {
    const Qnn_TensorV1_t *in = &tensor->u.v1;
    opdb_tensor *out = &view->tensors[i];
    if (in->type == QNN_TENSOR_TYPE_NULL)
        return NULL;
    if (in->rank > OPDB_MAX_RANK)
        return "a tensor has more than 16 dimensions";
    for (uint32_t d = 0; d < in->rank; d++)
        view->dims[i][d] = in->dimensions[d];
    out->rank = in->rank;
    out->dims = view->dims[i];
    out->dtype = (enum opdb_dtype)in->dataType;
    out->type = (enum opdb_tensor_type)in->type;
    out->is_sparse = in->dataFormat == QNN_TENSOR_DATA_FORMAT_SPARSE;
    read_encoding(out, &in->quantizeParams);
    view->slots[i] = out;
    return NULL;
}

static const char *read_scalar(opdb_op_view *view, size_t i, size_t from, const Qnn_Scalar_t *in) {
    opdb_param *out = &view->params[i];
    out->dtype = (enum opdb_dtype)in->dataType;
    out->dims = view->shapes[i];
    out->count = 1;
    out->ints = &view->ints[from];
    if (out->dtype == OPDB_F32)
        out->real = (double)in->u.floatValue;
    else if (out->dtype == OPDB_F64)
        out->real = in->u.doubleValue;
    else if (out->dtype != OPDB_STR && !read_int(out->dtype, &in->u, 0, &view->ints[from]))
        return "a scalar parameter must be an integer of up to 32 bits, bool8, f32, f64 or a string";
    return NULL;
}

static const char *read_param(opdb_op_view *view, size_t i, size_t from, const Qnn_Param_t *param) {
    view->params[i].name = param->name;
    if (param->paramType == QNN_PARAMTYPE_SCALAR)
        return read_scalar(view, i, from, &param->u.scalarParam);
    const Qnn_TensorV1_t *in = &param->u.tensorParam.u.v1;
    if (!opdb_is_shown((enum opdb_dtype)in->dataType))
        return "QNN's CPU backend shows op packages tensor parameters of i8, i32, u8, u32, f32 and bool8";
    return read_list(view, i, from, (enum opdb_dtype)in->dataType, in->dimensions, in->rank,
                     in->u.clientBuf.data);
}

static size_t values_of(const Qnn_Param_t *param) {
    return param->paramType == QNN_PARAMTYPE_SCALAR
               ? 1
               : count_of(param->u.tensorParam.u.v1.dimensions, param->u.tensorParam.u.v1.rank);
}

const char *opdb_op_view_config(opdb_op_view *view, const Qnn_OpConfigV1_t *in) {
    size_t values = 0, from = 0;
    for (uint32_t i = 0; i < in->numOfParams; i++)
        values += values_of(&in->params[i]);
    if (!view_new(view, in->typeName, in->numOfInputs, in->numOfOutputs, in->numOfParams, values))
        return "out of memory";
    const char *why = NULL;
    for (uint32_t i = 0; why == NULL && i < in->numOfInputs; i++)
        why = read_tensor(view, i, &in->inputTensors[i]);
    for (uint32_t i = 0; why == NULL && i < in->numOfOutputs; i++)
        why = read_tensor(view, in->numOfInputs + i, &in->outputTensors[i]);
    for (uint32_t i = 0; why == NULL && i < in->numOfParams; i++) {
        why = read_param(view, i, from, &in->params[i]);
        from += values_of(&in->params[i]);
    }
    return why;
}

/* -- from QnnCpuOpPackage_Node_t */

/* The dtype as the op config had it: of a quantised tensor the backend shows the stored integers. */
static enum opdb_dtype node_dtype(const QnnCpuOpPackage_Tensor_t *in) {
    const bool quantised = in->quantizeParams.encodingDefinition == QNN_DEFINITION_DEFINED;
    return in->dataType == OPDB_U8 && quantised ? OPDB_UQ8 : (enum opdb_dtype)in->dataType;
}

/* Dims and data of tensor `i` as they are now; false for more dims than a view holds.  An omitted input is a
 * tensor without dims, and without data when the op is executed. */
static bool refresh(opdb_op_view *view, size_t i, const QnnCpuOpPackage_Tensor_t *in) {
    opdb_tensor *out = &view->tensors[i];
    if (in->rank > OPDB_MAX_RANK)
        return false;
    out->rank = in->rank;
    for (uint32_t d = 0; d < in->rank; d++)
        view->dims[i][d] = in->currentDimensions[d];
    out->data = in->data;
    view->slots[i] = in->rank == 0 && in->data == NULL ? NULL : out;
    return true;
}

static bool view_node_tensor(opdb_node *state, size_t i, const QnnCpuOpPackage_Tensor_t *in) {
    opdb_tensor *out = &state->view.tensors[i];
    state->tensors[i] = in;
    out->dims = state->view.dims[i];
    out->dtype = node_dtype(in);
    out->type = in->data != NULL ? OPDB_TENSOR_STATIC : OPDB_TENSOR_NATIVE;
    read_encoding(out, &in->quantizeParams);
    return refresh(&state->view, i, in);
}

static const char *view_node_param(opdb_node *state, size_t i, size_t from,
                                   const QnnCpuOpPackage_Param_t *in) {
    opdb_op_view *view = &state->view;
    opdb_param *out = &view->params[i];
    out->name = in->name;
    for (size_t k = 0; k < state->op->num_params; k++)
        if (strcmp(state->op->params[k].name, in->name) == 0) {
            out->name = state->op->params[k].name; /* lives as long as the library */
            out->dtype = state->op->params[k].dtype;
        }
    if (in->type == QNN_CPU_PARAMTYPE_TENSOR)
        return read_list(view, i, from, out->dtype, in->u.tensorParam->currentDimensions,
                         in->u.tensorParam->rank, in->u.tensorParam->data);
    out->dims = view->shapes[i];
    out->count = 1;
    out->ints = &view->ints[from];
    if (in->type == QNN_CPU_PARAMTYPE_SCALAR) {
        out->real = in->u.scalarParam;
        if (out->dtype != OPDB_F32 && out->dtype != OPDB_F64)
            view->ints[from] = (int64_t)in->u.scalarParam;
    }
    return NULL;
}

static size_t node_values_of(const QnnCpuOpPackage_Param_t *in) {
    return in->type == QNN_CPU_PARAMTYPE_TENSOR
               ? count_of(in->u.tensorParam->currentDimensions, in->u.tensorParam->rank)
               : 1;
}

const char *opdb_op_view_node(opdb_node *state, const QnnCpuOpPackage_Node_t *in) {
    size_t values = 0, from = 0;
    /* More parameters than the op has cannot be meant, since validateOpConfig refuses unknown ones
     * (CPU-0331). */
    const uint32_t num_params = in->numOfParams > state->op->num_params ? 0 : in->numOfParams;
    for (uint32_t i = 0; i < num_params; i++)
        values += node_values_of(in->params[i]);
    state->num_tensors = (size_t)in->numOfInputs + in->numOfOutputs;
    state->tensors = calloc(state->num_tensors + 1, sizeof *state->tensors);
    if (state->tensors == NULL ||
        !view_new(&state->view, state->op->name, in->numOfInputs, in->numOfOutputs, num_params, values))
        return "out of memory";
    bool fits = true;
    for (uint32_t i = 0; i < in->numOfInputs; i++)
        fits = view_node_tensor(state, i, in->inputs[i]) && fits;
    for (uint32_t i = 0; i < in->numOfOutputs; i++)
        fits = view_node_tensor(state, in->numOfInputs + i, in->outputs[i]) && fits;
    const char *why = fits ? NULL : "a tensor has more than 16 dimensions";
    for (uint32_t i = 0; why == NULL && i < num_params; i++) {
        why = view_node_param(state, i, from, in->params[i]);
        from += node_values_of(in->params[i]);
    }
    return why;
}

bool opdb_node_refresh(opdb_node *node) {
    for (size_t i = 0; i < node->num_tensors; i++)
        if (!refresh(&node->view, i, node->tensors[i]))
            return false;
    return true;
}

bool opdb_node_scratch(opdb_node *node) {
    opdb_op *op = &node->view.op;
    const size_t size = node->op->scratch(op);
    if (size <= op->scratch_size)
        return true;
    free(node->scratch);
    node->scratch = malloc(size);
    op->scratch = node->scratch;
    op->scratch_size = node->scratch != NULL ? size : 0;
    return node->scratch != NULL;
}

void opdb_node_free(opdb_node *node) {
    free(node->scratch);
    opdb_op_view_free(&node->view);
    free(node->tensors);
    free(node);
}
