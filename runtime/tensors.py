"""The tensors of generated builders: their origins, and their transforms on the way into an op."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from opdb.core.dtypes import BY_SHORT
from opdb.core.names import counted
from opdb.core.op_config import Quant, TensorConfig
from opdb.runtime import axes

MAX_FILTER = 1 << 26  # maximum number of values of a filter that is extended by zeros


class Rejection(Exception):
    """Raised by a form if the node cannot be expressed; the text is the reason."""


@dataclass(frozen=True)
class Transform:
    """A change to a tensor before it reaches the op.

    ``permute``: ``values`` is the permutation.  ``reshape``: ``values`` is the new shape (same size).
    On the way into an op only: ``tile`` repeats each dimension ``values[i]`` times, ``mod`` takes the elements
    modulo ``values[0]`` (never negative), ``scale`` multiplies them by it.  For static tensors only: ``inverse_root``
    is 1 / sqrt(element + ``values[0]``); ``dequantize`` converts stored integers to real numbers, with the scales, QNN's
    offsets, and the axis (-1: none) in ``values``; ``diagonal`` spreads ``values[1]`` blocks of rows over as many blocks of
    columns, ``spaced`` spreads the last dimensions by ``values[1:]``, and ``lengthened`` appends ``values[i + 1]``
    elements along dimension i, all filling with ``values[0]``, a stored zero; ``times`` multiplies by the elements of the
    static tensor ``values[0]``, ``minus`` subtracts them; ``from`` subtracts the stored integer from ``values[0]``.
    """

    kind: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Ramp:
    """Values that depend only on the index: ``start`` + the sum of ``steps[i]`` * the index along dimension i.

    In a bool8 tensor an element is true if this is not negative.
    """

    steps: tuple[int, ...]
    start: int


@dataclass(frozen=True)
class TensorRef:
    """A tensor as a builder sees it: after its transforms.

    ``key`` identifies the origin for the sink (a torch node and result index); None for a tensor that the
    builder creates (with ``fill`` as the value of every element, a ``ramp``, or row-major values in ``data``) or
    for an intermediate (``local``).
    ``base_shape`` is the shape at the origin, before transforms.  ``values`` returns the stored numbers of a static
    tensor with a key at its origin, or None while they are unknown; ``data`` of a tensor with an encoding is also
    stored numbers.
    """

    shape: tuple[int, ...]
    dtype: str  # short name; e.g. f32
    static: bool = False
    key: Hashable = None
    fill: float | None = None
    data: tuple[float, ...] | None = field(default=None, repr=False)
    local: str | None = None
    quant: Quant | None = None
    base_shape: tuple[int, ...] = ()
    transforms: tuple[Transform, ...] = ()
    ramp: Ramp | None = None
    values: Callable[[], Any] | None = field(default=None, repr=False, compare=False)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def made(self) -> bool:
        """True if a builder defines the values."""
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
        """The first scale; 0 without encoding."""
        return self.quant.scale[0] if self.quant and self.quant.scale else 0.0

    @property
    def offset(self) -> int:
        """The first offset; 0 without encoding."""
        return self.quant.offset[0] if self.quant and self.quant.offset else 0

    def config(self, slot: str) -> TensorConfig:
        return TensorConfig(
            slot, self.dtype, self.shape, "STATIC" if self.static else "NATIVE", None, self.quant
        )


def sized(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """``shape``; raises Rejection if it has no elements, unless it is [0], which torch.cat skips (``filled``).

    QNN has no rule about dimensions of size 0: the libraries accept them in some ops and refuse them in others
    (HTP-0419).
    """
    if 0 in shape and shape != (0,):
        raise empty(name, shape)
    return shape


def empty(name: str, shape: tuple[int, ...]) -> Rejection:
    """The Rejection of a tensor without elements."""
    return Rejection(
        f"{name} has no element, its shape is {list(shape)}; the libraries refuse such tensors or crash"
    )


def permute(t: TensorRef, perm: Sequence[int]) -> TensorRef:
    """``t`` with dimension ``perm[i]`` at position i (torch.permute)."""
    if sorted(perm) != list(range(t.rank)):
        raise Rejection(f"{list(perm)} does not permute a tensor of rank {t.rank}")
    shape = tuple(t.shape[p] for p in perm)
    if list(perm) == list(range(t.rank)):
        return t
    quant = None if t.quant is None else axes.permuted(t.quant, perm)
    return replace(t, shape=shape, quant=quant, transforms=(*t.transforms, Transform("permute", tuple(perm))))


def reshape(t: TensorRef, shape: Sequence[int]) -> TensorRef:
    """``t`` with the same elements in ``shape``."""
    if _size(shape) != _size(t.shape):
        raise Rejection(f"a tensor of the shape {list(t.shape)} cannot take the shape {list(shape)}")
    if tuple(shape) == t.shape:
        return t
    step = Transform("reshape", tuple(shape))
    found = None if t.quant is None else axes.reshaped(t.quant, t.shape, shape)
    quant = _carried(t, found, f"cannot take the shape {list(shape)}")
    return replace(t, shape=step.values, quant=quant, transforms=(*t.transforms, step))


def as_image(t: TensorRef) -> TensorRef:
    """``t`` [N, C, ...] as [N, C, H, W]: unchanged with two pixel dimensions above 1, else H is the largest divisor up to 128.

    HTP finalizes an InstanceNorm of one row of 32768 pixels in 12 s, of 128 rows in 0.1 s (QNN 2.47, SM8650).
    """
    if len(t.shape) == 4 and 1 not in t.shape[2:]:
        return t
    pixels = _size(t.shape[2:])
    rows = max(d for d in range(1, 129) if pixels % d == 0)
    return reshape(t, (*t.shape[:2], rows, pixels // rows))


def dtype_of(like: TensorRef | str) -> str:
    """The short name of a dtype given directly or by a tensor."""
    return like if isinstance(like, str) else like.dtype


def full(shape: Sequence[int], value: float, like: TensorRef | str) -> TensorRef:
    """A static tensor with the dtype of ``like`` and every element ``value``."""
    return TensorRef(tuple(shape), dtype_of(like), static=True, fill=value, base_shape=tuple(shape))


def ones(shape: Sequence[int], like: TensorRef | str) -> TensorRef:
    return full(shape, 1.0, like)


def zeros(shape: Sequence[int], like: TensorRef | str) -> TensorRef:
    return full(shape, 0.0, like)


def ramp(shape: Sequence[int], steps: Sequence[int], start: int) -> TensorRef:
    """A static i32 tensor; see Ramp."""
    return _ramp("i32", shape, steps, start)


def ramp_mask(shape: Sequence[int], steps: Sequence[int], start: int) -> TensorRef:
    """A static bool8 tensor, true where ``ramp`` is not negative."""
    return _ramp("bool8", shape, steps, start)


def _ramp(dtype: str, shape: Sequence[int], steps: Sequence[int], start: int) -> TensorRef:
    if len(steps) != len(shape):
        raise Rejection(f"{counted(len(steps), 'step')} along the dimensions of {list(shape)}")
    if abs(start) + sum(abs(s) * d for s, d in zip(steps, shape, strict=True)) >= 2**31:
        raise Rejection(f"the places in a tensor of the shape {list(shape)} do not fit INT_32")
    made = Ramp(tuple(steps), start)
    return TensorRef(tuple(shape), dtype, static=True, base_shape=tuple(shape), ramp=made)


def tiled(t: TensorRef, shape: Sequence[int]) -> TensorRef:
    """``t`` repeated to ``shape``, like PyTorch's broadcasting."""
    if t.fill is not None:
        return full(shape, t.fill, t)
    lifted = (*(1,) * (len(shape) - t.rank), *t.shape)
    if len(lifted) != len(shape) or any(a not in (1, b) for a, b in zip(lifted, shape, strict=True)):
        raise Rejection(f"a tensor of the shape {list(t.shape)} cannot be repeated to {list(shape)}")
    multiples = tuple(1 if a == b else b for a, b in zip(lifted, shape, strict=True))
    t = reshape(t, lifted)
    if all(m == 1 for m in multiples):
        return t
    found = None if t.quant is None else axes.tiled(t.quant, multiples)
    quant = _carried(t, found, f"cannot be repeated to {list(shape)}")
    step = Transform("tile", multiples)
    return replace(t, shape=tuple(shape), quant=quant, transforms=(*t.transforms, step))


