"""A QNN backend of a real library: what it supports, validates, prepares and runs."""

from __future__ import annotations

import difflib
import threading
import weakref
from pathlib import Path
from types import TracebackType

from opdb.errors import OpdbError
from opdb.generated.constants.socs import SOCS
from opdb.graph import QnnGraph
from opdb.op_config import OpConfig
from opdb.runtime.qnn import libraries as qnn_libraries
from opdb.runtime.qnn import native
from opdb.runtime.qnn.errors import LEVELS, VendorVerdict, error_name, warnings
from opdb.runtime.qnn.graph import PreparedGraph, prepare
from opdb.runtime.qnn.libraries import Libraries
from opdb.runtime.qnn.native import Arena, ffi, lib
from opdb.runtime.qnn.session import Session
from opdb.runtime.qnn.structs import op_config

#: Open HTP devices: library -> (SoC number, how many).  See ``_claim``.
_devices: dict[Path, tuple[int, int]] = {}
_devices_lock = threading.Lock()


class Backend:
    """An open backend; a context manager.  Every method raises OpdbError after ``close``.

    ``build_id`` is the library's own, ex) v2.47.0.260601114230; ``api_version`` the core API, ex) (2, 36, 0).
    """

    _finalizer: weakref.finalize[..., Backend]

    def __init__(
        self, name: str, soc: str | None, soc_model: int | None, libraries: Libraries, session: Session
    ):
        self.name = name
        self.soc = soc
        self.soc_model = soc_model
        self.libraries = libraries
        self._session = session
        api = session.interface.apiVersion
        self.api_version = native.version(api.coreApiVersion)
        self.backend_api_version = native.version(api.backendApiVersion)
        out = ffi.new("const char **")
        session.call("give its build id", session.api.backendGetBuildId, out)
        self.build_id = native.text(out[0])

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
        """Opens "CPU" or "HTP".  HTP needs a chip: ``soc`` by name, or ``soc_model`` by QNN's number.

        ``libraries`` is by default the installed wheel; ``log_level`` the most talkative level kept, one of
        error, warning, info, verbose, debug.  Raises OpdbError (MissingExtra, QnnError) when it cannot.
        """
        soc_model = _soc_model(name, soc, soc_model)
        if log_level not in LEVELS.values():
            raise OpdbError(f"{log_level!r} is not a log level; one of {', '.join(LEVELS.values())}")
        libraries = libraries or qnn_libraries.installed()
        path = libraries.path(name)
        interface = native.open_library(path)
        level = next(number for number, word in LEVELS.items() if word == log_level)
        session = Session(interface, f"the {name} backend", level)
        claimed = False
        try:
            session.create_backend()
            if soc_model is not None:
                _claim(path, soc_model)
                claimed = True
                session.create_device(_device_config(Arena(), soc_model))
            backend = cls(name, soc, soc_model, libraries, session)
        except BaseException:
            _close(session, path if claimed else None)
            raise
        backend._finalizer = weakref.finalize(backend, _close, session, path if claimed else None)
        return backend

    def supported_operations(self) -> tuple[str, ...]:
        """The names of the ops that the library says it has, sorted, each once."""
        n, out = ffi.new("uint32_t *"), ffi.new("const QnnBackend_OperationName_t **")
        session = self._session
        session.call("list its ops", session.api.backendGetSupportedOperations, session.backend, n, out)
        return tuple(sorted({native.text(out[0][i].name) for i in range(n[0])}))

    def has_capability(self, key: str) -> bool:
        """Whether the library has a property; ``key`` ex) QNN_PROPERTY_GRAPH_SUPPORT_SUBGRAPH."""
        number = getattr(lib, key, None) if key.startswith("QNN_PROPERTY_") else None
        if number is None:
            raise OpdbError(f"{key!r} is not a QNN property key")
        code, _ = self._session.ask(self._session.api.propertyHasCapability, number)
        return code == 0

    def validate(self, config: OpConfig) -> VendorVerdict:
        """Asks ``QnnBackend_validateOpConfig``.  Raises ConfigError for what C structs cannot hold.

        The log of "accept" is kept from level warning up, that of "reject" in full.  Some configs crash or
        hang a library: opdb.probe asks in a child process.
        """
        arena = Arena()
        op = op_config(arena, config)
        session = self._session
        code, log = session.ask(lib.opdb_qnn_validate, session.interface, session.backend, op)
        if code == 0:
            return VendorVerdict("accept", 0, error_name(0), warnings(log))
        return VendorVerdict("reject", code, error_name(code), log)

    def prepare(self, graph: QnnGraph, precision: str | None = None) -> PreparedGraph:
        """Builds and finalizes a graph in a context of its own.

        ``precision="fp16"`` lets HTP compute float32 tensors in float16; other backends refuse it.
        Raises QnnError with the stage that failed; ConfigError for a graph that cannot be passed on.
        """
        if precision not in (None, "fp16"):
            raise OpdbError(f"{precision!r} is not a precision; fp16 or none")
        if precision and self.name != "HTP":
            raise OpdbError(f"the {self.name} backend has no precision to choose; leave it out")
        return prepare(self._session, graph, precision, self)

    def close(self) -> None:
        """Releases everything that was made through this backend; safe to repeat."""
        self._finalizer()

    @property
    def closed(self) -> bool:
        return self._session.closed

    def __enter__(self) -> Backend:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _soc_model(name: str, soc: str | None, soc_model: int | None) -> int | None:
    if name not in qnn_libraries.FILES:
        raise OpdbError(
            f"{name!r} is not a QNN backend that opdb drives; one of {', '.join(qnn_libraries.FILES)}"
        )
    if name != "HTP":
        if soc is not None or soc_model is not None:
            raise OpdbError(f"the {name} backend runs on this machine's processor; leave the SoC out")
        return None
    if soc is None and soc_model is None:
        raise OpdbError("the HTP backend needs a SoC, as it answers differently per chip; ex) soc='SM8650'")
    if soc is None:
        return soc_model
    if soc not in SOCS:
        close = difflib.get_close_matches(soc.upper(), SOCS, 1)
        hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(SOCS)}"
        raise OpdbError(f"{soc!r} is not a SoC that opdb knows; {hint}")
    known = SOCS[soc].soc_model
    if soc_model not in (None, known):
        raise OpdbError(f"{soc} has the number {known}, not {soc_model}; give one of the two")
    return known


