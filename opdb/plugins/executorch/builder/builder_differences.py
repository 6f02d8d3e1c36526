"""Runs two builders on one node and compares what they hand to QNN."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opdb.core.op_config import Quant
from opdb.plugins.executorch.builder.op_records import Op, Param, Tensor, listed, recording
from opdb.runtime.forms import Rejected

#: The relative difference allowed between floats that builders compute: a few roundings of float32.
ROUNDING = 1e-6
LEFT_OUT = "left out"


@dataclass(frozen=True)
class Side:
    """The result of one builder for a node.  ``refusal``: the reason if it makes nothing; ``raised``: it was an exception."""

    ops: tuple[Op, ...]
    refusal: str = ""
    raised: bool = False


@dataclass(frozen=True)
class Line:
    """One difference.  ``place``: e.g. "Conv2d inputs[1]"; ``what``: e.g. dtype, or a parameter's name."""

    place: str
    what: str
    stock: str
    own: str

    def __str__(self) -> str:
        where = f"{self.place} {self.what}".strip()
        return f"{where}: {self.stock} | {self.own}"


@dataclass(frozen=True)
class Difference:
    """Two lowerings of one edge node and their differences; empty ``lines``: they are equal."""

    node: str
    edge: str  # the operator's name in the edge graph; e.g. aten.view_copy.default
    target: str  # the spec's name; e.g. aten.view.default
    stock: Side
    own: Side
    lines: tuple[Line, ...]


def compare(
    node: str, edge: str, target: str, stock: Callable[[], Any], own: Callable[[], Any]
) -> Difference:
    """Runs both builders on records, opdb's first since it changes nothing.  opdb's may return a Rejected."""
    with recording():
        ours, theirs = _side(own), _side(stock)
    return Difference(node, edge, target, theirs, ours, tuple(differences(theirs, ours)))


def _side(build: Callable[[], Any]) -> Side:
    try:
        made = build()
    except Exception as e:  # anything that a builder raises
        lines = str(e).strip().splitlines()
        return Side((), f"{type(e).__name__}: {lines[0] if lines else ''}".rstrip(": "), raised=True)
    if isinstance(made, Rejected):
        return Side((), "; ".join(dict.fromkeys(f"{r.rule}: {r.message}" for r in made.reasons)))
    return Side(tuple(listed(made)), "declines" if made is None else "")


def differences(stock: Side, own: Side) -> list[Line]:
    """Compares two lowerings of one node."""
    if stock.refusal and own.refusal and not stock.raised:
        return []  # both leave the node to the CPU; an exception would end ExecuTorch's export
    kinds = [tuple(op.kind for op in side.ops) for side in (stock, own)]
    if stock.refusal or own.refusal or kinds[0] != kinds[1]:
        theirs, ours = (side.refusal or ", ".join(op.kind for op in side.ops) for side in (stock, own))
        return [Line("", "ops", theirs, ours)]
    made = [
        {id(t): f"{i}.{j}" for i, op in enumerate(side.ops) for j, t in enumerate(op.outputs)}
        for side in (stock, own)
    ]
    found: list[Line] = []
    for i, (a, b) in enumerate(zip(stock.ops, own.ops, strict=True)):
        place = a.kind if len(kinds[0]) == 1 else f"{a.kind}[{i}]"
        if a.package != b.package:
            found.append(Line(place, "package", a.package, b.package))
        for group in ("inputs", "outputs"):
            pairs = getattr(a, group), getattr(b, group)
            if len(pairs[0]) != len(pairs[1]):
                found.append(Line(place, group, str(len(pairs[0])), str(len(pairs[1]))))
            for j, (x, y) in enumerate(zip(*pairs, strict=False)):
                found += _of_tensors(f"{place} {group}[{j}]", x, y, (made[0].get(id(x)), made[1].get(id(y))))
        found += _of_params(place, a.params, b.params)
    return found


def _of_tensors(place: str, a: Tensor, b: Tensor, origin: tuple[str | None, str | None]) -> list[Line]:
    """``origin``: the op of the lowering that makes each tensor; None if it comes from elsewhere."""
    found = []
    for name in ("kind", "dtype", "shape", "quant"):
        left, right = getattr(a, name), getattr(b, name)
        if not _same(left, right):
            found.append(Line(place, name, _shown(left), _shown(right)))
    if "STATIC" not in (a.kind, b.kind):
        left, right = _named(a, origin[0]), _named(b, origin[1])
        if left != right:
            found.append(Line(place, "tensor", left, right))
    if a.data is not None and b.data is not None and a.shape == b.shape:
        x, y = a.data.astype(np.float64), b.data.astype(np.float64)
        worst = float(np.nan_to_num(np.abs(x - y)).max(initial=0))
        largest = float(np.nan_to_num(np.abs(x)).max(initial=0))
        if worst > ROUNDING * max(1.0, largest):
            found.append(Line(place, "data", f"up to {largest:.3g}", f"differs by up to {worst:.3g}"))
    return found


def _named(tensor: Tensor, origin: str | None) -> str:
    """The name of a program's tensor (e.g. aten_relu_default@0), or the origin of a tensor between two ops."""
    return tensor.name if "@" in tensor.name or origin is None else f"result {origin}"


def _of_params(place: str, a: Mapping[str, Param], b: Mapping[str, Param]) -> list[Line]:
    found = []
    for name in sorted(a.keys() | b.keys()):
        left, right = a.get(name), b.get(name)
        if left is None or right is None or not _same_param(left, right):
            found.append(Line(place, name, _param(left), _param(right)))
    return found


def _same_param(a: Param, b: Param) -> bool:
    return (a.dtype, a.shape) == (b.dtype, b.shape) and _same(a.value, b.value)


def _param(param: Param | None) -> str:
    if param is None:
        return LEFT_OUT
    kind = param.dtype.name.removeprefix("QNN_DATATYPE_")
    return f"{_shown(param.value)} ({kind}{'' if param.shape is None else list(param.shape)})"


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b) <= ROUNDING * max(abs(a), abs(b)) or a == b or (a != a and b != b)
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, Quant) and isinstance(b, Quant):
        return _same(vars(a), vars(b))
    return bool(a == b)


def _shown(value: Any) -> str:
    if isinstance(value, Quant):
        given = {"scale": value.scale, "offset": value.offset, "axis": value.axis, "bits": value.bits}
        value = f"{value.encoding} {', '.join(f'{k} {v}' for k, v in given.items() if v is not None)}"
    text = str(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
