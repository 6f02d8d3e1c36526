"""The bytes of a lowered module: sections of flat records under one SHA-256.

The layout is in docs/reference/executorch-delegate.md, "Blob"; runtime code in C++ reads the same bytes without a JSON parser.  This
module knows sections and records; ``graph_form`` knows their meaning.  Nothing is used before every byte is checked.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

from opdb.core.errors import OpdbError
from opdb.core.names import counted

MAGIC = b"\x8aOPDBET\n"  # not text, and damaged by a transfer in text mode
VERSION = 1
ALIGN = 16
#: An index without a target.
NONE = 0xFFFFFFFF
#: magic, format, bytes of this header, bytes of the blob, payload, number of sections; then SHA-256 of everything else
HEADER = struct.Struct("<8sIIQII")
DIGEST = slice(HEADER.size, HEADER.size + 32)
#: id, bytes of a record, offset, bytes
SECTION = struct.Struct("<IIQQ")
TABLE = DIGEST.stop  # start of the section table
MAX_STRING = 4096


class Payload(IntEnum):
    CONTEXT = 1  # a context that a QNN library prepared
    GRAPH = 2  # a graph with its constants: for the C kernels, or composed through QNN's interface


class Section(IntEnum):
    """All are present, in this order; one without records has 0 bytes."""

    STRINGS = 1  # UTF-8, each with a NUL; the first is empty
    WORDS = 2  # int64
    REALS = 3  # float64
    FLOATS = 4  # float32
    INTS = 5  # int32
    REFS = 6  # uint32
    INFO = 7
    ARGS = 8
    TENSORS = 9
    QUANTS = 10
    OPS = 11
    PARAMS = 12
    STATES = 13
    NAMED = 14
    DATA = 15
    CONTEXT = 16


class Info(NamedTuple):
    """The one record of INFO.  Strings are offsets into STRINGS."""

    backend: int  # e.g. HTP; empty: opdb's C kernels
    soc: int
    sdk: int
    execution: int
    graph: int  # its name in the context
    package: int  # the package of the library that prepared the context
    library_version: int
    build_id: int
    opdb: int  # version
    precision: int  # empty, or fp16
    soc_model: int  # QNN's number, NONE without a chip
    optimization: int  # 0: the library's choice, as for the next two
    vtcm_mb: int
    hvx_threads: int
    context: int  # NAMED record with the context file; NONE: it is in the section CONTEXT
    reserved: int
    binary_offset: int  # start of QNN's binary inside the context file
    binary_size: int


class Arg(NamedTuple):
    """One EValue of execute's args: all inputs, then all outputs."""

    kind: int  # 0 input, 1 output
    tensor: int  # TENSORS record; NONE: the graph does not read this input
    scalar_type: int  # executorch::runtime::etensor::ScalarType
    rank: int  # the program's rank: 0 for a scalar, which the graph has as [1]
    dims: int  # WORDS
    constant: int  # an output known in advance: offset in DATA / ALIGN; else NONE


class Tensor(NamedTuple):
    name: int
    dtype: int  # Qnn_DataType_t
    type: int  # Qnn_TensorType_t
    rank: int
    dims: int  # WORDS
    quant: int  # QUANTS record or NONE
    symmetric: int  # 1: real zero is the middle of the stored values, or there is no encoding
    specified: int  # for a sparse tensor; 0: dense
    sparse_dims: int
    data: int  # 0 none, 1 at ``offset`` of DATA, 2 NAMED record ``offset``
    offset: int  # for a context's tensor without data: the library's number for it
    size: int  # bytes


class Quant(NamedTuple):
    """Quantization parameters.  ``extra``: BLOCK: a size per dimension; BLOCKWISE_EXPANSION: blocks per slice, bits,
    bits of storage, scales; VECTOR: rows and columns per block, dimension, stride, bits of an index.
    """

    encoding: int  # Qnn_QuantizationEncoding_t
    axis: int  # NONE without
    bits: int
    scale_count: int  # and as many offsets
    scales: int  # FLOATS
    offsets: int  # INTS
    extras: int
    extra: int  # WORDS


class Op(NamedTuple):
    """One op; its index in OPS is ExecuTorch's delegate debug id."""

    name: int
    package: int
    type: int
    origin: int  # name of the edge node
    inputs: int  # number; REFS hold TENSORS records, NONE for an omitted input
    input: int  # REFS
    outputs: int
    output: int
    params: int
    param: int  # PARAMS record
    handles: int
    handle: int  # REFS: ExecuTorch's debug handles of the nodes behind it


