"""Asks a vendor library in a child process, where a crash or a hang is a result."""

from __future__ import annotations

import fcntl
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from opdb.core.errors import OpdbError
from opdb.core.graph import QnnGraph
from opdb.core.op_config import OpConfig
from opdb.execute.libraries.results import (
    Chip,
    CompileResult,
    ExecuteResult,
    LibraryInfo,
    LoadResult,
    RunResult,
    SimulateResult,
)
from opdb.execute.libraries.wire import Wire
from opdb.generated.constants.backends import DEFAULT
from opdb.runtime.qnn.errors import QnnError, VendorVerdict
from opdb.runtime.qnn.libraries import in_folder, installed

if TYPE_CHECKING:
    from opdb.runtime.qnn.graph import GraphOptions
    from opdb.runtime.qnn.op_package import OpPackage

#: Seconds that a child may take to start Python and open its library, in addition to the time of the request.
START_SECONDS = 60.0
#: Seconds that a half-sent message may stall.
STALL_SECONDS = 30
#: Bytes kept of a crashed child's output.
TAIL_BYTES = 4096
#: Seconds between two reports about the same stage.
TICK_SECONDS = 1.0
#: Short requests that do not depend on earlier ones: another child can answer them.
WHOLE = ("supported_operations", "validate", "run")
FIRST_STAGES = {"run": "validate", "compile": "validate", "simulate": "build"}
#: Takes the stage that a child is in, the graph ("": all), and the seconds spent in it: at its start (0.0) and
#: every TICK_SECONDS.  It is called while the worker is locked.
Progress = Callable[[str, str, float], None]


