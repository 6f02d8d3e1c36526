"""A QNN graph without handles, which the builders make and every executor takes.

Torch-free and numpy-free: ``data`` of a static tensor is any object with the buffer protocol (a numpy
array in practice).  The order of ``ops`` is an order of execution.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from opdb.core.op_config import OpConfig, ParamConfig, Quant, Sparse, TensorConfig


@dataclass(frozen=True)
class GraphTensor:
    """One tensor of a graph.  ``type`` is APP_WRITE (graph input), APP_READ (output), NATIVE or STATIC."""

    name: str
    dtype: str  # short name; e.g. f32
    shape: tuple[int, ...]
    type: str = "NATIVE"
    data: Any = None  # STATIC only
    quant: Quant | None = None
    sparse: Sparse | None = None  # CPU and HTP 2.47 have sparse tensors only inside a graph, as NATIVE

    def config(self, slot: str) -> TensorConfig:
        """This tensor as the tensor of ``slot`` in an op config."""
        return TensorConfig(slot, self.dtype, self.shape, self.type, self.data, self.quant, self.sparse)


@dataclass(frozen=True)
class GraphOp:
    """One node.  ``inputs`` and ``outputs`` name tensors of the graph; None is an omitted optional input."""

    name: str
    op: str
    inputs: tuple[str | None, ...]
    params: tuple[ParamConfig, ...]
    outputs: tuple[str, ...]
    package: str = "qti.aisw"
    origin: str = ""  # where it came from; e.g. the torch node's name


@dataclass
class QnnGraph:
    """A graph of QNN ops as data, without a library: ``tensors`` by name, ``ops`` in an order of execution.

    >>> import numpy, opdb, torch
    >>> data = [{"input": numpy.ones((2, 8), "f4")}]
    >>> graph = opdb.quantize(torch.nn.ReLU(), opdb.Target("HTP", "SM8650"), data, (torch.randn(2, 8),))
    >>> [op.op for op in graph.ops], [tensor.shape for tensor in graph.outputs]
    (['Relu'], [(2, 8)])
    """

    name: str
    tensors: dict[str, GraphTensor] = field(default_factory=dict)
    ops: list[GraphOp] = field(default_factory=list)

    @property
    def inputs(self) -> tuple[GraphTensor, ...]:
        """The tensors that the caller gives, in their order."""
        return tuple(t for t in self.tensors.values() if t.type == "APP_WRITE")

    @property
    def outputs(self) -> tuple[GraphTensor, ...]:
        """The tensors that the caller gets, in their order."""
        return tuple(t for t in self.tensors.values() if t.type == "APP_READ")

    def renamed(self, names: Mapping[str, str]) -> QnnGraph:
        """The graph with renamed tensors; a tensor that already has one of the new names gets a number."""
        taken = set(names.values())
        new = dict(names)
        for name in self.tensors:
            if name in taken and name not in new:
                new[name] = next(
                    n for i in count(2) if (n := f"{name}_{i}") not in taken and n not in self.tensors
                )
        tensors = {new.get(n, n): replace(t, name=new.get(n, n)) for n, t in self.tensors.items()}
        ops = [
            replace(
                op,
                inputs=tuple(n if n is None else new.get(n, n) for n in op.inputs),
                outputs=tuple(new.get(n, n) for n in op.outputs),
            )
            for op in self.ops
        ]
        return QnnGraph(self.name, tensors, ops)

    def with_intermediates(self) -> QnnGraph:
        """The same graph with every NATIVE tensor an output; debug mode runs it to read all values."""
        tensors = {
            n: replace(t, type="APP_READ") if t.type == "NATIVE" else t for n, t in self.tensors.items()
        }
        return QnnGraph(self.name, tensors, list(self.ops))

    def needed(self) -> QnnGraph:
        """The same graph without ops and inputs on which no output depends."""
        read = {t.name for t in self.outputs}
        ops: list[GraphOp] = []
        for op in reversed(self.ops):
            if not read.isdisjoint(op.outputs):
                read.update(n for n in (*op.inputs, *op.outputs) if n is not None)
                ops.insert(0, op)
        return QnnGraph(self.name, {n: t for n, t in self.tensors.items() if n in read}, ops)

    def op_config(self, op: GraphOp) -> OpConfig:
        """The op config of one node of this graph; slot names are empty, the order is QNN's."""
        absent = TensorConfig("", "f32", (), "NULL")
        return OpConfig(
            op=op.op,
            package=op.package,
            id=op.name,
            inputs=tuple(absent if n is None else self.tensors[n].config("") for n in op.inputs),
            params=op.params,
            outputs=tuple(self.tensors[n].config("") for n in op.outputs),
        )


def single(config: OpConfig, inputs: Sequence[Any]) -> QnnGraph:
    """A graph of one op: inputs 0, 1, ...; outputs y0, y1, ...  ``inputs``: an array for each, None for an omitted one.

    A static tensor holds its array; the others are graph inputs.
    """
    graph = QnnGraph(config.op)
    names: list[str | None] = []
    for i, (tensor, array) in enumerate(zip(config.inputs, inputs, strict=True)):
        names.append(None if tensor.type == "NULL" else f"{i}")
        if tensor.type != "NULL":
            kind = "STATIC" if tensor.type == "STATIC" else "APP_WRITE"
            made = GraphTensor(f"{i}", tensor.dtype, tensor.shape, kind, None, tensor.quant, tensor.sparse)
            graph.tensors[f"{i}"] = replace(made, data=array) if kind == "STATIC" else made
    outputs = tuple(f"y{i}" for i in range(len(config.outputs)))
    for name, tensor in zip(outputs, config.outputs, strict=True):
        graph.tensors[name] = GraphTensor(
            name, tensor.dtype, tensor.shape, "APP_READ", None, tensor.quant, tensor.sparse
        )
    graph.ops.append(GraphOp("op", config.op, tuple(names), config.params, outputs, config.package))
    return graph