def _claim(path: Path, soc_model: int) -> None:
    """Refuses a second chip in one process: HTP validates for the device that was created last, whichever
    backend is asked (seen in the log of 2.47: "Set opvalidator socModel")."""
    with _devices_lock:
        model, n = _devices.get(path, (soc_model, 0))
        if model != soc_model:
            raise OpdbError(
                f"HTP is open for SoC number {model} in this process; close it before opening {soc_model}, "
                "or ask through opdb.probe.client.VendorWorker, which has a process per SoC"
            )
        _devices[path] = (model, n + 1)


def _device_config(arena: Arena, soc_model: int) -> native.CData:
    custom = arena.new("QnnHtpDevice_CustomConfig_t *")
    custom.option = lib.QNN_HTP_DEVICE_CONFIG_OPTION_SOC
    custom.u.socModel = soc_model
    config = arena.new("QnnDevice_Config_t *")
    config.option = lib.QNN_DEVICE_CONFIG_OPTION_CUSTOM
    config.u.customConfig = custom
    return arena.configs("QnnDevice_Config_t", config)


def _close(session: Session, claimed: Path | None) -> None:
    session.close()
    if claimed is not None:
        with _devices_lock:
            model, n = _devices.pop(claimed)
            if n > 1:
                _devices[claimed] = (model, n - 1)
