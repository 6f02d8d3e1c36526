"""Reads tensors that a library returns from QNN's structs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from opdb.core.dtypes import DTYPES
from opdb.core.errors import OpdbError
from opdb.core.graph import GraphTensor
from opdb.core.op_config import MAX_RANK, Blocks, Quant, Sparse, Vectors
from opdb.runtime.qnn import native
from opdb.runtime.qnn.native import NULL, CData, lib

_DTYPES = {d.code: d.short for d in DTYPES}


def _words(prefix: str) -> dict[int, str]:
    """QNN's enumerators that begin with ``prefix``, by number, with the prefix removed."""
    return {getattr(lib, name): name.removeprefix(prefix) for name in dir(lib) if name.startswith(prefix)}


_TYPES = _words("QNN_TENSOR_TYPE_")
_ENCODINGS = _words("QNN_QUANTIZATION_ENCODING_")


def read_tensor(struct: CData) -> tuple[GraphTensor, int]:
    """A ``Qnn_Tensor_t`` of version 1 or 2 as data, and the id that its graph assigned.

    ``type`` is QNN's, e.g. APP_WRITE or UPDATEABLE_STATIC; the data of static tensors is not read.  The result
    does not point into the struct.  Raises OpdbError for an unknown version, data type, or encoding.
    """
    if struct.version not in (lib.QNN_TENSOR_VERSION_1, lib.QNN_TENSOR_VERSION_2):
        raise OpdbError(f"a tensor from the library has the version {struct.version}; opdb reads 1 and 2")
    v = struct.u.v1 if struct.version == lib.QNN_TENSOR_VERSION_1 else struct.u.v2
    name = native.text(v.name)
    if v.dataType not in _DTYPES:
        raise OpdbError(f"the tensor {name!r} has the data type {v.dataType:#06x}, which opdb does not know")
    if v.type not in _TYPES:
        raise OpdbError(f"the tensor {name!r} has the type {v.type}, which opdb does not know")
    if v.rank > MAX_RANK or (v.rank and v.dimensions == NULL):
        raise OpdbError(f"the tensor {name!r} has the rank {v.rank} and no or too many dimensions")
    shape = tuple(_items(v.dimensions, v.rank))
    quant = _quant(v.quantizeParams, shape, name)
    sparse = read_sparse(struct)
    return GraphTensor(name, _DTYPES[v.dataType], shape, _TYPES[v.type], None, quant, sparse), v.id


def read_dynamic(struct: CData) -> tuple[bool, ...]:
    """True for each dynamic dimension of a ``Qnn_Tensor_t``; () if none can be (version 1, or no list)."""
    if struct.version != lib.QNN_TENSOR_VERSION_2 or struct.u.v2.isDynamicDimensions == NULL:
        return ()
    return tuple(bool(flag) for flag in struct.u.v2.isDynamicDimensions[0 : struct.u.v2.rank])


def read_sparse(struct: CData) -> Sparse | None:
    """The sparsity of a ``Qnn_Tensor_t``; None if dense.  Raises OpdbError for other layouts than HYBRID_COO."""
    if struct.u.v1.dataFormat != lib.QNN_TENSOR_DATA_FORMAT_SPARSE:
        return None
    params = struct.u.v2.sparseParams
    if struct.version != lib.QNN_TENSOR_VERSION_2 or params.type != lib.QNN_SPARSE_LAYOUT_HYBRID_COO:
        raise OpdbError(
            f"the sparse tensor {native.text(struct.u.v1.name)!r} has a layout that opdb does not know"
        )
    return Sparse(params.u.hybridCoo.numSpecifiedElements, params.u.hybridCoo.numSparseDimensions)


def _quant(params: CData, shape: tuple[int, ...], name: str) -> Quant | None:
    """A ``Qnn_QuantizeParams_t`` of a tensor of ``shape``; None: undefined."""
    if params.encodingDefinition != lib.QNN_DEFINITION_DEFINED:
        return None
    encoding = _ENCODINGS.get(params.quantizationEncoding, str(params.quantizationEncoding))
    u = params.u
    match encoding:
        case "UNDEFINED":
            return None
        case "SCALE_OFFSET":
            return Quant(encoding, (u.scaleOffsetEncoding.scale,), (u.scaleOffsetEncoding.offset,))
        case "AXIS_SCALE_OFFSET":
            e = u.axisScaleOffsetEncoding
            return Quant(encoding, *_pairs(e.scaleOffset, e.numScaleOffsets), e.axis)
        case "BW_SCALE_OFFSET":
            e = u.bwScaleOffsetEncoding
            return Quant(encoding, (e.scale,), (e.offset,), bits=e.bitwidth)
        case "BW_AXIS_SCALE_OFFSET":
            e = u.bwAxisScaleOffsetEncoding
            return Quant(encoding, *_columns(e), e.axis, e.bitwidth)
        case "BLOCK":
            sizes = tuple(_items(u.blockEncoding.blockSize, len(shape)))
            if len(sizes) != len(shape) or any(size < 1 for size in sizes):
                raise OpdbError(f"the tensor {name!r} has blocks of the sizes {list(sizes)}")
            n = math.prod(-(-d // b) for d, b in zip(shape, sizes, strict=True))
            return Quant(encoding, *_pairs(u.blockEncoding.scaleOffset, n), block_size=sizes)
        case "BLOCKWISE_EXPANSION":
            return _expansion(u.blockwiseExpansion, shape, name)
        case "VECTOR":
            e = u.vectorEncoding.bwAxisScaleOffset
            return Quant(encoding, *_columns(e), e.axis, e.bitwidth, vector=_vectors(u.vectorEncoding))
        case other:
            raise OpdbError(f"the tensor {name!r} has the encoding {other}, which opdb does not read")


def _items(pointer: CData, n: int) -> Sequence[Any]:
    """The first ``n`` elements of an array; () for NULL."""
    return () if pointer == NULL else pointer[0:n]


def _pairs(pointer: CData, n: int) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Scales and offsets of an array of ``Qnn_ScaleOffset_t``."""
    items = _items(pointer, n)
    return tuple(p.scale for p in items), tuple(p.offset for p in items)


def _columns(e: CData) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Scales and offsets of a ``Qnn_BwAxisScaleOffset_t``; NULL offsets become zeros."""
    n = e.numElements
    return tuple(_items(e.scales, n)), tuple(_items(e.offsets, n)) or (0,) * n


def _expansion(e: CData, shape: tuple[int, ...], name: str) -> Quant:
    if not 0 <= e.axis < len(shape):
        raise OpdbError(f"the tensor {name!r} of rank {len(shape)} is quantized along the axis {e.axis}")
    wide = e.blockScaleStorageType == lib.QNN_BLOCKWISE_EXPANSION_BITWIDTH_SCALE_STORAGE_16
    pointer = e.u.blocksScale16 if wide else e.u.blocksScale8
    n = shape[e.axis]
    blocks = Blocks(
        e.numBlocksPerAxis,
        e.blockScaleBitwidth,
        tuple(_items(pointer, n * e.numBlocksPerAxis)),
        16 if wide else 8,
    )
    return Quant("BLOCKWISE_EXPANSION", *_pairs(e.scaleOffsets, n), e.axis, blocks=blocks)


def _vectors(e: CData) -> Vectors:
    return Vectors(e.rowsPerBlock, e.columnsPerBlock, e.vectorDimension, e.vectorStride, e.indexBitwidth)
