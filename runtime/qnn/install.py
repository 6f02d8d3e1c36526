"""Unpacks versions of the wheel onnxruntime-qnn side by side, without installing them into Python."""

from __future__ import annotations

import base64
import hashlib
import platform
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from opdb.core.errors import OpdbError
from opdb.core.files import new_folder
from opdb.runtime.qnn.libraries import PACKAGE, WHEELS, Libraries, in_folder, qnn_of, unpacked_folder

_WHEEL = re.compile(r"onnxruntime_qnn-(\d+(?:\.\d+)*)-[^-]+-[^-]+-[^-]+\.whl")
#: pip retries once, and gives up on an unresponsive index after the timeout.
_PIP = ("--no-deps", "--only-binary=:all:", "--no-input", "--retries=1", "--timeout=30")


def install(what: str) -> tuple[Libraries, bool]:
    """Downloads a version of QNN (e.g. 2.51) or of the wheel (2.7.0) with pip, or takes a wheel file, and unpacks it.

    It goes into opdb's data folder.

    Every file is compared with the hash in the wheel's RECORD, and one library is opened in a child process;
    the folder is created atomically.  Returns the libraries, and True if they are new.
    Raises OpdbError for an unknown version, no network, a damaged wheel, and libraries that do not open here.
    """
    kind = f"{platform.system()} {platform.machine()}"
    if kind != "Linux x86_64":
        raise OpdbError(f"the QNN libraries of {PACKAGE} need Linux x86_64; this is {kind}")
    wheel = Path(what).expanduser() if what.endswith(".whl") else None
    version = _version(what, wheel)
    target = unpacked_folder() / f"{PACKAGE}-{version}"
    if target.is_dir():
        return in_folder(target, "opdb libraries"), False
    with tempfile.TemporaryDirectory(prefix="opdb-qnn-") as downloads, new_folder(target) as folder:
        _unpack(wheel or _download(version, Path(downloads)), folder)
        libraries = in_folder(folder)
        if not libraries.qnn_version():
            first = next(iter(libraries.present), "CPU")
            libraries.identity(first)  # raises with the reason
            raise OpdbError(f"{what}: its libraries tell no version of QNN; another package?")
    return in_folder(target, "opdb libraries"), True


def _version(what: str, wheel: Path | None) -> str:
    if wheel is None:
        if not re.fullmatch(r"\d+(\.\d+)+", what):
            raise OpdbError(
                f"{what!r} is not a version of QNN or of {PACKAGE}; e.g. 2.51, which is {PACKAGE} 2.7.0, or the path of its wheel"
            )
        return WHEELS.get(qnn_of(what), what)
    found = _WHEEL.fullmatch(wheel.name)
    if not found:
        raise OpdbError(f"{what}: not the name of a wheel of {PACKAGE}, onnxruntime_qnn-VERSION-...whl")
    if not wheel.is_file():
        raise OpdbError(f"{what}: no such file")
    return found[1]


def _download(version: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", *_PIP, "--dest", str(folder), f"{PACKAGE}=={version}"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return next(folder.glob("*.whl"))
    offered = re.search(r"from versions: ([^)]*)\)", done.stderr)
    if offered and offered[1] != "none":
        raise OpdbError(
            f"{PACKAGE} {version} is not on the package index for this Python; there are: {offered[1]}; "
            f"of QNN's versions {', '.join(WHEELS)} can be named"
        )
    if offered:
        raise OpdbError(
            f"no package index with {PACKAGE} can be reached; with its wheel at hand: opdb libraries install FILE"
        )
    last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    raise OpdbError(f"pip could not download {PACKAGE} {version}: {last.removeprefix('ERROR: ')}")


def _unpack(wheel: Path, folder: Path) -> None:
    """Unpacks the files listed in RECORD and checks each against its hash."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = [n for n in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/RECORD", n)]
            if len(names) != 1:
                raise OpdbError(f"{wheel}: not a wheel: it has no RECORD")
            for line in archive.read(names[0]).decode().splitlines():
                name, hash_, _size = line.rsplit(",", 2)
                if name != names[0]:
                    _extract(archive, name, hash_, folder, wheel)
            archive.extract(names[0], folder)
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError, NotImplementedError) as error:
        raise OpdbError(f"{wheel}: this wheel is damaged ({error}); get it again") from None


def _extract(archive: zipfile.ZipFile, name: str, hash_: str, folder: Path, wheel: Path) -> None:
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise OpdbError(f"{wheel}: {name} lies outside of this wheel; get it again")
    path = Path(archive.extract(name, folder))  # checks the archive's own checksum
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").digest()
    if hash_ != "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode():
        raise OpdbError(f"{wheel}: {name} is not what its RECORD says; get it again")
