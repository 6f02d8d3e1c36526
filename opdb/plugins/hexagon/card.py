"""Kernels for Cloud AI's card on Hexagon: compiled from a single file, run in the four threads of a core.

The threads take turns (opdb/plugins/hexagon/c/threads.c), so that runs are reproducible; the caller chooses the order in which
they start.  Types, layouts, and encodings are Cloud AI's: opdb.plugins.cloud_ai.conformance makes them from an op config.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opdb.codegen import c_sources
from opdb.core.c_compiler import compiled
from opdb.plugins.hexagon import codegen as hexagon
from opdb.plugins.hexagon.frames import Frame, Reader
from opdb.plugins.hexagon.process import Counted, Process
from opdb.plugins.hexagon.tools import check_compiler

THREADS = 4
SUPPORT = (*hexagon.RUNTIME, "threads.c")


@dataclass(frozen=True)
class CardTensor:
    """An input or output.  ``dtype``: a number of CustomOpDataType.  ``data``: None for an output of ``size`` bytes."""

    dtype: int
    shape: tuple[int, ...]
    scale: float
    offset: float
    size: int
    data: bytes | None = None


@dataclass(frozen=True)
class CardParam:
    """A parameter.  ``size``: 0 for a scalar, else the number of values in ``data``."""

    name: str
    dtype: int
    size: int
    data: bytes


@dataclass(frozen=True)
class CardRan:
    """The outputs of a kernel, and figures of the run."""

    outputs: tuple[bytes, ...]
    waits: tuple[int, ...]  # syncThread calls of each thread
    stuck: bool  # a thread ended while others waited for it
    stack: int  # bytes used by the deepest thread
    overrun: int  # number of scratch buffers with writes outside of them
    counted: Counted
    log: str


class Card(Process):
    """A program of ``compile_card``."""

    def run(
        self,
        kernel: str,
        inputs: Sequence[CardTensor],
        outputs: Sequence[CardTensor],
        params: Sequence[CardParam],
        scratch: Sequence[int],
        order: Sequence[int] = range(THREADS),
    ) -> CardRan:
        """Runs the kernel; its name ``kernel`` is for messages.  ``scratch``: the bytes of each buffer.  Raises ServerLost."""
        frame = Frame()
        frame.words(*order)
        for tensors in (inputs, outputs):
            frame.words(len(tensors))
            for t in tensors:
                _add_tensor(frame, t)
        frame.words(len(params))
        for p in params:
            name = p.name.encode() + b"\0"
            frame.words(len(name))
            frame.block(name)
            frame.words(p.dtype, p.size, len(p.data))
            frame.block(p.data)
        frame.words(len(scratch), *scratch)

        def read(reader: Reader) -> CardRan:
            waits = reader.words(THREADS)
            stuck, stack, overrun, *counted = reader.words(6)
            results = tuple(reader.block(reader.words(1)[0]) for _ in outputs)
            return CardRan(results, waits, bool(stuck), stack, overrun, Counted(*counted), reader.text())

        return self.exchange(kernel, frame.packed(), read)


def _add_tensor(frame: Frame, t: CardTensor) -> None:
    frame.words(t.dtype)
    frame.block(struct.pack("<2f", t.scale, t.offset))
    frame.words(len(t.shape))
    frame.block(struct.pack(f"<{len(t.shape)}i", *t.shape))
    frame.words(t.size, t.data is not None)
    if t.data is not None:
        frame.data_block(t.data)


def compile_card(
    source: Path, headers: Path, kernel: str, to: Path, *, arrays: bool, flags: Sequence[str] = ()
) -> Path:
    """Compiles the program that runs ``kernel`` of the C file ``source``; returns ``to``.

    ``headers``: the folder with Cloud AI's headers, or stand-ins; ``arrays``: True for generation 1.17, whose kernels
    take arrays; ``flags``: the kernel's.  Raises OpdbError without a compiler, or with its first complaint.
    """
    check_compiler()
    root = c_sources.plugin_folder("hexagon")
    libc = ["-nostdlibinc", "-isystem", str(root / "include"), f"-I{headers.resolve()}"]
    ours = [hexagon.COMPILER, *hexagon.MACHINE, *hexagon.RUNTIME_CFLAGS, *libc]
    said = [
        w for f in hexagon.CFLAGS for w in f.split() if not w.startswith("-W")
    ]  # its warnings are the author's concern
    theirs = [hexagon.COMPILER, *hexagon.MACHINE, *said, *flags, *libc]
    to.parent.mkdir(parents=True, exist_ok=True)
    what, objects = f"the kernel {kernel}", [f"{to.name}.kernel.o", f"{to.name}.card.o"]
    compiled(to.parent, what, [*theirs, "-c", str(source.resolve()), "-o", objects[0]])
    named = [f"-DOPDB_CARD_KERNEL={kernel}", *(["-DOPDB_CARD_ARRAYS"] if arrays else [])]
    compiled(to.parent, what, [*ours, *named, "-c", str(root / "card.c"), "-o", objects[1]])
    for name in SUPPORT:
        made = to.with_name(name.replace(".c", ".o"))
        if not made.exists():
            compiled(to.parent, what, [*ours, "-c", str(root / name), "-o", made.name])
        if name != "print.c":  # card.c captures a kernel's output
            objects.append(made.name)
    link = [hexagon.COMPILER, *hexagon.MACHINE, *hexagon.LDFLAGS, *objects, "-o", to.name]
    compiled(to.parent, what, link)
    return to
