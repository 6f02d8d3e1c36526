"""What generated builders are written in: node views in, lowered ops out; no torch, no ExecuTorch.

A *sink* turns a ``Lowered`` into something that runs: ``opdb.coverage`` makes a ``QnnGraph``,
``opdb.executorch`` makes wrappers for ExecuTorch's Qualcomm backend.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from typing import Any, Protocol

from opdb.dtypes import BY_SHORT
from opdb.op_config import OpConfig, ParamConfig, Quant, TensorConfig
from opdb.runtime.checks import shown


@dataclass(frozen=True)
class Transform:
    """A change of a tensor before it reaches the op.

    ``permute``: ``values`` is the permutation.  ``reshape``: ``values`` is the new shape (same size).
    """

    kind: str
    values: tuple[int, ...]


@dataclass(frozen=True)
class TensorRef:
    """A tensor as a builder sees it: after its transforms.

    ``key`` identifies the origin for the sink (a torch node and result index); None for a tensor that
    the builder makes (``fill`` is then the value of every element) or for an intermediate (``local``).
    ``base_shape`` is the shape at the origin, before transforms.
    """

    shape: tuple[int, ...]
    dtype: str  # short name; ex) f32
    static: bool = False
    key: Hashable = None
    fill: float | None = None
    local: str | None = None
    quant: Quant | None = None
    base_shape: tuple[int, ...] = ()
    transforms: tuple[Transform, ...] = ()

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def sparse(self) -> bool:
        return False

    @property
    def encoding(self) -> str:
        return self.quant.encoding if self.quant else "NONE"

    @property
    def symmetric(self) -> bool:
        return self.quant.symmetric(self.dtype) if self.quant else True

    @property
    def axis(self) -> int:
        return -1 if self.quant is None or self.quant.axis is None else self.quant.axis

    def config(self, slot: str) -> TensorConfig:
        return TensorConfig(
            slot, self.dtype, self.shape, "STATIC" if self.static else "NATIVE", None, self.quant
        )


def permute(t: TensorRef, perm: Sequence[int]) -> TensorRef:
    """``t`` with dimension ``perm[i]`` at place i (torch.permute)."""
    if sorted(perm) != list(range(t.rank)):
        raise Rejection(f"{list(perm)} does not permute a tensor of rank {t.rank}")
    shape = tuple(t.shape[p] for p in perm)
    if list(perm) == list(range(t.rank)):
        return t
    quant = t.quant
    if quant is not None and quant.axis is not None:
        quant = replace(quant, axis=list(perm).index(quant.axis))
    return replace(t, shape=shape, quant=quant, transforms=(*t.transforms, Transform("permute", tuple(perm))))


def reshape(t: TensorRef, shape: Sequence[int]) -> TensorRef:
    """``t`` with the same elements in ``shape``."""
    if _size(shape) != _size(t.shape):
        raise Rejection(f"a tensor of the shape {list(t.shape)} cannot take the shape {list(shape)}")
    if tuple(shape) == t.shape:
        return t
    return replace(t, shape=tuple(shape), transforms=(*t.transforms, Transform("reshape", tuple(shape))))


def full(shape: Sequence[int], value: float, like: TensorRef) -> TensorRef:
    """A static tensor of the dtype of ``like``, every element ``value``."""
    return TensorRef(tuple(shape), like.dtype, static=True, fill=value, base_shape=tuple(shape))


def ones(shape: Sequence[int], like: TensorRef) -> TensorRef:
    return full(shape, 1.0, like)


def zeros(shape: Sequence[int], like: TensorRef) -> TensorRef:
    return full(shape, 0.0, like)


def columns(*lists: Sequence[int]) -> list[list[int]]:
    """The rows of a table whose columns are ``lists``; ex) columns([1, 2], [3, 4]) = [[1, 3], [2, 4]]."""
    if len({len(column) for column in lists}) != 1:
        raise Rejection(f"columns of {', '.join(str(len(c)) for c in lists)} values are no table")
    return [list(row) for row in zip(*lists, strict=True)]


def is_float(t: TensorRef) -> bool:
    """Whether ``t`` holds floating-point numbers (not quantized ones)."""
    return t.dtype in ("f16", "f32", "f64", "bf16")


def lower_case(text: str) -> str:
    return text.lower()


def _size(shape: Sequence[int]) -> int:
    size = 1
    for d in shape:
        size *= d
    return size


def intermediate(name: str, shape: Sequence[int], like: TensorRef) -> TensorRef:
    """A tensor between two ops of one lowering, with the dtype and encoding of ``like``."""
    return TensorRef(tuple(shape), like.dtype, local=name, quant=like.quant, base_shape=tuple(shape))


class Rejection(Exception):
    """Raised by a form: the node cannot be expressed; the text is the reason."""


@dataclass(frozen=True)
class LoweredOp:
    op: str
    inputs: tuple[TensorRef | None, ...]
    params: tuple[ParamConfig, ...]
    outputs: tuple[TensorRef, ...]
    slots: tuple[str, ...] = ()  # slot names of inputs then outputs

    def config(self, ident: str | None = None) -> OpConfig:
        absent = TensorConfig("", "f32", (), "NULL")
        n = len(self.inputs)
        names = self.slots or ("",) * (n + len(self.outputs))
        return OpConfig(
            self.op,
            tuple(absent if t is None else t.config(s) for t, s in zip(self.inputs, names, strict=False)),
            self.params,
            tuple(t.config(s) for t, s in zip(self.outputs, names[n:], strict=False)),
            id=ident,
        )


def require(holds: bool, sentence: str, *got: tuple[str, Any]) -> None:
    """Raises Rejection with ``sentence`` and the values it reads unless it holds."""
    if not holds:
        values = ", ".join(f"{name} = {shown(value)}" for name, value in got if value is not None)
        raise Rejection(f"{sentence}; got {values}" if values else sentence)


def unused(node: NodeView, *indices: int) -> None:
    """Raises Rejection if the graph reads a result that the op does not produce."""
    for i in indices:
        if node.result_used(i):
            raise Rejection(f"result {i} is used, and the op does not produce it")


def scalar(name: str, dtype: str, value: Any) -> ParamConfig:
    """A scalar parameter.  Raises Rejection for a value that does not fit ``dtype``."""
    return ParamConfig(name, dtype, _fitting(name, dtype, value))


def tensor_param(name: str, dtype: str, values: Sequence[Any]) -> ParamConfig:
    """A tensor parameter of a list, or of a list of lists of one length."""
    rows = [v for v in values if isinstance(v, (list, tuple))]
    if not rows:
        return ParamConfig(name, dtype, tuple(_fitting(name, dtype, v) for v in values), (len(values),))
    if len(rows) != len(values) or len({len(r) for r in rows}) != 1:
        raise Rejection(f"{name} needs rows of one length, got {shown(values)}")
    flat = tuple(_fitting(name, dtype, v) for r in rows for v in r)
    return ParamConfig(name, dtype, flat, (len(rows), len(rows[0])))


def _fitting(name: str, dtype: str, value: Any) -> Any:
    kind = BY_SHORT[dtype]
    if dtype in ("bool8", "str"):
        return value
    if dtype in ("f16", "f32", "f64"):
        try:
            struct.pack({"f16": "<e", "f32": "<f", "f64": "<d"}[dtype], value)
        except OverflowError:
            raise Rejection(f"{name} = {shown(value)} does not fit {kind.qnn}") from None
        return float(value)
    signed = dtype.startswith("i")
    low, high = (-(2 ** (kind.bits - 1)), 2 ** (kind.bits - 1) - 1) if signed else (0, 2**kind.bits - 1)
    if not low <= value <= high:
        raise Rejection(f"{name} = {value} does not fit {kind.qnn}")
    return value


Inputs = Mapping[str, TensorRef | Sequence[TensorRef | None] | None]


def lowered_op(
    op: str, *, inputs: Inputs, outputs: Inputs, params: Sequence[ParamConfig | None] = ()
) -> LoweredOp:
    """One QNN op: tensors by slot in QNN's order, a list for a variadic slot, None for what is left out."""
    ins, outs = _flat(inputs), _flat(outputs)
    while ins and ins[-1][1] is None:
        ins.pop()
    return LoweredOp(
        op,
        inputs=tuple(t for _, t in ins),
        params=tuple(p for p in params if p is not None),
        outputs=tuple(t for _, t in outs if t is not None),
        slots=tuple(s for s, _ in (*ins, *outs)),
    )


