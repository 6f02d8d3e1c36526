"""Checks that a kernel computes the same in tiles as at once, for tiles of the sizes that its spec allows.

A tile gets copies of the parts that it reads by the spec, each beside protected memory: a kernel that reads
or writes outside of its tile ends the process, which is a child.  Each tile runs twice, with the protected memory after
its tensors and before them.
"""

from __future__ import annotations

import ctypes
import faulthandler
import mmap
import multiprocessing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError
from opdb.core.names import counted
from opdb.core.op_config import OpConfig, TensorConfig
from opdb.judge.samples import kernel_types, sample_config
from opdb.measure.conformance.data import inputs as data_of
from opdb.runtime import native
from opdb.spec.catalog import Catalog
from opdb.spec.definitions import CompiledOp
from opdb.spec.tiling import Cut, Tiling

#: The approximate number of tile sizes tried along an axis: all if there are no more, else the smallest, the largest, some between.
SIZES = 6
#: The number of combinations of these sizes tried per op config.
GRIDS = 200

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Tile:
    """A part of an output: where it starts and its size along each axis."""

    start: tuple[int, ...]
    size: tuple[int, ...]

    def __str__(self) -> str:
        return ", ".join(f"{a}:{a + n}" for a, n in zip(self.start, self.size, strict=True))


@dataclass(frozen=True)
class Found:
    """The result for the tiles of one sample: the number that ran, and the first fault; "" if there is none."""

    op: str
    sample: int
    dtype: str
    tiles: int
    fault: str = ""


def check(catalog: Catalog, name: str) -> Iterator[Found]:
    """Yields one result per sample and data type of the kernel.  Raises OpdbError for an op without a tiling."""
    compiled = catalog.compiled(name)
    kernel = compiled.definition.kernel
    if kernel is None or kernel.tiling is None:
        raise OpdbError(f"specs/ops/{name}.yaml: kernel: it has no 'tiling', so its output is computed whole")
    for sample in range(len(compiled.definition.samples)):
        for dtype in kernel.dtypes:
            yield _in_child(compiled, kernel.tiling, sample, dtype)


def _in_child(compiled: CompiledOp, tiling: Tiling, sample: int, dtype: str) -> Found:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_checked, args=(theirs, compiled, tiling, sample, dtype))
    child.start()
    theirs.close()
    count, at, fault = 0, "", None
    while fault is None:
        try:
            count, at, fault = ours.recv()
        except EOFError:
            break
    child.join()
    if fault is None:
        fault = f"tile [{at}]: the kernel reads or writes outside of its tile (the process ended with {child.exitcode})"
    return Found(compiled.name, sample, dtype, count, fault)


def _checked(told: Connection, compiled: CompiledOp, tiling: Tiling, sample: int, dtype: str) -> None:
    """Sends the number of tiles, the tile that is about to run, and None; at the end the fault, or ""."""
    faulthandler.disable()  # a crash is one of the expected answers
    count = 0
    try:
        config = sample_config(compiled, sample, kernel_types(compiled, dtype))
        arrays = data_of(f"{config.op}-tiles-{sample}-{dtype}", config)
        whole = native.run(config, arrays)[0]
        slots = [s.name for s in compiled.inputs]
        for tile in _tiles(tiling, config.outputs[0].shape):
            told.send((count, str(tile), None))
            fault = _fault(tiling, slots, config, arrays, whole, tile)
            count += 1
            if fault:
                told.send((count, str(tile), f"tile [{tile}]: {fault}"))
                return
    except OpdbError as error:
        told.send((count, "", str(error)))
        return
    told.send((count, "", ""))


def _tiles(tiling: Tiling, shape: Sequence[int]) -> Iterator[Tile]:
    """Yields the tiles of each grid that the tiling allows."""
    sizes = [_sizes(cut, whole) for cut, whole in zip(tiling.cuts(len(shape)), shape, strict=True)]
    for number, size in enumerate(product(*sizes)):
        if number >= GRIDS:
            return
        for start in product(*(range(0, whole, n) for whole, n in zip(shape, size, strict=True))):
            ends = (min(a + n, whole) for a, n, whole in zip(start, size, shape, strict=True))
            yield Tile(start, tuple(end - a for end, a in zip(ends, start, strict=True)))


