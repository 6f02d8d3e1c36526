"""What a builder hands to QNN, as plain data, and the differences between two builders.

The classes of ExecuTorch's binding answer few questions about themselves: data and parameters cannot be read
back.  So they are replaced, while a builder runs, by subclasses that keep what they are given.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import executorch.backends.qualcomm.python.PyQnnManagerAdaptor as PyQnn
import numpy as np

#: Numbers of which floats that a builder computes may differ: a few roundings of float32.
ROUNDING = 1e-6


@dataclass(frozen=True)
class Tensor:
    """``kind``: ex) NATIVE, STATIC, APP_WRITE.  ``quant``: of the encoding.  ``data``: of a static tensor."""

    kind: str
    dtype: str
    shape: tuple[int, ...]
    encoding: str
    quant: Mapping[str, Any]
    data: Any = field(default=None, compare=False)


@dataclass
class Op:
    """One op as it is handed over.  ``params``: name -> (data type, shape or None, values)."""

    kind: str
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    params: dict[str, tuple[str, tuple[int, ...] | None, Any]] = field(default_factory=dict)


@contextlib.contextmanager
def recording() -> Iterator[list[Op]]:
    """The ops that builders make in this block, in order."""
    made: list[Op] = []
    tensors: dict[int, tuple[Any, Tensor]] = {}  # the wrapper is kept, so that its id stays its own
    tensor_class, op_class = PyQnn.TensorWrapper, PyQnn.PyQnnOpWrapper

    def tensor(*given: Any) -> Any:
        wrapper = tensor_class(*given)
        _, kind, dtype, encoding, quant, _, shape, _, data, has_data = given
        tensors[id(wrapper)] = (wrapper, Tensor(
            _word(kind), _word(dtype), tuple(int(d) for d in shape), _word(encoding),
            {k: _plain(v) for k, v in dict(quant).items()}, np.array(data) if has_data else None,
        ))  # fmt: skip
        return wrapper

    class Recorded(op_class):  # type: ignore[misc, valid-type]
        def __init__(self, name: str, package: str, kind: str) -> None:
            super().__init__(name, package, kind)
            self.recorded = Op(kind)
            made.append(self.recorded)

        def AddInputTensors(self, wrappers: Sequence[Any]) -> None:  # noqa: N802  the binding's name
            super().AddInputTensors(wrappers)
            self.recorded.inputs += [_of(tensors, w) for w in wrappers]

        def AddOutputTensors(self, wrappers: Sequence[Any]) -> None:  # noqa: N802
            super().AddOutputTensors(wrappers)
            self.recorded.outputs += [_of(tensors, w) for w in wrappers]

        def AddScalarParam(self, name: str, dtype: Any, value: Mapping[str, Any]) -> None:  # noqa: N802
            super().AddScalarParam(name, dtype, value)
            self.recorded.params[name] = (_word(dtype), None, _plain(next(iter(value.values()))))

        def AddTensorParam(self, name: str, dtype: Any, rank: int, shape: Any, data: Any, copy: bool) -> None:  # noqa: N802
            super().AddTensorParam(name, dtype, rank, shape, data, copy)
            self.recorded.params[name] = (_word(dtype), tuple(shape), np.array(data).flatten().tolist())

    PyQnn.TensorWrapper, PyQnn.PyQnnOpWrapper = tensor, Recorded
    try:
        yield made
    finally:
        PyQnn.TensorWrapper, PyQnn.PyQnnOpWrapper = tensor_class, op_class


def differences(stock: Sequence[Op], own: Sequence[Op]) -> list[str]:
    """What differs between two lowerings of one node, a line each; empty where they are equal."""
    kinds = [op.kind for op in stock], [op.kind for op in own]
    if kinds[0] != kinds[1]:
        return [f"ops: {', '.join(kinds[0]) or 'none'} | {', '.join(kinds[1]) or 'none'}"]
    found: list[str] = []
    for i, (theirs, ours) in enumerate(zip(stock, own, strict=True)):
        place = theirs.kind if len(stock) == 1 else f"{theirs.kind}[{i}]"
        for group in ("inputs", "outputs"):
            pairs = getattr(theirs, group), getattr(ours, group)
            if len(pairs[0]) != len(pairs[1]):
                found.append(f"{place} {group}: {len(pairs[0])} | {len(pairs[1])}")
            for j, (a, b) in enumerate(zip(*pairs, strict=False)):
                found += _tensor_differences(f"{place} {group}[{j}]", a, b)
        found += _param_differences(place, theirs.params, ours.params)
    return found


def _tensor_differences(place: str, a: Tensor, b: Tensor) -> list[str]:
    found = []
    for name in ("kind", "dtype", "shape", "encoding", "quant"):
        left, right = getattr(a, name), getattr(b, name)
        if not _same(left, right):
            found.append(f"{place} {name}: {_shown(left)} | {_shown(right)}")
    if a.data is not None and b.data is not None and a.data.size == b.data.size:
        worst = float(
            np.abs(a.data.astype(np.float64).flatten() - b.data.astype(np.float64).flatten()).max(initial=0)
        )
        if worst > ROUNDING * max(1.0, float(np.abs(a.data.astype(np.float64)).max(initial=0))):
            found.append(f"{place} data: differs by up to {worst:.3g}")
    return found


def _param_differences(place: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    found = []
    for name in sorted(a.keys() | b.keys()):
        if name not in a or name not in b:
            left, right = (_shown(x[name]) if name in x else "left out" for x in (a, b))
            found.append(f"{place} {name}: {left} | {right}")
        elif not _same(a[name], b[name]):
            found.append(f"{place} {name}: {_shown(a[name])} | {_shown(b[name])}")
    return found


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b) <= ROUNDING * max(abs(a), abs(b)) or (a != a and b != b)
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b)


def _plain(value: Any) -> Any:
    """Enums as their words, arrays as lists, numbers as Python's."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


def _word(enum: Any) -> str:
    """ex) QNN_DATATYPE_FLOAT_32 -> FLOAT_32."""
    name = str(enum.name)
    for prefix in ("QNN_DATATYPE_", "QNN_TENSOR_TYPE_", "QNN_QUANTIZATION_ENCODING_"):
        name = name.removeprefix(prefix)
    return name


def _of(tensors: Mapping[int, tuple[Any, Tensor]], wrapper: Any) -> Tensor:
    return tensors[id(wrapper)][1]


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


#: The two lowerings of a node and what differs; empty ``lines``: they are equal.
@dataclass(frozen=True)
class Difference:
    node: str
    target: str
    stock: tuple[Op, ...]
    own: tuple[Op, ...]
    lines: tuple[str, ...]


def compare(
    node: str, target: str, stock: Callable[[], Any], own: Callable[[], Any]
) -> tuple[Any, Difference]:
    """Runs both builders; the stock one's answer, and the difference.  A refusal counts as no ops."""
    with recording() as theirs:
        answer = stock()
    with recording() as ours:
        accepted = own()
    left = tuple(theirs) if answer is not None else ()
    right = tuple(ours) if accepted is not None else ()
    return answer, Difference(node, target, left, right, tuple(differences(left, right)))
