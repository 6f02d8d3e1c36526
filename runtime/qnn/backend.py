"""A QNN backend of a real library: lists, validates, prepares, and runs ops."""

from __future__ import annotations

from pathlib import Path

from opdb.core.errors import OpdbError
from opdb.core.graph import QnnGraph
from opdb.core.op_config import OpConfig
from opdb.generated.constants.backends import BACKENDS
from opdb.runtime.qnn import libraries as qnn_libraries
from opdb.runtime.qnn import native
from opdb.runtime.qnn.context import Context, ContextOptions
from opdb.runtime.qnn.device import Device, soc_model_of
from opdb.runtime.qnn.errors import LEVELS, VendorVerdict, error_name, warnings
from opdb.runtime.qnn.graph import Graph, GraphOptions
from opdb.runtime.qnn.handles import Handle, Resource
from opdb.runtime.qnn.libraries import Libraries
from opdb.runtime.qnn.native import NULL, Arena, ffi, lib
from opdb.runtime.qnn.op_package import OpPackage, register
from opdb.runtime.qnn.power import Power
from opdb.runtime.qnn.profile import Profile
from opdb.runtime.qnn.session import Session
from opdb.runtime.qnn.session import log_level as level_number
from opdb.runtime.qnn.signal import Signal
from opdb.runtime.qnn.structs import op_config


