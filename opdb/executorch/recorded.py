"""What ExecuTorch's own builders make, as op configs: for operators that no spec maps.

While ``recording`` lasts, the classes that builders fill are plain records; nothing reaches a library.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import executorch.backends.qualcomm.python.PyQnnManagerAdaptor as PyQnn
import numpy as np
from executorch.backends.qualcomm.utils.constants import QCOM_DATA

from opdb.dtypes import lookup
from opdb.executorch.view import quant_of
from opdb.op_config import INTEGER, OpConfig, ParamConfig, TensorConfig
from opdb.runtime.lowering import Rejection

_STATIC = PyQnn.Qnn_TensorType_t.QNN_TENSOR_TYPE_STATIC


class Tensor:
    """In the place of TensorWrapper."""

    def __init__(
        self, name: str, kind: Any, dtype: Any, encoding: Any, config: Any, rank: int, dims: Sequence[int],
        dynamic: Sequence[int], data: Any, copy: bool,
    ) -> None:  # fmt: skip
        short = _short(dtype)
        quant = quant_of(encoding.name, config) if config else None
        values = data if copy and INTEGER.fullmatch(short) else None
        self.config = TensorConfig(
            "", short, tuple(int(d) for d in dims), "STATIC" if kind == _STATIC else "NATIVE", values, quant
        )


@dataclass
class Op:
    """In the place of PyQnnOpWrapper."""

    name: str
    package: str
    kind: str
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    params: list[ParamConfig] = field(default_factory=list)

    def AddInputTensors(self, tensors: Sequence[Tensor]) -> None:  # noqa: N802
        self.inputs += tensors

    def AddOutputTensors(self, tensors: Sequence[Tensor]) -> None:  # noqa: N802
        self.outputs += tensors

    def AddScalarParam(self, name: str, dtype: Any, attributes: Any) -> None:  # noqa: N802
        value = attributes[QCOM_DATA]
        self.params.append(
            ParamConfig(name, _short(dtype), value.item() if isinstance(value, np.generic) else value)
        )

    def AddTensorParam(  # noqa: N802
        self, name: str, dtype: Any, rank: int, dims: Sequence[int], data: Any, copy: bool
    ) -> None:
        values = tuple(np.asarray(data).ravel().tolist())
        self.params.append(ParamConfig(name, _short(dtype), values, tuple(int(d) for d in dims)))

    def GetOpWrapper(self) -> Op:  # noqa: N802
        return self

    def config(self) -> OpConfig:
        return OpConfig(
            self.kind, tuple(t.config for t in self.inputs), tuple(self.params),
            tuple(t.config for t in self.outputs), self.package,
        )  # fmt: skip


@contextlib.contextmanager
def recording() -> Iterator[None]:
    """Builders that run meanwhile make ``Op`` and ``Tensor``."""
    kept = PyQnn.PyQnnOpWrapper, PyQnn.TensorWrapper
    PyQnn.PyQnnOpWrapper, PyQnn.TensorWrapper = Op, Tensor
    try:
        yield
    finally:
        PyQnn.PyQnnOpWrapper, PyQnn.TensorWrapper = kept


def _short(dtype: Any) -> str:
    found = lookup(dtype.name)
    if found is None:
        raise Rejection(f"{dtype.name} is no data type that rules know")
    return found.short
