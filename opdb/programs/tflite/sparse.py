"""Makes a file's sparse tensors dense: TFLite's SparsityParameters, levels of dense or compressed rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite

Array = npt.NDArray[Any]

VECTORS = {1: "Int32Vector", 2: "Uint16Vector", 3: "Uint8Vector"}  # SparseIndexVector


def dense(values: Array, sparsity: Any, shape: Sequence[int]) -> Array:
    """The array of ``shape`` whose stored elements are ``values`` in the order of the levels."""
    order = [int(d) for d in sparsity.TraversalOrderAsNumpy()]
    blocks = [int(d) for d in np.atleast_1d(sparsity.BlockMapAsNumpy())] if sparsity.BlockMapLength() else []
    levels = [_Level(sparsity.DimMetadata(i)) for i in range(sparsity.DimMetadataLength())]
    rank = len(shape)
    inner = {rank + k: d for k, d in enumerate(blocks)}  # a level of a block -> the dimension that it divides
    sizes = {d: levels[order.index(level)].size for level, d in inner.items()}
    made = np.zeros(shape, values.dtype)
    for place, found in enumerate(_walk(levels, 0, 0)):
        at = [0] * rank
        for level, index in zip(order, found, strict=True):
            if level in inner:
                at[inner[level]] += index
            else:
                at[level] += index * sizes.get(level, 1)
        made[tuple(at)] = values[place]
    return made


class _Level:
    def __init__(self, table: Any) -> None:
        self.sparse = table.Format() == tflite.DimensionType.SPARSE_CSR
        self.size = table.DenseSize()
        if self.sparse:
            self.segments = _vector(table.ArraySegmentsType(), table.ArraySegments())
            self.indices = _vector(table.ArrayIndicesType(), table.ArrayIndices())

    def of(self, parent: int) -> Iterator[tuple[int, int]]:
        """The places of this level's elements below element ``parent`` of the level before, and their indices."""
        if not self.sparse:
            yield from ((parent * self.size + i, i) for i in range(self.size))
        else:
            yield from (
                (i, int(self.indices[i])) for i in range(self.segments[parent], self.segments[parent + 1])
            )


def _walk(levels: Sequence[_Level], depth: int, parent: int) -> Iterator[tuple[int, ...]]:
    if depth == len(levels):
        yield ()
        return
    for place, index in levels[depth].of(parent):
        for rest in _walk(levels, depth + 1, place):
            yield index, *rest


def _vector(kind: int, table: Any) -> Array:
    made = getattr(tflite, VECTORS[kind])()
    made.Init(table.Bytes, table.Pos)
    return np.asarray(made.ValuesAsNumpy(), np.int64)
