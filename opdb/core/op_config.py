"""One op as ``QnnBackend_validateOpConfig`` takes it, without pointers.

The JSON form is the contract of ``opdb validate`` (docs/architecture.md, "Op configs").  Names of
tensors are the slot names of the spec; the order is QNN's.  An omitted optional tensor in the middle
has type NULL.  A STATIC tensor without data holds zeros.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opdb.core.dtypes import BY_SHORT, DType, lookup
from opdb.core.errors import OpdbError
from opdb.core.names import counted, plural

#: The largest size of one dimension.  QNN stores uint32; opdb stays below 2**31 so that products of a
#: dimension and a parameter fit 64 bits (docs/architecture.md, "Arithmetic").
MAX_DIM = 2**31 - 1
#: The largest rank that opdb handles; QNN backends stop at 8 or less (probe: HTP and CPU 2.47).
MAX_RANK = 16
#: Short names of integer types, and the range of their values that rules can read.
INTEGER, INT64 = re.compile("[iu](8|16|32|64)"), (-(2**63), 2**63 - 1)
#: The real numbers that ``centered`` spans: 256 or 65536 steps over [-4, 4).
SPAN = 8.0

#: The largest number of values of a STATIC tensor that rules read.
MAX_VALUES = 2**18

TENSOR_TYPES = ("APP_WRITE", "APP_READ", "NATIVE", "STATIC", "NULL")
ENCODINGS = (
    "SCALE_OFFSET",
    "AXIS_SCALE_OFFSET",
    "BW_SCALE_OFFSET",
    "BW_AXIS_SCALE_OFFSET",
    "BLOCK",
    "BLOCKWISE_EXPANSION",
    "VECTOR",
)


class ConfigError(OpdbError):
    """An op config that cannot be read: the place (a JSON path) and the cure are in the message."""


@dataclass(frozen=True)
class Blocks:
    """The fields of BLOCKWISE_EXPANSION besides the scale of each slice along the axis (``Qnn_BlockwiseExpansion_t``).

    The scale of block b of slice s is the slice's times ``scales[s * per_axis + b]``, an integer of ``bits``
    bits, stored in ``storage`` bits.
    """

    per_axis: int
    bits: int
    scales: tuple[int, ...] = ()
    storage: int = 8  # 8 or 16


@dataclass(frozen=True)
class Vectors:
    """The fields of VECTOR besides scales along the axis (``Qnn_VectorEncoding_t``): the code book's layout."""

    rows_per_block: int
    columns_per_block: int
    dimension: int
    stride: int
    index_bits: int


@dataclass(frozen=True)
class Quant:
    """``Qnn_QuantizeParams_t``: real = (q + offset) * scale.  Axis forms hold one scale per slice."""

    encoding: str  # one of ENCODINGS
    scale: tuple[float, ...] = ()
    offset: tuple[int, ...] = ()
    axis: int | None = None
    bits: int | None = None
    block_size: tuple[int, ...] = ()  # BLOCK: elements per block, along each dimension
    blocks: Blocks | None = None  # BLOCKWISE_EXPANSION
    vector: Vectors | None = None  # VECTOR

    def symmetric(self, dtype: str) -> bool:
        """True if real zero is the middle of the stored range of ``dtype`` (short name).

        Signed types have offset 0, unsigned ones -2**(bits - 1): for a uq16 weight HTP 2.47 requires -32768
        (probe: "incorrect Value 0, expected equal to -32768").
        """
        kind = BY_SHORT[dtype]
        middle = -(2 ** (kind.bits - 1)) if kind.quantized and kind.qnn.startswith("U") else 0
        return all(o == middle for o in self.offset)


@dataclass(frozen=True)
class Sparse:
    """``Qnn_SparseParams_t`` in the layout HYBRID_COO, the only one that QNN has.

    ``specified`` elements of the first ``dimensions`` dimensions have a value: a number, or a block of the other
    dimensions.
    """

    specified: int  # 1 or more
    dimensions: int  # 1 to the rank of the tensor


