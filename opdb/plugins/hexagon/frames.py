"""Encodes calls and answers of the servers in opdb/plugins/hexagon/c (frames.h): 8-byte words, and blocks padded to 8 bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from math import prod
from typing import Any

from opdb.core.dtypes import DTYPES
from opdb.runtime._native import ffi
from opdb.runtime.binding import ANY, Context
from opdb.runtime.checks import Violation
from opdb.runtime.native import STRENGTHS

BITS = {d.code: d.bits for d in DTYPES}
VALIDATE, INFER, SCRATCH, RUN = range(4)
DATA_ALIGNMENT = 128
#: No data of a tensor; data follow; memory to be written.
_NONE, _GIVEN, _WRITTEN = range(3)


class Frame:
    """The bytes of a call."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def words(self, *values: int) -> None:
        self._bytes += struct.pack(f"<{len(values)}q", *values)

    def block(self, data: Any) -> None:
        self._bytes += data
        self._bytes += bytes(-len(self._bytes) % 8)

    def data_block(self, data: Any) -> None:
        self._bytes += bytes(-len(self._bytes) % DATA_ALIGNMENT)
        self.block(data)

    def packed(self) -> bytes:
        """The bytes, preceded by their length."""
        return struct.pack("<q", len(self._bytes)) + bytes(self._bytes)


class OpFrame(Frame):
    """A call of server.c.  Takes the C structures of opdb.runtime.native, so that both machines get the same question."""

    def __init__(self, kind: int, backend: int = -1, of: Context = ANY) -> None:
        """``backend``: the number of the backend of ``of``; -1 checks only the op definition."""
        super().__init__()
        self.words(kind, backend, of.sdk, of.arch, of.soc_model, of.has_fp16, of.has_bf16)

    def _memory(self, pointer: Any, count: int, size: int) -> None:
        if count:
            self.block(ffi.buffer(ffi.cast("char *", pointer), count * size))

    def _text(self, pointer: Any) -> None:
        text = ffi.string(pointer) + b"\0"
        self.words(len(text))
        self.block(text)

    def add_op(self, op: Any, with_data: bool) -> None:
        """``op``: an opdb_op; ``with_data``: send the inputs' data, and get the outputs' data back."""
        self._text(op.op)
        self.words(op.num_inputs, op.num_outputs, op.num_params)
        for i in range(op.num_inputs):
            self._tensor(op.inputs[i], _GIVEN if with_data else _NONE)
        for i in range(op.num_outputs):
            self._tensor(op.outputs[i], _WRITTEN if with_data else _NONE)
        for i in range(op.num_params):
            self._param(op.params[i])

    def _tensor(self, t: Any, data: int) -> None:
        if t == ffi.NULL:
            self.words(0)
            return
        self.words(1, t.rank)
        self._memory(t.dims, t.rank, 8)
        self.words(int(t.dtype), int(t.encoding), t.symmetric, int(t.type), t.is_sparse, t.axis)
        self.words(t.quant != ffi.NULL)
        if t.quant != ffi.NULL:
            self.words(t.quant.n, t.quant.bits)
            self._memory(t.quant.scales, t.quant.n, 4)
            self._memory(t.quant.offsets, t.quant.n, 4)
        self.words(t.values != ffi.NULL)
        if t.values != ffi.NULL:
            self.words(t.values.n)
            self._memory(t.values.v, t.values.n, 8)
        if t.data == ffi.NULL:
            data = _NONE
        self.words(data)
        if data == _NONE:
            return
        size = prod(t.dims[d] for d in range(t.rank)) * BITS[int(t.dtype)] // 8
        self.words(size)
        if data == _GIVEN:
            self.data_block(ffi.buffer(ffi.cast("char *", t.data), size) if size else b"")

    def _param(self, p: Any) -> None:
        self._text(p.name)
        self.words(int(p.dtype), p.rank)
        self._memory(p.dims, p.rank, 8)
        self.words(p.count)
        self.block(struct.pack("<d", p.real))
        for values in (p.ints, p.reals):
            self.words(values != ffi.NULL)
            self._memory(values, p.count if values != ffi.NULL else 0, 8)


class Reader:
    """Reads an answer piece by piece.  ``read`` returns exactly the given number of bytes, or raises."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read

    def words(self, count: int) -> tuple[int, ...]:
        return struct.unpack(f"<{count}q", self._read(8 * count))

    def block(self, size: int) -> bytes:
        return self._read(size + -size % 8)[:size]

    def text(self) -> str:
        return self.block(self.words(1)[0]).decode()

    def violation(self) -> Violation:
        undecidable, strength = self.words(2)
        rule, sentence, got, why, erratum, effect = (self.text() for _ in range(6))
        return Violation(
            rule,
            sentence,
            got,
            bool(undecidable),
            STRENGTHS[strength],
            why=why,
            erratum=erratum,
            effect=effect,
        )
