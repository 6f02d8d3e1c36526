"""Functions of torch mappings that turn PyTorch's arguments into complete lists.

PyTorch leaves out what it can: a stride that is the kernel's, the padding of dimensions in front, the sign of an axis.
"""

from __future__ import annotations

from collections.abc import Sequence

from opdb.core.names import counted
from opdb.runtime.checks import expand, int64
from opdb.runtime.tensors import Rejection, TensorRef, reshape

Ints = Sequence[int]


def batched(t: TensorRef, rank: int) -> TensorRef:
    """``t`` with ``rank`` dimensions: itself, or with a first dimension of 1."""
    if t.rank not in (rank - 1, rank):
        raise Rejection(f"a tensor of rank {t.rank} is no batch of {counted(rank, 'dimension')}")
    return t if t.rank == rank else reshape(t, (1, *t.shape))


def pool_stride(stride: Ints, kernel: Ints, n: int) -> list[int]:
    """The stride along ``n`` dimensions; the kernel size if the pooling has no stride."""
    return expand(stride or kernel, n)


def pool_over(size: Ints, kernel: Ints, stride: Ints, padding: Ints, out: Ints) -> list[int]:
    """The distance by which the last of ``out`` windows reaches beyond the end of ``size``, in each dimension."""
    n = len(size)
    steps, padding, kernel = pool_stride(stride, kernel, n), expand(padding, n), expand(kernel, n)
    rows = zip(size, kernel, steps, padding, expand(out, n), strict=True)
    return [int64((o - 1) * s + k - p - d) for d, k, s, p, o in rows]


def same_padding(word: str, kernel: Ints, dilation: Ints) -> list[list[int]]:
    """The padding before and after each dimension for "valid" (none) or "same" (the size stays the same)."""
    reach = [
        d * (k - 1) if word == "same" else 0
        for d, k in zip(expand(dilation, len(kernel)), kernel, strict=True)
    ]
    return [[r // 2, (r + 1) // 2] for r in reach]


def pads_of(pad: Ints, rank: int) -> list[list[int]]:
    """The amounts before and after each of ``rank`` dimensions, of pairs that begin with the last dimension."""
    pairs = [list(pad[i : i + 2]) for i in range(0, len(pad) - 1, 2)][:rank]
    return [[0, 0]] * (rank - len(pairs)) + pairs[::-1]


def slice_ranges(shape: Ints, dim: int, begin: int, end: int, step: int = 1) -> list[list[int]]:
    """StridedSlice's ranges: ``begin`` to ``end`` along ``dim``, and all of every other dimension."""
    along = dim % len(shape) if shape else 0
    return [[begin, end, step] if i == along else [0, d, 1] for i, d in enumerate(shape)]


def swapped(rank: int, a: int, b: int) -> list[int]:
    """The dimensions in order, with two of them exchanged."""
    order = list(range(rank))
    if order:
        order[a % rank], order[b % rank] = order[b % rank], order[a % rank]
    return order
