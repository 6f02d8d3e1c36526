"""What generated builders are written in: node views in, lowered ops out; no torch, no ExecuTorch.

A *sink* turns a ``Lowered`` into something that runs: ``opdb.coverage`` makes a ``QnnGraph``,
``opdb.executorch`` makes wrappers for ExecuTorch's Qualcomm backend.
"""

from __future__ import annotations

import math
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
    On the way into an op only: ``tile`` repeats each dimension ``values[i]`` times, ``mod`` takes the elements
    modulo ``values[0]`` (never negative), ``scale`` multiplies them by it.  Of a static tensor only: ``inverse_root``
    is 1 / sqrt(element + ``values[0]``).
    """

    kind: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Ramp:
    """Values that depend on the place alone: ``start`` + the sum of ``steps[i]`` * the place along dimension i.

    In a tensor of bool8 an element is true where that is not negative.
    """

    steps: tuple[int, ...]
    start: int


@dataclass(frozen=True)
class TensorRef:
    """A tensor as a builder sees it: after its transforms.

    ``key`` identifies the origin for the sink (a torch node and result index); None for a tensor that
    the builder makes (``fill`` is then the value of every element, ``ramp`` says what they are, or ``data``
    holds the values, row-major) or for an intermediate (``local``).
    ``base_shape`` is the shape at the origin, before transforms.
    """

    shape: tuple[int, ...]
    dtype: str  # short name; ex) f32
    static: bool = False
    key: Hashable = None
    fill: float | None = None
    data: tuple[float, ...] | None = field(default=None, repr=False)
    local: str | None = None
    quant: Quant | None = None
    base_shape: tuple[int, ...] = ()
    transforms: tuple[Transform, ...] = ()
    ramp: Ramp | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def made(self) -> bool:
        """Whether a builder says the values."""
        return self.fill is not None or self.ramp is not None or self.data is not None

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

    @property
    def scale(self) -> float:
        """The first one; 0 without encoding."""
        return self.quant.scale[0] if self.quant and self.quant.scale else 0.0

    @property
    def offset(self) -> int:
        """The first one; 0 without encoding."""
        return self.quant.offset[0] if self.quant and self.quant.offset else 0

    def config(self, slot: str) -> TensorConfig:
        return TensorConfig(
            slot, self.dtype, self.shape, "STATIC" if self.static else "NATIVE", None, self.quant
        )


def sized(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """``shape``, of a tensor that has elements, or [0]: torch.cat passes over such tensors (``filled``).

    QNN has no rule about a dimension of size 0; by execution, the libraries of 2.47 take such tensors in some ops, refuse
    them in others, and HTP ends with SIGFPE where one is broadcast.
    """
    if 0 in shape and shape != (0,):
        raise empty(name, shape)
    return shape


def empty(name: str, shape: tuple[int, ...]) -> Rejection:
    """The refusal of a tensor that no op may get."""
    return Rejection(
        f"{name} has no element, its shape is {list(shape)}; the libraries refuse such tensors or crash"
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


def dtype_of(like: TensorRef | str) -> str:
    """The short name of a dtype that is given by a tensor or by itself."""
    return like if isinstance(like, str) else like.dtype


def full(shape: Sequence[int], value: float, like: TensorRef | str) -> TensorRef:
    """A static tensor of the dtype of ``like``, every element ``value``."""
    return TensorRef(tuple(shape), dtype_of(like), static=True, fill=value, base_shape=tuple(shape))


def ones(shape: Sequence[int], like: TensorRef | str) -> TensorRef:
    return full(shape, 1.0, like)


def zeros(shape: Sequence[int], like: TensorRef | str) -> TensorRef:
    return full(shape, 0.0, like)


def ramp(shape: Sequence[int], steps: Sequence[int], start: int) -> TensorRef:
    """A static tensor of i32; see Ramp."""
    return _ramp("i32", shape, steps, start)


def ramp_mask(shape: Sequence[int], steps: Sequence[int], start: int) -> TensorRef:
    """A static tensor of bool8, true where ``ramp`` is not negative."""
    return _ramp("bool8", shape, steps, start)


def _ramp(dtype: str, shape: Sequence[int], steps: Sequence[int], start: int) -> TensorRef:
    if len(steps) != len(shape):
        raise Rejection(f"{len(steps)} steps along the dimensions of {list(shape)}")
    if abs(start) + sum(abs(s) * d for s, d in zip(steps, shape, strict=True)) >= 2**31:
        raise Rejection(f"the places in a tensor of the shape {list(shape)} do not fit INT_32")
    made = Ramp(tuple(steps), start)
    return TensorRef(tuple(shape), dtype, static=True, base_shape=tuple(shape), ramp=made)


def tiled(t: TensorRef, shape: Sequence[int]) -> TensorRef:
    """``t`` repeated to ``shape``, as PyTorch broadcasts it."""
    if t.fill is not None:
        return full(shape, t.fill, t)
    lifted = (*(1,) * (len(shape) - t.rank), *t.shape)
    if len(lifted) != len(shape) or any(a not in (1, b) for a, b in zip(lifted, shape, strict=True)):
        raise Rejection(f"a tensor of the shape {list(t.shape)} cannot be repeated to {list(shape)}")
    multiples = tuple(1 if a == b else b for a, b in zip(lifted, shape, strict=True))
    t = reshape(t, lifted)
    if all(m == 1 for m in multiples):
        return t
    return replace(t, shape=tuple(shape), transforms=(*t.transforms, Transform("tile", multiples)))


def wrapped(t: TensorRef, size: int) -> TensorRef:
    """The indices ``t`` of a dimension of ``size``, negative ones counted from its end."""
    if size < 1:
        raise Rejection("a dimension of size 0 has no element to choose")
    if t.fill is not None:
        return replace(t, fill=t.fill % size)
    return replace(t, transforms=(*t.transforms, Transform("mod", (size,))))


def scaled(t: TensorRef, factor: int) -> TensorRef:
    """The integers ``t`` times ``factor``."""
    if t.fill is not None:
        return replace(t, fill=t.fill * factor)
    if factor == 1:
        return t
    return replace(t, transforms=(*t.transforms, Transform("scale", (factor,))))


def inverse_root(t: TensorRef, more: float) -> TensorRef:
    """1 / sqrt(t + more) of each element of a static tensor.

    Worked out before the program runs: HTP 2.47 computes chains of static tensors of rank 5 wrongly.
    """
    if t.quant is not None or not is_float(t):
        raise Rejection(f"the root of a tensor of the type {t.dtype} with an encoding")
    if t.fill is not None:
        return replace(t, fill=1.0 / math.sqrt(t.fill + more))
    if not t.static:
        raise Rejection("a variance that is only known when the program runs")
    return replace(t, transforms=(*t.transforms, Transform("inverse_root", (more,))))


def given_at(tensors: Sequence[TensorRef | None]) -> list[int]:
    """The positions of a list with gaps at which there is a tensor."""
    return [i for i, t in enumerate(tensors) if t is not None]


def chosen(tensors: Sequence[TensorRef | None]) -> list[TensorRef]:
    """A list with gaps without them."""
    return [t for t in tensors if t is not None]


def filled(tensors: Sequence[TensorRef]) -> list[TensorRef]:
    """The tensors that have elements: torch.cat passes over tensors of the shape [0]."""
    return [t for t in tensors if t.shape != (0,)]


def lifted(tensors: Sequence[TensorRef], axis: int) -> list[TensorRef]:
    """Each of ``tensors`` with a dimension of size 1 at place ``axis``."""
    return [reshape(t, (*t.shape[:axis], 1, *t.shape[axis:])) for t in tensors]


def columns(*lists: Sequence[int]) -> list[list[int]]:
    """The rows of a table whose columns are ``lists``; ex) columns([1, 2], [3, 4]) = [[1, 3], [2, 4]]."""
    if len({len(column) for column in lists}) != 1:
        raise Rejection(f"columns of {', '.join(str(len(c)) for c in lists)} values are no table")
    return [list(row) for row in zip(*lists, strict=True)]


def is_float(t: TensorRef) -> bool:
    """Whether ``t`` holds floating-point numbers (not quantized ones)."""
    return t.dtype in ("f16", "f32", "f64", "bf16")


def is_real(t: TensorRef) -> bool:
    """Whether ``t`` stands for real numbers: floating-point or quantized ones, not integers or truth values."""
    return is_float(t) or BY_SHORT[t.dtype].quantized


def lower_case(text: str) -> str:
    return text.lower()


def _size(shape: Sequence[int]) -> int:
    size = 1
    for d in shape:
        size *= d
    return size


def intermediate(name: str, shape: Sequence[int], like: TensorRef | str) -> TensorRef:
    """A tensor between two ops of one lowering, with the dtype and encoding of ``like``, or of this dtype."""
    quant = None if isinstance(like, str) else like.quant
    return TensorRef(tuple(shape), dtype_of(like), local=name, quant=quant, base_shape=tuple(shape))


class Rejection(Exception):
    """Raised by a form: the node cannot be expressed; the text is the reason."""


@dataclass(frozen=True)
class LoweredOp:
    op: str
    inputs: tuple[TensorRef | None, ...]
    params: tuple[ParamConfig, ...]
    outputs: tuple[TensorRef, ...]
    slots: tuple[str, ...] = ()  # slot names of inputs then outputs
    package: str = "qti.aisw"

    def config(self, ident: str | None = None) -> OpConfig:
        absent = TensorConfig("", "f32", (), "NULL")
        n = len(self.inputs)
        names = self.slots or ("",) * (n + len(self.outputs))
        return OpConfig(
            self.op,
            tuple(absent if t is None else t.config(s) for t, s in zip(self.inputs, names, strict=False)),
            self.params,
            tuple(t.config(s) for t, s in zip(self.outputs, names[n:], strict=False)),
            package=self.package,
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
    op: str,
    *,
    inputs: Inputs,
    outputs: Inputs,
    params: Sequence[ParamConfig | None] = (),
    package: str = "qti.aisw",
) -> LoweredOp:
    """One QNN op: tensors by slot in QNN's order, a list for a variadic slot, None for what is left out."""
    ins, outs = _flat(inputs), _flat(outputs)
    if any(
        step.kind not in ("permute", "reshape") for _, t in outs if t is not None for step in t.transforms
    ):
        raise Rejection(f"an output of {op} can be permuted and reshaped only")
    while ins and ins[-1][1] is None:
        ins.pop()
    return LoweredOp(
        op,
        inputs=tuple(t for _, t in ins),
        params=tuple(p for p in params if p is not None),
        outputs=tuple(t for _, t in outs if t is not None),
        slots=tuple(s for s, _ in (*ins, *outs)),
        package=package,
    )


