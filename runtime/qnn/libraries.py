"""Finds QNN's libraries: the wheel onnxruntime-qnn, folders named by the user, versions unpacked by opdb.

Nothing is loaded here, and onnxruntime is never imported; ``Libraries.identity`` runs a child process.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from opdb.core.errors import MissingExtra, OpdbError
from opdb.core.files import data_folder
from opdb.core.install import add_extras
from opdb.generated.constants.backends import BACKENDS as _RECORDS
from opdb.runtime.qnn import identity

PACKAGE = "onnxruntime-qnn"
WITH_CPU = "2.3.0"  # the last wheel version with the CPU library
#: The version of the wheel by the version of QNN that it carries (docs/reference/qnn-libraries.md).
WHEELS = {"2.47": "2.3.0", "2.48": "2.4.0", "2.49": "2.5.0", "2.50": "2.6.0", "2.51": "2.7.0"}
#: The command that adds the newest of them.
INSTALL = f"opdb libraries install {list(WHEELS)[-1]}"
#: The libraries that opdb drives, on Linux.
FILES = {
    **{b.name: b.library for b in _RECORDS.values() if b.library is not None},
    "SAVER": "libQnnSaver.so",
    "IR": "libQnnIr.so",
    "SYSTEM": "libQnnSystem.so",
}
#: The libraries that are backends; libQnnSystem.so only reads context binaries.
BACKENDS = tuple(name for name in FILES if name != "SYSTEM")
#: Folders to search besides the installed wheel, separated as in PATH.
VARIABLE = "OPDB_QNN_LIBRARIES"
HOST = "x86_64-linux-clang"  # the folder name for this kind of machine in an SDK
_BUNDLED = "onnxruntime_qnn"  # the wheel's package, which contains the libraries


class NoLibraries(OpdbError):
    """No libraries of a version are on this machine.  ``qnn``: the version of QNN that ``opdb libraries install`` adds, or ""."""

    def __init__(self, message: str, qnn: str = "") -> None:
        self.qnn = qnn
        super().__init__(message)


@dataclass(frozen=True)
class Libraries:
    """A folder with QNN's libraries.

    ``package`` and ``version`` are the wheel's, "" for a plain folder.  ``source``: the way it was found.
    """

    folder: Path
    package: str = ""
    version: str = ""
    source: str = field(default="", compare=False)

    def path(self, backend: str) -> Path:
        """The path of the library of a backend, or of SYSTEM.  Raises OpdbError if the folder lacks it."""
        if backend not in FILES:
            raise OpdbError(
                f"{backend!r} is not a QNN backend that opdb drives; one of {', '.join(BACKENDS)}"
            )
        path = self.folder / FILES[backend]
        if not path.is_file():
            raise OpdbError(f"{path}: no such library; {self._cure(backend)}")
        return path

    @property
    def present(self) -> tuple[str, ...]:
        """The names of FILES that are in the folder."""
        return tuple(name for name, file in FILES.items() if (self.folder / file).is_file())

    def sha256(self, backend: str) -> str:
        """The SHA-256 of a backend's library, in hexadecimal."""
        path = self.path(backend)
        return _sha256(path, path.stat().st_mtime_ns)

    def identity(self, backend: str) -> identity.Identity:
        """A library's identity, queried in a child process.  Raises OpdbError if it does not identify itself."""
        return identity.ask(backend, self.path(backend))

    def qnn_version(self) -> str:
        """QNN's version, e.g. 2.47.0, from the build id of the smallest library that reports one; "" if none does."""
        for backend in sorted(self.present, key=lambda name: (self.folder / FILES[name]).stat().st_size):
            try:
                if version := self.identity(backend).qnn_version:
                    return version
            except OpdbError:
                continue  # the next library may open
        return ""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.package, self.version))) or str(self.folder)

    def _cure(self, backend: str) -> str:
        if not self.package:
            return "name the folder that holds QNN's libraries for this machine"
        if backend == "CPU" and self.version != WITH_CPU:
            return (
                f"{self.package} {self.version} has no CPU library, {WITH_CPU} has: {add_extras('qnn')}"
                f", or beside this one: opdb libraries install {WITH_CPU}"
            )
        if self.source == "installed":
            return f"install {self.package} again: pip install --force-reinstall --no-deps {self.package}=={self.version}"
        return (
            f"unpack {self.package} again: remove {self.folder.parent}, opdb libraries install {self.version}"
        )


