"""The executor ``hexagon``: the C validators and kernels of the executor ``c``, compiled for Hexagon and run by QEMU."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path

from opdb.catalog.store.records import ExecutorRecord
from opdb.core.errors import OpdbError
from opdb.core.files import data_folder
from opdb.core.version import __version__
from opdb.measure.conformance.cases import Case
from opdb.measure.conformance.executors.base import Answer, Array, Executor
from opdb.measure.conformance.executors.validators import verdict
from opdb.plugins.hexagon import Server, check_compiler, emulator
from opdb.plugins.hexagon.process import ServerLost
from opdb.plugins.packages import c_library
from opdb.plugins.packages.codegen.c_library import HEXAGON
from opdb.runtime.native import KernelError
from opdb.spec.catalog import Catalog

#: The code that calls a kernel is most of the text and little of the work: not optimizing it halves the time
#: to compile all ops.  Kernels are compiled as in `opdb build`.
VARIABLES = ("SHIM_CFLAGS=-O0",)


class HexagonExecutor(Executor):
    """One process with all ops that have a kernel.  The program is compiled once per catalog, at the first case."""

    name, backend, soc, half = "hexagon", "", "", False

    def __init__(self, catalog: Catalog, folder: Path | None = None) -> None:
        """``folder``: as in ``program``.  Raises OpdbError if there is no compiler or emulator for Hexagon."""
        check_compiler()
        self._folder = folder
        self._emulator = emulator()
        self._server: Server | None = None
        self._catalog = catalog
        self._ops = frozenset(name for name, op in self._catalog.ops.items() if op.kernel is not None)

    def record(self) -> ExecutorRecord:
        return ExecutorRecord(self.name, __version__)

    def takes(self, case: Case) -> bool:
        return case.op in self._ops

    def answer(self, case: Case, inputs: Sequence[Array | None]) -> Answer:
        server = self._opened()
        found = Answer("ok")
        try:
            found = verdict(server.validate(case.config, case.target.context()))
            if found.kind != "ok" or not case.runs:
                return found
            outputs = server.run(case.config, inputs)
        except KernelError as error:
            if error.status == "unsupported":
                return Answer("ok", rules=found.rules, text="no kernel for these types", computed=False)
            return Answer("error", rules=found.rules, stage="execute", text=str(error))
        except ServerLost as error:
            return Answer("error", stage="execute", how="hung" if error.hung else "crashed", text=str(error))
        return Answer("ok", tuple(outputs), found.rules, text=str(server.last))

    def _opened(self) -> Server:
        if self._server is None:
            self._server = Server([self._emulator, str(program(self._catalog, self._folder))])
        return self._server

    def renew(self) -> None:
        self.close()

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None


def program(catalog: Catalog, folder: Path | None = None) -> Path:
    """The path of the server with all ops of ``catalog`` that have a kernel; compiled if it does not exist yet.

    ``folder``: by default below the user's data folder.  Raises OpdbError if it cannot be compiled.
    """
    folder = folder or data_folder() / "hexagon"
    made = folder / f"opdb_server-{_digest(catalog)}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be compiling it
            if not made.exists():
                _compile(catalog, made)
    except OSError as error:
        raise OpdbError(f"{folder}: cannot write: {error.strerror}") from None
    return made


def _compile(catalog: Catalog, made: Path) -> None:
    ops = {name: frozenset[str]() for name, op in catalog.ops.items() if op.kernel is not None}
    with tempfile.TemporaryDirectory(prefix="opdb-hexagon-") as folder:
        library = c_library.write(catalog, ops, Path(folder), target=HEXAGON)
        c_library.build(library, *VARIABLES)
        fresh = made.with_name(f".{made.name}")
        shutil.copy(library.server, fresh)
    for old in made.parent.glob("opdb_server-*"):
        old.unlink()
    os.replace(fresh, made)


def _digest(catalog: Catalog) -> str:
    """A hash of everything that determines the program: specs, code generators, handwritten C."""
    digest = hashlib.sha256(catalog.hash.encode())
    for path in _sources():
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _sources() -> Iterable[Path]:
    code, c = (".py", ".j2"), (".c", ".h")
    for package, suffixes in (
        ("opdb.codegen", code),
        ("opdb.runtime", c),
        ("opdb.plugins.packages", code),
        ("opdb.plugins.hexagon", code + c),
    ):
        root = Path(str(files(package)))
        yield from sorted(p for p in root.rglob("*") if p.suffix in suffixes)