def one_op(op: str, *, inputs: Inputs, outputs: Inputs, params: Sequence[ParamConfig | None] = ()) -> Lowered:
    """The lowering of a node that is one QNN op; the form has the op's name."""
    return Lowered(op, (lowered_op(op, inputs=inputs, outputs=outputs, params=params),))


def _flat(slots: Inputs) -> list[tuple[str, TensorRef | None]]:
    return [(slot, t) for slot, given in slots.items()
            for t in ([given] if given is None or isinstance(given, TensorRef) else given)]  # fmt: skip


def layout_ops(t: TensorRef, inverse: bool = False) -> list[LoweredOp]:
    """The Transpose and Reshape ops that carry out the transforms of ``t``; with ``inverse``, undo them.

    Each reads the output of the one before.  Their tensors have neither origin nor name: a sink gives them.
    """
    shapes = [t.base_shape]
    for step in t.transforms:
        before = shapes[-1]
        shapes.append(tuple(before[p] for p in step.values) if step.kind == "permute" else step.values)
    ops = []
    for step, before, after in zip(t.transforms, shapes, shapes[1:], strict=False):
        perm = step.values
        if inverse:
            before, after = after, before
            perm = tuple(sorted(range(len(perm)), key=perm.__getitem__)) if step.kind == "permute" else perm
        a, b = (TensorRef(s, t.dtype, quant=t.quant, base_shape=s) for s in (before, after))
        if step.kind == "permute":
            ops.append(LoweredOp("Transpose", (a,), (tensor_param("perm", "u32", perm),), (b,)))
        else:
            ops.append(LoweredOp("Reshape", (a,), (), (b,)))
    return ops[::-1] if inverse else ops


