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
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

from opdb.errors import OpdbError
from opdb.graph import QnnGraph
from opdb.probe.results import LibraryInfo, RunResult
from opdb.runtime.qnn.backend import Backend
from opdb.runtime.qnn.errors import QnnError
from opdb.runtime.qnn.libraries import Libraries


def main() -> None:
    """Serves the socket whose number is the first argument."""
    connection = Connection(int(sys.argv[1]))
    threading.Thread(target=_leave_with_parent, args=(os.getppid(),), daemon=True).start()
    backend: Backend | None = None
    try:
        while True:
            name, *args = connection.recv()
            try:
                if name == "open":
                    backend = _open(*args)
                    connection.send(("answer", _info(backend)))
                else:
                    assert backend is not None  # the client opens first
                    connection.send(("answer", _answer(backend, connection, name, args)))
            except QnnError as error:
                connection.send(("qnn error", error.stage, error.code, error.log))
            except OpdbError as error:
                connection.send(("error", str(error)))
            except Exception:
                connection.send(("fault", traceback.format_exc()))
    except (EOFError, OSError):
        if backend is not None:
            backend.close()


def _open(backend: str, soc: str | None, soc_model: int | None, libraries: Libraries) -> Backend:
    return Backend.open(backend, soc, soc_model=soc_model, libraries=libraries)


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


def _answer(backend: Backend, connection: Connection, name: str, args: list[Any]) -> Any:
    if name == "validate":
        return backend.validate(*args)
    if name == "supported_operations":
        return backend.supported_operations()
    return _run(backend, connection, *args)


def _run(
    backend: Backend,
    connection: Connection,
    graph: QnnGraph,
    inputs: Mapping[str, Any],
    precision: str | None,
) -> RunResult:
    connection.send(("stage", "validate"))
    for op in graph.ops:
        verdict = backend.validate(graph.op_config(op))
        if verdict.code:
            return RunResult("validate", "no", verdict.code, verdict.code_name, verdict.log, node=op.name)
    stage = "finalize"
    try:
        connection.send(("stage", stage))
        with backend.prepare(graph, precision) as prepared:
            stage = "execute"
            connection.send(("stage", stage))
            outputs = prepared.execute(inputs)
            return RunResult("done", "yes", 0, "QNN_SUCCESS", prepared.log, outputs)
    except QnnError as error:
        return RunResult(stage, "no", error.code, error.name, error.log)


def _leave_with_parent(parent: int) -> None:
    """Ends this process, even in the middle of a call that hangs, once its parent is gone."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


if __name__ == "__main__":
    main()
