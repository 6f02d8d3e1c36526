"""The vocabulary of generated builders: node views in, lowered ops out; without torch or ExecuTorch.

A *sink* turns a ``Lowered`` into something that runs: ``opdb.programs.torch`` builds a ``QnnGraph``,
``opdb.plugins.executorch`` builds wrappers for ExecuTorch's Qualcomm backend.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from importlib import import_module
from typing import Any, Protocol

from opdb.core.dtypes import BY_SHORT
from opdb.core.op_config import OpConfig, ParamConfig, Quant, TensorConfig
from opdb.runtime.checks import Undecidable, shown
from opdb.runtime.tensors import Rejection, TensorRef, Transform, full, intermediate


def columns(*lists: Sequence[int]) -> list[list[int]]:
    """The rows of the table with these columns, e.g. columns([1, 2], [3, 4]) = [[1, 3], [2, 4]]."""
    if len({len(column) for column in lists}) != 1:
        raise Rejection(f"columns of {', '.join(str(len(c)) for c in lists)} values are no table")
    return [list(row) for row in zip(*lists, strict=True)]


def lower_case(text: str) -> str:
    return text.lower()


@dataclass(frozen=True)
class LoweredOp:
    op: str
    inputs: tuple[TensorRef | None, ...]
    params: tuple[ParamConfig, ...]
    outputs: tuple[TensorRef, ...]
    slots: tuple[str, ...] = ()  # slot names of inputs then outputs
    package: str = "qti.aisw"

    def config(self, ident: str | None = None) -> OpConfig:
        return self._config if ident is None else replace(self._config, id=ident)

    @cached_property
    def _config(self) -> OpConfig:
        absent = TensorConfig("", "f32", (), "NULL")
        n = len(self.inputs)
        names = self.slots or ("",) * (n + len(self.outputs))
        return OpConfig(
            self.op,
            tuple(absent if t is None else t.config(s) for t, s in zip(self.inputs, names, strict=False)),
            self.params,
            tuple(t.config(s) for t, s in zip(self.outputs, names[n:], strict=False)),
            package=self.package,
        )


def require(holds: bool, sentence: str, *got: tuple[str, Any]) -> None:
    """Raises Rejection with ``sentence`` and the values unless ``holds``."""
    if not holds:
        values = ", ".join(f"{name} = {shown(value)}" for name, value in got if value is not None)
        raise Rejection(f"{sentence}; got {values}" if values else sentence)


def unused(node: NodeView, *indices: int) -> None:
    """Raises Rejection if the graph reads a result that the op does not produce."""
    for i in indices:
        if node.result_used(i):
            raise Rejection(f"result {i} is used, and the op does not produce it")


def scalar(name: str, dtype: str, value: Any) -> ParamConfig:
    """A scalar parameter.  Raises Rejection if the value does not fit ``dtype``."""
    return ParamConfig(name, dtype, _fitting(name, dtype, value))


def tensor_param(name: str, dtype: str, values: Sequence[Any]) -> ParamConfig:
    """A tensor parameter from a list, or from a list of equally long lists."""
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
    """One QNN op: tensors by slot in QNN's order, a list for a variadic slot, None for an omitted tensor."""
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
    """The lowering of a node to one op; the form has the op's name."""
    return Lowered(op, (lowered_op(op, inputs=inputs, outputs=outputs, params=params, package=package),))


@dataclass(frozen=True)
class New:
    """A tensor that an op of a chain creates, with the dtype and encoding of ``like``, or with the dtype ``like``.

    If ``shape`` is None, the op infers it.
    """

    name: str
    like: TensorRef | str
    shape: Sequence[int] | None = None


class Chain:
    """The lowering of a node to several ops, added in the order of execution."""

    def __init__(self, form: str) -> None:
        self.form = form
        self._ops: list[LoweredOp] = []

    def op(
        self,
        op: str,
        *,
        inputs: Inputs,
        outputs: Mapping[str, TensorRef | New | Sequence[TensorRef | None] | None],
        params: Sequence[ParamConfig | None] = (),
        package: str = "qti.aisw",
    ) -> tuple[TensorRef, ...]:
        """Adds one op; returns its new tensors.  Raises Rejection if their shapes cannot be inferred."""
        new = {slot: t for slot, t in outputs.items() if isinstance(t, New)}
        given = {slot: t for slot, t in outputs.items() if not isinstance(t, New)}
        shapes: Mapping[str, Any] = {}
        if any(t.shape is None for t in new.values()):
            shapes = _inferred(lowered_op(op, inputs=inputs, outputs={}, params=params, package=package))
        made = {
            slot: intermediate(t.name, shapes[slot] if t.shape is None else t.shape, t.like)
            for slot, t in new.items()
        }
        outs = {slot: made[slot] if slot in made else given[slot] for slot in outputs}
        self._ops.append(lowered_op(op, inputs=inputs, outputs=outs, params=params, package=package))
        return tuple(made.values())

    def lowered(self) -> Lowered:
        return Lowered(self.form, tuple(self._ops))


def _inferred(op: LoweredOp) -> Mapping[str, Any]:
    """The shapes of the outputs by slot, inferred by the op's own rules."""
    from opdb.generated import validators  # its modules import this room

    validator = validators.module(op.op)
    if validator is None:
        raise Rejection(f"the shapes of {op.op} cannot be inferred: it has no generated validator")
    try:
        shapes: Mapping[str, Any] = validator.infer(op.config())
    except Undecidable as error:
        raise Rejection(f"the shapes of {op.op} cannot be inferred: {error}") from None
    return shapes


