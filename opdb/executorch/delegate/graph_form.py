"""A QnnGraph with its ends as records of a blob, and back.

The graph is complete where the payload is a graph; beside a context it is there without constants, for debugging.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opdb.dtypes import DTYPES
from opdb.errors import OpdbError
from opdb.executorch.delegate import blob
from opdb.executorch.delegate.blob import NONE, Payload, Reader, Section, Writer
from opdb.graph import GraphOp, GraphTensor, QnnGraph
from opdb.op_config import ENCODINGS, MAX_RANK, Blocks, ParamConfig, Quant, Sparse, Vectors

Array = np.ndarray[Any, Any]
BY_CODE = {d.code: d for d in DTYPES}
CODES = {d.short: d.code for d in DTYPES}
#: Qnn_TensorType_t
TYPES = {"APP_WRITE": 0, "APP_READ": 1, "NATIVE": 3, "STATIC": 4}
TYPE_NAMES = {code: name for name, code in TYPES.items()}
#: Smaller constants are in the blob, not beside it: a named piece of a program begins a page.
NAMED_FROM = 1024


@dataclass(frozen=True)
class Arg:
    """One tensor of execute's args.  ``scalar_type``: ExecuTorch's; ``shape`` as the program has it.

    ``tensor``: its name in the graph, None for an input that the graph does not read and for an output that is known
    already, which has its value in ``constant``.
    """

    kind: str  # "input" or "output"
    tensor: str | None
    scalar_type: int
    shape: tuple[int, ...]
    constant: bytes | None = None


@dataclass(frozen=True)
class State:
    """A buffer that the delegate keeps; ``initial``: the bytes that it holds before the first run."""

    name: str
    input: str
    output: str
    initial: bytes


@dataclass(frozen=True)
class Identity:
    """Where and by what the payload runs; ``backend`` empty: opdb's C kernels."""

    backend: str = ""
    soc: str = ""
    sdk: str = ""
    execution: str = ""
    package: str = ""
    library_version: str = ""
    build_id: str = ""
    opdb: str = ""
    precision: str = ""
    soc_model: int | None = None
    optimization: int = 0
    vtcm_mb: int = 0
    hvx_threads: int = 0


@dataclass(frozen=True)
class ContextFile:
    """``content``: a context file of opdb's (docs/qnn-context-files.md); QNN's binary begins at ``binary``."""

    content: bytes
    binary: int
    key: str = ""  # the program's named data that holds it; empty: the blob does


@dataclass(frozen=True)
class Module:
    """What a blob says.  ``handles``: of each op by its name, the debug handles of the edge nodes behind it.

    ``ids``: the numbers that the library of a context knows the tensors at the ends by, by their names.
    """

    graph: QnnGraph
    args: tuple[Arg, ...]
    states: tuple[State, ...] = ()
    identity: Identity = field(default_factory=Identity)
    handles: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    context: ContextFile | None = None
    ids: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Written:
    """``named``: bytes that belong beside the blob, by key."""

    blob: bytes
    named: Mapping[str, bytes]


def write(module: Module, *, named: bool = False) -> Written:
    """The blob of ``module``.  ``named``: constants from NAMED_FROM bytes go beside the blob, by what they hold.

    Raises OpdbError for what no blob holds.
    """
    return _Write(module, named).written()


def data_key(content: bytes) -> str:
    """The key of a constant: equal bytes have one, in every method."""
    return f"opdb/{hashlib.sha256(content).hexdigest()}"