@dataclass(frozen=True)
class TensorConfig:
    """One input or output tensor.  ``shape`` in elements; ``data`` a nested list or a numpy array."""

    name: str
    dtype: str  # short name; e.g. f32
    shape: tuple[int, ...]
    type: str = "NATIVE"  # one of TENSOR_TYPES
    data: Any = None
    quant: Quant | None = None
    sparse: Sparse | None = None  # None: dense

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def values(self) -> list[int] | None:
        """The data of a STATIC tensor of integers, row-major; zeros if it has none.

        None for any other tensor, a sparse one, more than MAX_VALUES values, and data that do not fill the shape.
        """
        count = math.prod(self.shape)
        readable = self.type == "STATIC" and self.sparse is None and INTEGER.fullmatch(self.dtype)
        if not readable or count > MAX_VALUES:
            return None
        if self.data is None:
            return [0] * count
        found = _flat(self.data)
        fits = len(found) == count and all(type(v) is int and INT64[0] <= v <= INT64[1] for v in found)
        return found if fits else None


def _flat(data: Any) -> list[Any]:
    """The values of a nested list or an array, row-major."""
    data = data.tolist() if hasattr(data, "tolist") else data
    return [v for d in data for v in _flat(d)] if isinstance(data, (list, tuple)) else [data]


@dataclass(frozen=True)
class ParamConfig:
    """One parameter: a scalar (``shape`` is None) or a static tensor of numbers (flat, row-major)."""

    name: str
    dtype: str
    value: Any  # bool, int, float, str; or a flat tuple of numbers
    shape: tuple[int, ...] | None = None


@dataclass(frozen=True)
class OpConfig:
    """One op with concrete tensors and parameters: what validators judge (docs/architecture.md, "Op configs").

    >>> import opdb
    >>> from opdb.core.op_config import TensorConfig
    >>> x, y = TensorConfig("x", "f32", (4,)), TensorConfig("y", "f32", (4,))
    >>> opdb.check_config(opdb.OpConfig("Relu", inputs=(x,), outputs=(y,))).verdict
    'accept'
    """

    op: str  # e.g. LayerNorm
    inputs: tuple[TensorConfig, ...] = ()
    params: tuple[ParamConfig, ...] = ()
    outputs: tuple[TensorConfig, ...] = ()
    package: str = "qti.aisw"
    id: str | None = None


def centered(dtype: str, scale: float | None = None) -> Quant | None:
    """SCALE_OFFSET over [-4, 4) for a quantized type of up to 16 bits; None for a type that is not quantized.

    Zero is in the middle of the stored values, so every encoding is symmetric; 32 bits have ``scale`` or 2**-16.
    """
    kind = BY_SHORT[dtype]
    if not kind.quantized:
        return None
    if kind.bits == 32:
        return Quant("SCALE_OFFSET", (scale or 2.0**-16,), (0,))
    offset = -(2 ** (kind.bits - 1)) if kind.qnn.startswith("U") else 0
    return Quant("SCALE_OFFSET", (SPAN / 2**kind.bits,), (offset,))


#: The data type in QNN's own initializer of a tensor (QNN_TENSOR_INIT).
UNDEFINED = ("UNDEFINED", "QNN_DATATYPE_UNDEFINED")


def from_json(raw: Any) -> OpConfig:
    """The op config in ``raw`` (a parsed JSON object).  Raises ConfigError with the path of the fault."""
    _object(raw, "op config", {"op", "package", "id", "inputs", "params", "outputs"}, {"op"})
    if not isinstance(raw["op"], str):
        raise ConfigError(f"op: expected a name, got {raw['op']!r}")
    ident = raw.get("id")
    params = raw.get("params", {})
    if not isinstance(params, Mapping):
        raise ConfigError(f"params: expected an object of parameters by name, got {type(params).__name__}")
    return OpConfig(
        op=raw["op"],
        package=str(raw.get("package", "qti.aisw")),
        id=None if ident is None else str(ident),
        inputs=_tensors(raw.get("inputs", []), "inputs"),
        outputs=_tensors(raw.get("outputs", []), "outputs"),
        params=tuple(_param(n, p, f"params.{n}") for n, p in params.items()),
    )


