/* What QNN hands to validateOpConfig, as the op that generated validators and shims take. */
#include "package.h"

#include <stdlib.h>
#include <string.h>

/* Whether real zero is the middle of the stored values of `dtype`. */
static bool is_symmetric(enum opdb_dtype dtype, const int32_t *offsets, size_t count) {
    const int64_t bits = dtype == OPDB_UQ4 ? 4 : dtype == OPDB_UQ8 ? 8 : dtype == OPDB_UQ16 ? 16 : 32;
    const bool from_zero = dtype == OPDB_UQ4 || dtype == OPDB_UQ8 || dtype == OPDB_UQ16 || dtype == OPDB_UQ32;
    const int64_t middle = from_zero ? -(INT64_C(1) << (bits - 1)) : 0;
    for (size_t i = 0; i < count; i++)
        if (offsets[i] != middle)
            return false;
    return true;
}

/* Scales and offsets number `i` of an encoding of several, wherever QNN keeps them. */
static void read_step(const Qnn_QuantizeParams_t *in, size_t i, float *scale, int32_t *offset) {
    *offset = 0;
    switch ((int)in->quantizationEncoding) {
    case QNN_QUANTIZATION_ENCODING_SCALE_OFFSET:
        *scale = in->u.scaleOffsetEncoding.scale;
        *offset = in->u.scaleOffsetEncoding.offset;
        break;
    case QNN_QUANTIZATION_ENCODING_BW_SCALE_OFFSET:
        *scale = in->u.bwScaleOffsetEncoding.scale;
        *offset = in->u.bwScaleOffsetEncoding.offset;
        break;
    case QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET:
        *scale = in->u.axisScaleOffsetEncoding.scaleOffset[i].scale;
        *offset = in->u.axisScaleOffsetEncoding.scaleOffset[i].offset;
        break;
    default: /* BW_AXIS_SCALE_OFFSET */
        *scale = in->u.bwAxisScaleOffsetEncoding.scales[i];
        if (in->u.bwAxisScaleOffsetEncoding.offsets != NULL)
            *offset = in->u.bwAxisScaleOffsetEncoding.offsets[i];
    }
}

const char *opdb_op_view_encoding(opdb_op_view *view, size_t i, const Qnn_QuantizeParams_t *in) {
    opdb_tensor *out = &view->tensors[i];
    opdb_quant *quant = &view->quants[i];
    out->encoding = OPDB_ENCODING_NONE;
    out->symmetric = true;
    out->axis = -1;
    out->quant = NULL;
    if (in->encodingDefinition != QNN_DEFINITION_DEFINED)
        return NULL;
    out->encoding = (opdb_encoding)in->quantizationEncoding;
    switch ((int)in->quantizationEncoding) {
    case QNN_QUANTIZATION_ENCODING_SCALE_OFFSET:
        quant->n = 1;
        break;
    case QNN_QUANTIZATION_ENCODING_BW_SCALE_OFFSET:
        quant->n = 1;
        quant->bits = in->u.bwScaleOffsetEncoding.bitwidth;
        break;
    case QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET:
        out->axis = in->u.axisScaleOffsetEncoding.axis;
        quant->n = in->u.axisScaleOffsetEncoding.numScaleOffsets;
        break;
    case QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET:
        out->axis = in->u.bwAxisScaleOffsetEncoding.axis;
        quant->n = in->u.bwAxisScaleOffsetEncoding.numElements;
        quant->bits = in->u.bwAxisScaleOffsetEncoding.bitwidth;
        break;
    default: /* blocks: their numbers are not read */
        return NULL;
    }
    float *scales = calloc((size_t)quant->n + 1, sizeof *scales);
    int32_t *offsets = calloc((size_t)quant->n + 1, sizeof *offsets);
    quant->scales = scales;
    quant->offsets = offsets;
    if (scales == NULL || offsets == NULL)
        return "out of memory";
    for (int64_t k = 0; k < quant->n; k++)
        read_step(in, (size_t)k, &scales[k], &offsets[k]);
    out->symmetric = is_symmetric(out->dtype, offsets, (size_t)quant->n);
    out->quant = quant;
    return NULL;
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

size_t opdb_count_of(const uint32_t *dims, uint32_t rank) {
    size_t n = 1;
    for (uint32_t d = 0; d < rank; d++)
        if (__builtin_mul_overflow(n, (size_t)dims[d], &n))
            return 0;
    return n;
}

const char *opdb_op_view_list(opdb_op_view *view, size_t i, size_t from, enum opdb_dtype dtype,
                              const uint32_t *dims, uint32_t rank, const void *data) {
    opdb_param *out = &view->params[i];
    const size_t count = opdb_count_of(dims, rank);
    if (rank > OPDB_MAX_RANK)
        return "a parameter has more than 16 dimensions";
    if (count > 0 && data == NULL)
        return "a tensor parameter has no data";
    for (uint32_t d = 0; d < rank; d++)
        view->shapes[i][d] = dims[d];
    for (size_t k = 0; k < count; k++) {
        if (dtype == OPDB_F32)
            view->reals[from + k] = (double)((const float *)data)[k];
        else if (!read_int(dtype, data, k, &view->ints[from + k]))
            return "a tensor parameter must be of integers of up to 32 bits, of f32 or of bool8";
    }
    out->dtype = dtype;
    out->rank = rank;
    out->dims = view->shapes[i];
    out->count = (int64_t)count;
    out->ints = &view->ints[from];
    out->reals = dtype == OPDB_F32 ? &view->reals[from] : NULL;
    return NULL;
}

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
    view->slots[i] = out;
    return opdb_op_view_encoding(view, i, &in->quantizeParams);
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
    return opdb_op_view_list(view, i, from, (enum opdb_dtype)in->dataType, in->dimensions, in->rank,
                             in->u.clientBuf.data);
}

static size_t values_of(const Qnn_Param_t *param) {
    return param->paramType == QNN_PARAMTYPE_SCALAR
               ? 1
               : opdb_count_of(param->u.tensorParam.u.v1.dimensions, param->u.tensorParam.u.v1.rank);
}

const char *opdb_op_view_config(opdb_op_view *view, const Qnn_OpConfigV1_t *in) {
    size_t values = 0, from = 0;
    for (uint32_t i = 0; i < in->numOfParams; i++)
        values += values_of(&in->params[i]);
    if (!opdb_op_view_new(view, in->typeName, in->numOfInputs, in->numOfOutputs, in->numOfParams, values))
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