def _sizes(cut: Cut, whole: int) -> list[int]:
    if cut.multiple == 0 or whole == 0:
        return [max(whole, 1)]
    every = [min(n, whole) for n in range(cut.multiple, whole + cut.multiple, cut.multiple)]
    step = max(1, len(every) // SIZES)
    return sorted({*every[::step], every[-1]})


def _fault(
    tiling: Tiling, slots: list[str], config: OpConfig, arrays: Sequence[Any], whole: Array, tile: Tile
) -> str:
    """The fault of a tile; "" if it equals that part of the whole result."""
    inputs: list[TensorConfig] = []
    pieces: list[Array | None] = []
    for slot, tensor, array in zip(slots, config.inputs, arrays, strict=False):
        if array is None:
            inputs.append(tensor)
            pieces.append(None)
            continue
        ranges = _read(tiling, slot, tensor.shape, tile)
        if any(first < 0 or end > n for (first, end), n in zip(ranges, tensor.shape, strict=True)):
            return f"reads {slot}[{', '.join(f'{a}:{b}' for a, b in ranges)}], outside of its shape {list(tensor.shape)}"
        piece = array[tuple(slice(*r) for r in ranges)]
        inputs.append(replace(tensor, shape=piece.shape, data=None))
        pieces.append(piece)
    part = replace(config.outputs[0], shape=tile.size)
    tiled = replace(config, inputs=tuple(inputs), outputs=(part,))
    wanted = whole[tuple(slice(a, a + n) for a, n in zip(tile.start, tile.size, strict=True))]
    for behind in (True, False):
        given = [None if p is None else Guarded.copy(p, behind) for p in pieces]
        made = Guarded(tile.size, np.dtype(BY_SHORT[part.dtype].numpy), behind)
        try:
            native.Prepared(tiled, [None if g is None else g.array for g in given], [made.array]).run()
        except native.KernelError as error:
            return f"the kernel refuses it: {error}"
        if made.array.tobytes() != np.ascontiguousarray(wanted).tobytes():
            differ = int((made.array != wanted).sum())
            return f"{differ} of {counted(wanted.size, 'element')} differ from those of the whole output"
    return ""


def _read(tiling: Tiling, slot: str, shape: Sequence[int], tile: Tile) -> list[tuple[int, int]]:
    """The range of an input that a tile reads: the first position along each axis, and the one after the last."""
    out: list[tuple[int, int]] = []
    for i, (part, size) in enumerate(zip(tiling.parts(slot, len(shape)), shape, strict=True)):
        axis = (part.of or i - len(shape)) + len(tile.size)
        if part.kind == "whole" or not 0 <= axis < len(tile.size):
            out.append((0, size))
            continue
        first, last = part.range(tile.start[axis], tile.start[axis] + tile.size[axis] - 1)
        out.append((first, last + 1))
    return out


class Guarded:
    """An array in pages of its own, between two protected pages."""

    def __init__(self, shape: Sequence[int], dtype: np.dtype[Any], behind: bool) -> None:
        size, page = prod(shape) * dtype.itemsize, mmap.PAGESIZE
        pages = max(1, -(-size // page))
        self._memory = mmap.mmap(-1, (pages + 2) * page)
        view = (ctypes.c_char * len(self._memory)).from_buffer(self._memory)
        address = ctypes.addressof(view)
        for place in (address, address + (pages + 1) * page):
            if ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(place), page, 0):
                raise OpdbError("this system does not protect memory (mprotect)")
        start = page + (pages * page - size if behind else 0)
        self.array = np.frombuffer(self._memory, dtype, prod(shape), start).reshape(shape)

    @classmethod
    def copy(cls, array: Array, behind: bool) -> Guarded:
        made = cls(array.shape, array.dtype, behind)
        made.array[...] = array
        return made
