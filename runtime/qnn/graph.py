"""A graph in a QNN library: built node by node or at once, finalized, executed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.core.op_config import ConfigError, TensorConfig
from opdb.runtime.qnn import real_numbers as ends
from opdb.runtime.qnn.errors import QnnError, warnings
from opdb.runtime.qnn.execution import Call, Execution, pointer_of
from opdb.runtime.qnn.handles import Handle, Resource
from opdb.runtime.qnn.native import NULL, Arena, CData, lib
from opdb.runtime.qnn.op_package import node_error
from opdb.runtime.qnn.session import Session
from opdb.runtime.qnn.structs import check_axis, fill_param, fill_tensor, op_config_of

if TYPE_CHECKING:
    from opdb.runtime.qnn.context import Context
    from opdb.runtime.qnn.profile import Profile
    from opdb.runtime.qnn.signal import Signal

ABSENT = TensorConfig("", "f32", (), "NULL")
OPTIMIZATIONS = (1, 2, 3)


@dataclass(frozen=True)
class GraphOptions:
    """Options for preparing a graph on HTP; None leaves the choice to the library.

    ``precision="fp16"`` computes float32 tensors in float16.  ``optimization`` is the finalization effort, 1 to
    3; ``vtcm_mb`` and ``hvx_threads`` limit the chip resources of the graph.  ``dlc`` is the file that IR, which
    requires it, writes when a graph is finalized; see opdb.runtime.qnn.ir.
    """

    precision: str | None = None
    optimization: int | None = None
    vtcm_mb: int | None = None
    hvx_threads: int | None = None
    dlc: str | None = None

    def check(self, backend: str) -> None:
        """Raises OpdbError for an invalid value, or an option that the backend does not have."""
        if self.precision not in (None, "fp16"):
            raise OpdbError(f"{self.precision!r} is not a precision; fp16 or none")
        if self.optimization not in (None, *OPTIMIZATIONS):
            raise OpdbError(f"{self.optimization!r} is not an optimization level; 1, 2 or 3")
        if backend == "IR" and self.dlc is None:  # without a path it writes into the current folder
            raise OpdbError("the IR backend writes each graph to a file; opdb.runtime.qnn.ir.write_dlc does")
        taken = {"HTP": {*vars(self)} - {"dlc"}, "IR": {"dlc"}}.get(backend, set())
        chosen = next((n for n, value in vars(self).items() if value is not None and n not in taken), None)
        if chosen:
            raise OpdbError(f"the {backend} backend has no {chosen} to choose; leave it out")

    def configs(self, arena: Arena) -> CData:
        """The NULL-terminated QnnGraph_Config_t *."""
        configs = []
        for option, write in (
            (self.precision, _precision),
            (self.optimization, _optimization),
            (self.vtcm_mb, _vtcm),
            (self.hvx_threads, _hvx_threads),
        ):
            if option is not None:
                custom = arena.new("QnnHtpGraph_CustomConfig_t *")
                write(custom, option)
                configs.append(_custom(arena, custom))
        if self.dlc is not None:
            ir = arena.new("QnnIrGraph_CustomConfig_t *")
            ir.option = lib.QNN_IR_GRAPH_CONFIG_OPTION_SERIALIZATION
            serialization = ir.u.serializationOption
            serialization.serializationType = lib.QNN_IR_GRAPH_SERIALIZATION_TYPE_FLAT_BUFFER
            serialization.outputPath = arena.text(self.dlc)
            configs.append(_custom(arena, ir))
        return arena.configs("QnnGraph_Config_t", *configs)


def _custom(arena: Arena, custom: CData) -> CData:
    config = arena.new("QnnGraph_Config_t *")
    config.option = lib.QNN_GRAPH_CONFIG_OPTION_CUSTOM
    config.u.customConfig = custom
    return config


def _precision(custom: CData, value: Any) -> None:
    custom.option = lib.QNN_HTP_GRAPH_CONFIG_OPTION_PRECISION
    custom.u.precision = lib.QNN_PRECISION_FLOAT16


def _optimization(custom: CData, value: Any) -> None:
    custom.option = lib.QNN_HTP_GRAPH_CONFIG_OPTION_OPTIMIZATION
    custom.u.optimizationOption.type = lib.QNN_HTP_GRAPH_OPTIMIZATION_TYPE_FINALIZE_OPTIMIZATION_FLAG
    custom.u.optimizationOption.floatValue = value


def _vtcm(custom: CData, value: Any) -> None:
    custom.option = lib.QNN_HTP_GRAPH_CONFIG_OPTION_VTCM_SIZE
    custom.u.vtcmSizeInMB = value


def _hvx_threads(custom: CData, value: Any) -> None:
    custom.option = lib.QNN_HTP_GRAPH_CONFIG_OPTION_NUM_HVX_THREADS
    custom.u.numHvxThreads = value


@dataclass(frozen=True)
class Tensor:
    """A tensor of a graph in the library: its description, and the id that the library assigned."""

    config: GraphTensor
    id: int


@dataclass(frozen=True)
class Interface:
    """The inputs and outputs of a graph, in the library's order."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