class VendorWorker:
    """One library, one backend, one SoC in a child process; a context manager, usable from many threads.

    The child is started with the first request and again after it crashed or hung.  ``timeout`` is in
    seconds per request.  ``libraries`` is a folder, by default the installed wheel; ``op_packages`` are libraries
    for the backend, see ``Backend.register_op_package``; ``log_level`` is the most verbose level that
    is kept, see ``Backend.open``.  ``memory``: bytes that the child may allocate; it crashes if that is not
    enough.
    """

    def __init__(
        self,
        backend: str,
        soc: str | None = None,
        *,
        soc_model: int | None = None,
        libraries: Path | str | None = None,
        timeout: float = 60.0,
        op_packages: Sequence[Path] = (),
        log_level: str = "debug",
        memory: int | None = None,
    ) -> None:
        self.timeout = timeout
        self._libraries = installed() if libraries is None else in_folder(libraries)
        packages = tuple(op_packages)
        self._open = ("open", backend, soc, soc_model, self._libraries, packages, log_level, memory)
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self._info: LibraryInfo | None = None
        self._closed = False

    def info(self) -> LibraryInfo:
        """Returns the identity of the library.  Raises OpdbError if it cannot be opened."""
        with self._lock:
            self._start()
            assert self._info is not None
            if not self._info.sha256:
                self._info = replace(self._info, sha256=self._libraries.sha256(self._info.backend))
            return self._info

    def open_ahead(self) -> None:
        """Opens the library in the background.  If that fails, the next request tries again and reports the failure."""

        def quietly() -> None:
            with suppress(OpdbError, _Fault):
                self.info()

        threading.Thread(target=quietly, daemon=True).start()

    def supported_operations(self) -> tuple[str, ...]:
        """The names of the ops that the library reports."""
        answer = self._request("supported_operations")
        if isinstance(answer, _Lost):
            raise OpdbError(f"the QNN library {answer.verdict} while listing its ops ({answer.code_name})")
        return tuple(answer)

    def op_packages(self) -> tuple[OpPackage, ...]:
        """The op packages that the backend got, with their ops.  Raises OpdbError if it refuses one."""
        answer = self._request("op_packages")
        if isinstance(answer, _Lost):
            raise OpdbError(
                f"the QNN library {answer.verdict} while listing op packages ({answer.code_name})"
            )
        return tuple(answer)

    def chip(self) -> Chip:
        """Returns an HTP library's answers about its chip: a name, and the floating-point types that it accepts.

        Raises OpdbError if the child crashes or hangs.
        """
        answer = self._request("chip")
        if isinstance(answer, _Lost):
            raise OpdbError(
                f"the QNN library {answer.verdict} while telling of its chip ({answer.code_name})"
            )
        assert isinstance(answer, Chip)
        return answer

    def validate(self, config: OpConfig) -> VendorVerdict:
        """Returns the library's verdict about one op config: accept, reject, crashed or hung.

        Raises ConfigError's message as OpdbError for what C structs cannot hold.
        """
        answer = self._request("validate", config)
        if isinstance(answer, _Lost):
            return VendorVerdict(answer.verdict, answer.code, answer.code_name, answer.log)
        assert isinstance(answer, VendorVerdict)
        return answer

    def validate_many(self, configs: Sequence[OpConfig]) -> list[VendorVerdict]:
        """Returns the library's verdicts, in one request: thousands per second.  ``timeout`` is for each config.

        A config on which the child crashes or hangs is asked again in a fresh one, so that the verdict is its own, not that
        of earlier configs.  A config that C structs cannot hold is "invalid", with the reason as its log.
        """
        verdicts: list[VendorVerdict] = []
        with self._lock:
            while len(verdicts) < len(configs):
                if self._validate_some(configs[len(verdicts) :], verdicts) is not None:
                    lost = self._validate_some(configs[len(verdicts) :][:1], verdicts)
                    if lost is not None:
                        verdicts.append(VendorVerdict(lost.verdict, lost.code, lost.code_name, lost.log))
        return verdicts

    def _validate_some(self, configs: Sequence[OpConfig], out: list[VendorVerdict]) -> _Lost | None:
        """Adds verdicts to ``out`` until all are there or the child crashes or hangs."""
        child = self._start()
        try:
            answer = child.ask(("validate_many", tuple(configs)), self.timeout, part=out.append)
        except BaseException:
            self._drop()
            raise
        if isinstance(answer, _Lost):
            self._drop()
            return answer
        return None

    def run(self, graph: QnnGraph, inputs: Mapping[str, Any], precision: str | None = None) -> RunResult:
        """Validates each node, finalizes and executes a graph; stops at the first stage that fails.

        ``inputs``: numpy arrays by tensor name.  ``precision``: see ``Backend.prepare``.
        Raises OpdbError for a graph or inputs that cannot be passed on.
        """
        answer = self._request("run", graph, dict(inputs), precision)
        if isinstance(answer, _Lost):
            return RunResult(answer.stage, answer.verdict, answer.code, answer.code_name, answer.log)
        assert isinstance(answer, RunResult)
        return answer

    def compile(
        self,
        graphs: Sequence[QnnGraph],
        path: Path | str,
        options: GraphOptions | None = None,
        metadata: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
        *,
        weight_sharing: bool = False,
    ) -> CompileResult:
        """Validates each node, builds and finalizes ``graphs`` in one context, and saves it to ``path``.

        ``metadata`` is kept in the file, see Context.save; ``weight_sharing``: see
        opdb.runtime.qnn.context.ContextOptions.  Stops at the first stage that fails.  A child that
        dies while it saves may leave a temporary file beside ``path``, never half of ``path``.  Raises OpdbError
        for graphs, options or a path that cannot be used.
        """
        request = ("compile", tuple(graphs), str(path), options, dict(metadata or {}), weight_sharing)
        answer = self._request(*request, progress=progress)
        if isinstance(answer, _Lost):
            return CompileResult(
                answer.stage, answer.verdict, answer.code, answer.code_name, answer.log, answer.graph
            )
        assert isinstance(answer, CompileResult)
        return answer

    def simulate(
        self,
        graph: QnnGraph,
        folder: Path | str,
        options: GraphOptions | None = None,
        progress: Progress | None = None,
    ) -> SimulateResult:
        """Builds and finalizes a graph on HTP with an optrace, to get Qualcomm's simulation of it; see opdb.measure.cost.

        The library writes <graph>_schematic.bin into ``folder``, which is the child's current folder meanwhile.  Raises
        OpdbError for a graph or options that cannot be used.
        """
        answer = self._request("simulate", graph, options, str(folder), progress=progress)
        if isinstance(answer, _Lost):
            return SimulateResult(answer.stage, answer.verdict, answer.code, answer.code_name, answer.log)
        assert isinstance(answer, SimulateResult)
        return answer

    def load(self, path: Path | str) -> LoadResult:
        """Loads the context of a file; it replaces any context loaded before.

        Raises OpdbError for a file that is not a context, is damaged, or was made for another backend.
        """
        answer = self._request("load", str(path))
        if isinstance(answer, _Lost):
            return LoadResult(answer.stage, answer.verdict, answer.code, answer.code_name, answer.log)
        assert isinstance(answer, LoadResult)
        return answer

    def execute(
        self,
        graph: str,
        inputs: Mapping[str, Any],
        *,
        repeat: int = 1,
        profile: str = "off",
        reports: Sequence[str] = (),
        progress: Progress | None = None,
    ) -> ExecuteResult:
        """Runs a graph of the loaded context, ``repeat`` times with the same inputs.

        ``inputs``: numpy arrays by tensor name; ``profile``: a level of Backend.create_profile;
        ``reports``: formats of opdb.runtime.qnn.profile_report to write from it.  After a crash or a hang the
        context must be loaded again.  Raises OpdbError for what does not fit the graph.
        """
        request = ("execute", graph, dict(inputs), repeat, profile, tuple(reports))
        answer = self._request(*request, progress=progress)
        if isinstance(answer, _Lost):
            return ExecuteResult(answer.stage, answer.verdict, answer.code, answer.code_name, answer.log)
        assert isinstance(answer, ExecuteResult)
        return answer

    @property
    def pid(self) -> int | None:
        """The process id of the child, None if there is none."""
        return None if self._child is None else self._child.process.pid

    def restart(self) -> None:
        """Ends the child; the next request starts another."""
        with self._lock:
            self._drop()

    def close(self) -> None:
        """Ends the child; safe to repeat."""
        with self._lock:
            self._closed = True
            self._drop()

    def __enter__(self) -> VendorWorker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _request(self, *request: Any, progress: Progress | None = None) -> Any:
        """Returns the child's answer; if a child that was used before crashes or its Python fails, asks a fresh one.

        A library that writes outside its buffers causes damage that only shows at a later request.
        """
        with self._lock:
            again = self._child is not None and request[0] in WHOLE
            try:
                answer = self._asked(request, progress)
            except _Fault:
                if not again:
                    raise
                return self._asked(request, progress)
            crashed = isinstance(answer, _Lost) and answer.verdict == "crashed"
            return self._asked(request, progress) if again and crashed else answer

    def _asked(self, request: tuple[Any, ...], progress: Progress | None) -> Any:
        child = self._start()
        try:
            answer = child.ask(request, self.timeout, progress)
        except OpdbError:
            raise
        except BaseException:
            self._drop()  # an answer may still be on its way
            raise
        if isinstance(answer, _Lost):
            self._drop()
        return answer

    def _start(self) -> _Child:
        if self._closed:
            raise OpdbError("this worker is closed; make a new one")
        if self._child is None:
            child = _Child()
            try:
                answer = child.ask(self._open, START_SECONDS + self.timeout)
            except BaseException:
                child.end()
                raise
            if isinstance(answer, _Lost):
                child.end()
                path = self._libraries.path(self._open[1])
                how = " ".join(filter(None, (answer.verdict, answer.code_name, *answer.log[-1:])))
                raise OpdbError(f"{path}: opening this library failed: {how}")
            self._child = child
            self._info = self._info or answer
        return self._child

    def _drop(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None


class _Fault(RuntimeError):
    """Raised if the child's own Python failed."""


class _Lost:
    """Records that the child crashed or hung, with the stage and the graph ("": none)."""

    def __init__(
        self, place: tuple[str, str], verdict: str, code: int, code_name: str, log: tuple[str, ...]
    ) -> None:
        self.stage, self.graph = place
        self.verdict, self.code, self.code_name, self.log = verdict, code, code_name, log


class _Child:
    """One run of opdb.execute.libraries.worker.  Its output goes to an unnamed file."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        for option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
            ours.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", STALL_SECONDS, 0))
        with theirs:
            self.printed: IO[bytes] = tempfile.TemporaryFile("a+b", buffering=0)  # noqa: SIM115  closed by _end
            # Python opens it for "a" without O_APPEND: the child would write after a hole after each truncation.
            flags = fcntl.fcntl(self.printed, fcntl.F_GETFL)
            fcntl.fcntl(self.printed, fcntl.F_SETFL, flags | os.O_APPEND)
            self.process = subprocess.Popen(
                # -P: the current folder may contain something else called opdb
                [sys.executable, "-P", "-m", "opdb.execute.libraries.worker", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=self.printed,
                stderr=self.printed,
                pass_fds=[theirs.fileno()],
            )
        self.connection = Wire(ours.detach())
        self.end = weakref.finalize(self, _end, self.connection, self.process, self.printed)

    def ask(
        self,
        request: tuple[Any, ...],
        seconds: float,
        progress: Progress | None = None,
        part: Callable[[Any], None] | None = None,
    ) -> Any:
        """Returns the answer to a request, or _Lost.  Raises OpdbError for a mistake in the request.

        ``part`` takes messages before the answer; each restarts ``seconds``.
        """
        self.printed.truncate(0)
        place, begun = (FIRST_STAGES.get(request[0], request[0]), ""), time.monotonic()
        deadline, told = begun + seconds, False
        message = self._exchange(0, request)
        while True:
            kind, *values = message
            if kind == "stage":
                place, begun, told = (values[0], values[1]), time.monotonic(), True
            elif kind == "part" and part is not None:
                part(values[0])
                deadline = time.monotonic() + seconds
            elif kind == "answer":
                return values[0]
            elif kind == "qnn error":
                raise QnnError(*values)
            elif kind == "error":
                raise OpdbError(values[0])
            elif kind == "fault":
                raise _Fault(f"an internal error of opdb in the child process:\n{values[0]}")
            elif kind == "gone":
                return self._crash(place)
            elif kind == "stalled" or time.monotonic() >= deadline:
                return _Lost(place, "hung", 0, "", self._tail())
            if progress is not None and told:
                progress(*place, 0.0 if kind == "stage" else time.monotonic() - begun)
            left = max(0.0, deadline - time.monotonic())
            message = self._exchange(left if progress is None else min(left, TICK_SECONDS))

    def _exchange(self, seconds: float, request: tuple[Any, ...] | None = None) -> tuple[Any, ...]:
        """Sends a request if there is one, then waits for a message: "none" if none arrives in time."""
        try:
            if request is not None:
                self.connection.send(request)
            if not self.connection.poll(seconds):
                return ("none",)
            message: tuple[Any, ...] = self.connection.recv()
            return message
        except BlockingIOError:
            return ("stalled",)
        except (EOFError, OSError, pickle.UnpicklingError):
            return ("gone",)

    def _crash(self, place: tuple[str, str]) -> _Lost:
        code = self._wait(5)
        if code >= 0:
            return _Lost(place, "crashed", code, f"exit {code}", self._tail())
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return _Lost(place, "crashed", -code, name, self._tail())

    def _wait(self, seconds: float) -> int:
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def _tail(self) -> tuple[str, ...]:
        """The last lines that the child printed since the request."""
        size = os.fstat(self.printed.fileno()).st_size
        raw = os.pread(self.printed.fileno(), TAIL_BYTES, max(0, size - TAIL_BYTES))
        return tuple(f"output: {line}" for line in raw.decode(errors="replace").splitlines() if line.strip())


def record(
    graphs: Sequence[QnnGraph],
    folder: Path | str,
    backend: str = DEFAULT,
    soc: str | None = None,
    *,
    options: GraphOptions | None = None,
    libraries: Path | str | None = None,
    timeout: float = 60.0,
) -> CompileResult:
    """Writes C code that builds ``graphs`` to ``folder``, in a child process; see opdb.runtime.qnn.saver.record.

    The stage is record.  Raises OpdbError for what cannot be recorded or written.
    """
    found = installed() if libraries is None else in_folder(libraries)
    child = _Child()
    try:
        request = ("record", tuple(graphs), str(folder), backend, soc, options, found)
        answer = child.ask(request, START_SECONDS + timeout)
    finally:
        child.end()
    if isinstance(answer, _Lost):
        return CompileResult(answer.stage, answer.verdict, answer.code, answer.code_name, answer.log)
    assert isinstance(answer, CompileResult)
    return answer


def _end(connection: Wire, process: subprocess.Popen[bytes], printed: IO[bytes]) -> None:
    connection.close()  # an idle child exits by itself
    try:
        process.wait(0.5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    printed.close()