def wrapped(t: TensorRef, size: int) -> TensorRef:
    """The indices ``t`` into a dimension of ``size``, with negative ones counted from its end."""
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

    Computed before the program runs (HTP-0420).
    """
    if t.quant is not None or not is_float(t):
        raise Rejection(f"the root of a tensor of the type {t.dtype} with an encoding")
    if t.fill is not None:
        return replace(t, fill=1.0 / math.sqrt(t.fill + more))
    if not t.static:
        raise Rejection("a variance that is only known when the program runs")
    return replace(t, transforms=(*t.transforms, Transform("inverse_root", (more,))))


def times(a: TensorRef, b: TensorRef) -> TensorRef:
    """The elements of the static tensor ``a`` times those of ``b``, computed before the program runs."""
    return _with_static("times", a, b)


def minus(a: TensorRef, b: TensorRef) -> TensorRef:
    """The elements of the static tensor ``a`` minus those of ``b``, computed before the program runs."""
    return _with_static("minus", a, b)


def _with_static(kind: str, a: TensorRef, b: TensorRef) -> TensorRef:
    for t in (a, b):
        if t.quant is not None or not is_float(t):
            raise Rejection(f"a factor of the type {t.dtype} with an encoding")
        if not t.static:
            raise Rejection("a factor that is only known when the program runs")
    if a.shape != b.shape:
        raise Rejection(f"factors of the shapes {list(a.shape)} and {list(b.shape)}")
    return replace(a, transforms=(*a.transforms, Transform(kind, (b,))))


def given_at(tensors: Sequence[TensorRef | None]) -> list[int]:
    """The positions of the tensors in a list with gaps."""
    return [i for i, t in enumerate(tensors) if t is not None]


def chosen(tensors: Sequence[TensorRef | None]) -> list[TensorRef]:
    """The tensors of a list with gaps."""
    return [t for t in tensors if t is not None]


def filled(tensors: Sequence[TensorRef]) -> list[TensorRef]:
    """The tensors that have elements: torch.cat skips tensors of shape [0]."""
    return [t for t in tensors if t.shape != (0,)]


def lifted(tensors: Sequence[TensorRef], axis: int) -> list[TensorRef]:
    """Each of ``tensors`` with a dimension of size 1 inserted at ``axis``."""
    return [reshape(t, (*t.shape[:axis], 1, *t.shape[axis:])) for t in tensors]


def block_diagonal(t: TensorRef, groups: int) -> TensorRef:
    """The filter [in, out / groups, ...] of a grouped transposed convolution as [in, out, ...] without groups.

    Elements that no group reads are zero (HTP-0338).
    """
    if groups == 1:
        return t
    if t.rank < 2 or t.shape[0] % groups:
        raise Rejection(f"a filter of the shape {list(t.shape)} has no {counted(groups, 'group')}")
    quant = t.quant
    if quant is not None and quant.axis == 1:
        quant = replace(quant, scale=quant.scale * groups, offset=quant.offset * groups)
    shape = (t.shape[0], t.shape[1] * groups, *t.shape[2:])
    return _with_zeros(replace(t, quant=quant), shape, "diagonal", (groups,))


def spaced(t: TensorRef, steps: Sequence[int]) -> TensorRef:
    """The filter [_, _, *kernel] with ``steps[i]`` - 1 zeros between neighbors, for dilation 1 instead of ``steps``."""
    if t.rank != len(steps) + 2:
        raise Rejection(
            f"a filter of the shape {list(t.shape)} has not {counted(len(steps), 'dimension')} of space"
        )
    if all(step == 1 for step in steps):
        return t
    kernel = (step * (d - 1) + 1 for d, step in zip(t.shape[2:], steps, strict=True))
    return _with_zeros(t, (*t.shape[:2], *kernel), "spaced", tuple(steps))


def lengthened(t: TensorRef, more: Sequence[int]) -> TensorRef:
    """The filter with ``more[i]`` zeros appended along dimension i."""
    shape = tuple(d + m for d, m in zip(t.shape, more, strict=True))
    return _with_zeros(t, shape, "lengthened", tuple(more))


def widened(t: TensorRef) -> TensorRef:
    """``t`` with 16 bits instead of 8 for the same range: 257 steps instead of one."""
    if t.dtype != "uq8" or t.encoding != "SCALE_OFFSET" or t.quant is None:
        raise Rejection(f"a tensor of the type {t.dtype} with the encoding {t.encoding} is not widened")
    quant = replace(t.quant, scale=(t.scale / 257,), offset=(t.offset * 257,))
    return replace(t, dtype="uq16", quant=quant)


def negated(t: TensorRef) -> TensorRef:
    """The static tensor -``t`` with the same scale: the integer q becomes lowest + highest - q."""
    if not t.static or t.made:
        raise Rejection("the negative of a constant that is only known when the program runs")
    step = Transform("from", (_ends(t.dtype),))
    return replace(t, quant=opposite(t), transforms=(*t.transforms, step))


def opposite(t: TensorRef) -> Quant:
    """The encoding of -``t``, as ``negated`` stores it."""
    if t.quant is None or t.quant.encoding != "SCALE_OFFSET":
        raise Rejection(f"the negative of a tensor of the type {t.dtype} with the encoding {t.encoding}")
    return replace(t.quant, offset=(-_ends(t.dtype) - t.offset,))


def stored_range(t: TensorRef) -> tuple[float, float]:
    """The smallest and largest number that the quantized ``t`` can store, by its first scale and offset."""
    kind = BY_SHORT[t.dtype]
    first = 0 if t.dtype.startswith("u") else -(2 ** (kind.bits - 1))
    return (first + t.offset) * t.scale, (first + 2**kind.bits - 1 + t.offset) * t.scale


def _ends(dtype: str) -> int:
    """The sum of the lowest and the highest integer of a quantized type."""
    return 2 ** BY_SHORT[dtype].bits - 1 if dtype.startswith("u") else -1


def _with_zeros(t: TensorRef, shape: tuple[int, ...], kind: str, values: tuple[int, ...]) -> TensorRef:
    if not t.static or (t.made and t.data is None):
        raise Rejection("a filter that is only known when the program runs")
    zeros = {-offset for offset in t.quant.offset} if t.quant is not None else {0}
    if len(zeros) != 1 or (t.quant is not None and t.quant.blocks is not None):
        raise Rejection("a filter in which zero is not stored as one number")
    if t.axis >= 0 and t.quant is not None and shape[t.axis] != len(t.quant.scale):
        raise Rejection(f"a filter that gets zeros along dimension {t.axis}, each place of which has a scale")
    if math.prod(shape) > MAX_FILTER:
        raise Rejection(f"a filter of the shape {list(shape)} has more than {MAX_FILTER} values")
    step = Transform(kind, (zeros.pop(), *values))
    return replace(t, shape=shape, transforms=(*t.transforms, step))


def is_float(t: TensorRef) -> bool:
    """True if ``t`` has floating-point numbers (not quantized ones)."""
    return t.dtype in ("f16", "f32", "f64", "bf16")


def is_real(t: TensorRef) -> bool:
    """True if ``t`` represents real numbers: floating-point or quantized ones, not integers or booleans."""
    return is_float(t) or BY_SHORT[t.dtype].quantized


def intermediate(name: str, shape: Sequence[int], like: TensorRef | str) -> TensorRef:
    """A tensor between two ops of a lowering, with the dtype and encoding of ``like``, or with the dtype ``like``."""
    quant = None if isinstance(like, str) else like.quant
    return TensorRef(tuple(shape), dtype_of(like), local=name, quant=quant, base_shape=tuple(shape))


def _carried(t: TensorRef, found: Quant | None, fault: str) -> Quant | None:
    """The encoding ``found`` of ``t`` after a transform.  Raises Rejection if the encoding is lost."""
    if t.quant is not None and found is None:
        along = "" if t.quant.axis is None else f" along dimension {t.quant.axis}"
        raise Rejection(
            f"a tensor of the shape {list(t.shape)} with scales{along} {fault}: they would be mixed"
        )
    return found


def _size(shape: Sequence[int]) -> int:
    size = 1
    for d in shape:
        size *= d
    return size
