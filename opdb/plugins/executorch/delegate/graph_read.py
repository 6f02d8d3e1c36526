"""Reads a blob into a Module, the inverse of ``graph_form``.  Every index and size is checked."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.core.op_config import ENCODINGS, MAX_DIM, MAX_RANK, Blocks, ParamConfig, Quant, Sparse, Vectors
from opdb.plugins.executorch.delegate import blob
from opdb.plugins.executorch.delegate.blob import NONE, Payload, Reader, Section
from opdb.plugins.executorch.delegate.graph_form import BY_CODE, TYPES
from opdb.plugins.executorch.delegate.module import (
    Arg,
    Array,
    ContextFile,
    Identity,
    Module,
    State,
    constant_size,
    numpy_type,
)

MAX_ELEMENTS = 2**48
TYPE_NAMES = {code: name for name, code in TYPES.items()}


def read(content: bytes | memoryview, named: Callable[[str], bytes], name: str = "the blob") -> Module:
    """The module in a blob.  ``named``: returns the program's named data.  Raises OpdbError if the bytes are not as written."""
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
        named = [t for t in source.records(Section.TENSORS) if not t.data and t.offset]
        ids = {source.string(t.name): t.offset for t in named}
        return Module(graph, args, states, self._identity(info), handles, self._context(info), ids)

    def _identity(self, info: blob.Info) -> Identity:
        names = (
            "backend",
            "soc",
            "sdk",
            "execution",
            "package",
            "library_version",
            "build_id",
            "opdb",
            "precision",
        )
        texts = {name: self.source.string(getattr(info, name)) for name in names}
        return Identity(
            **texts,
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
        shape = self._shape(a.dims, a.rank)
        constant = None
        if a.constant != NONE:
            constant = bytes(source.data(a.constant * blob.ALIGN, constant_size(a.scalar_type, shape)))
        tensor = None if a.tensor == NONE else self._name(a.tensor)
        return Arg(("input", "output")[a.kind], tensor, a.scalar_type, shape, constant)

    def _shape(self, first: int, rank: int) -> tuple[int, ...]:
        shape = self.source.pool(Section.WORDS, first, rank)
        if any(not 0 <= d <= MAX_DIM for d in shape) or math.prod(shape) > MAX_ELEMENTS:
            raise self.source.fault(f"{list(shape)} is no shape")
        return shape

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
        dtype, shape = BY_CODE[t.dtype], self._shape(t.dims, t.rank)
        data: Array | None = None
        if t.data:
            content, kind = self._content(t), np.dtype(numpy_type(dtype.short))
            if len(content) != kind.itemsize * math.prod(shape):
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
        least = {"BLOCKWISE_EXPANSION": 3, "VECTOR": 5}.get(name, 0)
        if len(extra) < least or (name == "VECTOR" and len(extra) != least):
            raise source.fault(f"an encoding {name} has {len(extra)} numbers")
        blocks = Blocks(extra[0], extra[1], extra[3:], extra[2]) if name == "BLOCKWISE_EXPANSION" else None
        return Quant(
            name,
            source.pool(Section.FLOATS, q.scales, q.scale_count),
            source.pool(Section.INTS, q.offsets, q.scale_count),
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
        if p.dtype not in BY_CODE or p.rank > MAX_RANK or (not p.rank and p.values != 1):
            raise source.fault(f"the parameter {source.string(p.name)}")
        dtype = BY_CODE[p.dtype].short
        if dtype == "str":
            return ParamConfig(source.string(p.name), dtype, source.string(p.text))
        real = dtype.startswith(("f", "bf"))
        values: Sequence[Any] = (
            source.pool(Section.REALS, p.reals, p.values)
            if real
            else source.pool(Section.WORDS, p.ints, p.values)
        )
        if dtype == "bool8":
            values = tuple(map(bool, values))
        if not p.rank:
            return ParamConfig(source.string(p.name), dtype, values[0])
        shape = self._shape(p.dims, p.rank)
        return ParamConfig(source.string(p.name), dtype, tuple(values), shape)
