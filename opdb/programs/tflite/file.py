"""A .tflite file as plain records.  The package ``tflite`` reads the flatbuffer (schema of TensorFlow 2.18)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import tflite

from opdb.core.errors import OpdbError
from opdb.core.names import counted
from opdb.programs.tflite.sparse import Array, dense

#: Bytes 4 to 7 of a file.
IDENTIFIER = b"TFL3"
#: TFLite's number of a data type -> numpy's type; 4-bit elements take a byte each.
DTYPES: Mapping[int, Any] = {
    tflite.TensorType.FLOAT32: np.float32, tflite.TensorType.FLOAT16: np.float16, tflite.TensorType.FLOAT64: np.float64,
    tflite.TensorType.INT64: np.int64, tflite.TensorType.INT32: np.int32, tflite.TensorType.INT16: np.int16,
    tflite.TensorType.INT8: np.int8, tflite.TensorType.UINT64: np.uint64, tflite.TensorType.UINT32: np.uint32,
    tflite.TensorType.UINT16: np.uint16, tflite.TensorType.UINT8: np.uint8, tflite.TensorType.BOOL: np.bool_,
    tflite.TensorType.INT4: ml_dtypes.int4,
}  # fmt: skip
TYPE_NAMES = {v: k for k, v in vars(tflite.TensorType).items() if k.isupper()}


@dataclass(frozen=True)
class Quantization:
    """One scale and zero point, or one per index along ``axis``: real = (stored - zero) * scale."""

    scales: Array
    zeros: Array
    axis: int


@dataclass(frozen=True)
class Tensor:
    """``kind``: numpy's type, None for strings, resources and variants."""

    name: str
    kind: Any
    type_name: str
    shape: tuple[int, ...]
    data: Array | None
    quantization: Quantization | None


@dataclass(frozen=True)
class Operator:
    """``inputs`` and ``outputs``: places among the subgraph's tensors, -1 for an omitted input."""

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    table: Any
    custom: bool


@dataclass(frozen=True)
class Subgraph:
    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def read(path: str) -> Sequence[Subgraph]:
    """The subgraphs of a file, the main one first.  Raises OpdbError for anything that is not a complete .tflite file."""
    file = Path(path)
    if not file.is_file():
        raise OpdbError(f"{path}: no such file")
    data = file.read_bytes()
    if data[4:8] != IDENTIFIER:
        raise OpdbError(f"{path}: not a TensorFlow Lite file; its bytes 4 to 7 are not {IDENTIFIER.decode()}")
    try:
        model = tflite.Model.GetRootAsModel(data, 0)
        codes = [_operator_name(model.OperatorCodes(i)) for i in range(model.OperatorCodesLength())]
        found = [_subgraph(model, model.Subgraphs(i), codes) for i in range(model.SubgraphsLength())]
    except OpdbError as error:
        raise OpdbError(f"{path}: {error}") from error
    except Exception as error:  # flatbuffers checks nothing: whatever struct and numpy raise on a cut file
        lines = str(error).strip().splitlines() or [""]
        raise OpdbError(
            f"{path}: damaged or incomplete TensorFlow Lite file: {type(error).__name__}: {lines[0]}"
        ) from error
    if not found:
        raise OpdbError(f"{path}: the file has no subgraph")
    return found


def _operator_name(code: Any) -> tuple[str, bool]:
    number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
    if number == tflite.BuiltinOperator.CUSTOM:
        return (code.CustomCode() or b"CUSTOM").decode(), True
    return tflite.BUILTIN_OPCODE2NAME.get(number, f"OPERATOR_{number}"), False


def _subgraph(model: Any, graph: Any, codes: Sequence[tuple[str, bool]]) -> Subgraph:
    taken: set[str] = set()
    tensors = tuple(_tensor(model, graph.Tensors(i), i, taken) for i in range(graph.TensorsLength()))
    operators = []
    for i in range(graph.OperatorsLength()):
        table = graph.Operators(i)
        name, custom = codes[table.OpcodeIndex()]
        operators.append(
            Operator(name, _ints(table.InputsAsNumpy()), _ints(table.OutputsAsNumpy()), table, custom)
        )
    return Subgraph(tensors, tuple(operators), _ints(graph.InputsAsNumpy()), _ints(graph.OutputsAsNumpy()))


def _ints(values: Any) -> tuple[int, ...]:
    """Integers of a flatbuffers vector, which returns 0 if it has no elements."""
    return () if isinstance(values, int) else tuple(int(v) for v in values)


def _tensor(model: Any, table: Any, place: int, taken: set[str]) -> Tensor:
    """``taken``: the names so far; a tensor with no name, or with a taken one, gets a unique one."""
    name = (table.Name() or b"").decode() or f"tensor{place}"
    if name in taken:
        name = f"{name}#{place}"
    taken.add(name)
    kind = DTYPES.get(table.Type())
    shape = _ints(table.ShapeAsNumpy())
    type_name = TYPE_NAMES.get(table.Type(), f"type {table.Type()}")
    return Tensor(name, kind, type_name, shape, _data(model, table, name, kind, shape), _quantization(table))


def _data(model: Any, table: Any, name: str, kind: Any, shape: tuple[int, ...]) -> Array | None:
    buffer = model.Buffers(table.Buffer()) if table.Buffer() < model.BuffersLength() else None
    if buffer is None or not buffer.DataLength() or kind is None:
        return None
    stored = buffer.DataAsNumpy()
    if table.Sparsity() is not None:
        return dense(np.frombuffer(stored.tobytes(), dtype=kind), table.Sparsity(), shape)
    if kind is ml_dtypes.int4:
        halves = np.stack([stored << 4, stored], -1).reshape(-1).view(np.int8) >> 4
        values = halves[: int(np.prod(shape))].astype(ml_dtypes.int4)
    else:
        values = np.frombuffer(stored.tobytes(), dtype=kind)
    if values.size != int(np.prod(shape)):
        raise OpdbError(
            f"the tensor {name} of shape {list(shape)} has data of {counted(values.size, 'element')}"
        )
    return values.reshape(shape)


def _quantization(table: Any) -> Quantization | None:
    found = table.Quantization()
    if found is None or not found.ScaleLength():
        return None
    scales = np.asarray(found.ScaleAsNumpy(), np.float32)
    zeros = (
        np.asarray(found.ZeroPointAsNumpy(), np.int64) if found.ZeroPointLength() else np.zeros(1, np.int64)
    )
    return Quantization(scales, np.broadcast_to(zeros, scales.shape), found.QuantizedDimension())
