"""A QNN context: what holds graphs, and can be written to a binary and read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opdb.errors import OpdbError
from opdb.graph import QnnGraph
from opdb.runtime.qnn.graph import Graph, GraphOptions, GraphState, Interface
from opdb.runtime.qnn.handles import Handle, Resource
from opdb.runtime.qnn.native import NULL, Arena, CData, ffi, lib

if TYPE_CHECKING:
    from opdb.runtime.qnn.backend import Backend

PRIORITIES = {
    "low": "QNN_PRIORITY_LOW",
    "normal": "QNN_PRIORITY_NORMAL",
    "normal_high": "QNN_PRIORITY_NORMAL_HIGH",
    "high": "QNN_PRIORITY_HIGH",
}


@dataclass(frozen=True)
class ContextOptions:
    """How a context is made.  ``priority`` is one of PRIORITIES, None the library's default.

    ``weight_sharing`` lets the graphs of one HTP context share equal weights.
    """

    priority: str | None = None
    weight_sharing: bool = False

    def configs(self, arena: Arena, backend: str) -> CData:
        """The NULL-terminated QnnContext_Config_t *; raises OpdbError for what the backend does not have."""
        configs = []
        if self.priority is not None:
            if self.priority not in PRIORITIES:
                raise OpdbError(f"{self.priority!r} is not a priority; one of {', '.join(PRIORITIES)}")
            config = arena.new("QnnContext_Config_t *")
            config.option = lib.QNN_CONTEXT_CONFIG_OPTION_PRIORITY
            config.u.priority = getattr(lib, PRIORITIES[self.priority])
            configs.append(config)
        if self.weight_sharing:
            if backend != "HTP":
                raise OpdbError(f"the {backend} backend does not share weights between graphs; HTP does")
            custom = arena.new("QnnHtpContext_CustomConfig_t *")
            custom.option = lib.QNN_HTP_CONTEXT_CONFIG_OPTION_WEIGHT_SHARING_ENABLED
            custom.u.weightSharingEnabled = True
            config = arena.new("QnnContext_Config_t *")
            config.option = lib.QNN_CONTEXT_CONFIG_OPTION_CUSTOM
            config.u.customConfig = custom
            configs.append(config)
        return arena.configs("QnnContext_Config_t", *configs)


class Context(Resource):
    """Graphs of one backend; made by ``Backend.create_context`` or ``Backend.load_context``.

    Threads may share it.  Closing it closes its graphs.
    """

    def __init__(self, backend: Backend, pointer: CData, states: Mapping[str, GraphState]) -> None:
        self.backend = backend
        self.session = session = backend.session
        self._states = dict(states)
        free = session.api.contextFree
        parent = backend.device._handle if backend.device else backend._backend
        handle = Handle(pointer, lambda context: free(context, NULL), parent)
        super().__init__(f"a context of {backend.what}", handle, backend)

    @classmethod
    def create(cls, backend: Backend, options: ContextOptions) -> Context:
        """See ``Backend.create_context``."""
        session, out = backend.session, ffi.new("Qnn_ContextHandle_t *")
        configs = options.configs(Arena(), backend.name)
        device = backend.device.pointer if backend.device else NULL
        session.call("create a context", "contextCreate", backend.pointer, device, configs, out)
        return cls(backend, out[0], {})

    @classmethod
    def load(cls, backend: Backend, binary: bytes, graphs: Mapping[str, Interface]) -> Context:
        """The context in what ``binary`` wrote, for the same kind of backend; ``graphs`` as the binary has them.

        HTP accepts most corrupted binaries: opdb.runtime.qnn.context_file checks before it calls this.
        Raises QnnError.
        """
        session, out = backend.session, ffi.new("Qnn_ContextHandle_t *")
        device = backend.device.pointer if backend.device else NULL
        data = ffi.from_buffer(binary)
        session.call(
            "load a context",
            "contextCreateFromBinary",
            backend.pointer, device, NULL, data, len(binary), out, NULL,
        )  # fmt: skip
        states = {name: GraphState.of_binary(name, interface) for name, interface in graphs.items()}
        return cls(backend, out[0], states)

    @property
    def graph_names(self) -> tuple[str, ...]:
        return tuple(self._states)

    def create_graph(self, name: str, options: GraphOptions | None = None) -> Graph:
        """An empty graph, to which tensors and nodes are added.  Raises OpdbError for a name in use."""
        options = options or GraphOptions()
        options.check(self.backend.name)
        if name in self._states:
            raise OpdbError(f"{self.what} has a graph {name!r} already; choose another name")
        state = GraphState(name)
        out = ffi.new("Qnn_GraphHandle_t *")
        arena = state.arena
        configs = options.configs(arena)
        self.session.call(
            f"create the graph {name}", "graphCreate", self.pointer, arena.text(name), configs, out
        )
        self._states[name] = state
        return Graph(self, state, out[0])

    def add_graph(self, graph: QnnGraph, options: GraphOptions | None = None) -> Graph:
        """Builds and finalizes a whole graph.  Raises QnnError with the stage; ConfigError.

        A graph that failed half-way stays in the context, unusable: close the context.
        """
        made = self.create_graph(graph.name, options)
        made.add(graph)
        made.finalize()
        return made

    def graph(self, name: str) -> Graph:
        """A graph of this context by its name.  Raises OpdbError when there is none."""
        if name not in self._states:
            known = ", ".join(self._states) or "none"
            raise OpdbError(f"{self.what} has no graph {name!r}; it has: {known}")
        out = ffi.new("Qnn_GraphHandle_t *")
        self.session.call(
            f"retrieve the graph {name}", "graphRetrieve", self.pointer, Arena().text(name), out
        )
        return Graph(self, self._states[name], out[0])

    def binary(self) -> bytes:
        """The context as the library writes it; every graph must be finalized.  Raises QnnError."""
        size, written = ffi.new("Qnn_ContextBinarySize_t *"), ffi.new("Qnn_ContextBinarySize_t *")
        session, context = self.session, self.pointer
        with session.lock:
            session.call("give the size of its binary", "contextGetBinarySize", context, size)
            memory = bytearray(size[0])
            data = ffi.from_buffer(memory)
            session.call("write its binary", "contextGetBinary", context, data, size[0], written)
        return bytes(memory[: written[0]])
