"""The handles behind an open backend, their order of release, and the log lines of each call."""

from __future__ import annotations

import threading
from typing import Any

from opdb.errors import OpdbError
from opdb.runtime.qnn.errors import LEVELS, QnnError
from opdb.runtime.qnn.native import CODE, NULL, CData, ffi, lib

#: One lock for each library: sessions of one library share a logger inside it, and its lines could go to another
#: session's call (seen on HTP 2.47 with two backends and five threads).  Key: the address of the interface.
_locks: dict[int, threading.RLock] = {}
NOT_SUPPORTED = 1000  # QNN_COMMON_ERROR_NOT_SUPPORTED


class Session:
    """A library's interface with one log handle, one backend handle and, for HTP, one device handle.

    Calls into one library are made one at a time, so that the lines logged meanwhile are the call's own
    (QNN's log callback carries no user data).  Every method raises OpdbError after ``close``.
    """

    def __init__(self, interface: CData, what: str, log_level: int) -> None:
        self.interface = interface
        self.api = interface.api
        self.what = what  # for messages; ex) "the HTP backend"
        self.backend: CData = NULL
        self.device: CData = NULL
        self.contexts: list[CData] = []
        self.closed = False
        self._lock = _locks.setdefault(int(ffi.cast("uintptr_t", interface)), threading.RLock())
        self._lines = ffi.new("char[]", lib.OPDB_QNN_LOG_BYTES)
        self._dropped = ffi.new("size_t *")
        number, handle = ffi.new("int *"), ffi.new("Qnn_LogHandle_t *")
        code = lib.opdb_qnn_log_create(interface, log_level, number, handle) & CODE
        if number[0] < 0:
            raise OpdbError(f"{lib.OPDB_QNN_MAX_LOGS} QNN backends are open in this process; close one first")
        self._log_number, self._log_handle = number[0], handle[0]
        if code:
            lib.opdb_qnn_log_release(number[0])
            raise QnnError("create its log", code)

    def create_backend(self) -> None:
        out = ffi.new("Qnn_BackendHandle_t *")
        self.call("create its backend", self.api.backendCreate, self._log_handle, NULL, out)
        self.backend = out[0]

    def create_device(self, configs: CData) -> None:
        out = ffi.new("Qnn_DeviceHandle_t *")
        self.call("create its device", self.api.deviceCreate, self._log_handle, configs, out)
        self.device = out[0]

    def create_context(self) -> CData:
        out = ffi.new("Qnn_ContextHandle_t *")
        self.call("create a context", self.api.contextCreate, self.backend, self.device, NULL, out)
        self.contexts.append(out[0])
        return out[0]

    def free_context(self, context: CData) -> None:
        """Frees a context with its graphs; nothing for one that is freed already."""
        with self._lock:
            if not self.closed and context in self.contexts:
                self.contexts.remove(context)
                self.api.contextFree(context, NULL)

    def call(self, stage: str, function: CData, *args: Any) -> tuple[str, ...]:
        """Calls a QNN function; returns what it logged.  Raises QnnError(stage) for an error code."""
        code, log = self.ask(function, *args)
        if code:
            raise QnnError(stage, code, log)
        return log

    def ask(self, function: CData, *args: Any) -> tuple[int, tuple[str, ...]]:
        """Calls a QNN function; returns its error code (0: none) and what it logged."""
        with self._lock:
            if self.closed:
                raise OpdbError(f"{self.what} is closed; open it again")
            if function == NULL:
                return NOT_SUPPORTED, ()
            self._take()
            code = int(function(*args)) & CODE
            return code, self._take()

    def _take(self) -> tuple[str, ...]:
        """What the library has logged since the last time, oldest first."""
        n = lib.opdb_qnn_log_take(self._log_number, self._lines, len(self._lines), self._dropped)
        lines = tuple(_line(raw) for raw in ffi.buffer(self._lines, n)[:].split(b"\0")[:-1])
        if self._dropped[0]:
            return (*lines, f"warning: opdb dropped {self._dropped[0]} further lines of this call")
        return lines

    def close(self) -> None:
        """Releases contexts, device, backend, log, in this order; safe to repeat."""
        with self._lock:
            if self.closed:
                return
            for context in reversed(self.contexts):
                self.api.contextFree(context, NULL)
            self.contexts.clear()
            if self.device != NULL:
                self.api.deviceFree(self.device)
            if self.backend != NULL:
                self.api.backendFree(self.backend)
            self.api.logFree(self._log_handle)
            lib.opdb_qnn_log_release(self._log_number)
            self.closed = True


def _line(raw: bytes) -> str:
    """One record of the C side: a byte with the level, then the text, cleaned of the library's own marks."""
    message = raw[1:].decode(errors="replace").strip()
    for mark in ("<E> ", "<W> ", "<I> ", "<V> ", "<D> "):
        message = message.removeprefix(mark)
    return f"{LEVELS.get(raw[0], 'debug')}: {message}"