class _Write:
    def __init__(self, module: Module, named: bool) -> None:
        self.module, self.out, self.beside = module, Writer(), named
        self.named: dict[str, bytes] = {}
        self._named: dict[str, int] = {}
        self._quants: dict[tuple[Quant, str], int] = {}
        self._tensors: dict[str, int] = {}

    def written(self) -> Written:
        module, out = self.module, self.out
        for tensor in module.graph.tensors.values():
            self._tensors[tensor.name] = out.add(Section.TENSORS, self._tensor(tensor))
        for op in module.graph.ops:
            self._op(op)
        for arg in module.args:
            self._arg(arg)
        for state in module.states:
            place = self._content(state.initial)
            ends = self._tensors[state.input], self._tensors[state.output]
            out.add(Section.STATES, blob.State(out.string(state.name), *ends, *place))
        self._info()
        content = out.bytes(Payload.GRAPH if module.context is None else Payload.CONTEXT)
        return Written(content, self.named)

    def _info(self) -> None:
        out, identity, context = self.out, self.module.identity, self.module.context
        i = identity
        texts = (i.backend, i.soc, i.sdk, i.execution, self.module.graph.name, i.package)
        texts += (i.library_version, i.build_id, i.opdb, i.precision)
        place, offset, size = NONE, 0, 0
        if context is not None:
            offset, size = context.binary, len(context.content) - context.binary
            if context.key:
                place = self._beside(context.key, context.content)
            else:
                out.context = context.content
        chip = NONE if i.soc_model is None else i.soc_model
        numbers = (chip, i.optimization, i.vtcm_mb, i.hvx_threads, place, 0, offset, size)
        out.add(Section.INFO, blob.Info(*map(out.string, texts), *numbers))

    def _arg(self, arg: Arg) -> None:
        tensor = NONE if arg.tensor is None else self._tensors[arg.tensor]
        dims = self.out.pool(Section.WORDS, arg.shape)
        constant = NONE if arg.constant is None else self.out.data(arg.constant) // blob.ALIGN
        kind = ("input", "output").index(arg.kind)
        self.out.add(Section.ARGS, blob.Arg(kind, tensor, arg.scalar_type, len(arg.shape), dims, constant))

    def _tensor(self, tensor: GraphTensor) -> blob.Tensor:
        out, quant, sparse = self.out, tensor.quant, tensor.sparse
        data = (0, self.module.ids.get(tensor.name, 0), 0)
        if tensor.type == "STATIC" and self.module.context is None:
            data = self._content(stored(tensor))
        return blob.Tensor(
            out.string(tensor.name),
            CODES[tensor.dtype],
            TYPES[tensor.type],
            len(tensor.shape),
            out.pool(Section.WORDS, tensor.shape),
            NONE if quant is None else self._quant(quant),
            int(quant is None or quant.symmetric(tensor.dtype)),
            0 if sparse is None else sparse.specified,
            0 if sparse is None else sparse.dimensions,
            *data,
        )

    def _content(self, content: bytes) -> tuple[int, int, int]:
        """The kind, place and size of bytes in or beside the blob."""
        if self.beside and len(content) >= NAMED_FROM:
            return 2, self._beside(data_key(content), content), len(content)
        return 1, self.out.data(content), len(content)

    def _beside(self, key: str, content: bytes) -> int:
        if key not in self._named:
            digest = hashlib.sha256(content).digest()
            record = blob.Named(self.out.string(key), 0, len(content), digest)
            self._named[key] = self.out.add(Section.NAMED, record)
            self.named[key] = content
        return self._named[key]

    def _quant(self, quant: Quant) -> int:
        out, key = self.out, (quant, "")
        if key not in self._quants:
            offsets = quant.offset or (0,) * len(quant.scale)
            extra = _extra(quant)
            record = blob.Quant(
                ENCODINGS.index(quant.encoding),
                NONE if quant.axis is None else quant.axis,
                quant.bits or 0,
                len(quant.scale),
                out.pool(Section.FLOATS, quant.scale),
                out.pool(Section.INTS, offsets),
                len(extra),
                out.pool(Section.WORDS, extra),
            )
            self._quants[key] = out.add(Section.QUANTS, record)
        return self._quants[key]

    def _op(self, op: GraphOp) -> None:
        out = self.out
        inputs = [NONE if name is None else self._tensors[name] for name in op.inputs]
        outputs = [self._tensors[name] for name in op.outputs]
        params = [self._param(p) for p in op.params]
        first = len(out.records[Section.PARAMS])
        for param in params:
            out.add(Section.PARAMS, param)
        handles = self.module.handles.get(op.name, ())
        texts = (op.name, op.package, op.op, op.origin)
        out.add(
            Section.OPS,
            blob.Op(
                *map(out.string, texts),
                len(inputs), out.pool(Section.REFS, inputs),
                len(outputs), out.pool(Section.REFS, outputs),
                len(params), first,
                len(handles), out.pool(Section.REFS, handles),
            ),
        )  # fmt: skip

    def _param(self, param: ParamConfig) -> blob.Param:
        out = self.out
        values = [param.value] if param.shape is None else list(param.value)
        ints = [int(v) if isinstance(v, (bool, int)) else 0 for v in values]
        reals = [float(v) if isinstance(v, (bool, int, float)) else 0.0 for v in values]
        return blob.Param(
            out.string(param.name),
            CODES[param.dtype],
            0 if param.shape is None else len(param.shape),
            out.pool(Section.WORDS, param.shape or ()),
            len(values),
            out.pool(Section.WORDS, ints),
            out.pool(Section.REALS, reals),
            out.string(param.value) if isinstance(param.value, str) else 0,
        )