class Param(NamedTuple):
    """One parameter.  All of its values are in both WORDS and REALS; a real is 0 in WORDS, and a whole number is also in REALS."""

    name: int
    dtype: int
    rank: int  # 0: a scalar
    dims: int  # WORDS
    values: int  # number
    ints: int  # WORDS
    reals: int  # REALS
    text: int  # value of a string parameter


class State(NamedTuple):
    """A buffer that the delegate keeps: after each run ``output`` becomes the next run's ``input``."""

    name: int  # the buffer's name in the module
    input: int  # TENSORS record, APP_WRITE
    output: int  # APP_READ
    data: int  # initial value; as in Tensor
    offset: int
    size: int


class Named(NamedTuple):
    """Bytes that the program holds outside of the blob, by key."""

    key: int
    reserved: int
    size: int
    sha256: bytes


RECORDS: dict[Section, tuple[type[Any], struct.Struct]] = {
    Section.INFO: (Info, struct.Struct("<16I2Q")),
    Section.ARGS: (Arg, struct.Struct("<6I")),
    Section.TENSORS: (Tensor, struct.Struct("<10I2Q")),
    Section.QUANTS: (Quant, struct.Struct("<8I")),
    Section.OPS: (Op, struct.Struct("<12I")),
    Section.PARAMS: (Param, struct.Struct("<8I")),
    Section.STATES: (State, struct.Struct("<4I2Q")),
    Section.NAMED: (Named, struct.Struct("<2IQ32s")),
}
POOLS = {Section.WORDS: "q", Section.REALS: "d", Section.FLOATS: "f", Section.INTS: "i", Section.REFS: "I"}
SIZES = (
    {section: form.size for section, (_, form) in RECORDS.items()}
    | {section: struct.calcsize(f"<{code}") for section, code in POOLS.items()}
    | dict.fromkeys((Section.STRINGS, Section.DATA, Section.CONTEXT), 1)
)


