"""The environment in which ExecuTorch's Qualcomm flow runs on a plain x86-64 Linux machine.

ExecuTorch looks for the QNN libraries in ``QNN_SDK_ROOT/lib/x86_64-linux-clang`` and on
``LD_LIBRARY_PATH``, which the dynamic loader only reads when a process starts.  ``prepare`` makes such a
folder: links to the installed onnxruntime-qnn, and opdb's forwarding library instead of
``libQnnHtp.so`` (runtime/forward/qnn_forward.c says why).  This module imports neither torch nor executorch.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path
from typing import Any

from opdb.core.errors import MissingExtra, OpdbError
from opdb.core.guess import did_you_mean
from opdb.core.install import add_extras

#: The releases with a builder interface that opdb was tested with, oldest first, and the one that the extra installs.
RELEASES = ("1.4.1", "1.5.1")
EXECUTORCH = RELEASES[-1]
ONNXRUNTIME_QNN = "2.3.0"  # carries QNN 2.47

LIBRARIES = ("libQnnCpu.so", "libQnnSystem.so", "libQnnSaver.so", "libQnnIr.so", "libHtpPrepare.so")
HTP = "libQnnHtp.so"
HOST = "x86_64-linux-clang"  # QNN's folder name for this kind of machine
MARKER = "opdb-environment.json"


@dataclass(frozen=True)
class Environment:
    """A prepared folder.  ``library_path``: in the loader's search order."""

    root: Path
    htp: Path  # the vendor's HTP library, the target of the forwarding library
    library_path: tuple[Path, ...]

    @property
    def variables(self) -> dict[str, str]:
        """The variables to set; ``LD_LIBRARY_PATH`` goes before its existing value."""
        return {
            "QNN_SDK_ROOT": str(self.root),
            "LD_LIBRARY_PATH": ":".join(map(str, self.library_path)),
            "OPDB_QNN_HTP_REAL": str(self.htp),
        }

    def shell(self) -> str:
        """``export`` lines for a POSIX shell: ``eval "$(opdb executorch env)"``."""
        lines = []
        for name, value in self.variables.items():
            text = shlex.quote(value)
            if name == "LD_LIBRARY_PATH":
                text += '"${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"'
            lines.append(f"export {name}={text}")
        return "\n".join(lines) + "\n"

    def child(self, base: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment of a child process: ``base`` (default: this process's) with the variables set."""
        env = dict(os.environ if base is None else base)
        inherited = env.get("LD_LIBRARY_PATH")
        env |= self.variables
        if inherited:
            env["LD_LIBRARY_PATH"] += f":{inherited}"
        return env


@dataclass(frozen=True)
class Check:
    """One line of ``environment_report``: ``found`` is a version, a place, or the problem; ``cure`` is empty if ok."""

    name: str
    ok: bool
    found: str
    cure: str = ""


def prepare(folder: Path | None = None, forwarding: Path | None = None) -> Environment:
    """Creates the folder if necessary, and returns its environment.

    ``folder``: its path; by default a per-user cache folder named after the versions, so that
    different versions never mix.  ``forwarding``: the built forwarding library; by default the installed one.
    The folder appears as a whole or not at all; calling again changes nothing.

    Raises MissingExtra (executorch or onnxruntime-qnn is not installed) and OpdbError (other versions,
    another kind of machine, no forwarding library, a folder that opdb did not make).
    """
    _machine()
    executorch = _executorch()
    version, package = _onnxruntime_qnn()
    library = forwarding_library() if forwarding is None else forwarding
    htp = package / HTP
    links = {name: package / name for name in LIBRARIES}
    for target in (htp, *links.values(), library):
        if not target.is_file():
            raise OpdbError(f"{target}: there is no such library; reinstall the package it belongs to")
    identity = {
        "executorch": executorch,
        "onnxruntime-qnn": version,
        "libraries": str(package),
        "forwarding": hashlib.sha256(library.read_bytes()).hexdigest(),
    }
    if folder is None:
        folder = _cache_folder(identity)
    folder = folder.absolute()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _lock(folder.parent):
            if not _is_current(folder, identity, links):
                _make(folder, identity, links, library)
    except OSError as e:
        raise OpdbError(f"{folder}: {e.strerror}; name a folder that can be written") from None
    lib = folder / "lib" / HOST
    return Environment(folder, htp, (lib, package.parent / "onnxruntime_qnn.libs"))


def require_active() -> str:
    """Raises unless this process was started in such an environment.

    Without it, importing executorch's Qualcomm backend downloads a vendor SDK.
    Returns QNN_SDK_ROOT.  Raises OpdbError with the cure.
    """
    root = os.environ.get("QNN_SDK_ROOT")
    cure = 'start the process after: eval "$(opdb executorch env)"'
    if not root:
        raise OpdbError(f"QNN_SDK_ROOT is not set; {cure}")
    lib = Path(root) / "lib" / HOST
    if not (lib / HTP).exists():
        raise OpdbError(f"QNN_SDK_ROOT={root}: there is no lib/{HOST}/{HTP} in it; {cure}")
    if str(lib) not in (p.rstrip("/") for p in os.environ.get("LD_LIBRARY_PATH", "").split(":")):
        raise OpdbError(f"LD_LIBRARY_PATH does not contain {lib}; {cure}")
    _executorch()
    return root


def forwarding_library() -> Path:
    """The built forwarding library.  Raises OpdbError if it is missing."""
    import opdb.runtime

    place = Path(str(opdb.runtime.__file__)).parent / "forward"
    found = sorted(place.glob("libopdb_qnn_forward*.so"))
    if not found:
        raise OpdbError(
            f"{place}: the forwarding library libopdb_qnn_forward.so is not built; "
            "build it in the checkout, which needs a C compiler: pip install -e ."
        )
    return found[0]


def environment_report() -> tuple[Check, ...]:
    """The requirements of the ExecuTorch flow, and which of them are met; changes nothing."""
    checks = [
        _check("machine", _machine),
        _check("executorch", _executorch),
        _check("onnxruntime-qnn", lambda: "{} in {}".format(*_onnxruntime_qnn())),
        _check("forwarding library", forwarding_library),
    ]
    checks.append(_check("this process", require_active))
    return tuple(checks)


def diagnosis() -> tuple[str, str | None, str, str]:
    """The row for `opdb doctor`: part, what was found or None, the problem, the cure."""
    wrong = [c for c in environment_report() if c.name != "this process" and not c.ok]
    if wrong:
        return "ExecuTorch flow", None, wrong[0].found, wrong[0].cure or add_extras("executorch")
    python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    return "ExecuTorch flow", f'ready; eval "$(opdb executorch env)" sets it up ({python})', "", ""


def _check(name: str, ask: Callable[[], Any]) -> Check:
    try:
        return Check(name, True, str(ask()))
    except OpdbError as e:
        problem, _, cure = str(e).partition("; ")
        return Check(name, False, problem, cure)


def _machine() -> str:
    kind = f"{platform.system()} {platform.machine()}"
    if kind != "Linux x86_64":
        raise OpdbError(f"the QNN libraries of onnxruntime-qnn need Linux x86_64; this is {kind}")
    return kind


def release() -> tuple[int, ...]:
    """The installed release of executorch as numbers, e.g. (1, 5, 1).  Raises MissingExtra."""
    return numbers(version())


def numbers(version: str) -> tuple[int, ...]:
    """The numbers of a release, e.g. (1, 6, 0) for 1.6.0a0+cpu."""
    return tuple(int(n) for n in re.findall(r"\d+", re.match(r"[\d.]*", version)[0]))  # type: ignore[index]


def runtime_library() -> Path:
    """The wheel's shared library with ExecuTorch's tensors and the registry of its kernels.

    Since 1.5 it is a separate library; before, it was part of the Python module and of the backend.
    Raises OpdbError if the wheel has none.
    """
    found = util.find_spec("executorch")
    folder = Path(next(iter((found and found.submodule_search_locations) or ["."])))
    places = ("lib/libexecutorch.so", "extension/pybindings/_portable_lib*.so")
    libraries = [path for place in places for path in sorted(folder.glob(place))]
    if not libraries:
        raise OpdbError(f"{folder}: there is no {' or '.join(places)}; reinstall executorch")
    return libraries[0]


def version() -> str:
    """The installed release of executorch, e.g. 1.5.1.  Raises MissingExtra."""
    try:
        return metadata.version("executorch")
    except metadata.PackageNotFoundError:
        raise MissingExtra("executorch", "executorch") from None


def _executorch() -> str:
    installed = version()
    if numbers(installed) < numbers(RELEASES[0]):
        raise OpdbError(
            f"executorch {installed} is installed, but opdb plugs into {RELEASES[0]} and later; "
            f"install it with: pip install 'executorch=={EXECUTORCH}'"
        )
    if util.find_spec("cpuinfo") is None:  # imported by executorch.backends.qualcomm, but not declared
        raise MissingExtra("py-cpuinfo", "executorch")
    return installed


def _onnxruntime_qnn() -> tuple[str, Path]:
    try:
        dist = metadata.distribution("onnxruntime-qnn")
    except metadata.PackageNotFoundError:
        raise MissingExtra("onnxruntime-qnn", "qnn") from None
    if dist.version != ONNXRUNTIME_QNN:
        raise OpdbError(
            f"onnxruntime-qnn {dist.version} is installed, but executorch was run with {ONNXRUNTIME_QNN}; "
            f"install it with: pip install 'onnxruntime-qnn=={ONNXRUNTIME_QNN}'"
        )
    return dist.version, Path(str(dist.locate_file("onnxruntime_qnn"))).resolve()


def _cache_folder(identity: Mapping[str, str]) -> Path:
    import platformdirs

    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]
    name = f"qnn-{identity['onnxruntime-qnn']}-executorch-{identity['executorch']}-{digest}"
    return platformdirs.user_cache_path("opdb") / "executorch" / name


def _is_current(folder: Path, identity: Mapping[str, str], links: Mapping[str, Path]) -> bool:
    """True if ``folder`` is complete; False if it must be (re)made.  Raises OpdbError if opdb did not make it."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return False
    try:
        recorded = json.loads((folder / MARKER).read_text())
    except (OSError, ValueError):
        raise OpdbError(f"{folder}: not a folder that opdb made; name an empty or a new one") from None
    lib = folder / "lib" / HOST
    with contextlib.suppress(OSError):
        copy = hashlib.sha256((lib / HTP).read_bytes()).hexdigest()
        same = all((lib / n).resolve() == target.resolve() for n, target in links.items())
        return bool(recorded == dict(identity) and same and copy == identity["forwarding"])
    return False


def _make(folder: Path, identity: Mapping[str, str], links: Mapping[str, Path], library: Path) -> None:
    """Builds the folder next to its final place and renames it."""
    made = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        made.chmod(0o755)
        lib = made / "lib" / HOST
        lib.mkdir(parents=True)
        for name, target in links.items():
            (lib / name).symlink_to(target)
        _write(lib / HTP, library.read_bytes())
        _write(made / MARKER, json.dumps(identity, indent=1).encode() + b"\n")
        if folder.exists():
            os.rename(folder, made / "outdated")
            shutil.rmtree(made / "outdated")
        os.rename(made, folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Locks the folder for one process at a time; no lock if the file system cannot lock folders."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _write(path: Path, data: bytes) -> None:
    with open(path, "wb") as f:
        f.write(data)
        f.flush()
        os.fsync(f.fileno())


def chipset(soc: str) -> Any:
    """ExecuTorch's enum member for a chip.  Raises OpdbError for an unknown name."""
    from executorch.backends.qualcomm.serialization.qc_schema import QcomChipset

    names = [c.name for c in QcomChipset if c.value]  # 0 is "unknown"
    if soc not in names:
        hint = did_you_mean(soc, names, f"one of {', '.join(names)}", most=3)
        raise OpdbError(f"SoC {soc!r} is not known to ExecuTorch{hint}")
    return QcomChipset[soc]
