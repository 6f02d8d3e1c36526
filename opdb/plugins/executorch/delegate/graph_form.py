"""Writes a QnnGraph with its ends as records of a blob; ``graph_read`` reads them.

The graph is complete if it is the payload; next to a context it lacks constants and serves debugging.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from opdb.core.dtypes import DTYPES
from opdb.core.graph import GraphOp, GraphTensor
from opdb.core.op_config import ENCODINGS, ParamConfig, Quant
from opdb.plugins.executorch.delegate import blob
from opdb.plugins.executorch.delegate.blob import NONE, Payload, Section, Writer
from opdb.plugins.executorch.delegate.module import Arg, Module, stored

BY_CODE = {d.code: d for d in DTYPES}
CODES = {d.short: d.code for d in DTYPES}
#: Qnn_TensorType_t
TYPES = {"APP_WRITE": 0, "APP_READ": 1, "NATIVE": 3, "STATIC": 4}
#: Smaller constants stay in the blob: each named piece of a program starts a new page.
NAMED_FROM = 1024


@dataclass(frozen=True)
class Written:
    """``named``: bytes to store outside of the blob, by key."""

    blob: bytes
    named: Mapping[str, bytes]


def write(module: Module, *, named: bool = False) -> Written:
    """The blob of ``module``.  ``named``: constants of at least NAMED_FROM bytes go outside of the blob, keyed by content.

    Raises OpdbError for a module that does not fit into a blob.
    """
    return _Write(module, named).written()


def data_key(content: bytes) -> str:
    """The key of a constant: equal bytes have the same key, in every method."""
    return f"opdb/{hashlib.sha256(content).hexdigest()}"


class _Write:
    def __init__(self, module: Module, named: bool) -> None:
        self.module, self.out, self.beside = module, Writer(), named
        self.named: dict[str, bytes] = {}
        self._named: dict[str, int] = {}
        self._quants: dict[Quant, int] = {}
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
        texts = [i.backend, i.soc, i.sdk, i.execution, self.module.graph.name, i.package]
        texts += [i.library_version, i.build_id, i.opdb, i.precision]
        place, offset, size = NONE, 0, 0
        if context is not None:
            offset, size = context.binary, len(context.content) - context.binary
            if context.key:
                place = self._beside(context.key, context.content)
            else:
                out.context = context.content
        chip = NONE if i.soc_model is None else i.soc_model
        numbers = (chip, i.optimization, i.vtcm_mb, i.hvx_threads, place, 0, offset, size)
        out.add(Section.INFO, blob.Info._make((*map(out.string, texts), *numbers)))

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
        """Stores bytes in or outside of the blob; returns kind, place, and size."""
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
        out, key = self.out, quant
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
        record = (
            *map(out.string, (op.name, op.package, op.op, op.origin)),
            *(len(inputs), out.pool(Section.REFS, inputs)),
            *(len(outputs), out.pool(Section.REFS, outputs)),
            *(len(params), first),
            *(len(handles), out.pool(Section.REFS, handles)),
        )
        out.add(Section.OPS, blob.Op._make(record))

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


def _extra(quant: Quant) -> tuple[int, ...]:
    if quant.blocks is not None:
        blocks = quant.blocks
        return (blocks.per_axis, blocks.bits, blocks.storage, *blocks.scales)
    if quant.vector is not None:
        v = quant.vector
        return (v.rows_per_block, v.columns_per_block, v.dimension, v.stride, v.index_bits)
    return quant.block_size