def _flat(slots: Inputs) -> list[tuple[str, TensorRef | None]]:
    return [(slot, t) for slot, given in slots.items()
            for t in ([given] if given is None or isinstance(given, TensorRef) else given)]  # fmt: skip


def layout_ops(t: TensorRef, inverse: bool = False) -> tuple[LoweredOp, ...]:
    """The ops that apply the transforms of ``t``, or undo them with ``inverse`` (Transposes and Reshapes).

    Each op reads the output of the previous one.  Their tensors have no origin or name; the sink assigns them.
    A second input is a static tensor of one value.
    """
    return _layout_ops(t.transforms, t.base_shape, t.dtype, t.quant, inverse) if t.transforms else ()


@lru_cache(1 << 12)
def _layout_ops(
    steps: tuple[Transform, ...], shape: tuple[int, ...], dtype: str, quant: Quant | None, inverse: bool
) -> tuple[LoweredOp, ...]:
    ops, before = [], TensorRef(shape, dtype, quant=quant, base_shape=shape)
    for step in steps:
        shape = _after(step, before.shape)
        after = replace(before, shape=shape, base_shape=shape)
        ops.append(_undone(step, before, after) if inverse else _done(step, before, after))
        before = after
    return tuple(ops[::-1] if inverse else ops)


def _after(step: Transform, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape after ``step``."""
    if step.kind == "permute":
        return tuple(shape[p] for p in step.values)
    if step.kind == "tile":
        return tuple(d * m for d, m in zip(shape, step.values, strict=True))
    return step.values if step.kind == "reshape" else shape


def _done(step: Transform, before: TensorRef, after: TensorRef) -> LoweredOp:
    if step.kind == "permute":
        return LoweredOp("Transpose", (before,), (tensor_param("perm", "u32", step.values),), (after,))
    if step.kind == "tile":
        return LoweredOp("Tile", (before,), (tensor_param("multiples", "u32", step.values),), (after,))
    if step.kind == "reshape":
        return LoweredOp("Reshape", (before,), (), (after,))
    op = {"mod": "ElementWiseMod", "scale": "ElementWiseMultiply"}[step.kind]
    return LoweredOp(op, (before, full((1,), step.values[0], before)), (), (after,))


def _undone(step: Transform, before: TensorRef, after: TensorRef) -> LoweredOp:
    if step.kind == "permute":
        back = tuple(sorted(range(after.rank), key=step.values.__getitem__))
        return _done(Transform("permute", back), after, before)
    return _done(Transform("reshape", before.shape), after, before)


@dataclass(frozen=True)
class Reason:
    """The reason that a form does not fit.  ``rule``: e.g. LayerNorm.H2, LayerNorm.M_aten.native_layer_norm.default.

    ``message`` is complete, ``brief`` is for people (``Violation.brief``).
    """

    form: str
    rule: str
    message: str
    warning: bool = False
    brief: str = ""  # "": the message

    @property
    def short(self) -> str:
        return self.brief or self.message


@dataclass(frozen=True)
class Lowered:
    form: str  # e.g. "LayerNorm" or the name of a decomposition
    ops: tuple[LoweredOp, ...]
    notes: tuple[Reason, ...] = ()  # the reasons that earlier forms were skipped
    avoided: tuple[str, ...] = ()  # errata whose workarounds changed the ops, or that ruled out earlier forms
    warned: tuple[str, ...] = ()  # errata that the ops may show


@dataclass(frozen=True)
class Rejected:
    reasons: tuple[Reason, ...] = field(default_factory=tuple)


@dataclass(frozen=True)
class Form:
    """One way to express an ATen target, by a generated function; its module is imported on first use."""

    name: str  # the op or the decomposition; e.g. LayerNorm
    ops: tuple[str, ...]  # the QNN ops it creates
    module: str  # in opdb.generated.builders, e.g. layer_norm
    function: str  # e.g. aten_native_layer_norm
    avoids: tuple[str, ...] = ()  # errata that cannot occur in its ops, whatever their configs

    def build(self, node: NodeView) -> Lowered:
        """Builds the form.  Raises Rejection or opdb.runtime.checks.Undecidable if it does not fit the node."""
        return _builder(self.module, self.function)(node)


@cache
def _builder(module: str, function: str) -> Callable[[NodeView], Lowered]:
    builder: Callable[[NodeView], Lowered] = getattr(
        import_module(f"opdb.generated.builders.{module}"), function
    )
    return builder


class NodeView(Protocol):
    """One node of a torch graph, as builders see it."""

    target: str  # e.g. "aten.native_layer_norm.default"
    name: str

    def arg(self, name: str) -> Any:
        """The argument with this name in the ATen schema, with defaults filled in: a scalar, list, TensorRef,
        list of TensorRefs, or None."""

    def result(self, index: int) -> TensorRef:
        """The node's result number ``index`` (0 for a single result)."""

    def results(self) -> Sequence[TensorRef]: ...

    def result_used(self, index: int) -> bool:
        """True if anything in the graph, or its output, reads result number ``index``."""
