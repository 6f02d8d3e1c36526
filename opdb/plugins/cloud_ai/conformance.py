"""Runs custom-op packages of Cloud AI on this machine: their functions, the host's kernel, and the card's kernel in
four threads.

They are compiled with opdb's stand-in headers, whose layouts are in ``node_layout``.  Arrays are numpy's; the
encodings of op configs are QNN's and are converted to Cloud AI's.  The output of a library is captured.  A package can end the
process, so ``in_child`` runs a function in a child process.
"""

from __future__ import annotations

import ctypes
import faulthandler
import multiprocessing
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import POINTER, byref, c_char_p, c_int32, c_void_p
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from opdb.author.importers.documents import read_documents
from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError
from opdb.core.op_config import OpConfig
from opdb.plugins.cloud_ai.codegen import aic
from opdb.plugins.cloud_ai.node_layout import (
    DATA_TYPES,
    RANKS,
    SYNC,
    Array,
    Context,
    Handle,
    Listed,
    Node,
    Properties,
    Scratch,
    Tile,
    TileAxes,
    TileConfig,
)

THREADS = 4
#: Guard bytes after each scratch buffer, the fill of scratch and outputs before a run, and the alignment of buffers.
GUARD, POISON, ALIGNED = 256, 0xA5, 2048
#: Seconds that threads wait at a barrier.
WAIT = 60.0


@dataclass(frozen=True)
class Entry:
    """An op of custom_op_config.yaml."""

    type: str
    inputs: tuple[tuple[str, int], ...]  # name and maxDims
    outputs: tuple[tuple[str, int], ...]
    scratch: tuple[int, ...]
    functions: Path
    kernels: dict[str, tuple[str, Path]]  # by backend: symbol and file


@dataclass
class Ran:
    """The outputs of a kernel, the number of syncThread calls of each thread, and the printed text."""

    outputs: list[Array]
    syncs: list[int] = field(default_factory=list)
    log: str = ""


def entries(folder: Path) -> dict[str, Entry]:
    """The ops of a package that opdb wrote, by type."""
    found = {}
    for document in read_documents(folder / "custom_op_config.yaml"):
        for op in document.data["CustomOps"]:
            found[op["type"]] = Entry(
                op["type"],
                tuple((t["name"], t["maxDims"]) for t in op["inputs"]),
                tuple((t["name"], t["maxDims"]) for t in op["outputs"]),
                tuple(b["size"] for b in op["scratchBuffers"]),
                folder / op["functionsLibrary"],
                {i["backend"]: (i["type"], folder / i["impl"]) for i in op["implementations"]},
            )
    return found


def unfit(entry: Entry, rows: Sequence[dict[str, str]], config: OpConfig) -> str:
    """The reason why a node of a package's op cannot have this config; "" if it can.  ``rows``: the op's rows of types."""
    tensors = (*config.inputs, *config.outputs)
    if any(t.type == "NULL" for t in tensors):
        return "an input before a given one is left out"
    if len(config.inputs) > len(entry.inputs) or len(config.outputs) > len(entry.outputs):
        return "more tensors than the configuration lists"
    for t in tensors:
        if t.quant is not None and (t.quant.encoding != "SCALE_OFFSET" or len(t.quant.scale) != 1):
            return f"{t.name}: a tensor has one scale and offset"
        if t.type == "APP_WRITE":
            return f"{t.name}: whether the application writes a tensor is not said"
        if t.sparse is not None:
            return f"{t.name}: no tensor is sparse"
    if empty := [p.name for p in config.params if p.shape is not None and 0 in p.shape]:
        return f"{', '.join(empty)}: a list without values, whose size is that of a scalar"
    types = [(t.name.partition("[")[0], t.dtype) for t in tensors]
    if not any(all(row.get(slot) == dtype for slot, dtype in types) for row in rows):
        return "no such data types: " + ", ".join(sorted({d for _, d in types}))
    sizes = [
        *zip(config.inputs, entry.inputs, strict=False),
        *zip(config.outputs, entry.outputs, strict=False),
    ]
    if deep := [t.name for t, (_, most) in sizes if t.rank > most]:
        return f"{', '.join(deep)}: more dimensions than maxDims"
    return ""