def to_json(config: OpConfig) -> dict[str, Any]:
    """The inverse of ``from_json``; QNN's dtype names, no numpy types."""
    out: dict[str, Any] = {} if config.id is None else {"id": config.id}
    out |= {"op": config.op, "package": config.package}
    out["inputs"] = [tensor_json(t) for t in config.inputs]
    out["params"] = {p.name: param_json(p) for p in config.params}
    out["outputs"] = [tensor_json(t) for t in config.outputs]
    return out


def _object(raw: Any, where: str, allowed: set[str], needed: set[str]) -> None:
    if not isinstance(raw, Mapping):
        raise ConfigError(f"{where}: expected an object, got {type(raw).__name__}")
    for key in raw:
        if key not in allowed:
            raise ConfigError(f"{where}: unknown field {key!r}; allowed: {', '.join(sorted(allowed))}")
    for key in sorted(needed - set(raw)):
        raise ConfigError(f"{where}: the field {key!r} is missing")


def _tensors(raw: Any, where: str) -> tuple[TensorConfig, ...]:
    if not isinstance(raw, Sequence) or isinstance(raw, str):
        raise ConfigError(f"{where}: expected a list of tensors, got {type(raw).__name__}")
    return tuple(_tensor(t, f"{where}[{i}]") for i, t in enumerate(raw))


def _tensor(raw: Any, where: str) -> TensorConfig:
    fields = {"name", "dtype", "shape", "type", "data", "quant", "sparse"}
    kind = raw.get("type", "NATIVE") if isinstance(raw, Mapping) else "NATIVE"
    _object(raw, where, fields, set() if kind == "NULL" else {"dtype", "shape"})
    if kind not in TENSOR_TYPES:
        raise ConfigError(f"{where}.type: {kind!r} is not a tensor type; one of {', '.join(TENSOR_TYPES)}")
    quant, sparse = raw.get("quant"), raw.get("sparse")
    dtype = raw.get("dtype", "FLOAT_32")
    if kind == "NULL" and dtype in UNDEFINED:
        dtype = "FLOAT_32"  # nothing reads the data type of an omitted tensor
    shape = _shape(raw.get("shape", []), f"{where}.shape")
    return TensorConfig(
        name=str(raw.get("name", "")),
        dtype=_dtype(dtype, f"{where}.dtype").short,
        shape=shape,
        type=kind,
        data=raw.get("data"),
        quant=None if quant is None else _quant(quant, f"{where}.quant"),
        sparse=None if sparse is None else _sparse(sparse, shape, f"{where}.sparse"),
    )


def _dtype(raw: Any, where: str) -> DType:
    found = lookup(raw) if isinstance(raw, str) else None
    if found is None:
        raise ConfigError(f"{where}: {raw!r} is not a QNN data type; e.g. FLOAT_32, UFIXED_POINT_8")
    return found


def _shape(raw: Any, where: str) -> tuple[int, ...]:
    if not isinstance(raw, Sequence) or isinstance(raw, str):
        raise ConfigError(f"{where}: expected a list of dimensions, got {raw!r}")
    if len(raw) > MAX_RANK:
        raise ConfigError(f"{where}: rank {len(raw)} is above the limit of {MAX_RANK}")
    for i, d in enumerate(raw):
        if type(d) is not int or not 0 <= d <= MAX_DIM:
            raise ConfigError(f"{where}[{i}]: a dimension is an integer from 0 to {MAX_DIM}, got {d!r}")
    return tuple(raw)


