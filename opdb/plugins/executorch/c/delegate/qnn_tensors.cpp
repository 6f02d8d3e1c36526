#include "qnn_tensors.h"

namespace opdb::delegate {

static Qnn_ScaleOffset_t *pairs(const Blob &blob, const QuantRecord &q, Memory &memory) {
    Qnn_ScaleOffset_t *const made = memory.list<Qnn_ScaleOffset_t>(q.count);
    for (uint32_t i = 0; made != nullptr && i < q.count; ++i)
        made[i] = {blob.floats(q.scales)[i], blob.ints(q.offsets)[i]};
    return made;
}

template <typename T> static T *narrowed(const int64_t *values, uint32_t n, Memory &memory) {
    T *const made = memory.list<T>(n);
    for (uint32_t i = 0; made != nullptr && i < n; ++i)
        made[i] = (T)values[i];
    return made;
}

static Qnn_BwAxisScaleOffset_t columns(const Blob &blob, const QuantRecord &q) {
    return {q.bits, (int32_t)q.axis, q.count, const_cast<float *>(blob.floats(q.scales)),
            const_cast<int32_t *>(blob.ints(q.offsets))};
}

static Qnn_BlockwiseExpansion_t *expansion(const Blob &blob, const QuantRecord &q, Memory &memory) {
    Qnn_BlockwiseExpansion_t *const out = memory.list<Qnn_BlockwiseExpansion_t>(1);
    if (out == nullptr)
        return out;
    const int64_t *const extra = blob.words(q.extra);
    out->axis = (int32_t)q.axis;
    out->scaleOffsets = pairs(blob, q, memory);
    out->numBlocksPerAxis = (uint32_t)extra[0];
    out->blockScaleBitwidth = (uint32_t)extra[1];
    if (extra[2] == 8) {
        out->blockScaleStorageType = QNN_BLOCKWISE_EXPANSION_BITWIDTH_SCALE_STORAGE_8;
        out->u.blocksScale8 = narrowed<uint8_t>(extra + 3, q.extras - 3, memory);
    } else {
        out->blockScaleStorageType = QNN_BLOCKWISE_EXPANSION_BITWIDTH_SCALE_STORAGE_16;
        out->u.blocksScale16 = narrowed<uint16_t>(extra + 3, q.extras - 3, memory);
    }
    return out;
}

static Qnn_VectorEncoding_t *vectors(const Blob &blob, const QuantRecord &q, Memory &memory) {
    Qnn_VectorEncoding_t *const out = memory.list<Qnn_VectorEncoding_t>(1);
    if (out == nullptr)
        return out;
    const int64_t *const extra = blob.words(q.extra);
    *out = {columns(blob, q),  (uint32_t)extra[0], (uint32_t)extra[1],
            (uint8_t)extra[2], (uint8_t)extra[3],  (uint8_t)extra[4]};
    return out;
}

static void qnn_quant(const Blob &blob, const TensorRecord &record, Memory &memory,
                      Qnn_QuantizeParams_t &out) {
    out.encodingDefinition = QNN_DEFINITION_UNDEFINED;
    out.quantizationEncoding = QNN_QUANTIZATION_ENCODING_UNDEFINED;
    if (record.quant == NONE)
        return;
    const QuantRecord &q = blob.quants()[record.quant];
    out.encodingDefinition = QNN_DEFINITION_DEFINED;
    out.quantizationEncoding = static_cast<Qnn_QuantizationEncoding_t>(q.encoding);
    switch (out.quantizationEncoding) {
    case QNN_QUANTIZATION_ENCODING_SCALE_OFFSET:
        out.u.scaleOffsetEncoding = {blob.floats(q.scales)[0], blob.ints(q.offsets)[0]};
        break;
    case QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET:
        out.u.axisScaleOffsetEncoding = {(int32_t)q.axis, q.count, pairs(blob, q, memory)};
        break;
    case QNN_QUANTIZATION_ENCODING_BW_SCALE_OFFSET:
        out.u.bwScaleOffsetEncoding = {q.bits, blob.floats(q.scales)[0], blob.ints(q.offsets)[0]};
        break;
    case QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET:
        out.u.bwAxisScaleOffsetEncoding = columns(blob, q);
        break;
    case QNN_QUANTIZATION_ENCODING_BLOCK:
        out.u.blockEncoding.blockSize = narrowed<uint32_t>(blob.words(q.extra), q.extras, memory);
        out.u.blockEncoding.scaleOffset = pairs(blob, q, memory);
        break;
    case QNN_QUANTIZATION_ENCODING_BLOCKWISE_EXPANSION:
        out.u.blockwiseExpansion = expansion(blob, q, memory);
        break;
    default:
        out.u.vectorEncoding = vectors(blob, q, memory);
    }
}

void qnn_tensor(const Blob &blob, const TensorRecord &record, Memory &memory, Qnn_Tensor_t &out) {
    out.version = record.specified > 0 ? QNN_TENSOR_VERSION_2 : QNN_TENSOR_VERSION_1;
    Qnn_TensorV1_t &v = out.u.v1; /* version 2 begins with it */
    v.id = blob.payload() == Payload::CONTEXT ? (uint32_t)record.offset : 0;
    v.name = blob.name(record);
    v.type = static_cast<Qnn_TensorType_t>(record.type);
    v.dataFormat = record.specified > 0 ? QNN_TENSOR_DATA_FORMAT_SPARSE : QNN_TENSOR_DATA_FORMAT_DENSE;
    v.dataType = static_cast<Qnn_DataType_t>(record.dtype);
    v.rank = record.rank;
    v.dimensions = narrowed<uint32_t>(blob.words(record.dims), record.rank, memory);
    v.memType = QNN_TENSORMEMTYPE_RAW;
    qnn_quant(blob, record, memory, v.quantizeParams);
    if (record.specified > 0) {
        out.u.v2.sparseParams.type = QNN_SPARSE_LAYOUT_HYBRID_COO;
        out.u.v2.sparseParams.u.hybridCoo = {record.specified, record.sparse_dims};
    }
}

void qnn_data(Qnn_Tensor_t &tensor, const void *data, uint64_t size) {
    tensor.u.v1.u.clientBuf = {const_cast<void *>(data), (uint32_t)size};
}

/* An integer; a scalar of any width begins with its lowest bytes. */
static bool qnn_scalar(const Blob &blob, const ParamRecord &record, Qnn_Scalar_t &out) {
    out.dataType = static_cast<Qnn_DataType_t>(record.dtype);
    const double real = blob.reals(record.reals)[0];
    if (record.dtype == OPDB_F32)
        out.u.floatValue = (float)real;
    else if (record.dtype == OPDB_F64)
        out.u.doubleValue = real;
    else if (record.dtype == OPDB_STR)
        out.u.stringValue = blob.string(record.text);
    else if (record.dtype != OPDB_F16 && record.dtype != OPDB_BF16 && width_of(record.dtype) > 0)
        out.u.int64Value = blob.words(record.ints)[0];
    else
        return false;
    return true;
}

template <typename T> static void narrow(const int64_t *values, uint32_t n, void *out) {
    for (uint32_t i = 0; i < n; ++i)
        static_cast<T *>(out)[i] = (T)values[i];
}

static bool qnn_values(const Blob &blob, const ParamRecord &record, void *out) {
    const int64_t *const whole = blob.words(record.ints);
    const double *const reals = blob.reals(record.reals);
    const size_t width = width_of(record.dtype);
    if (record.dtype == OPDB_F16 || record.dtype == OPDB_BF16 || width == 0)
        return false;
    for (uint32_t i = 0; record.dtype == OPDB_F32 && i < record.count; ++i)
        static_cast<float *>(out)[i] = (float)reals[i];
    for (uint32_t i = 0; record.dtype == OPDB_F64 && i < record.count; ++i)
        static_cast<double *>(out)[i] = reals[i];
    if (record.dtype == OPDB_F32 || record.dtype == OPDB_F64)
        return true;
    if (width == 1)
        narrow<int8_t>(whole, record.count, out);
    else if (width == 2)
        narrow<int16_t>(whole, record.count, out);
    else if (width == 4)
        narrow<int32_t>(whole, record.count, out);
    else
        narrow<int64_t>(whole, record.count, out);
    return true;
}

Error qnn_param(const Blob &blob, const ParamRecord &record, const char *tensor, Memory &memory,
                Qnn_Param_t &out) {
    out.name = blob.string(record.name);
    bool known;
    if (record.rank == 0) {
        out.paramType = QNN_PARAMTYPE_SCALAR;
        known = qnn_scalar(blob, record, out.u.scalarParam);
    } else {
        out.paramType = QNN_PARAMTYPE_TENSOR;
        const uint64_t size = (uint64_t)record.count * width_of(record.dtype);
        void *const data = memory.take(size);
        TensorRecord made = {
            0, record.dtype, OPDB_TENSOR_STATIC, record.rank, record.dims, NONE, 1, 0, 0, Held::NOTHING,
            0, size};
        qnn_tensor(blob, made, memory, out.u.tensorParam);
        if (!memory.ok())
            return memory.error();
        known = qnn_values(blob, record, data);
        out.u.tensorParam.u.v1.name = tensor;
        qnn_data(out.u.tensorParam, data, size);
    }
    return known ? Error::Ok
                 : fail(Error::NotSupported, "the parameter %s has the data type 0x%04x", out.name,
                        record.dtype);
}

} // namespace opdb::delegate
