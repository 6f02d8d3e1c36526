"""A QNN context: holds graphs, and can be written to a binary and read back."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opdb.core.errors import OpdbError
from opdb.core.graph import QnnGraph
from opdb.core.version import __version__
from opdb.runtime.qnn import context_file, op_package
from opdb.runtime.qnn.binary_info import BinaryInfo
from opdb.runtime.qnn.context_file import Header
from opdb.runtime.qnn.errors import QnnError
from opdb.runtime.qnn.execution import pointer_of
from opdb.runtime.qnn.graph import Graph, GraphOptions, GraphState, Interface, Tensor
from opdb.runtime.qnn.handles import Handle, Resource
from opdb.runtime.qnn.native import NULL, Arena, CData, ffi, lib
from opdb.runtime.qnn.session import NOT_SUPPORTED
from opdb.runtime.qnn.system import system
from opdb.runtime.qnn.tensor_read import read_tensor

if TYPE_CHECKING:
    from opdb.runtime.qnn.backend import Backend
    from opdb.runtime.qnn.profile import Profile

PRIORITIES = {
    "low": "QNN_PRIORITY_LOW",
    "normal": "QNN_PRIORITY_NORMAL",
    "normal_high": "QNN_PRIORITY_NORMAL_HIGH",
    "high": "QNN_PRIORITY_HIGH",
}


#: The backend whose contexts can share equal weights.
SHARES_WEIGHTS = "HTP"


@dataclass(frozen=True)
class ContextOptions:
    """Options for creating a context.  ``priority`` is one of PRIORITIES, or None for the library's default.

    ``weight_sharing`` lets the graphs of one HTP context share equal weights.
    """

    priority: str | None = None
    weight_sharing: bool = False

    def configs(self, arena: Arena, backend: str) -> CData:
        """The NULL-terminated QnnContext_Config_t *; raises OpdbError for options the backend lacks."""
        configs = []
        if self.priority is not None:
            if self.priority not in PRIORITIES:
                raise OpdbError(f"{self.priority!r} is not a priority; one of {', '.join(PRIORITIES)}")
            config = arena.new("QnnContext_Config_t *")
            config.option = lib.QNN_CONTEXT_CONFIG_OPTION_PRIORITY
            config.u.priority = getattr(lib, PRIORITIES[self.priority])
            configs.append(config)
        if self.weight_sharing:
            if backend != SHARES_WEIGHTS:
                raise OpdbError(
                    f"the {backend} backend does not share weights between graphs; {SHARES_WEIGHTS} does"
                )
            custom = arena.new("QnnHtpContext_CustomConfig_t *")
            custom.option = lib.QNN_HTP_CONTEXT_CONFIG_OPTION_WEIGHT_SHARING_ENABLED
            custom.u.weightSharingEnabled = True
            config = arena.new("QnnContext_Config_t *")
            config.option = lib.QNN_CONTEXT_CONFIG_OPTION_CUSTOM
            config.u.customConfig = custom
            configs.append(config)
        return arena.configs("QnnContext_Config_t", *configs)


#: QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED: HTP's answer to writing a context that was loaded.
NOT_PERMITTED = 1005


class Context(Resource):
    """Graphs of one backend, from ``Backend.create_context`` or ``Backend.load_context``.

    Threads may share it.  Closing it closes its graphs.  ``metadata`` belongs to the user; ``save`` stores it.
    """

    def __init__(self, backend: Backend, pointer: CData, states: Mapping[str, GraphState]) -> None:
        self.backend = backend
        self.metadata: dict[str, Any] = {}
        self._loaded = ""  # its origin, if loaded; else ""
        self.session = session = backend.session
        self._states = dict(states)
        free = session.api.contextFree
        self._freed_with = freed_with = [NULL]  # a profile's pointer; see ``close``
        parent = backend.device._handle if backend.device else backend._backend
        handle = Handle(pointer, lambda context: free(context, freed_with[0]), parent, keep=self._states)
        super().__init__(f"a context of {backend.what}", handle, backend)

    @classmethod
    def create(cls, backend: Backend, options: ContextOptions) -> Context:
        """See ``Backend.create_context``."""
        session, out = backend.session, ffi.new("Qnn_ContextHandle_t *")
        configs = options.configs(Arena(), backend.name)
        with session.lock:  # no other thread closes the backend in between
            session.call("create a context", "contextCreate", backend, backend.device or NULL, configs, out)
            return cls(backend, out[0], {})

    @classmethod
    def load(
        cls,
        backend: Backend,
        binary: bytes | memoryview,
        graphs: Mapping[str, Interface],
        what: str = "a context",
        profile: Profile | None = None,
    ) -> Context:
        """Loads what ``Context.binary`` wrote, for the same kind of backend; ``graphs`` are those in the binary.

        HTP accepts most corrupted binaries, so check them first (opdb.runtime.qnn.context_file).
        Raises QnnError.
        """
        session, out = backend.session, ffi.new("Qnn_ContextHandle_t *")
        data = ffi.from_buffer(binary)
        common = (backend, backend.device or NULL, NULL, data, len(data))
        states = {name: GraphState.of_binary(name, interface) for name, interface in graphs.items()}
        with session.lock:  # no other thread closes the backend in between
            code, log = session.ask("contextValidateBinary", *common)
            if code not in (0, NOT_SUPPORTED):  # CPU and HTP 2.47 do not have it
                raise QnnError(f"validate {what}", code, log, session.message(code))
            used = pointer_of(profile, session)
            with session.at_debug() if backend.name == "CPU" else nullcontext():
                log = session.call(f"load {what}", "contextCreateFromBinary", *common, out, used)
            context = cls(backend, out[0], states)
            if backend.name == "CPU":
                try:
                    op_package.check_loaded(f"load {what}", log, backend.op_packages)
                except BaseException:
                    context.close()
                    raise
            if profile is not None:
                profile.record("load")
        context._loaded = what
        return context

    @classmethod
    def load_file(
        cls,
        backend: Backend,
        path: Path | str,
        *,
        allow_other_build: bool = False,
        profile: Profile | None = None,
    ) -> Context:
        """See ``Backend.load_context``."""
        file = context_file.read(path)
        file.check_backend(backend, allow_other_build=allow_other_build)
        file.check_info(_info(backend, file.payload, str(path)))
        context = cls.load(backend, file.payload, file.header.graphs, f"the context {path}", profile)
        context.metadata = dict(file.header.metadata)
        return context

    @classmethod
    def load_raw(cls, backend: Backend, path: Path | str) -> Context:
        """See ``Backend.load_raw_context``."""
        data = context_file.read_bytes(path)
        if context_file.is_context_file(data):
            raise OpdbError(f"{path}: a context file of opdb's; load it with Backend.load_context")
        info = _info(backend, data, str(path))
        if info.backend != backend.name or info.soc_model not in (None, backend.soc_model):
            made = f"{info.backend}" + (f", SoC number {info.soc_model}" if info.soc_model else "")
            raise OpdbError(
                f"{path}: made for {made}; this is {backend.what}, SoC number {backend.soc_model}"
            )
        graphs = {graph.name: context_file.interface(graph) for graph in info.graphs}
        return cls.load(backend, data, graphs, f"the context {path}")

    def close(self, *, profile: Profile | None = None) -> None:
        """Releases the context and its graphs; ``profile`` collects the library's events.  Safe to repeat."""
        with self.session.lock:
            if profile is None or self.closed:
                super().close()
                return
            self._freed_with[0] = pointer_of(profile, self.session)
            super().close()
            profile.record("free")

    @property
    def graph_names(self) -> tuple[str, ...]:
        return tuple(self._states)

    def create_graph(self, name: str, options: GraphOptions | None = None) -> Graph:
        """Creates an empty graph to add tensors and nodes to.  Raises OpdbError if the name is in use."""
        options = options or GraphOptions()
        options.check(self.backend.name)
        state = GraphState(name)
        out = ffi.new("Qnn_GraphHandle_t *")
        arena = state.arena
        configs = options.configs(arena)
        with self.session.lock:
            if name in self._states:
                raise OpdbError(f"{self.what} has a graph {name!r} already; choose another name")
            self.session.call(f"create the graph {name}", "graphCreate", self, arena.text(name), configs, out)
            self._states[name] = state
            return Graph(self, state, out[0])

    def add_graph(
        self, graph: QnnGraph, options: GraphOptions | None = None, *, profile: Profile | None = None
    ) -> Graph:
        """Builds and finalizes a whole graph.  Raises QnnError with the stage, ConfigError.

        A graph that fails halfway stays in the context but is unusable: close the context.
        """
        made = self.create_graph(graph.name, options)
        made.add(graph)
        made.finalize(profile=profile)
        return made

    def graph(self, name: str) -> Graph:
        """The graph of this context with this name.  Raises OpdbError if there is none."""
        if name not in self._states:
            known = ", ".join(self._states) or "none"
            raise OpdbError(f"{self.what} has no graph {name!r}; it has: {known}")
        out = ffi.new("Qnn_GraphHandle_t *")
        text = Arena().text(name)
        with self.session.lock:
            self.session.call(f"retrieve the graph {name}", "graphRetrieve", self, text, out)
            return Graph(self, self._states[name], out[0])

    def binary(self) -> bytes:
        """The context as the library's binary; every graph must be finalized.  Raises QnnError."""
        size, written = ffi.new("Qnn_ContextBinarySize_t *"), ffi.new("Qnn_ContextBinarySize_t *")
        session = self.session
        with session.lock:
            code, log = session.ask("contextGetBinarySize", self, size)
            if code == NOT_PERMITTED and self._loaded:
                raise OpdbError(f"{session.what} does not write {self._loaded} again; copy that file")
            if code:
                raise QnnError("give the size of its binary", code, log, session.message(code))
            memory = bytearray(size[0])
            data = ffi.from_buffer(memory)
            session.call("write its binary", "contextGetBinary", self, data, size[0], written)
        return bytes(memory[: written[0]])

    def save(self, path: Path | str, metadata: Mapping[str, Any] | None = None) -> None:
        """Writes this context to a file that ``Backend.load_context`` reads, in this process or another.

        ``metadata`` (default: the context's) is stored with it, a JSON object.  Raises OpdbError for an
        unfinalized graph, metadata that JSON cannot represent, and an unwritable file; QnnError.
        """
        unfinished = next((name for name, state in self._states.items() if not state.finalized), None)
        if unfinished is not None and not self.closed:
            raise OpdbError(f"{self.what}: the graph {unfinished!r} is not finalized; it cannot be saved")
        binary = self.binary()
        backend = self.backend
        libraries = backend.libraries
        header = Header(
            backend=backend.name,
            soc=backend.soc,
            soc_model=backend.soc_model,
            package=libraries.package,
            version=libraries.version,
            build_id=backend.build_id,
            sha256=libraries.sha256(backend.name),
            core_api=backend.api_version,
            backend_api=backend.backend_api_version,
            opdb=__version__,
            graphs=self._interfaces(_info(backend, binary, str(path))),
            metadata=self.metadata if metadata is None else metadata,
        )
        context_file.write(Path(path), header, binary)

    def _interfaces(self, info: BinaryInfo) -> dict[str, Interface]:
        """The graphs' inputs and outputs in the binary's order.  Raises OpdbError if they differ from opdb's."""
        written = {graph.name: context_file.interface(graph) for graph in info.graphs}
        if set(written) != set(self._states):
            raise OpdbError(
                f"{self.what} has the graphs {list(self._states)}; its binary has {list(written)}"
            )
        for name, state in self._states.items():
            ends = (*state.ends("APP_WRITE"), *state.ends("APP_READ"))
            ours = {t.name: Tensor(*read_tensor(state.structs[t.name][0])) for t in ends}
            theirs = {t.config.name: t for t in (*written[name].inputs, *written[name].outputs)}
            if ours != theirs:
                wrong = next(n for n in (*ours, *theirs) if ours.get(n) != theirs.get(n))
                raise OpdbError(
                    f"{self.what}: the graph {name!r} has the tensor {ours.get(wrong)}; its binary has "
                    f"{theirs.get(wrong)}"
                )
        return {name: written[name] for name in self._states}


def _info(backend: Backend, binary: bytes | memoryview, name: str) -> BinaryInfo:
    try:
        return system(backend.libraries).binary_info(binary)
    except OpdbError as error:
        raise OpdbError(f"{name}: {error}") from None
