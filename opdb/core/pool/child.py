"""One process of opdb.core.pool.processes, started with the number of a socket: work comes in, then jobs."""

from __future__ import annotations

import sys
import traceback
from multiprocessing.connection import Connection

from opdb.core.errors import OpdbError
from opdb.core.pool.parent import leave_with_parent
from opdb.core.pool.work import Server


def main() -> None:
    """Serves the socket whose number is the first argument."""
    connection = Connection(int(sys.argv[1]))
    leave_with_parent()
    server: Server | None = None
    try:
        server = connection.recv().open()
        while True:
            job = connection.recv()
            try:
                connection.send(("answer", server.answer(job)))
            except OpdbError as error:
                connection.send(("error", str(error)))
            except Exception:
                connection.send(("fault", traceback.format_exc()))
    except (EOFError, OSError):
        if server is not None:
            server.close()


if __name__ == "__main__":
    main()