class Backend(Resource):
    """An open backend; a context manager.  Every method raises OpdbError after ``close``.

    ``build_id`` is the library's own, e.g. v2.47.0.260601114230; ``api_version`` the core API, e.g. (2, 36, 0).
    Threads may share a backend: calls into one library are serialized.
    """

    def __init__(self, name: str, libraries: Libraries, session: Session) -> None:
        self.name = name
        self.libraries = libraries
        self.session = session
        self.device: Device | None = None
        self.op_packages: dict[str, OpPackage] = {}  # by name, without QNN's own
        self.api_version = session.core_api
        self.backend_api_version = session.backend_api
        out = ffi.new("Qnn_BackendHandle_t *")
        refusal = getattr(BACKENDS.get(name), "refusal", "")
        stage = f"create its backend ({refusal})" if refusal else "create its backend"
        session.call(stage, "backendCreate", session.handle.pointer, NULL, out)
        self._backend = Handle(out[0], session.api.backendFree, session.handle)
        super().__init__(session.what, session.handle, None)
        text = ffi.new("const char **")
        session.call("give its build id", "backendGetBuildId", text)
        self.build_id = native.text(text[0])

    @classmethod
    def open(
        cls,
        name: str,
        soc: str | None = None,
        *,
        soc_model: int | None = None,
        libraries: Libraries | None = None,
        log_level: str = "debug",
    ) -> Backend:
        """Opens "CPU", "HTP", or "IR".  HTP needs a chip: ``soc`` by name, or ``soc_model`` by QNN's number.

        ``libraries`` is by default the installed wheel; ``log_level`` is the most verbose level kept, one of
        error, warning, info, verbose, debug.  Raises OpdbError (MissingExtra, QnnError) on failure.
        """
        if name not in qnn_libraries.BACKENDS:
            known = ", ".join(qnn_libraries.BACKENDS)
            raise OpdbError(f"{name!r} is not a QNN backend that opdb drives; one of {known}")
        if name == "SAVER":  # it needs a folder first, else it writes into the current one
            raise OpdbError("the SAVER backend records calls; opdb.runtime.qnn.saver.recording opens it")
        soc_model = soc_model_of(name, soc, soc_model)
        level = level_number(log_level)
        libraries = libraries or qnn_libraries.installed()
        session = Session(libraries.path(name), f"the {name} backend", level)
        try:
            backend = cls(name, libraries, session)
            if soc_model is not None:
                backend.device = Device(session, soc, soc_model)
        except BaseException:
            session.handle.close()
            raise
        return backend

    @property
    def pointer(self) -> native.CData:
        """QNN's handle.  Raises OpdbError if it was released."""
        if not self._backend.alive:
            raise OpdbError(f"{self.what} is closed; open it again")
        return self._backend.pointer

    @property
    def soc(self) -> str | None:
        """The name of the chip, e.g. SM8650; None if the backend has none."""
        return self.device.soc if self.device else None

    @property
    def soc_model(self) -> int | None:
        """QNN's number for the chip; None if the backend has none."""
        return self.device.soc_model if self.device else None

    def supported_operations(self) -> tuple[str, ...]:
        """The sorted, unique names of the ops that the library reports."""
        n, out = ffi.new("uint32_t *"), ffi.new("const QnnBackend_OperationName_t **")
        with self.session.lock:  # the backend owns the names' memory
            self.session.call("list its ops", "backendGetSupportedOperations", self, n, out)
            return tuple(sorted({native.text(out[0][i].name) for i in range(n[0])}))

    def register_op_package(
        self, library: Path | str, provider: str | None = None, target: str | None = None
    ) -> OpPackage:
        """Registers a library of custom ops until the backend is closed; its ops are validated and run like others.

        ``provider`` is the name of its interface provider, by default QNN's convention for libQnn<Name>.so;
        ``target`` is passed to QNN.  Raises OpPackageError with the cure.
        """
        package = register(self, library, provider, target)
        self.op_packages[package.name] = package
        return package

    def has_capability(self, key: str) -> bool:
        """True if the library has a property, e.g. ``key`` QNN_PROPERTY_GRAPH_SUPPORT_SUBGRAPH."""
        number = getattr(lib, key, None) if key.startswith("QNN_PROPERTY_") else None
        if number is None:
            raise OpdbError(f"{key!r} is not a QNN property key")
        code, _ = self.session.ask("propertyHasCapability", number)
        return code == 0

    def validate(self, config: OpConfig) -> VendorVerdict:
        """Calls ``QnnBackend_validateOpConfig``.  Raises ConfigError if C structs cannot hold the config.

        For "accept" only warnings and errors of the log are kept, for "reject" all of it.  Some configs crash or
        hang a library; opdb.execute.libraries calls it in a child process.
        """
        arena = Arena()
        op = op_config(arena, config)
        session = self.session
        code, log = session.ask(lib.opdb_qnn_validate, session.interface, self, op)
        if code == 0:
            return VendorVerdict("accept", 0, error_name(0), warnings(log))
        return VendorVerdict("reject", code, error_name(code), log)

    def create_context(self, options: ContextOptions | None = None) -> Context:
        """Creates a context, which holds graphs.  Raises QnnError."""
        return Context.create(self, options or ContextOptions())

    def load_context(
        self, path: Path | str, *, allow_other_build: bool = False, profile: Profile | None = None
    ) -> Context:
        """Loads a context that ``Context.save`` wrote.

        Raises OpdbError with the file and the reason, before the library sees a byte, if the file is damaged, not
        opdb's, made for another backend or SoC, or made by another build of the library (unless
        ``allow_other_build``: then the library decides); QnnError if the library refuses it.
        """
        return Context.load_file(self, path, allow_other_build=allow_other_build, profile=profile)

    def load_raw_context(self, path: Path | str) -> Context:
        """Loads a library's raw context binary, as other tools write it; it has no checksum.

        HTP accepts most damaged binaries, and QnnSystem may crash on one; ``opdb context show`` inspects it in
        another process.  Raises OpdbError, QnnError.
        """
        return Context.load_raw(self, path)

    def create_profile(self, level: str = "detailed", *, optrace: bool = False) -> Profile:
        """Creates a profile to pass to calls; ``level`` is off, basic, detailed, or linting (HTP only).

        ``optrace`` (HTP at level detailed): finalization also returns Qualcomm's simulation of the graph as a Chrome trace
        (``data`` of the event 600), for chips that it simulates.  The library then writes <graph>_schematic.bin into the
        current folder of the process.  Raises OpdbError for an invalid level, QnnError.
        """
        return Profile(self, level, optrace=optrace)

    def create_signal(self, timeout_us: int | None = None) -> Signal:
        """Creates a signal that aborts a call when triggered or, with ``timeout_us``, after that time.

        Raises QnnError; all libraries seen on x86 lack signals and answer with code 1000.
        """
        return Signal.create(self, timeout_us)

    def create_power(self, profile: str | None = None) -> Power:
        """Creates power settings of the HTP device, set to one of power.PROFILES; see Power.

        Raises OpdbError for a backend without them, QnnError.
        """
        return Power.create(self, profile)

    @property
    def log_level(self) -> str:
        """The most verbose level that the library logs; can be set at any time."""
        return LEVELS[self.session.level]

    @log_level.setter
    def log_level(self, level: str) -> None:
        self.session.set_log_level(level)

    def prepare(
        self, graph: QnnGraph, precision: str | None = None, *, profile: Profile | None = None
    ) -> Graph:
        """Builds and finalizes a graph in a separate context, which is released with it.

        ``precision="fp16"`` lets HTP compute float32 tensors in float16; other backends refuse it.
        Raises QnnError with the stage that failed; ConfigError for a graph that cannot be passed on.
        """
        options = GraphOptions(precision=precision)
        options.check(self.name)
        context = self.create_context()
        try:
            made = context.add_graph(graph, options, profile=profile)
        except BaseException:
            context.close()
            raise
        made.owns(context)
        return made
