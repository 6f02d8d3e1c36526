"""A loaded library with one log; every call into QNN goes through here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from opdb.core.errors import OpdbError
from opdb.generated.constants.qnn_layouts import LAYOUTS, SINCE
from opdb.runtime.qnn import handles, native
from opdb.runtime.qnn.errors import LEVELS, QnnError
from opdb.runtime.qnn.handles import Handle, Resource
from opdb.runtime.qnn.native import CODE, NULL, CData, ffi, lib

#: One lock per library, by the address of its interface: sessions of one library share its logger, so lines could end
#: up in another session's call (seen on HTP 2.47 with two backends and five threads).
_locks: dict[int, threading.RLock] = {}
DEBUG = 5  # QNN_LOG_LEVEL_DEBUG
NOT_SUPPORTED = 1000  # QNN_COMMON_ERROR_NOT_SUPPORTED


class Session:
    """A library's interface with its own log.

    Calls into one library are serialized, so that the lines logged during a call belong to it (QNN's log callback
    has no user data).  ``handle`` owns everything created from this session; every call raises OpdbError once it is
    closed.
    """

    def __init__(self, path: Path, what: str, log_level: int) -> None:
        self.path = path
        self.what = what  # for messages; e.g. "the HTP backend"
        self.interface = native.open_library(path)
        self.api = self.interface.api
        versions = self.interface.apiVersion
        self.core_api = native.version(versions.coreApiVersion)
        self.backend_api = native.version(versions.backendApiVersion)
        self.lock = _locks.setdefault(int(ffi.cast("uintptr_t", self.interface)), threading.RLock())
        self._lines = ffi.new("char[]", lib.OPDB_QNN_LOG_BYTES)
        self._dropped = ffi.new("size_t *")
        self.level = log_level  # QNN's number of the most verbose level
        self._heard: list[str] | None = None
        self.handle = self._create_log(log_level)

    def _create_log(self, level: int) -> Handle:
        number, out = ffi.new("int *"), ffi.new("Qnn_LogHandle_t *")
        with self.lock:
            code = lib.opdb_qnn_log_create(self.interface, level, number, out) & CODE
        if number[0] < 0:
            raise OpdbError(f"{lib.OPDB_QNN_MAX_LOGS} QNN backends are open in this process; close one first")
        self.log_number = log = number[0]
        if code:
            lib.opdb_qnn_log_release(log)
            raise QnnError("create its log", code)
        free = self.api.logFree

        def release(pointer: CData) -> None:
            free(pointer)
            lib.opdb_qnn_log_release(log)

        return Handle(out[0], release, None, self.lock)

    def has(self, name: str) -> bool:
        """True if the library's function table is long enough to have a function and its entry is not NULL."""
        since = SINCE.get(name)
        return (since is None or self.core_api[:2] >= since) and getattr(self.api, name) != NULL

    def layouts(self, struct: str) -> tuple[str, ...]:
        """The C types that a library may use for ``struct``, the likeliest for this one first; see LAYOUTS."""
        api = self.core_api[:2]
        rows = LAYOUTS[struct]
        known = [
            r for r in rows if (r.since is None or api >= r.since) and (r.until is None or api <= r.until)
        ]
        return tuple(dict.fromkeys(r.struct for r in (*known, *reversed(rows))))

    def set_log_level(self, level: str) -> None:
        """Changes the most verbose level that the library logs; one of LEVELS."""
        number = log_level(level)
        self.call("set its log level", "logSetLogLevel", self.handle.pointer, number)
        self.level = number

    @contextmanager
    def at_debug(self) -> Iterator[None]:
        """Logs at level debug inside the block.  The lock must be held."""
        before = self.level
        self.ask("logSetLogLevel", self.handle.pointer, DEBUG)
        try:
            yield
        finally:
            self.ask("logSetLogLevel", self.handle.pointer, before)

    @contextmanager
    def listening(self) -> Iterator[list[str]]:
        """A list that collects the log lines of every call inside the block."""
        before, self._heard = self._heard, []
        try:
            yield self._heard
        finally:
            self._heard = before

    def call(self, stage: str, function: str | Callable[..., Any], *args: Any) -> tuple[str, ...]:
        """Calls a QNN function and returns its log.  Raises QnnError(stage) for an error code."""
        code, log = self.ask(function, *args)
        if code:
            raise QnnError(stage, code, log, self.message(code))
        return log

    def ask(self, function: str | Callable[..., Any], *args: Any) -> tuple[int, tuple[str, ...]]:
        """Calls a QNN function by its name in the interface, or one of opdb's C functions.

        A Resource among ``args`` is replaced by its pointer, while no other thread can close it.  Returns the
        error code (0: none; 1000, not supported, if the library lacks the function) and the log.
        """
        if isinstance(function, str):
            if not self.has(function):
                return NOT_SUPPORTED, ()
            target: Callable[..., Any] = getattr(self.api, function)
        else:
            target = function
        with self.lock:
            if not self.handle.alive:
                raise OpdbError(f"{self.what} is closed; open it again")
            pointers = [arg.pointer if isinstance(arg, Resource) else arg for arg in args]
            self.take_log()
            code = int(target(*pointers)) & CODE
            log = self.take_log()
            if self._heard is not None:
                self._heard += log
        if handles.dropped:
            handles.sweep()
        return code, log

    def message(self, code: int) -> str:
        """The library's text for an error code; "" if it has none."""
        out = ffi.new("const char **")
        with self.lock:
            if not self.has("errorGetMessage") or self.api.errorGetMessage(code, out):
                return ""
            return native.text(out[0]).strip()

    def take_log(self) -> tuple[str, ...]:
        """The lines logged since the last call of this method, oldest first."""
        n = lib.opdb_qnn_log_take(self.log_number, self._lines, len(self._lines), self._dropped)
        if not n and not self._dropped[0]:
            return ()
        lines = tuple(_line(raw) for raw in ffi.buffer(self._lines, n)[:].split(b"\0")[:-1])
        if self._dropped[0]:
            return (*lines, f"warning: opdb dropped {self._dropped[0]} further lines of this call")
        return lines


def log_level(word: str) -> int:
    """QNN's number of a log level.  Raises OpdbError for an unknown level."""
    if word not in LEVELS.values():
        raise OpdbError(f"{word!r} is not a log level; one of {', '.join(LEVELS.values())}")
    return next(number for number, level in LEVELS.items() if level == word)


def _line(raw: bytes) -> str:
    """One log record of the C code (a level byte, then the text) as a line, without the library's level marks."""
    message = raw[1:].decode(errors="replace").strip()
    for mark in ("<E> ", "<W> ", "<I> ", "<V> ", "<D> "):
        message = message.removeprefix(mark)
    return f"{LEVELS.get(raw[0], 'debug')}: {message}"