def _sparse(raw: Any, shape: tuple[int, ...], where: str) -> Sparse:
    fields = {"specified", "dimensions"}
    _object(raw, where, fields, fields)
    made = Sparse(*(_integer(raw, key, MAX_DIM, where) for key in ("specified", "dimensions")))
    check_sparse(made, len(shape), where)
    return made


def check_sparse(sparse: Sparse, rank: int, where: str) -> None:
    """Raises ConfigError for a tensor that no library takes: "not well formed" (CPU and HTP 2.47)."""
    if sparse.specified < 1:
        raise ConfigError(f"{where}.specified: a sparse tensor has 1 specified element or more")
    if not 1 <= sparse.dimensions <= rank:
        raise ConfigError(
            f"{where}.dimensions: of a tensor of rank {rank}, 1 to {counted(rank, 'dimension')} can be sparse,"
            f" not {sparse.dimensions}"
        )


def _quant(raw: Any, where: str) -> Quant:
    fields = {"encoding", "scale", "offset", "axis", "bits", "block_size", "blocks", "vector"}
    _object(raw, where, fields, {"encoding"})
    if raw["encoding"] not in ENCODINGS:
        raise ConfigError(f"{where}.encoding: {raw['encoding']!r} is not one of {', '.join(ENCODINGS)}")
    return Quant(
        raw["encoding"],
        _numbers(raw, "scale", float, where),
        _numbers(raw, "offset", int, where),
        None if raw.get("axis") is None else _integer(raw, "axis", MAX_RANK - 1, where),
        None if raw.get("bits") is None else _integer(raw, "bits", 64, where),
        _numbers(raw, "block_size", int, where),
        None if raw.get("blocks") is None else _blocks(raw["blocks"], f"{where}.blocks"),
        None if raw.get("vector") is None else _vectors(raw["vector"], f"{where}.vector"),
    )


def _blocks(raw: Any, where: str) -> Blocks:
    _object(raw, where, {"per_axis", "bits", "scales", "storage"}, {"per_axis", "bits", "scales"})
    storage = raw.get("storage", 8)
    if type(storage) is not int or storage not in (8, 16):
        raise ConfigError(f"{where}.storage: block scales are stored in 8 or 16 bits, not in {storage!r}")
    per_axis, bits = _integer(raw, "per_axis", MAX_DIM, where), _integer(raw, "bits", 16, where)
    return Blocks(per_axis, bits, _numbers(raw, "scales", int, where), storage)


def _vectors(raw: Any, where: str) -> Vectors:
    limits = {"rows_per_block": MAX_DIM, "columns_per_block": MAX_DIM}
    limits |= {"dimension": 255, "stride": 255, "index_bits": 255}  # uint8_t in Qnn_VectorEncoding_t
    _object(raw, where, set(limits), set(limits))
    return Vectors(**{key: _integer(raw, key, high, where) for key, high in limits.items()})


def _numbers(raw: Mapping[str, Any], key: str, kind: type, where: str) -> tuple[Any, ...]:
    """A list of numbers, or one number, under ``key``."""
    v = raw.get(key, [])
    v = v if isinstance(v, Sequence) and not isinstance(v, str) else [v]
    for e in v:
        if not (_is_real(e) if kind is float else type(e) is int):
            raise ConfigError(f"{where}.{key}: expected {kind.__name__} numbers, got {e!r}")
    return tuple(kind(e) for e in v)


def _integer(raw: Mapping[str, Any], key: str, high: int, where: str) -> int:
    v = raw[key]
    if type(v) is not int or not 0 <= v <= high:
        raise ConfigError(f"{where}.{key}: expected an integer from 0 to {high}, got {v!r}")
    return v


