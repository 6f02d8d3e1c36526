"""Asks QNN libraries about op packages, each in a child process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from opdb.core.errors import OpdbError
from opdb.core.install import add_extras
from opdb.execute.libraries.client import VendorWorker
from opdb.execute.packages.elf import QNN_CPU, PackageFile
from opdb.generated.constants.backends import BACKENDS
from opdb.runtime.qnn import libraries


@dataclass(frozen=True)
class Taken:
    """One library's answer to a package; ``why`` is "" if it accepts it."""

    qnn_version: str  # e.g. 2.47.0
    backend: str
    soc: str
    why: str


def matrix(library: Path, soc: str) -> Iterator[Taken]:
    """Yields one answer for each backend that takes packages on this machine, for each installed version of QNN.

    ``soc`` is for a backend that emulates a chip.  Raises OpdbError if the file does not exist, or no QNN library is installed.
    """
    if not library.is_file():
        raise OpdbError(f"{library}: there is no such file; `opdb package qnn OP...` builds one")
    found = libraries.discover()
    if not found:
        raise OpdbError(f"no QNN libraries are here: {add_extras('qnn')}, or {libraries.INSTALL}")
    for one in found:
        for name in one.present:
            record = BACKENDS.get(name)
            if record is not None and record.op_packages == "opdb":
                yield _asked(one, name, soc if record.chip_fields else "", library)


@dataclass(frozen=True)
class Loaded:
    """The ops that a package reports after QNN has loaded it; ``ops`` is empty and ``why`` gives the reason if it was not loaded."""

    by: str  # e.g. QNN 2.51.0, HTP SM8650
    ops: tuple[str, ...] = ()
    why: str = ""


def ask(library: Path, file: PackageFile, soc: str) -> Loaded:
    """Loads a QNN package into the newest installed QNN library that supports it, and returns its ops."""
    if not file.loadable:
        return Loaded("", why=f"only a {file.machine} machine can load it")
    if not file.providers:
        return Loaded("", why="only QNN packages are loaded here")
    links = file.kind != QNN_CPU
    backend = next(
        b.name for b in BACKENDS.values() if b.op_packages == "opdb" and b.op_packages_link == links
    )
    found = [one for one in libraries.discover() if backend in one.present]
    if not found:
        return Loaded("", why=f"no QNN library for {backend} is here: opdb libraries install 2.3.0")
    chip = soc if BACKENDS[backend].chip_fields else ""
    by = f"QNN {found[-1].qnn_version()}, {backend} {chip}".rstrip()
    try:
        with VendorWorker(backend, chip or None, libraries=found[-1].folder, op_packages=[library]) as worker:
            return Loaded(by, tuple(op for package in worker.op_packages() for op in package.ops))
    except OpdbError as error:
        return Loaded(by, why=str(error))


def _asked(found: libraries.Libraries, backend: str, soc: str, library: Path) -> Taken:
    try:
        with VendorWorker(backend, soc or None, libraries=found.folder, op_packages=[library]) as worker:
            worker.info()
    except OpdbError as error:
        return Taken(found.qnn_version(), backend, soc, str(error))
    return Taken(found.qnn_version(), backend, soc, "")
