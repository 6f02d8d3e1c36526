"""The child process that holds one vendor library: opens one backend, answers requests until its parent exits.

Started by opdb.execute.libraries.client with the number of a socket.  Requests and answers are pickled tuples on that
socket, so the library's output does not interfere.
"""

from __future__ import annotations

import os
import resource
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opdb.core.errors import OpdbError
from opdb.core.graph import QnnGraph
from opdb.core.op_config import OpConfig
from opdb.core.pool.parent import leave_with_parent
from opdb.execute.libraries import jobs
from opdb.execute.libraries.results import CompileResult, LibraryInfo
from opdb.execute.libraries.wire import Wire
from opdb.runtime.qnn.backend import Backend
from opdb.runtime.qnn.context import Context
from opdb.runtime.qnn.errors import QnnError, VendorVerdict
from opdb.runtime.qnn.graph import GraphOptions
from opdb.runtime.qnn.libraries import Libraries
from opdb.runtime.qnn.saver import record


def main() -> None:
    """Serves the socket whose number is the first argument."""
    connection = Wire(int(sys.argv[1]))
    leave_with_parent()
    server = Server(connection)
    try:
        while True:
            name, *args = connection.recv()
            try:
                connection.send(("answer", server.answer(name, args)))
            except QnnError as error:
                connection.send(("qnn error", error.stage, error.code, error.log))
            except OpdbError as error:
                connection.send(("error", str(error)))
            except MemoryError:  # the limit of "open"; it may hit us before the library
                os.write(2, b"out of memory\n")
                os._exit(1)
            except (
                SystemError
            ) as error:  # Python's own data is damaged: the library wrote outside its buffers
                os.write(2, f"memory was overwritten: {error}\n".encode())
                os.abort()
            except Exception:
                connection.send(("fault", traceback.format_exc()))
    except (EOFError, OSError):
        server.close()


class Server:
    """One backend, and the context that was loaded last."""

    def __init__(self, connection: Wire) -> None:
        self._connection = connection
        self._backend: Backend | None = None
        self._context: Context | None = None

    def answer(self, name: str, args: list[Any]) -> Any:
        if name == "open":
            return self._open(*args)
        if name == "record":
            return _record(*args)
        backend = self._backend
        assert backend is not None  # the client opens first
        if name == "validate":
            return backend.validate(*args)
        if name == "validate_many":
            return self._validate_many(backend, *args)
        if name == "supported_operations":
            return backend.supported_operations()
        if name == "op_packages":
            return list(backend.op_packages.values())
        if name == "chip":
            return jobs.chip(backend)
        if name == "run":
            return jobs.run(backend, self._say, *args)
        if name == "compile":
            return jobs.compile_graphs(backend, self._say, *args)
        if name == "simulate":
            return jobs.simulate(backend, self._say, *args)
        if name == "load":
            if self._context is not None:
                self._context.close()
            self._context, result = jobs.load(backend, self._say, *args)
            return result
        return jobs.execute(backend, self._context, self._say, *args)

    def close(self) -> None:
        if self._backend is not None:
            self._backend.close()

    def _validate_many(self, backend: Backend, configs: Sequence[OpConfig]) -> None:
        """Sends each verdict as soon as it is available, so that verdicts before a crash are not lost."""
        for config in configs:
            try:
                verdict = backend.validate(config)
            except OpdbError as error:
                verdict = VendorVerdict("invalid", 0, "", (str(error),))
            self._connection.send(("part", verdict))

    def _say(self, stage: str, graph: str) -> None:
        self._connection.send(("stage", stage, graph))

    def _open(
        self,
        backend: str,
        soc: str | None,
        soc_model: int | None,
        libraries: Libraries,
        op_packages: Sequence[Path],
        log_level: str,
        memory: int | None,
    ) -> LibraryInfo:
        if memory is not None:  # private memory: a library maps far more address space than it uses
            resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
        self._backend = Backend.open(
            backend, soc, soc_model=soc_model, libraries=libraries, log_level=log_level
        )
        for library in op_packages:
            self._backend.register_op_package(library)
        return _info(self._backend)


def _info(backend: Backend) -> LibraryInfo:
    libraries = backend.libraries
    return LibraryInfo(
        backend=backend.name,
        soc=backend.soc,
        soc_model=backend.soc_model,
        package=libraries.package,
        version=libraries.version,
        build_id=backend.build_id,
        api_version=backend.api_version,
        backend_api_version=backend.backend_api_version,
    )


def _record(
    graphs: Sequence[QnnGraph],
    folder: str,
    backend: str,
    soc: str | None,
    options: GraphOptions | None,
    libraries: Libraries,
) -> CompileResult:
    try:
        record(graphs, folder, backend, soc, options=options, libraries=libraries)
    except QnnError as error:
        return CompileResult("record", "no", error.code, error.name, error.log)
    return CompileResult("done", "yes", 0, "QNN_SUCCESS")


if __name__ == "__main__":
    main()