def stored(tensor: GraphTensor) -> bytes:
    """The bytes of a static tensor, little-endian, row-major.  Raises OpdbError for data of another size."""
    kind = np.dtype(BY_CODE[CODES[tensor.dtype]].numpy or "uint8").newbyteorder("<")
    count = int(np.prod(tensor.shape, dtype=np.int64))
    values = np.zeros(tensor.shape, kind) if tensor.data is None else np.asarray(tensor.data)
    if values.size != count:
        raise OpdbError(f"{tensor.name}: {values.size} values for the shape {list(tensor.shape)}")
    return np.ascontiguousarray(values.astype(kind, copy=False)).tobytes()


def _extra(quant: Quant) -> tuple[int, ...]:
    if quant.blocks is not None:
        blocks = quant.blocks
        return (blocks.per_axis, blocks.bits, blocks.storage, *blocks.scales)
    if quant.vector is not None:
        v = quant.vector
        return (v.rows_per_block, v.columns_per_block, v.dimension, v.stride, v.index_bits)
    return quant.block_size


def read(content: bytes | memoryview, named: Callable[[str], bytes], name: str = "the blob") -> Module:
    """What ``write`` was given.  ``named``: the program's named data.  Raises OpdbError for bytes that are not as written."""
    return _Read(Reader(content, name), named).module()