@dataclass(frozen=True)
class Reason:
    """Why one form does not fit.  ``rule``: ex) LayerNorm.H2, LayerNorm.M_aten.native_layer_norm.default."""

    form: str
    rule: str
    message: str
    warning: bool = False


@dataclass(frozen=True)
class Lowered:
    form: str  # ex) "LayerNorm" or the name of a decomposition
    ops: tuple[LoweredOp, ...]
    notes: tuple[Reason, ...] = ()  # why earlier forms were passed over


@dataclass(frozen=True)
class Rejected:
    reasons: tuple[Reason, ...] = field(default_factory=tuple)


@dataclass(frozen=True)
class Form:
    """One way to express an ATen target, by a generated function; its module is imported when first used."""

    name: str  # the op or the decomposition; ex) LayerNorm
    ops: tuple[str, ...]  # the QNN ops it makes
    module: str  # of opdb.generated.builders; ex) layer_norm
    function: str  # ex) aten_native_layer_norm

    def build(self, node: NodeView) -> Lowered:
        """Raises Rejection, or opdb.runtime.checks.Undecidable, where the node has no such form."""
        return _builder(self.module, self.function)(node)


@cache
def _builder(module: str, function: str) -> Callable[[NodeView], Lowered]:
    builder: Callable[[NodeView], Lowered] = getattr(
        import_module(f"opdb.generated.builders.{module}"), function
    )
    return builder


class NodeView(Protocol):
    """One node of a torch graph, as builders see it."""

    target: str  # ex) "aten.native_layer_norm.default"
    name: str

    def arg(self, name: str) -> Any:
        """The argument of this ATen schema name, defaults filled in: a scalar, list, TensorRef, list of
        TensorRefs, or None."""

    def result(self, index: int) -> TensorRef:
        """The node's result number ``index`` (0 for a single result)."""

    def results(self) -> Sequence[TensorRef]: ...

    def result_used(self, index: int) -> bool:
        """Whether anything in the graph, or its output, reads result number ``index``."""
