"""Records what builders hand to QNN, as plain data.

The classes of ExecuTorch's binding expose little, and their data and parameters cannot be read back.  During
``recording`` they are replaced by the records below; nothing reaches a library.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import executorch.backends.qualcomm.python.PyQnnManagerAdaptor as PyQnn
import numpy as np
from executorch.backends.qualcomm.utils.constants import QCOM_DATA

from opdb.core.dtypes import BY_SHORT, lookup
from opdb.core.op_config import INTEGER, OpConfig, ParamConfig, TensorConfig
from opdb.plugins.executorch.builder.view import quant_of
from opdb.runtime.tensors import Rejection

Value = bool | int | float | str | tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Tensor:
    """Replaces TensorWrapper, with the same constructor.  ``data`` is only set if ``has_data`` is true."""

    name: str
    tensor_type: Any
    data_type: Any
    encoding_type: Any
    encoding: Mapping[str, Any]
    rank: int
    dims: Sequence[int]
    dynamic: Sequence[int]
    given: Any
    has_data: bool

    @property
    def kind(self) -> str:
        """Returns e.g. NATIVE, STATIC, APP_WRITE."""
        return word(self.tensor_type)

    @property
    def dtype(self) -> str:
        """Returns e.g. FLOAT_32."""
        return word(self.data_type)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(int(d) for d in self.dims)

    @property
    def quant(self) -> Any:
        """The encoding: a Quant, or ExecuTorch's words and numbers if rules have no counterpart; None without one."""
        if not self.encoding:
            return None if word(self.encoding_type) == "UNDEFINED" else word(self.encoding_type)
        try:
            return quant_of(self.encoding_type.name, dict(self.encoding))
        except Rejection:
            return {"encoding": word(self.encoding_type), **plain(self.encoding)}

    @property
    def data(self) -> Any:
        """The values as the library reads them, or None if the tensor is not static or its data is unknown."""
        if not self.has_data:
            return None
        stored = np.ascontiguousarray(self.given).tobytes()
        return np.frombuffer(stored, BY_SHORT[_short(self.data_type)].numpy)[: math.prod(self.shape)]

    def config(self) -> TensorConfig:
        """The tensor as rules read it.  Raises Rejection for a data type or an encoding unknown to them."""
        short = _short(self.data_type)
        quant = quant_of(self.encoding_type.name, dict(self.encoding)) if self.encoding else None
        values = self.given if self.has_data and INTEGER.fullmatch(short) else None
        kind = "STATIC" if self.kind == "STATIC" else "NATIVE"
        return TensorConfig("", short, self.shape, kind, values, quant)

    def GetDataType(self) -> Any:  # noqa: N802  the binding's name
        return self.data_type


@dataclass(frozen=True)
class Param:
    """``shape``: None for a scalar, whose value is not a tuple."""

    dtype: Any
    shape: tuple[int, ...] | None
    value: Value


@dataclass(eq=False)
class Op:
    """Replaces PyQnnOpWrapper."""

    name: str
    package: str
    kind: str
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    params: dict[str, Param] = field(default_factory=dict)

    def AddInputTensors(self, tensors: Sequence[Tensor]) -> None:  # noqa: N802
        self.inputs += tensors

    def AddOutputTensors(self, tensors: Sequence[Tensor]) -> None:  # noqa: N802
        self.outputs += tensors

    def AddScalarParam(self, name: str, dtype: Any, attributes: Any) -> None:  # noqa: N802
        self.params[name] = Param(dtype, None, plain(attributes[QCOM_DATA]))

    def AddTensorParam(  # noqa: N802
        self, name: str, dtype: Any, rank: int, dims: Sequence[int], data: Any, copy: bool
    ) -> None:
        values = tuple(np.asarray(data).ravel().tolist())
        self.params[name] = Param(dtype, tuple(int(d) for d in dims), values)

    def GetOpWrapper(self) -> Op:  # noqa: N802
        return self

    def config(self) -> OpConfig:
        """The op as rules read it.  Raises Rejection as ``Tensor.config`` does."""
        params = tuple(ParamConfig(n, _short(p.dtype), p.value, p.shape) for n, p in self.params.items())
        inputs, outputs = ([t.config() for t in group] for group in (self.inputs, self.outputs))
        return OpConfig(self.kind, tuple(inputs), params, tuple(outputs), self.package)


@contextlib.contextmanager
def recording() -> Iterator[None]:
    """Makes builders create ``Op`` and ``Tensor`` inside the context."""
    kept = PyQnn.PyQnnOpWrapper, PyQnn.TensorWrapper, PyQnn.PyQnnTensorWrapper
    PyQnn.PyQnnOpWrapper, PyQnn.TensorWrapper, PyQnn.PyQnnTensorWrapper = Op, Tensor, lambda tensor: tensor
    try:
        yield
    finally:
        PyQnn.PyQnnOpWrapper, PyQnn.TensorWrapper, PyQnn.PyQnnTensorWrapper = kept


def word(enum: Any) -> str:
    """Removes the prefix of an enum's name, e.g. QNN_DATATYPE_FLOAT_32 -> FLOAT_32."""
    name = str(enum.name)
    for prefix in ("QNN_DATATYPE_", "QNN_TENSOR_TYPE_", "QNN_QUANTIZATION_ENCODING_"):
        name = name.removeprefix(prefix)
    return name


def plain(value: Any) -> Any:
    """Converts arrays to tuples, numbers to Python's, and other values to strings."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(plain(v) for v in value)
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


def _short(dtype: Any) -> str:
    found = lookup(dtype.name)
    if found is None:
        raise Rejection(f"{dtype.name} is not a data type that rules know")
    return found.short


def listed(made: Any) -> list[Op]:
    """A builder's result as a list: one op, several, or none."""
    return [] if made is None else list(made) if isinstance(made, list) else [made]
