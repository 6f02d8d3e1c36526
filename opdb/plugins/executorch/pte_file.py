"""Reads an ExecuTorch program: its methods, their inputs and outputs, and its delegates; needs neither torch nor executorch.

A program is a flatbuffer in ExecuTorch's schema (schema/program.fbs), behind which segments may follow.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from opdb.core.errors import OpdbError
from opdb.core.graph import GraphTensor

#: ExecuTorch's ScalarType (c10's numbers) of input and output tensors.
SCALAR_TYPES = {0: "u8", 1: "i8", 2: "i16", 3: "i32", 4: "i64", 5: "f16", 6: "f32", 7: "f64", 11: "bool8", 15: "bf16",
                27: "u16"}  # fmt: skip
#: The method of a program that returns its model file's names of inputs and outputs.
ENDS = "opdb_ends"
MAGIC = slice(4, 8)  # in the flatbuffer: ET and the schema's number
_EXTENDED = slice(8, 12)  # eh00 if the file has segments
_TENSOR, _STRING, _DELEGATE_CALL, _SEGMENT = 5, 6, 2, 1  # members of unions and of DataLocation


def read(file: Path) -> Program:
    """The program in a file.  Raises OpdbError for a file that cannot be read or is none."""
    try:
        with open(file, "rb") as opened:
            if not opened.read(8)[MAGIC].startswith(b"ET"):
                raise OpdbError(
                    f"{file}: not an ExecuTorch program; make one with opdb compile MODEL -o {file.with_suffix('.pte')}"
                )
            opened.seek(0)
            return Program(opened.read(), str(file))
    except OSError as error:
        raise OpdbError(f"{file}: {error.strerror}") from None


@dataclass(frozen=True)
class Program:
    """The bytes of a program, and the name of its file for messages."""

    data: bytes
    name: str

    def ends(self, method: str = "forward") -> tuple[tuple[GraphTensor, ...], tuple[GraphTensor, ...]]:
        """Inputs (``input0``, ...) and outputs (``output0``, ...) of a method, or the program's own names for those of forward."""
        plan = self._plan(method)
        values = plan.tables(2)
        sides = [[_tensor(values[i]) for i in plan.numbers(side)] for side in (3, 4)]
        names = [
            [f"{word}{i}" for i in range(len(side))]
            for word, side in zip(("input", "output"), sides, strict=True)
        ]
        own = self._own_names() if method == "forward" else None
        if own is not None and [len(n) for n in own] == [len(n) for n in names]:
            names = own
        inputs, outputs = (
            tuple(GraphTensor(n, *found) for n, found in zip(ns, side, strict=True))
            for ns, side in zip(names, sides, strict=True)
        )
        return inputs, outputs

    def delegates(self, method: str) -> Iterator[tuple[int, bytes]]:
        """The calls of a method to delegates: the instruction, and the delegate's data.  Raises OpdbError for an unknown method."""
        plan = self._plan(method)
        delegates = plan.tables(7)
        for chain in plan.tables(5):
            for number, instruction in enumerate(chain.tables(2)):
                if instruction.byte(0) == _DELEGATE_CALL and (call := instruction.table(1)):
                    place = delegates[call.number(0)].table(1)
                    assert place is not None  # the schema requires it
                    yield number, self._delegate(place.byte(0), place.number(1, unsigned=True))

    def elements(self, method: str) -> int:
        """The number of elements of all tensors of a method together."""
        values = self._plan(method).tables(2)
        return sum(math.prod(_tensor(v)[1]) for v in values if v.byte(0) == _TENSOR)

    def named_data(self, key: str) -> bytes:
        """The program's data of this name.  Raises OpdbError if it has none."""
        for entry in self._root.tables(7):
            if entry.text(0) == key:
                return self._segment(entry.number(1, unsigned=True))
        raise OpdbError(f"{self.name}: the program has no named data {key}; it is incomplete")

    @cached_property
    def _root(self) -> Table:
        return Table(self.data, _at("<I", self.data, 0))

    def _plan(self, method: str) -> Table:
        plans = {plan.text(0): plan for plan in self._root.tables(1)}
        if method not in plans:
            raise OpdbError(f"{self.name}: the program has no method {method!r}; it has: {', '.join(plans)}")
        return plans[method]

    def _own_names(self) -> list[list[str]] | None:
        """What the method ENDS returns, a constant."""
        try:
            plan = self._plan(ENDS)
        except OpdbError:
            return None
        values = plan.tables(2)
        texts = [v.table(1) for i in plan.numbers(4) if (v := values[i]).byte(0) == _STRING]
        return json.loads(texts[0].text(0)) if texts and texts[0] is not None else None

    def _delegate(self, location: int, index: int) -> bytes:
        return self._segment(index) if location == _SEGMENT else self._root.tables(3)[index].bytes(0)

    def _segment(self, index: int) -> bytes:
        segment = self._root.tables(4)[index]
        if self.data[_EXTENDED] != b"eh00":
            raise OpdbError(f"{self.name}: the program names segments and has none; it is incomplete")
        start = _at("<Q", self.data, 24) + segment.number(0, wide=True)
        return self.data[start : start + segment.number(1, wide=True)]