class _Read:
    def __init__(self, source: Reader, named: Callable[[str], bytes]) -> None:
        self.source, self.named = source, named

    def module(self) -> Module:
        source = self.source
        info = source.info()
        graph = QnnGraph(source.string(info.graph))
        tensors = [self._tensor(t) for t in source.records(Section.TENSORS)]
        graph.tensors = {t.name: t for t in tensors}
        if len(graph.tensors) != len(tensors):
            raise source.fault("two tensors have one name")
        self.names = list(graph.tensors)
        handles = {}
        for record in source.records(Section.OPS):
            op = self._op(record)
            graph.ops.append(op)
            handles[op.name] = source.pool(Section.REFS, record.handle, record.handles)
        if len(handles) != len(graph.ops):
            raise source.fault("two ops have one name")
        args = tuple(self._arg(a) for a in source.records(Section.ARGS))
        states = tuple(
            State(source.string(s.name), self._name(s.input), self._name(s.output), self._content(s))
            for s in source.records(Section.STATES)
        )
        ids = {source.string(t.name): t.offset for t in source.records(Section.TENSORS) if not t.data and t.offset}
        return Module(graph, args, states, self._identity(info), handles, self._context(info), ids)

    def _identity(self, info: blob.Info) -> Identity:
        text = self.source.string
        return Identity(
            *map(text, (info.backend, info.soc, info.sdk, info.execution, info.package)),
            *map(text, (info.library_version, info.build_id, info.opdb, info.precision)),
            soc_model=None if info.soc_model == NONE else info.soc_model,
            optimization=info.optimization,
            vtcm_mb=info.vtcm_mb,
            hvx_threads=info.hvx_threads,
        )

    def _context(self, info: blob.Info) -> ContextFile | None:
        if self.source.payload == Payload.GRAPH:
            return None
        content, key = bytes(self.source.sections[Section.CONTEXT]), ""
        if info.context != NONE:
            record = self.source.record(Section.NAMED, info.context)
            content, key = self._beside(record), self.source.string(record.key)
        if info.binary_offset + info.binary_size != len(content):
            raise self.source.fault("QNN's binary is not the end of the context file")
        return ContextFile(content, info.binary_offset, key)

    def _arg(self, a: blob.Arg) -> Arg:
        source = self.source
        if a.kind > 1 or a.rank > MAX_RANK:
            raise source.fault("an argument is neither an input nor an output, or has too many dimensions")
        shape = source.pool(Section.WORDS, a.dims, a.rank)
        constant = None
        if a.constant != NONE:
            constant = bytes(source.data(a.constant * blob.ALIGN, constant_size(a.scalar_type, shape)))
        tensor = None if a.tensor == NONE else self._name(a.tensor)
        return Arg(("input", "output")[a.kind], tensor, a.scalar_type, shape, constant)

    def _name(self, index: int) -> str:
        if index >= len(self.names):
            raise self.source.fault(f"there is no tensor {index}")
        return self.names[index]

    def _content(self, record: Any) -> bytes:
        if record.data == 2:
            found = self.source.record(Section.NAMED, record.offset)
            if found.size != record.size:
                raise self.source.fault("a constant and its named data have two sizes")
            return self._beside(found)
        return bytes(self.source.data(record.offset, record.size))

    def _beside(self, record: blob.Named) -> bytes:
        key = self.source.string(record.key)
        content = self.named(key)
        if len(content) != record.size or hashlib.sha256(content).digest() != record.sha256:
            raise OpdbError(
                f"{self.source.name}: damaged: the program's data {key} are not those that were written"
            )
        return content

    def _tensor(self, t: blob.Tensor) -> GraphTensor:
        source = self.source
        if t.dtype not in BY_CODE or t.type not in TYPE_NAMES or t.rank > MAX_RANK:
            raise source.fault(f"the data type, type or rank of {source.string(t.name)}")
        dtype, shape = BY_CODE[t.dtype], source.pool(Section.WORDS, t.dims, t.rank)
        data: Array | None = None
        if t.data:
            content, kind = self._content(t), np.dtype(dtype.numpy or "uint8").newbyteorder("<")
            if len(content) != kind.itemsize * int(np.prod(shape, dtype=np.int64)):
                raise source.fault(f"the size of {source.string(t.name)}")
            data = np.frombuffer(content, kind).reshape(shape)
        quant = None if t.quant == NONE else self._quant(source.record(Section.QUANTS, t.quant))
        sparse = Sparse(t.specified, t.sparse_dims) if t.specified else None
        name, type_ = source.string(t.name), TYPE_NAMES[t.type]
        return GraphTensor(name, dtype.short, shape, type_, data, quant, sparse)

    def _quant(self, q: blob.Quant) -> Quant:
        source = self.source
        if q.encoding >= len(ENCODINGS):
            raise source.fault(f"there is no encoding {q.encoding}")
        extra = source.pool(Section.WORDS, q.extra, q.extras)
        name = ENCODINGS[q.encoding]
        blocks = Blocks(extra[0], extra[1], extra[3:], extra[2]) if name == "BLOCKWISE_EXPANSION" else None
        return Quant(
            name,
            source.pool(Section.FLOATS, q.scales, q.count),
            source.pool(Section.INTS, q.offsets, q.count),
            None if q.axis == NONE else q.axis,
            q.bits or None,
            extra if name == "BLOCK" else (),
            blocks,
            Vectors(*extra) if name == "VECTOR" else None,
        )

    def _op(self, op: blob.Op) -> GraphOp:
        source = self.source
        inputs = source.pool(Section.REFS, op.input, op.inputs)
        outputs = source.pool(Section.REFS, op.output, op.outputs)
        return GraphOp(
            source.string(op.name),
            source.string(op.type),
            tuple(None if i == NONE else self._name(i) for i in inputs),
            tuple(self._param(source.record(Section.PARAMS, op.param + i)) for i in range(op.params)),
            tuple(map(self._name, outputs)),
            source.string(op.package),
            source.string(op.origin),
        )

    def _param(self, p: blob.Param) -> ParamConfig:
        source = self.source
        if p.dtype not in BY_CODE or p.rank > MAX_RANK or (not p.rank and p.count != 1):
            raise source.fault(f"the parameter {source.string(p.name)}")
        dtype = BY_CODE[p.dtype].short
        if dtype == "str":
            return ParamConfig(source.string(p.name), dtype, source.string(p.text))
        real = dtype.startswith(("f", "bf"))
        values: Sequence[Any] = (
            source.pool(Section.REALS, p.reals, p.count)
            if real
            else source.pool(Section.WORDS, p.ints, p.count)
        )
        if dtype == "bool8":
            values = tuple(map(bool, values))
        if not p.rank:
            return ParamConfig(source.string(p.name), dtype, values[0])
        shape = source.pool(Section.WORDS, p.dims, p.rank)
        return ParamConfig(source.string(p.name), dtype, tuple(values), shape)


#: Bytes of one element, by ExecuTorch's ScalarType.
ITEM_SIZES = {0: 1, 1: 1, 2: 2, 3: 4, 4: 8, 5: 2, 6: 4, 7: 8, 11: 1, 15: 2, 27: 2, 28: 4, 29: 8}


def constant_size(scalar_type: int, shape: Sequence[int]) -> int:
    """The bytes of a tensor of the program.  Raises OpdbError for a type that no blob has."""
    if scalar_type not in ITEM_SIZES:
        raise OpdbError(f"the scalar type {scalar_type} of ExecuTorch is none that the delegate takes")
    return ITEM_SIZES[scalar_type] * int(np.prod(shape, dtype=np.int64))
