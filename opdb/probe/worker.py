"""The child process that holds one vendor library: opens one backend, answers requests until its parent goes.

Started by opdb.probe.client with the number of a socket.  Requests and answers are pickled tuples on that
socket, so what the library prints is in nobody's way.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from opdb.errors import OpdbError
from opdb.graph import QnnGraph
from opdb.probe import jobs
from opdb.probe.results import CompileResult, LibraryInfo
from opdb.runtime.qnn.backend import Backend
from opdb.runtime.qnn.context import Context
from opdb.runtime.qnn.errors import QnnError
from opdb.runtime.qnn.graph import GraphOptions
from opdb.runtime.qnn.libraries import Libraries
from opdb.runtime.qnn.saver import record


def main() -> None:
    """Serves the socket whose number is the first argument."""
    connection = Connection(int(sys.argv[1]))
    threading.Thread(target=_leave_with_parent, args=(os.getppid(),), daemon=True).start()
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
            except Exception:
                connection.send(("fault", traceback.format_exc()))
    except (EOFError, OSError):
        server.close()


class Server:
    """One backend, and the context that was loaded last."""

    def __init__(self, connection: Connection) -> None:
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
        if name == "supported_operations":
            return backend.supported_operations()
        if name == "run":
            return jobs.run(backend, self._say, *args)
        if name == "compile":
            return jobs.compile_graphs(backend, self._say, *args)
        if name == "load":
            if self._context is not None:
                self._context.close()
            self._context, result = jobs.load(backend, self._say, *args)
            return result
        return jobs.execute(backend, self._context, self._say, *args)

    def close(self) -> None:
        if self._backend is not None:
            self._backend.close()

    def _say(self, stage: str, graph: str) -> None:
        self._connection.send(("stage", stage, graph))

    def _open(
        self,
        backend: str,
        soc: str | None,
        soc_model: int | None,
        libraries: Libraries,
        op_packages: Sequence[Path],
    ) -> LibraryInfo:
        self._backend = Backend.open(backend, soc, soc_model=soc_model, libraries=libraries)
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


def _leave_with_parent(parent: int) -> None:
    """Ends this process, even in the middle of a call that hangs, once its parent is gone."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


if __name__ == "__main__":
    main()
