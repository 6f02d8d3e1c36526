"""A graph in a QNN library: built, finalized, executed."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Any

import numpy as np

from opdb.errors import OpdbError
from opdb.graph import GraphOp, GraphTensor, QnnGraph
from opdb.op_config import ConfigError, TensorConfig
from opdb.runtime.qnn.errors import warnings
from opdb.runtime.qnn.native import NULL, Arena, CData, lib
from opdb.runtime.qnn.session import Session
from opdb.runtime.qnn.structs import array, fill_param, fill_tensor, op_config_of, set_data

ABSENT = TensorConfig("", "f32", (), "NULL")


class PreparedGraph:
    """A finalized graph, ready to run; a context manager.  Made by ``Backend.prepare``.

    ``log`` holds the warnings and errors of the finalization.
    """

    def __init__(
        self, session: Session, context: CData, graph: CData, tensors: Tensors, log: tuple[str, ...]
    ):
        self.inputs: tuple[GraphTensor, ...] = tensors.graph.inputs
        self.outputs: tuple[GraphTensor, ...] = tensors.graph.outputs
        self.log = warnings(log)
        self.owner: object = None
        self._session = session
        self._graph = graph
        self._tensors = tensors
        self._finalizer = weakref.finalize(self, session.free_context, context)

    def execute(self, inputs: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
        """Runs the graph: arrays by the name of the input tensor -> arrays by the name of the output tensor.

        Shapes and types are the tensors' (bf16 as uint16 bits).  Raises ConfigError for a missing, unknown
        or ill-fitting input, QnnError when the library fails.
        """
        if not self._finalizer.alive or self._session.closed:
            raise OpdbError("this graph or its backend is closed; prepare it again")
        names = [t.name for t in self.inputs]
        if set(inputs) != set(names):
            raise ConfigError(
                f"this graph has the inputs {', '.join(names)}; got {', '.join(inputs) or 'none'}"
            )
        arena = Arena()
        given = {t.name: array(inputs[t.name], t.dtype, t.shape, f"input {t.name}") for t in self.inputs}
        taken = {t.name: array(None, t.dtype, t.shape, f"output {t.name}") for t in self.outputs}
        ins, outs = self._bind(arena, given), self._bind(arena, taken)
        run = self._session.api.graphExecute
        self._session.call("execute the graph", run, self._graph, ins, len(ins), outs, len(outs), NULL, NULL)
        return taken

    def _bind(self, arena: Arena, values: Mapping[str, np.ndarray[Any, Any]]) -> CData:
        memory = arena.new("Qnn_Tensor_t[]", len(values))
        for i, (name, value) in enumerate(values.items()):
            memory[i] = self._tensors[name]
            set_data(memory[i], arena, value)
        return memory

    def close(self) -> None:
        """Frees the graph and its context; safe to repeat, also after the backend was closed."""
        self._finalizer()

    def __enter__(self) -> PreparedGraph:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Tensors:
    """The tensors of a graph as QNN knows them, by name, and the memory behind them."""

    def __init__(self, graph: QnnGraph) -> None:
        self.graph = graph
        self.arena = Arena()
        self._made: dict[str, CData] = {}
        self._absent: CData = NULL

    def __getitem__(self, name: str) -> CData:
        return self._made[name]

    def create(self, session: Session, handle: CData) -> None:
        for name, tensor in self.graph.tensors.items():
            self._made[name] = self._create(session, handle, name, tensor)
        if any(name is None for op in self.graph.ops for name in op.inputs):
            # QNN CPU wants the NULL tensor registered too, else 6005 "Tensor not registered with ID: 0"
            self._absent = self._create(session, handle, _unused("absent", self.graph.tensors), ABSENT)

    def _create(
        self, session: Session, handle: CData, name: str, tensor: GraphTensor | TensorConfig
    ) -> CData:
        out = self.arena.new("Qnn_Tensor_t[1]")
        fill_tensor(out[0], self.arena, name, tensor, f"tensor {name}")
        session.call(f"create the tensor {name}", session.api.tensorCreateGraphTensor, handle, out)
        return out[0]

    def node(self, session: Session, handle: CData, op: GraphOp) -> CData:
        """The Qnn_OpConfig_t * of a node; tensor parameters become tensors of the graph first."""
        arena = self.arena
        inputs = arena.new("Qnn_Tensor_t[]", len(op.inputs))
        outputs = arena.new("Qnn_Tensor_t[]", len(op.outputs))
        params = arena.new("Qnn_Param_t[]", len(op.params))
        for memory, names in ((inputs, op.inputs), (outputs, op.outputs)):
            for i, name in enumerate(names):
                if name is None:
                    memory[i] = self._absent
                elif name in self._made:
                    memory[i] = self._made[name]
                else:
                    raise ConfigError(f"node {op.name}: the graph has no tensor {name!r}")
        for i, param in enumerate(op.params):
            tensor = _unused(f"{op.name}.{param.name}", self.graph.tensors)
            fill_param(params[i], arena, param, tensor, f"{op.name}.params.{param.name}")
            if param.shape is not None:
                made = arena.new("Qnn_Tensor_t[1]", [params[i].u.tensorParam])
                session.call(f"create the tensor {tensor}", session.api.tensorCreateGraphTensor, handle, made)
                params[i].u.tensorParam = made[0]
        return op_config_of(arena, op.op, op.package, op.name, inputs, params, outputs)


def _unused(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "_"
    return name


def prepare(session: Session, graph: QnnGraph, precision: str | None, owner: object) -> PreparedGraph:
    """Builds and finalizes ``graph`` in a new context of ``session``; see ``Backend.prepare``.

    ``owner`` closes the session when nothing refers to it any more: the graph keeps it.
    """
    context = session.create_context()
    try:
        tensors = Tensors(graph)
        arena = tensors.arena
        out = arena.new("Qnn_GraphHandle_t *")
        configs = _graph_configs(arena, precision)
        session.call(
            "create the graph", session.api.graphCreate, context, arena.text(graph.name), configs, out
        )
        handle = out[0]
        tensors.create(session, handle)
        for op in graph.ops:
            node = tensors.node(session, handle, op)
            session.call(
                f"add the node {op.name} ({op.op})", lib.opdb_qnn_add_node, session.interface, handle, node
            )
        log = session.call("finalize the graph", session.api.graphFinalize, handle, NULL, NULL)
    except BaseException:
        session.free_context(context)
        raise
    prepared = PreparedGraph(session, context, handle, tensors, log)
    prepared.owner = owner
    return prepared


def _graph_configs(arena: Arena, precision: str | None) -> CData:
    if precision is None:
        return NULL
    custom = arena.new("QnnHtpGraph_CustomConfig_t *")
    custom.option = lib.QNN_HTP_GRAPH_CONFIG_OPTION_PRECISION
    custom.u.precision = lib.QNN_PRECISION_FLOAT16
    config = arena.new("QnnGraph_Config_t *")
    config.option = lib.QNN_GRAPH_CONFIG_OPTION_CUSTOM
    config.u.customConfig = custom
    return arena.configs("QnnGraph_Config_t", config)