def _param(name: str, raw: Any, where: str) -> ParamConfig:
    _object(raw, where, {"dtype", "value", "shape", "data"}, {"dtype"})
    dtype = _dtype(raw["dtype"], f"{where}.dtype").short
    if "value" in raw:
        if "data" in raw or "shape" in raw:
            raise ConfigError(f"{where}: give either 'value' (a scalar) or 'shape' and 'data' (a tensor)")
        if not isinstance(raw["value"], (bool, int, float, str)):
            raise ConfigError(f"{where}.value: expected a scalar, got {type(raw['value']).__name__}")
        return ParamConfig(name, dtype, _number(raw["value"], dtype, f"{where}.value"))
    if "data" not in raw:
        raise ConfigError(f"{where}: the field 'value' or 'data' is missing")
    flat = tuple(_number(v, dtype, f"{where}.data") for v in _flatten(raw["data"], f"{where}.data"))
    shape = _shape(raw.get("shape", [len(flat)]), f"{where}.shape")
    size = 1
    for d in shape:
        size *= d
    if size != len(flat):
        raise ConfigError(
            f"{where}.data: {counted(len(flat), 'value')} {plural(len(flat), 'does', 'do')} not fill the shape {list(shape)}"
        )
    return ParamConfig(name, dtype, flat, shape)


def _number(value: Any, dtype: str, where: str) -> Any:
    """``value`` as the Python type of ``dtype``, if it can hold it."""
    kind = BY_SHORT[dtype]
    if dtype == "str":
        fits = isinstance(value, str)
    elif dtype == "bool8":
        fits, value = value in (0, 1), bool(value)
    elif kind.qnn.startswith(("FLOAT", "BFLOAT")):
        fits = _is_real(value)
        value = float(value) if fits else value
    else:
        signed = not kind.qnn.startswith("U")
        low, high = (-(2 ** (kind.bits - 1)), 2 ** (kind.bits - 1) - 1) if signed else (0, 2**kind.bits - 1)
        fits = type(value) is int and low <= value <= min(high, 2**63 - 1)
    if not fits:
        raise ConfigError(f"{where}: {value!r} is not a value of {kind.qnn}")
    return value


def _is_real(value: Any) -> bool:
    """True for a number that a double can hold."""
    return isinstance(value, float) or (type(value) is int and abs(value) < 2**1023)


def _flatten(data: Any, where: str, rank: int = 0) -> list[Any]:
    if isinstance(data, Sequence) and not isinstance(data, str):
        if rank == MAX_RANK:
            raise ConfigError(f"{where}: lists are nested deeper than {MAX_RANK} levels")
        return [v for i, row in enumerate(data) for v in _flatten(row, f"{where}[{i}]", rank + 1)]
    if not isinstance(data, (bool, int, float)):
        raise ConfigError(f"{where}: expected a number, got {data!r}")
    return [data]


def tensor_json(t: TensorConfig) -> dict[str, Any]:
    """The JSON form of a tensor."""
    out: dict[str, Any] = {
        "name": t.name,
        "dtype": BY_SHORT[t.dtype].qnn,
        "shape": list(t.shape),
        "type": t.type,
    }
    if t.data is not None:
        out["data"] = t.data.tolist() if hasattr(t.data, "tolist") else t.data
    if t.quant is not None:
        out["quant"] = quant_json(t.quant)
    if t.sparse is not None:
        out["sparse"] = dict(vars(t.sparse))
    return out


def quant_json(q: Quant) -> dict[str, Any]:
    """The JSON form of a quantization, without its empty fields."""
    fields: dict[str, Any] = {
        "scale": list(q.scale),
        "offset": list(q.offset),
        "axis": q.axis,
        "bits": q.bits,
        "block_size": list(q.block_size),
        "blocks": q.blocks and vars(q.blocks) | {"scales": list(q.blocks.scales)},
        "vector": q.vector and dict(vars(q.vector)),
    }
    return {"encoding": q.encoding} | {k: v for k, v in fields.items() if v not in (None, [])}


def param_json(p: ParamConfig) -> dict[str, Any]:
    """The JSON form of a parameter."""
    if p.shape is None:
        return {"dtype": BY_SHORT[p.dtype].qnn, "value": p.value}
    return {"dtype": BY_SHORT[p.dtype].qnn, "shape": list(p.shape), "data": list(p.value)}