def installed() -> Libraries:
    """The libraries of the installed wheel.  Raises MissingExtra if it is not installed."""
    try:
        distribution = importlib.metadata.distribution(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        raise MissingExtra(f"{PACKAGE} (QNN's libraries)", "qnn") from None
    folder = Path(str(distribution.locate_file(_BUNDLED)))
    return Libraries(folder, PACKAGE, distribution.version, "installed")


def in_folder(folder: Path | str, source: str = "named") -> Libraries:
    """The libraries in a folder: an unpacked wheel or its ``onnxruntime_qnn``, an SDK or its lib/x86_64-linux-clang.

    Raises OpdbError if there is no such folder, and for a packed wheel.
    """
    path = Path(folder).expanduser().resolve()
    if path.suffix == ".whl" and path.is_file():
        raise OpdbError(f"{folder}: this wheel has to be unpacked first: opdb libraries install {folder}")
    if not path.is_dir():
        raise OpdbError(f"{folder}: no such folder; name the folder that holds QNN's libraries")
    for inner in (path / _BUNDLED, path / "lib" / HOST):
        if inner.is_dir():
            path = inner
            break
    return Libraries(path, *_distribution(path), source)


def discover(problems: list[str] | None = None) -> tuple[Libraries, ...]:
    """All libraries on this machine, each folder once: the installed wheel, the folders of OPDB_QNN_LIBRARIES,
    the SDK at QNN_SDK_ROOT, the versions of ``opdb libraries install``.

    A fault of a place is added to ``problems``, or raised as OpdbError if that is None.
    """
    found: dict[Path, Libraries] = {}
    for place, source in _places():
        try:
            libraries = installed() if place is None else in_folder(place, source)
            if not libraries.present:
                raise OpdbError(f"{libraries.folder}: none of {', '.join(FILES.values())} is in this folder")
        except MissingExtra:
            continue
        except OpdbError as error:
            if problems is None:
                raise OpdbError(f"{source}: {error}") from None
            problems.append(f"{source}: {error}")
        else:
            found.setdefault(libraries.folder.resolve(), libraries)
    return tuple(found.values())


def find(wanted: str) -> Libraries:
    """Finds libraries by version ("2.51" or "2.47.0" of QNN, "2.7.0" of the wheel) or by path.

    If several places have the same version, the first one from ``discover`` is used.  Raises OpdbError with a list
    of the available libraries.
    """
    if not re.fullmatch(r"\d+(\.\d+)*", wanted):
        libraries = in_folder(wanted)
        if not libraries.present:
            raise OpdbError(f"{wanted}: none of {', '.join(FILES.values())} is in this folder")
        return libraries
    problems: list[str] = []
    here = discover(problems)
    matches = [each for each in here if _covers(wanted, each.version)]
    matches = matches or [each for each in here if _covers(wanted, each.qnn_version())]
    versions = {each.qnn_version() for each in matches}
    if len(versions) == 1:
        return matches[0]
    listed = ", ".join(f"QNN {each.qnn_version() or '?'} ({each})" for each in matches or here) or "none"
    if matches:
        raise OpdbError(f"{wanted!r} is the version of several QNN libraries; name one of: {listed}")
    wrong = "".join(f"; {problem}" for problem in problems)
    qnn = qnn_of(wanted)
    cure = (
        f"download them: opdb libraries install {qnn}"
        if qnn
        else f"'opdb libraries install VERSION' adds one of {', '.join(WHEELS)}"
    )
    raise NoLibraries(
        f"no QNN libraries of version {wanted} are here; there are: {listed}{wrong}; {cure}", qnn
    )


def qnn_of(version: str) -> str:
    """QNN's version, e.g. "2.51", of what "2.51", "2.51.0" or the wheel's "2.7.0" means; "" if no known wheel has it."""
    wheels = {wheel: qnn for qnn, wheel in WHEELS.items()}
    return wheels.get(version, short if (short := ".".join(version.split(".")[:2])) in WHEELS else "")


def unpacked_folder() -> Path:
    """The folder in which ``opdb libraries install`` unpacks each version."""
    return data_folder() / "qnn-libraries"


def _places() -> Iterator[tuple[str | Path | None, str]]:
    """Places to search (None for the installed wheel), each with its source."""
    yield None, "installed"
    for folder in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        yield folder, VARIABLE
    if root := os.environ.get("QNN_SDK_ROOT"):
        yield Path(root, "lib", HOST), "QNN_SDK_ROOT"
    for unpacked in sorted(unpacked_folder().glob(f"{PACKAGE}-*")):
        yield unpacked, "opdb libraries"


def _distribution(folder: Path) -> tuple[str, str]:
    """Package and version of an unpacked wheel, from the metadata beside its package's folder."""
    beside = list(folder.parent.glob(f"{folder.name}-*.dist-info"))
    if len(beside) != 1:
        return "", ""
    metadata = importlib.metadata.PathDistribution(beside[0]).metadata
    return metadata["Name"] or "", metadata["Version"] or ""


def _covers(wanted: str, version: str) -> bool:
    """True if a version equals or begins with the wanted one, e.g. 2.51 covers 2.51.0, not 2.5.1."""
    return f"{version}.".startswith(f"{wanted}.")


@lru_cache(maxsize=16)
def _sha256(path: Path, _changed: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