def aligned(n: int) -> int:
    return -(-n // ALIGN) * ALIGN


@dataclass
class Writer:
    """Collects records; equal strings, pools, and data are stored once."""

    records: dict[Section, list[Any]] = field(default_factory=lambda: {s: [] for s in RECORDS})
    context: bytes = b""
    _strings: dict[str, int] = field(default_factory=dict)
    _text: bytearray = field(default_factory=bytearray)
    _pools: dict[Section, list[Any]] = field(default_factory=lambda: {s: [] for s in POOLS})
    _places: dict[tuple[Section, bytes], int] = field(default_factory=dict)
    _data: bytearray = field(default_factory=bytearray)
    _data_places: dict[bytes, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.string("")

    def string(self, text: str) -> int:
        """The offset of ``text``.  Raises OpdbError if it contains NUL or is too long."""
        if text not in self._strings:
            raw = text.encode()
            if b"\0" in raw or len(raw) > MAX_STRING:
                raise OpdbError(
                    f"the name {text[:40]!r} has a NUL or more than {MAX_STRING} bytes; rename it"
                )
            self._strings[text] = len(self._text)
            self._text += raw + b"\0"
        return self._strings[text]

    def pool(self, section: Section, values: Sequence[Any]) -> int:
        """The index in a pool of the first of ``values``."""
        key = (section, struct.pack(f"<{len(values)}{POOLS[section]}", *values))
        if key not in self._places:
            self._places[key] = len(self._pools[section])
            self._pools[section] += values
        return self._places[key]

    def add(self, section: Section, record: Any) -> int:
        """The index of a record."""
        self.records[section].append(record)
        return len(self.records[section]) - 1

    def data(self, content: bytes) -> int:
        """The offset of ``content`` in DATA, a multiple of ALIGN."""
        digest = hashlib.sha256(content).digest()
        if digest not in self._data_places:
            self._data += bytes(aligned(len(self._data)) - len(self._data))
            self._data_places[digest] = len(self._data)
            self._data += content
        return self._data_places[digest]

    def bytes(self, payload: Payload) -> bytes:
        """The blob; equal records give equal bytes."""
        contents: dict[Section, bytes] = {
            s: b"".join(RECORDS[s][1].pack(*record) for record in self.records[s]) for s in RECORDS
        }
        contents |= {s: struct.pack(f"<{len(v)}{POOLS[s]}", *v) for s, v in self._pools.items()}
        contents |= {Section.STRINGS: bytes(self._text), Section.DATA: bytes(self._data)}
        contents[Section.CONTEXT] = self.context
        at = aligned(TABLE + SECTION.size * len(Section))
        table, parts = b"", []
        for section in Section:
            content = contents[section]
            table += SECTION.pack(section, SIZES[section], at, len(content))
            parts.append(content + bytes(aligned(len(content)) - len(content)))
            at += len(parts[-1])
        begin = aligned(TABLE + len(table)) - TABLE - len(table)
        header = HEADER.pack(MAGIC, VERSION, TABLE, at, payload, len(Section))
        body = b"".join((table, bytes(begin), *parts))
        digest = hashlib.sha256(header)
        digest.update(body)
        return b"".join((header, digest.digest(), body))


class Reader:
    """An intact blob.  ``name`` is for messages."""

    def __init__(self, data: bytes | memoryview, name: str = "the blob") -> None:
        self.name, self.view = name, memoryview(data)
        self.payload = Payload(_checked(self.view, name))
        self.sections = {s: self.view[at : at + n] for s, at, n in _table(self.view, name)}
        strings = bytes(self.sections[Section.STRINGS])
        if not strings.startswith(b"\0") or not strings.endswith(b"\0"):
            raise self.fault("its strings do not begin with the empty one, or do not end")
        self._strings = strings
        self._records: dict[Section, list[Any]] = {}

    def fault(self, what: str) -> OpdbError:
        return OpdbError(f"{self.name}: malformed: {what}")

    def records(self, section: Section) -> list[Any]:
        if section not in self._records:
            make, form = RECORDS[section]
            self._records[section] = [make(*values) for values in form.iter_unpack(self.sections[section])]
        return self._records[section]

    def record(self, section: Section, index: int) -> Any:
        found = self.records(section)
        if not 0 <= index < len(found):
            raise self.fault(f"{section.name} has {counted(len(found), 'record')}, not one at {index}")
        return found[index]

    def info(self) -> Info:
        if len(self.records(Section.INFO)) != 1:
            raise self.fault("INFO has one record")
        found: Info = self.records(Section.INFO)[0]
        return found

    def string(self, at: int) -> str:
        end = self._strings.find(b"\0", at)
        if not 0 <= at < len(self._strings) or end - at > MAX_STRING:
            raise self.fault(f"no string begins at {at}")
        try:
            return self._strings[at:end].decode()
        except UnicodeDecodeError:
            raise self.fault(f"the string at {at} is not UTF-8") from None

    def pool(self, section: Section, first: int, count: int) -> tuple[Any, ...]:
        size = SIZES[section]
        if first + count > len(self.sections[section]) // size:
            raise self.fault(f"{section.name} ends before {counted(count, 'value')} from {first}")
        return struct.unpack_from(f"<{count}{POOLS[section]}", self.sections[section], first * size)

    def data(self, offset: int, size: int) -> memoryview:
        section = self.sections[Section.DATA]
        if offset % ALIGN or offset + size > len(section):
            raise self.fault(f"DATA has no {counted(size, 'byte')} at {offset}")
        return section[offset : offset + size]


def _checked(view: memoryview, name: str) -> int:
    """Checks all bytes against the checksum, then returns the payload's kind."""
    if bytes(view[: len(MAGIC)]) != MAGIC:
        raise OpdbError(f"{name}: not a blob of opdb's delegate: its first bytes are wrong")
    if len(view) < TABLE:
        raise OpdbError(f"{name}: damaged: cut off after {counted(len(view), 'byte')}, inside the header")
    _, version, header, total, payload, sections = HEADER.unpack_from(view)
    digest = hashlib.sha256(view[: HEADER.size])
    digest.update(view[TABLE:])
    if total != len(view):
        how = "cut off" if len(view) < total else "longer than it says"
        raise OpdbError(
            f"{name}: damaged or {how}: {counted(len(view), 'byte')} where its header counts {total}"
        )
    if digest.digest() != bytes(view[DIGEST]):
        raise OpdbError(f"{name}: damaged: its checksum is wrong; lower the model again")
    if version != VERSION:
        raise OpdbError(
            f"{name}: blob format {version}; this opdb reads {VERSION}: use the opdb that wrote it"
        )
    if (header, sections) != (TABLE, len(Section)) or payload not in set(Payload):
        raise OpdbError(f"{name}: malformed: its header")
    return int(payload)


def _table(view: memoryview, name: str) -> Iterable[tuple[Section, int, int]]:
    expected = aligned(TABLE + SECTION.size * len(Section))
    if len(view) < expected:
        raise OpdbError(f"{name}: malformed: its section table")
    for i, section in enumerate(Section):
        number, size, at, n = SECTION.unpack_from(view, TABLE + i * SECTION.size)
        if (number, size, at) != (section, SIZES[section], expected) or n % size or at + n > len(view):
            raise OpdbError(f"{name}: malformed: the section {section.name}")
        expected = aligned(at + n)
        yield section, at, n
    if expected != len(view):
        raise OpdbError(f"{name}: malformed: bytes behind the last section")
