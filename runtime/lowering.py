"""What generated builders are written in: node views in, lowered ops out; no torch, no ExecuTorch.

A *sink* turns a ``Lowered`` into something that runs: ``opdb.coverage`` makes a ``QnnGraph``,
``opdb.executorch`` makes wrappers for ExecuTorch's Qualcomm backend.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from opdb.op_config import OpConfig, ParamConfig, Quant, TensorConfig


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
    def encoding(self) -> str:
        return self.quant.encoding if self.quant else "NONE"

    @property
    def symmetric(self) -> bool:
        return self.quant.symmetric if self.quant else True

    @property
    def axis(self) -> int:
        return -1 if self.quant is None or self.quant.axis is None else self.quant.axis

    def config(self, slot: str) -> TensorConfig:
        return TensorConfig(slot, self.dtype, self.shape, "STATIC" if self.static else "NATIVE", None, self.quant)


def permute(t: TensorRef, perm: Sequence[int]) -> TensorRef:
    """``t`` with dimension ``perm[i]`` at place i (torch.permute)."""
    if sorted(perm) != list(range(t.rank)):
        raise Rejection(f"{list(perm)} does not permute a tensor of rank {t.rank}")
    shape = tuple(t.shape[p] for p in perm)
    if list(perm) == list(range(t.rank)):
        return t
    return replace(t, shape=shape, transforms=(*t.transforms, Transform("permute", tuple(perm))))


def reshape(t: TensorRef, shape: Sequence[int]) -> TensorRef:
    """``t`` with the same elements in ``shape``."""
    if tuple(shape) == t.shape:
        return t
    return replace(t, shape=tuple(shape), transforms=(*t.transforms, Transform("reshape", tuple(shape))))


def full(shape: Sequence[int], value: float, dtype: str) -> TensorRef:
    """A static tensor, every element ``value``."""
    return TensorRef(tuple(shape), dtype, static=True, fill=value, base_shape=tuple(shape))


def intermediate(name: str, shape: Sequence[int], like: TensorRef) -> TensorRef:
    """A tensor between two ops of one lowering, with the dtype and encoding of ``like``."""
    return TensorRef(tuple(shape), like.dtype, local=name, quant=like.quant, base_shape=tuple(shape))


class Rejection(Exception):  # noqa: N818  a flow of control, not an error
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


@dataclass(frozen=True)
class Reason:
    """Why one form does not fit.  ``rule``: ex) LayerNorm.H2, or LayerNorm.M_aten.native_layer_norm.default."""

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


def iter_refs(op: LoweredOp) -> Iterator[TensorRef]:
    yield from (t for t in op.inputs if t is not None)
    yield from op.outputs