def one_op(
    op: str,
    *,
    inputs: Inputs,
    outputs: Inputs,
    params: Sequence[ParamConfig | None] = (),
    package: str = "qti.aisw",
) -> Lowered:
    """The lowering of a node that is one op; the form has the op's name."""
    return Lowered(op, (lowered_op(op, inputs=inputs, outputs=outputs, params=params, package=package),))


def _flat(slots: Inputs) -> list[tuple[str, TensorRef | None]]:
    return [(slot, t) for slot, given in slots.items()
            for t in ([given] if given is None or isinstance(given, TensorRef) else given)]  # fmt: skip


def layout_ops(t: TensorRef, inverse: bool = False) -> list[LoweredOp]:
    """The ops that carry out the transforms of ``t``; with ``inverse``, undo them (Transposes and Reshapes).

    Each reads the output of the one before.  Their tensors have neither origin nor name: a sink gives them.
    A second input is a static tensor of one value.
    """
    ops, before = [], t.base_shape
    for step in t.transforms:
        after = _after(step, before)
        ops.append(_undone(step, before, after, t) if inverse else _done(step, before, after, t))
        before = after
    return ops[::-1] if inverse else ops


def _after(step: Transform, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape after ``step``."""
    if step.kind == "permute":
        return tuple(shape[p] for p in step.values)
    if step.kind == "tile":
        return tuple(d * m for d, m in zip(shape, step.values, strict=True))
    return step.values if step.kind == "reshape" else shape


def _done(step: Transform, before: tuple[int, ...], after: tuple[int, ...], t: TensorRef) -> LoweredOp:
    a, b = (TensorRef(s, t.dtype, quant=t.quant, base_shape=s) for s in (before, after))
    if step.kind == "permute":
        return LoweredOp("Transpose", (a,), (tensor_param("perm", "u32", step.values),), (b,))
    if step.kind == "tile":
        return LoweredOp("Tile", (a,), (tensor_param("multiples", "u32", step.values),), (b,))
    if step.kind == "reshape":
        return LoweredOp("Reshape", (a,), (), (b,))
    op = {"mod": "ElementWiseMod", "scale": "ElementWiseMultiply"}[step.kind]
    return LoweredOp(op, (a, full((1,), step.values[0], t)), (), (b,))


def _undone(step: Transform, before: tuple[int, ...], after: tuple[int, ...], t: TensorRef) -> LoweredOp:
    if step.kind == "permute":
        back = tuple(sorted(range(len(after)), key=step.values.__getitem__))
        return _done(Transform("permute", back), after, before, t)
    return _done(Transform("reshape", before), after, before, t)


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
