"""Where QNN's libraries are: the wheel onnxruntime-qnn, or a folder that the user names.

Nothing is loaded here, and onnxruntime is never imported.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from opdb.errors import MissingExtra, OpdbError

PACKAGE = "onnxruntime-qnn"
#: The backends that opdb drives and their libraries on Linux.
FILES = {"CPU": "libQnnCpu.so", "HTP": "libQnnHtp.so"}


@dataclass(frozen=True)
class Libraries:
    """A folder with QNN's libraries.  ``package`` and ``version`` of the wheel; "" for a plain folder."""

    folder: Path
    package: str = ""
    version: str = ""

    def path(self, backend: str) -> Path:
        """The library of a backend.  Raises OpdbError when this folder does not hold it."""
        if backend not in FILES:
            raise OpdbError(f"{backend!r} is not a QNN backend that opdb drives; one of {', '.join(FILES)}")
        path = self.folder / FILES[backend]
        if not path.is_file():
            raise OpdbError(f"{path}: no such library; {self._cure(backend)}")
        return path

    def sha256(self, backend: str) -> str:
        """The SHA-256 of a backend's library, in hexadecimal."""
        path = self.path(backend)
        return _sha256(path, path.stat().st_mtime_ns)

    def _cure(self, backend: str) -> str:
        if not self.package:
            return "name the folder that holds QNN's libraries for this machine"
        if backend == "CPU":
            return f"{self.package} {self.version} has no CPU library, 2.3.0 has: pip install 'opdb[qnn]'"
        return f"install {self.package} again: pip install --force-reinstall 'opdb[qnn]'"


def installed() -> Libraries:
    """The libraries of the installed wheel.  Raises MissingExtra when it is not installed."""
    try:
        distribution = importlib.metadata.distribution(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        raise MissingExtra(f"{PACKAGE} (QNN's libraries)", "qnn") from None
    folder = Path(str(distribution.locate_file("onnxruntime_qnn")))
    return Libraries(folder, PACKAGE, distribution.version)


def in_folder(folder: Path | str) -> Libraries:
    """The libraries in a folder: an unpacked wheel, or lib/x86_64-linux-clang of an SDK.

    Raises OpdbError when there is no such folder.
    """
    path = Path(folder).resolve()
    if not path.is_dir():
        raise OpdbError(f"{folder}: no such folder; name the folder that holds QNN's libraries")
    return Libraries(path)


@lru_cache(maxsize=16)
def _sha256(path: Path, _changed: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
