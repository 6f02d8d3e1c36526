"""Op configs and tensors as QNN's C structs.  The Arena that is passed in owns the memory."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from opdb.core.dtypes import BY_SHORT
from opdb.core.graph import GraphTensor
from opdb.core.names import counted
from opdb.core.op_config import (
    ENCODINGS,
    ConfigError,
    OpConfig,
    ParamConfig,
    Quant,
    TensorConfig,
    check_sparse,
)
from opdb.runtime.qnn.native import NULL, Arena, CData, lib

MAX_BYTES = 2**32 - 1  # Qnn_ClientBuffer_t.dataSize is 32 bits
#: The member of Qnn_Scalar_t's union that holds a scalar of each type.
SCALARS = {
    "i8": "int8Value", "i16": "int16Value", "i32": "int32Value", "i64": "int64Value",
    "u8": "uint8Value", "u16": "uint16Value", "u32": "uint32Value", "u64": "uint64Value",
    "sq8": "int8Value", "sq16": "int16Value", "sq32": "int32Value",
    "uq8": "uint8Value", "uq16": "uint16Value", "uq32": "uint32Value",
    "f32": "floatValue", "f64": "doubleValue", "bool8": "bool8Value", "str": "stringValue",
}  # fmt: skip


def array(data: Any, dtype: str, shape: tuple[int, ...], where: str) -> np.ndarray[Any, Any]:
    """``data`` as QNN stores a tensor of ``dtype`` (short name) and ``shape``: contiguous, row-major.

    None gives zeros; a flat list is read row-major.  Numbers are converted if that keeps their meaning:
    integers must fit, real numbers are rounded.  bf16 accepts real numbers or uint16 bits; 4-bit types use one
    byte per element (the libraries of 2.47 refuse tensors of these types).  Raises ConfigError.
    """
    stored = np.dtype(BY_SHORT[dtype].numpy or "uint8")
    size = math.prod(shape)
    if size * stored.itemsize > MAX_BYTES:
        raise ConfigError(
            f"{where}: {counted(size, 'element')} of {dtype} are more than the 4 GiB that QNN takes"
        )
    if data is None:
        return np.zeros(shape, stored)
    try:
        given = np.asarray(data)
    except ValueError:
        raise ConfigError(f"{where}: the rows have different lengths") from None
    if given.size != size or (given.ndim > 1 and given.shape != shape):
        got = f"values of shape {list(given.shape)}" if given.ndim > 1 else f"{counted(given.size, 'value')}"
        raise ConfigError(f"{where}: {got} do not fill the shape {list(shape)}")
    if size == 0:
        return np.zeros(shape, stored)
    given = given.reshape(shape)
    if dtype == "bf16" and given.dtype.kind == "f":
        return _bf16(given)
    if given.dtype == stored:
        return np.ascontiguousarray(given)
    if not _same_kind(given.dtype, stored):
        raise ConfigError(f"{where}: values of type {given.dtype} do not go into {dtype}")
    if stored.kind in "iub":
        low, high = (0, 1) if stored.kind == "b" else (np.iinfo(stored).min, np.iinfo(stored).max)
        if int(given.min()) < low or int(given.max()) > high:
            raise ConfigError(f"{where}: a value does not fit {dtype}: {given.min()} to {given.max()}")
    return np.ascontiguousarray(given.astype(stored))


def _same_kind(given: np.dtype[Any], stored: np.dtype[Any]) -> bool:
    return given.kind in ("fiu" if stored.kind == "f" else "iub")


def _bf16(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The upper halves of float32 values, rounded to nearest, ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


def fill_tensor(out: CData, arena: Arena, name: str, tensor: TensorConfig | GraphTensor, where: str) -> None:
    """Writes a tensor into ``out`` (a Qnn_Tensor_t), with its data if static.

    It has version 1; a sparse tensor has version 2, which has the fields of version 1 at the same offsets.
    """
    out.version = lib.QNN_TENSOR_VERSION_1
    v = out.u.v1
    v.name = arena.text(name)
    v.type = getattr(lib, f"QNN_TENSOR_TYPE_{tensor.type}")
    v.dataFormat = lib.QNN_TENSOR_DATA_FORMAT_DENSE
    v.dataType = BY_SHORT[tensor.dtype].code
    v.rank = len(tensor.shape)
    v.dimensions = arena.new("uint32_t[]", list(tensor.shape)) if tensor.shape else NULL
    fill_quant(v.quantizeParams, arena, tensor.quant, tensor.shape, where)
    if tensor.sparse is not None:
        check_sparse(tensor.sparse, len(tensor.shape), f"{where}.sparse")
        out.version = lib.QNN_TENSOR_VERSION_2
        v.dataFormat = lib.QNN_TENSOR_DATA_FORMAT_SPARSE
        params = out.u.v2.sparseParams
        params.type = lib.QNN_SPARSE_LAYOUT_HYBRID_COO
        params.u.hybridCoo.numSpecifiedElements = tensor.sparse.specified
        params.u.hybridCoo.numSparseDimensions = tensor.sparse.dimensions
    if tensor.type == "STATIC":
        set_data(out, arena, array(tensor.data, tensor.dtype, tensor.shape, where))


def set_data(out: CData, arena: Arena, values: np.ndarray[Any, Any]) -> None:
    """Points a tensor at the memory of a contiguous array."""
    v = out.u.v1
    v.memType = lib.QNN_TENSORMEMTYPE_RAW
    v.u.clientBuf.data = arena.buffer(values)
    v.u.clientBuf.dataSize = values.nbytes


def fill_quant(out: CData, arena: Arena, quant: Quant | None, shape: tuple[int, ...], where: str) -> None:
    """Writes a Qnn_QuantizeParams_t for a tensor of ``shape``; None: undefined.

    Raises ConfigError for encodings the struct cannot hold, and for arrays shorter than the library would read.
    """
    if quant is None:
        out.encodingDefinition = lib.QNN_DEFINITION_UNDEFINED
        out.quantizationEncoding = lib.QNN_QUANTIZATION_ENCODING_UNDEFINED
        return
    if quant.encoding not in ENCODINGS:
        raise ConfigError(f"{where}.quant.encoding: {quant.encoding!r} is not one of {', '.join(ENCODINGS)}")
    out.encodingDefinition = lib.QNN_DEFINITION_DEFINED
    out.quantizationEncoding = getattr(lib, f"QNN_QUANTIZATION_ENCODING_{quant.encoding}")
    offsets = quant.offset or (0,) * len(quant.scale)
    if not quant.scale or len(quant.scale) != len(offsets):
        raise ConfigError(
            f"{where}.quant: {counted(len(quant.scale), 'scale')} and {len(quant.offset)} offsets"
        )
    try:
        _fill_encoding(out.u, arena, replace(quant, offset=offsets), shape, f"{where}.quant")
    except OverflowError as error:
        raise ConfigError(f"{where}.quant: {error}") from None


def _fill_encoding(out: CData, arena: Arena, quant: Quant, shape: tuple[int, ...], where: str) -> None:
    scales, offsets = quant.scale, quant.offset
    match quant.encoding:
        case "SCALE_OFFSET":
            _expect(len(scales), 1, "scale for one tensor", where)
            out.scaleOffsetEncoding = {"scale": scales[0], "offset": offsets[0]}
        case "AXIS_SCALE_OFFSET":
            out.axisScaleOffsetEncoding = {
                "axis": quant.axis or 0,
                "numScaleOffsets": len(scales),
                "scaleOffset": _pairs(arena, quant),
            }
        case "BW_SCALE_OFFSET":
            _expect(len(scales), 1, "scale for one tensor", where)
            out.bwScaleOffsetEncoding = {
                "bitwidth": quant.bits or 0,
                "scale": scales[0],
                "offset": offsets[0],
            }
        case "BW_AXIS_SCALE_OFFSET":
            _fill_columns(out.bwAxisScaleOffsetEncoding, arena, quant)
        case "BLOCK":
            sizes = quant.block_size
            if len(sizes) != len(shape) or any(b < 1 for b in sizes):
                raise ConfigError(f"{where}.block_size: one size per dimension, got {list(sizes)}")
            blocks = math.prod(-(-d // b) for d, b in zip(shape, sizes, strict=True))
            _expect(len(scales), blocks, f"scale for {blocks} blocks", where)
            out.blockEncoding.blockSize = arena.new("uint32_t[]", list(sizes))
            out.blockEncoding.scaleOffset = _pairs(arena, quant)
        case "BLOCKWISE_EXPANSION":
            out.blockwiseExpansion = _expansion(arena, quant, shape, where)
        case "VECTOR":
            out.vectorEncoding = _vectors(arena, quant, where)


def check_axis(tensor: GraphTensor, where: str) -> None:
    """Raises ConfigError for a graph tensor that does not have exactly one scale per slice along its axis.

    The libraries would accept it (CPU-0332, HTP-0418).
    """
    quant = tensor.quant
    if quant is None or quant.encoding not in ("AXIS_SCALE_OFFSET", "BW_AXIS_SCALE_OFFSET"):
        return
    axis = quant.axis or 0
    if not 0 <= axis < len(tensor.shape):
        raise ConfigError(f"{where}.quant.axis: {axis}, of a tensor of rank {len(tensor.shape)}")
    _expect(len(quant.scale), tensor.shape[axis], f"scale along the axis {axis}", f"{where}.quant")


def _expect(n: int, expected: int, what: str, where: str) -> None:
    """Checks the length of an array without a count in its struct; the library would read past a shorter one."""
    if n != expected:
        noun, _, of = what.partition(" ")
        raise ConfigError(f"{where}: {counted(n, noun)} {of}; expected {expected}")


def _pairs(arena: Arena, quant: Quant) -> CData:
    return arena.new("Qnn_ScaleOffset_t[]", list(zip(quant.scale, quant.offset, strict=True)))


def _fill_columns(out: CData, arena: Arena, quant: Quant) -> None:
    """Writes a Qnn_BwAxisScaleOffset_t."""
    out.bitwidth, out.axis, out.numElements = quant.bits or 0, quant.axis or 0, len(quant.scale)
    out.scales, out.offsets = arena.new("float[]", quant.scale), arena.new("int32_t[]", quant.offset)


def _expansion(arena: Arena, quant: Quant, shape: tuple[int, ...], where: str) -> CData:
    blocks, axis = quant.blocks, quant.axis or 0
    if blocks is None:
        raise ConfigError(f"{where}.blocks: missing; BLOCKWISE_EXPANSION has a scale for each block")
    if not 0 <= axis < len(shape):
        raise ConfigError(f"{where}.axis: {axis}, of a tensor of rank {len(shape)}")
    n, size = shape[axis], blocks.storage
    _expect(len(quant.scale), n, f"scale along the axis {axis}", where)
    _expect(len(blocks.scales), n * blocks.per_axis, "scale of blocks", f"{where}.blocks.scales")
    out = arena.new("Qnn_BlockwiseExpansion_t *")
    out.axis, out.scaleOffsets = axis, _pairs(arena, quant)
    out.numBlocksPerAxis, out.blockScaleBitwidth = blocks.per_axis, blocks.bits
    out.blockScaleStorageType = getattr(lib, f"QNN_BLOCKWISE_EXPANSION_BITWIDTH_SCALE_STORAGE_{size}")
    setattr(out.u, f"blocksScale{size}", arena.new(f"uint{size}_t[]", blocks.scales))
    return out


def _vectors(arena: Arena, quant: Quant, where: str) -> CData:
    vector = quant.vector
    if vector is None:
        raise ConfigError(f"{where}.vector: missing; VECTOR has the layout of its code book")
    out = arena.new("Qnn_VectorEncoding_t *")
    _fill_columns(out.bwAxisScaleOffset, arena, quant)
    out.rowsPerBlock, out.columnsPerBlock = vector.rows_per_block, vector.columns_per_block
    out.vectorDimension, out.vectorStride = vector.dimension, vector.stride
    out.indexBitwidth = vector.index_bits
    return out


def fill_param(out: CData, arena: Arena, param: ParamConfig, name: str, where: str) -> None:
    """Writes a Qnn_Param_t.  ``name`` names the tensor of a tensor parameter."""
    out.name = arena.text(param.name)
    if param.shape is not None:
        out.paramType = lib.QNN_PARAMTYPE_TENSOR
        values = TensorConfig(name, param.dtype, param.shape, "STATIC", list(param.value))
        fill_tensor(out.u.tensorParam, arena, name, values, where)
        return
    if param.dtype not in SCALARS:
        raise ConfigError(f"{where}: QNN has no scalar of type {param.dtype}")
    out.paramType = lib.QNN_PARAMTYPE_SCALAR
    scalar = out.u.scalarParam
    scalar.dataType = BY_SHORT[param.dtype].code
    try:
        value = arena.text(param.value) if param.dtype == "str" else param.value
        setattr(scalar.u, SCALARS[param.dtype], value)
    except (AttributeError, TypeError, OverflowError):
        raise ConfigError(f"{where}: {param.value!r} does not go into {param.dtype}") from None


def op_config(arena: Arena, config: OpConfig, name: str = "op") -> CData:
    """A Qnn_OpConfig_t * for validation; tensors are named after their slots or positions."""
    inputs = arena.new("Qnn_Tensor_t[]", len(config.inputs))
    outputs = arena.new("Qnn_Tensor_t[]", len(config.outputs))
    params = arena.new("Qnn_Param_t[]", len(config.params))
    for side, tensors, memory in (("inputs", config.inputs, inputs), ("outputs", config.outputs, outputs)):
        for i, tensor in enumerate(tensors):
            fill_tensor(memory[i], arena, tensor.name or f"{side}_{i}", tensor, f"{side}[{i}]")
    for i, param in enumerate(config.params):
        fill_param(params[i], arena, param, f"{name}.{param.name}", f"params.{param.name}")
    return op_config_of(arena, config.op, config.package, name, inputs, params, outputs)


def op_config_of(
    arena: Arena, op: str, package: str, name: str, inputs: CData, params: CData, outputs: CData
) -> CData:
    """A Qnn_OpConfig_t * over arrays of tensors and parameters."""
    out = arena.new("Qnn_OpConfig_t *")
    out.version = lib.QNN_OPCONFIG_VERSION_1
    v = out.u.v1
    v.name, v.packageName, v.typeName = arena.text(name), arena.text(package), arena.text(op)
    v.numOfInputs, v.inputTensors = len(inputs), inputs
    v.numOfParams, v.params = len(params), params
    v.numOfOutputs, v.outputTensors = len(outputs), outputs
    return out