class Package:
    """The loaded libraries of one op.  ``card``: also load the kernel for the card, which ``make card`` compiles."""

    def __init__(self, folder: Path, api: str, op: str, card: bool = True) -> None:
        self.api, self.folder, self.entry = api, folder, entries(folder)[op]
        self.functions = ctypes.CDLL(str(self.entry.functions))
        self.functions.customOpSelectImpl.restype = c_char_p
        for name in ("Verify", "InferShape", "SetTileConfig", "SetProperties", "MapTiles"):
            if hasattr(self.functions, f"customOp{name}"):
                getattr(self.functions, f"customOp{name}").restype = ctypes.c_bool
        self.host = ctypes.CDLL(str(self.entry.kernels["Interpreter"][1]))
        self.card = ctypes.CDLL(str(folder / aic.card_library(op))) if card else None

    def _asked(self, name: str, node: Node, *more: Any) -> Any:
        call = getattr(self.functions, name)
        if self.api == "1.17":
            return call(*node.arrays(), *more)
        return call(byref(self._properties(node)), *more)

    def _properties(self, node: Node) -> Any:
        ins, outs, params = node.counts
        address = ctypes.addressof
        if self.api == "1.21":
            node.tiles = (c_void_p * max(outs, 1))()
            return Handle(
                address(node.inputs),
                address(node.outputs),
                address(node.params),
                node.tiles,
                ins,
                outs,
                params,
            )
        node.tiles = (TileAxes * max(outs, 1))()
        node.names = (c_char_p * max(outs, 1))(*(n.encode() for n, _ in self.entry.outputs[:outs]))
        return Properties(
            Listed(address(node.inputs), ins), Listed(address(node.outputs), outs), Listed(address(node.params), params),
            Listed(address(node.names), outs), Listed(address(node.tiles), outs),
        )  # fmt: skip

    def verify(self, config: OpConfig) -> tuple[bool, str]:
        """True if the package accepts a node; and the printed text."""
        with printed() as log:
            good = self._asked("customOpVerify", Node(self.api, config))
        return bool(good), log()

    def infer(self, config: OpConfig) -> tuple[list[tuple[str, tuple[int, ...]]] | None, str]:
        """Cloud AI's type and the shape of each output, or None; and the printed text."""
        node = Node(self.api, config)
        for tensor, (_, most) in zip(node.outputs, self.entry.outputs, strict=False):
            tensor.rank, tensor.dtype = most, 0
            for d in range(RANKS):
                tensor.sizes[d] = 0
        with printed() as log:
            if self.api == "1.17":
                ins, outs, params = node.counts
                good = self.functions.customOpInferShape(
                    node.outputs, outs, node.inputs, ins, node.params, params
                )
            else:
                good = self._asked("customOpInferShape", node)
        shapes = [
            (DATA_TYPES[t.dtype], tuple(t.sizes[d] for d in range(t.rank)))
            for t in node.outputs[: node.counts[1]]
        ]
        return (shapes if good else None), log()

    def select(self, config: OpConfig, backend: str) -> str | None:
        node = Node(self.api, config)
        more = (backend.encode(),) if self.api == "1.17" else (None, 0, backend.encode())
        with printed():
            name = self._asked("customOpSelectImpl", node, *more)
        return None if name is None else str(name.decode())

    def tile_axes(self, config: OpConfig) -> dict[int, int]:
        """The axes along which the output may be cut, each with its alignment; empty if it cannot be cut."""
        node = Node(self.api, config)
        if self.api == "1.17":
            found = TileConfig()
            good = self._asked("customOpSetTileConfig", node, byref(found))
            return (
                dict(zip(found.axes[: found.count], found.alignment[: found.count], strict=True))
                if good
                else {}
            )
        properties = self._properties(node)
        if not self.functions.customOpSetProperties(byref(properties)):
            return {}
        if self.api == "5.0.0":
            axes: TileAxes = node.tiles[0]
            return dict.fromkeys(axes.axes[: axes.count], 1)
        config_of = ctypes.cast(node.tiles[0], POINTER(TileConfig)).contents
        made = dict(
            zip(config_of.axes[: config_of.count], config_of.alignment[: config_of.count], strict=True)
        )
        self.functions.customOpDeallocateMemory(byref(properties))
        if node.tiles[0] is not None:
            raise OpdbError("customOpDeallocateMemory left a tile config")
        return made

    def map_tile(
        self, config: OpConfig, start: Sequence[int], end: Sequence[int]
    ) -> list[tuple[slice, ...]] | None:
        """The part of each input that a tile of the output reads; None if the package refuses it."""
        node = Node(self.api, config)
        ranks = [t.rank for t in config.inputs]
        if self.api == "1.17":
            tiles = (Tile * max(len(ranks), 1))()
            output = Tile((c_int32 * RANKS)(*start), (c_int32 * RANKS)(*end))
            good = self._asked("customOpMapTiles", node, tiles, byref(output))
            ranges = [(t.start, t.end) for t in tiles]
        else:
            for d, (a, b) in enumerate(zip(start, end, strict=True)):
                node.outputs[0].tile_start[d], node.outputs[0].tile_end[d] = a, b
            good = self._asked("customOpMapTiles", node)
            ranges = [(t.tile_start, t.tile_end) for t in node.inputs]
        if not good:
            return None
        return [tuple(slice(r[0][d], r[1][d]) for d in range(n)) for r, n in zip(ranges, ranks, strict=False)]

    def on_host(self, config: OpConfig, inputs: Sequence[Array]) -> Ran:
        """Runs the kernel of the Interpreter."""
        kernel = getattr(self.host, self.entry.kernels["Interpreter"][0])

        def call(node: Node, context: Context) -> None:
            if self.api == "1.17":
                kernel(*node.arrays(), byref(context))
            else:
                kernel(byref(context))

        return self._ran(config, inputs, call, SYNC())

    def on_card(
        self, config: OpConfig, inputs: Sequence[Array], order: Sequence[int] = range(THREADS)
    ) -> Ran:
        """Runs the kernel for the card in four threads, started in ``order``; a shorter ``order`` starts only those threads,
        which compute just their own parts."""
        kernel = getattr(self.card, self.entry.kernels["AIC"][0])
        barrier, syncs = threading.Barrier(len(order)), [0] * THREADS

        def sync(thread: int) -> None:
            syncs[thread] += 1
            barrier.wait(WAIT)

        def call(node: Node, context: Context) -> None:
            before = node.arrays() if self.api == "1.17" else ()
            threads = [threading.Thread(target=kernel, args=(*before, byref(context), n)) for n in order]
            for t in threads:
                t.start()
            for t in threads:
                t.join()

        ran = self._ran(config, inputs, call, SYNC(sync))
        ran.syncs = syncs
        return ran

    def _ran(
        self, config: OpConfig, inputs: Sequence[Array], call: Callable[[Node, Context], None], sync: Any
    ) -> Ran:
        outputs = [np.empty(t.shape, BY_SHORT[t.dtype].numpy) for t in config.outputs]
        for a in outputs:
            a.reshape(-1).view(np.uint8)[...] = POISON
        given = [np.ascontiguousarray(a) for a in inputs]
        node = Node(self.api, config, [*given, *outputs])
        buffers = [np.full(size + GUARD + ALIGNED, POISON, np.uint8) for size in self.entry.scratch]
        starts = [-b.ctypes.data % ALIGNED for b in buffers]
        scratch = (Scratch * max(len(buffers), 1))(
            *(
                Scratch(b.ctypes.data + s, n)
                for b, s, n in zip(buffers, starts, self.entry.scratch, strict=True)
            )
        )
        address = ctypes.addressof
        context = Context(
            address(node.inputs), address(node.outputs), address(node.params), scratch, sync, *node.counts, len(buffers)
        )  # fmt: skip
        with printed() as log:
            call(node, context)
        for b, s, n in zip(buffers, starts, self.entry.scratch, strict=True):
            if (b[:s] != POISON).any() or (b[s + n :] != POISON).any():
                raise OpdbError(f"{config.op}: a kernel writes outside of its scratch buffers")
        return Ran(outputs, log=log())