@dataclass(frozen=True)
class Table:
    """A table of a flatbuffer: fields by their place in the schema; absent ones are 0, empty or None."""

    data: bytes
    start: int

    def byte(self, field: int) -> int:
        at = self._field(field)
        return self.data[at] if at else 0

    def number(self, field: int, *, unsigned: bool = False, wide: bool = False) -> int:
        """A field of 32 bits, or with ``wide`` an unsigned one of 64."""
        at = self._field(field)
        return _at("<Q" if wide else "<I" if unsigned else "<i", self.data, at) if at else 0

    def numbers(self, field: int) -> tuple[int, ...]:
        """A vector of 32-bit numbers."""
        start, length = self._vector(field)
        return struct.unpack_from(f"<{length}i", self.data, start) if length else ()

    def bytes(self, field: int) -> bytes:
        start, length = self._vector(field)
        return self.data[start : start + length]

    def text(self, field: int) -> str:
        return self.bytes(field).decode()

    def table(self, field: int) -> Table | None:
        at = self._field(field)
        return Table(self.data, at + _at("<I", self.data, at)) if at else None

    def tables(self, field: int) -> list[Table]:
        start, length = self._vector(field)
        places = range(start, start + 4 * length, 4)
        return [Table(self.data, at + _at("<I", self.data, at)) for at in places]

    def _field(self, field: int) -> int:
        """The place of a field's value; 0 if it is absent."""
        layout = self.start - _at("<i", self.data, self.start)
        place = 4 + 2 * field
        if place >= _at("<H", self.data, layout):
            return 0
        offset = _at("<H", self.data, layout + place)
        return self.start + offset if offset else 0

    def _vector(self, field: int) -> tuple[int, int]:
        """The place of a vector's first element, and the number of elements."""
        at = self._field(field)
        if not at:
            return 0, 0
        start = at + _at("<I", self.data, at)
        return start + 4, _at("<I", self.data, start)


def _tensor(value: Table) -> tuple[str, tuple[int, ...]]:
    """The type and shape of a value of the plan; numbers and truth values as a tensor of one."""
    found = value.table(1)
    if value.byte(0) != _TENSOR or found is None:
        return {2: "i64", 3: "bool8", 4: "f64"}.get(value.byte(0), "i64"), (1,)
    return SCALAR_TYPES[found.byte(0)], found.numbers(2) or (1,)


def _at(form: str, data: bytes, place: int) -> int:
    try:
        return int(struct.unpack_from(form, data, place)[0])
    except struct.error:
        raise OpdbError("the program ends in the middle; compile it again") from None