class GraphState:
    """A context's data for a graph besides QNN's handle: its tensors and their memory."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.arena = Arena()
        self.tensors: dict[str, Tensor] = {}
        self.structs: dict[str, CData] = {}
        self.ops: list[GraphOp] = []
        self.absent: CData = NULL
        self.finalized = False
        self.log: tuple[str, ...] = ()
        self.bound: list[CData] = []  # the arrays of the last execution

    @classmethod
    def of_binary(cls, name: str, interface: Interface) -> GraphState:
        """The state of a graph loaded from a context binary."""
        state = cls(name)
        for tensor in (*interface.inputs, *interface.outputs):
            struct = state.arena.new("Qnn_Tensor_t *")
            fill_tensor(
                struct, state.arena, tensor.config.name, tensor.config, f"tensor {tensor.config.name}"
            )
            struct.u.v1.id = tensor.id
            state.keep(tensor.config, struct)
        state.finalized = True
        return state

    def keep(self, tensor: GraphTensor, struct: CData) -> None:
        self.tensors[tensor.name] = Tensor(tensor, struct.u.v1.id)
        self.structs[tensor.name] = struct

    def unused(self, name: str) -> str:
        """``name``, extended by underscores if the graph has a tensor with that name."""
        while name in self.structs:
            name += "_"
        return name

    def ends(self, type_: str) -> tuple[GraphTensor, ...]:
        return tuple(t.config for t in self.tensors.values() if t.config.type == type_)


class Graph(Resource):
    """A graph, from ``Context.create_graph``, ``Context.graph``, or ``Backend.prepare``.

    ``log`` has the warnings and errors of its finalization.
    """

    def __init__(self, context: Context, state: GraphState, pointer: CData) -> None:
        self.name = state.name
        self.session: Session = context.session
        self._state: GraphState = state
        self._backend = context.backend.name
        self._of, self._op_packages = context.backend, context.backend.op_packages
        self._owned: Context | None = None
        super().__init__(f"the graph {state.name}", Handle(pointer, None, context._handle), context)
        self._calls: list[Call] = []  # reused by ``execute``

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """The tensors by name; only inputs and outputs for a graph from a context binary."""
        return self._state.tensors

    @property
    def ops(self) -> Sequence[GraphOp]:
        """The nodes that were added through opdb; none for a graph from a context binary."""
        return self._state.ops

    @property
    def inputs(self) -> tuple[GraphTensor, ...]:
        return self._state.ends("APP_WRITE")

    @property
    def outputs(self) -> tuple[GraphTensor, ...]:
        return self._state.ends("APP_READ")

    @property
    def finalized(self) -> bool:
        return self._state.finalized

    @property
    def log(self) -> tuple[str, ...]:
        return self._state.log

    def add(self, graph: QnnGraph) -> None:
        """Adds all tensors and nodes of ``graph``.  Raises QnnError, ConfigError."""
        for tensor in graph.tensors.values():
            self.add_tensor(tensor)
        for op in graph.ops:
            self.add_node(op)

    def add_tensor(self, tensor: GraphTensor) -> Tensor:
        """Creates a tensor of the graph, with its data if static.  Raises QnnError, ConfigError."""
        self._open()
        if tensor.name in self._state.tensors:
            raise ConfigError(f"the graph {self.name} has a tensor {tensor.name!r} already")
        check_axis(tensor, f"tensor {tensor.name}")
        self._state.keep(tensor, self._create(tensor.name, tensor))
        return self._state.tensors[tensor.name]

    def add_node(self, op: GraphOp) -> None:
        """Adds a node between existing tensors; its tensor parameters become tensors of the graph."""
        self._open()
        state, arena = self._state, self._state.arena
        inputs = arena.new("Qnn_Tensor_t[]", [self._operand(op, name) for name in op.inputs])
        outputs = arena.new("Qnn_Tensor_t[]", [self._operand(op, name) for name in op.outputs])
        params = arena.new("Qnn_Param_t[]", len(op.params))
        for i, param in enumerate(op.params):
            tensor = state.unused(f"{op.name}.{param.name}")
            fill_param(params[i], arena, param, tensor, f"{op.name}.params.{param.name}")
            if param.shape is not None:
                made = self._register(tensor, arena.new("Qnn_Tensor_t *", params[i].u.tensorParam))
                params[i].u.tensorParam = made[0]
                state.structs[tensor] = made
        node = op_config_of(arena, op.op, op.package, op.name, inputs, params, outputs)
        what = f"add the node {op.name} ({op.op})"
        try:
            if op.package in self._op_packages:  # HTP consults a package only here, not when a node is added
                self.session.call(what, lib.opdb_qnn_validate, self.session.interface, self._of, node)
            self.session.call(what, lib.opdb_qnn_add_node, self.session.interface, self, node)
        except QnnError as error:
            raise node_error(error, op) from None
        state.ops.append(op)

    def _open(self) -> None:
        if self._state.finalized:
            raise OpdbError(f"{self.what} is finalized; nothing can be added to it")

    def _operand(self, op: GraphOp, name: str | None) -> CData:
        if name is None:
            # QNN CPU wants the NULL tensor registered too, else 6005 "Tensor not registered with ID: 0"
            if self._state.absent == NULL:
                self._state.absent = self._create(self._state.unused("absent"), ABSENT)
            return self._state.absent[0]
        if name not in self._state.tensors:
            raise ConfigError(f"node {op.name}: the graph has no tensor {name!r}")
        return self._state.structs[name][0]

    def _create(self, name: str, tensor: GraphTensor | TensorConfig) -> CData:
        struct = self._state.arena.new("Qnn_Tensor_t *")
        fill_tensor(struct, self._state.arena, name, tensor, f"tensor {name}")
        return self._register(name, struct)

    def _register(self, name: str, struct: CData) -> CData:
        self.session.call(f"create the tensor {name}", "tensorCreateGraphTensor", self, struct)
        return struct

    def finalize(self, *, profile: Profile | None = None, signal: Signal | None = None) -> None:
        """Prepares the graph for execution; nothing can be added afterwards.  Raises QnnError."""
        self._open()
        session = self.session
        with session.lock:
            handles = (pointer_of(h, session) for h in (profile, signal))
            log = session.call("finalize the graph", "graphFinalize", self, *handles)
            self._state.log = warnings(log)
            self._state.finalized = True
            if profile is not None:
                profile.record("finalize", self.name, self._state.ops)

    def bind(
        self,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, np.ndarray[Any, Any]] | None = None,
        *,
        profile: Profile | None = None,
        signal: Signal | None = None,
    ) -> Execution:
        """Binds arrays to the graph's inputs and outputs for repeated execution; see Execution.

        ``inputs`` by tensor name, with the tensor's shape and type (bf16 as uint16 bits); an array in QNN's
        storage format is read in place, any other is converted once.  ``outputs`` are written in place and
        created if missing.  Raises ConfigError for a missing, unknown, or mismatched array.
        """
        self._ready()
        return Execution(self, inputs, outputs or {}, profile, signal)

    def execute(
        self,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, np.ndarray[Any, Any]] | None = None,
        *,
        profile: Profile | None = None,
        signal: Signal | None = None,
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Runs the graph once: arrays by input name -> arrays by output name; see ``bind``.

        Raises QnnError if the library fails.
        """
        self._ready()
        try:
            call = self._calls.pop()  # one that no other thread is using
        except IndexError:
            call = Call(self)
        try:
            _, written = call.bind(inputs, outputs or {})
            call.run(profile, signal)
        finally:
            call.unbind()
            self._calls.append(call)
        return written

    def execute_real(
        self, inputs: Mapping[str, Any], *, profile: Profile | None = None, signal: Signal | None = None
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Like ``execute``, but with real numbers as inputs and outputs; see opdb.runtime.qnn.real_numbers.

        Inputs of quantized types are quantized by their encodings; outputs of quantized and float types are
        returned as float32.  Integers and booleans are unchanged.  Raises ConfigError for NaN, and for a
        quantized input or output without an encoding.
        """
        known = {t.name: t for t in self.inputs}
        stored = {
            name: ends.to_stored(known[name], value, f"input {name}") if name in known else value
            for name, value in inputs.items()
        }
        results = self.execute(stored, profile=profile, signal=signal)
        return {t.name: ends.to_real(t, results[t.name], f"output {t.name}") for t in self.outputs}

    def _ready(self) -> None:
        if self.closed:
            raise OpdbError("this graph or its backend is closed; prepare it again")
        if not self.finalized:
            raise OpdbError(f"{self.what} is not finalized; call finalize() first")
        if self._backend == "IR":
            raise OpdbError("the IR backend executes nothing; prepare the graph on CPU or HTP")

    def owns(self, context: Context) -> None:
        """Makes this graph own ``context``, which is then released with it."""
        self._owned = context

    def close(self) -> None:
        """Releases the graph, and its private context if it has one; safe to repeat."""
        super().close()
        if self._owned is not None:
            self._owned.close()