@contextmanager
def printed() -> Iterator[Callable[[], str]]:
    """Captures the output of C code in a file; the yielded function returns it afterwards."""
    libc = ctypes.CDLL(None)
    with tempfile.TemporaryFile() as file:
        libc.fflush(None)
        old = os.dup(1)
        os.dup2(file.fileno(), 1)
        text: list[str] = []
        try:
            yield lambda: "".join(text)
        finally:
            libc.fflush(None)
            os.dup2(old, 1)
            os.close(old)
            file.seek(0)
            text.append(file.read().decode(errors="replace"))


def in_child(run: Callable[..., Any], *args: Any) -> Any:
    """Returns the result of ``run`` in a child process.  Raises OpdbError if it does, or if the process ends."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_told, args=(theirs, run, args))
    child.start()
    theirs.close()
    try:
        kind, answer = ours.recv()
    except EOFError:
        child.join()
        raise OpdbError(f"the package ended the process with {child.exitcode}") from None
    child.join()
    if kind == "error":
        raise OpdbError(answer)
    return answer


def _told(told: Connection, run: Callable[..., Any], args: Sequence[Any]) -> None:
    faulthandler.disable()  # a crash is one of the expected answers
    try:
        told.send(("answer", run(*args)))
    except OpdbError as error:
        told.send(("error", str(error)))
