"""The backend for ExecuTorch's runtime: compiled against the installed wheel and loaded into this process.

The C++ is ``opdb/plugins/executorch/c/delegate``.  It is compiled once for each combination of sources, compiler, and version
of ExecuTorch, and kept in the user's cache (docs/reference/executorch-delegate.md, "Runtime").
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

from opdb.core.errors import MissingExtra, OpdbError
from opdb.core.files import cache_folder, write_atomically
from opdb.plugins.executorch.runtime import portable_lib
from opdb.runtime import native
from opdb.runtime.qnn import libraries as qnn_libraries

BACKEND = "OpdbBackend"
FLAGS = (
    "-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti", "-Wall", "-Wextra",
    "-DC10_USING_CUSTOM_GENERATED_MACROS",
)  # fmt: skip
#: The opdb headers that the sources include, below the folders of ``includes``.
HEADERS = ("dtypes.h", "backends.h", "ops.h", "runtime.h", "qnn_abi.h", "qnn_htp.h")
SECONDS = 600


@dataclass(frozen=True)
class Wheel:
    """The installed wheel of ExecuTorch.  ``core``: the library with its runtime, None if the Python module contains it."""

    root: Path
    version: str
    core: Path | None

    @property
    def flags(self) -> tuple[str, ...]:
        """Compiler flags for ExecuTorch's headers, without warnings about them."""
        include = self.root / "include"
        c10 = include / "executorch" / "runtime" / "core" / "portable_type" / "c10"
        return ("-isystem", str(include), "-isystem", str(c10))

    @property
    def link(self) -> tuple[str, ...]:
        return () if self.core is None else (f"-L{self.core.parent}", "-lexecutorch")


def wheel() -> Wheel:
    """The wheel that ``import executorch`` finds first.  Raises MissingExtra; OpdbError if it has no headers."""
    try:
        import executorch.version as version
    except ImportError:
        raise MissingExtra("ExecuTorch", "executorch") from None
    root = Path(version.__file__).parent
    if not (root / "include" / "executorch" / "runtime" / "backend" / "interface.h").is_file():
        raise OpdbError(
            f"{root}: this ExecuTorch has no headers to compile a backend against; install the wheel of 1.4 or 1.5"
        )
    core = root / "lib" / "libexecutorch.so"
    return Wheel(root, f"{version.__version__} {version.git_version}", core if core.is_file() else None)


def sources() -> list[Path]:
    """The C++ files in compilation order."""
    return sorted(_folder().glob("*.cpp"))


def includes() -> tuple[Path, ...]:
    """The folders of opdb's headers."""
    generated = Path(str(files("opdb.generated")))
    inside, beside = generated / "c", generated.parent / "c"  # installed; in a checkout
    return (
        Path(str(files("opdb.runtime"))) / "include",
        (inside if inside.is_dir() else beside) / "include",
    )


def build() -> Path:
    """The compiled backend, from the user's cache if it is there; compiling takes about half a minute.

    Raises OpdbError: there is no C++ compiler, its first complaint, or a folder that cannot be written.
    """
    found = wheel()
    command = compiler_command()
    target = cache_folder() / "executorch-backend" / _key(found, command) / "libopdb_backend.so"
    if not target.is_file():
        with TemporaryDirectory(prefix="opdb-backend-") as folder:
            made = compile_backend(found, command, Path(folder))
            write_atomically(target, made.read_bytes())
    return target


def compile_backend(
    found: Wheel, command: Sequence[str], folder: Path, flags: Sequence[str] = (), more: Sequence[Path] = ()
) -> Path:
    """Compiles the sources and ``more`` into a library in ``folder``; ``flags`` are added.  Raises OpdbError."""
    common = [*command, *FLAGS, *flags, *found.flags, *(f"-I{path}" for path in includes())]
    objects = [folder / f"{path.stem}.o" for path in (*sources(), *more)]

    def compile_one(source: Path, out: Path) -> None:
        _run([*common, "-c", str(source), "-o", str(out)], source.name)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_one, (*sources(), *more), objects))
    target = folder / "libopdb_backend.so"
    _run(
        [*command, *flags, "-shared", "-o", str(target), *map(str, objects), *found.link, "-ldl"], target.name
    )
    return target


def compiler_command() -> list[str]:
    """The C++ compiler: CXX, or g++.  Raises OpdbError if it is not installed."""
    command = shlex.split(os.environ.get("CXX") or "g++")
    if not command or shutil.which(command[0]) is None:
        raise OpdbError(
            f"no C++ compiler: {command[0] if command else 'CXX'!r} is not on PATH; install one (Debian: apt-get "
            "install g++) or name yours in CXX"
        )
    return command


def _folder() -> Path:
    return Path(str(files("opdb.plugins.executorch"))) / "c" / "delegate"


def _key(found: Wheel, command: Sequence[str]) -> str:
    """The SHA-256 of everything that determines the library."""
    digest = hashlib.sha256(repr((found.version, found.core is None, tuple(command), FLAGS)).encode())
    digest.update(_run([*command, "--version"], command[0]).encode())
    headers = [path / "opdb" / name for path in includes() for name in HEADERS]
    for path in (*sources(), *sorted(_folder().glob("*.h")), *(h for h in headers if h.is_file())):
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)} ".encode() + content)
    return digest.hexdigest()


def _run(command: Sequence[str], what: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OpdbError(f"{what}: the backend for ExecuTorch was not built: {error}") from None
    if done.returncode:
        said = next((line for line in done.stderr.splitlines() if "error" in line), "no message")
        raise OpdbError(f"{what}: the backend for ExecuTorch was not built: {said.strip()}")
    return done.stdout


@dataclass(frozen=True)
class Loaded:
    """The backend in this process's runtime."""

    library: ctypes.CDLL

    def reason(self) -> str:
        """The reason why the last call of this thread failed in the backend, also in ExecuTorch's log; "" if none failed."""
        text: bytes = self.library.opdb_delegate_reason()
        return text.decode(errors="replace")

    def forget(self) -> None:
        """Resets ``reason`` to ""."""
        self.library.opdb_delegate_forget()


def load(libraries: Sequence[Path] | None = None) -> Loaded:
    """Loads the backend into the runtime of this process; repeated calls are fine.

    ``libraries``: folders with QNN's libraries, tried in this order; by default the ones that opdb finds
    (docs/reference/qnn-libraries.md).  A program for the C kernels needs none.  Raises OpdbError.
    """
    loaded = _loaded(build())
    folders = [found.folder for found in qnn_libraries.discover([])] if libraries is None else libraries
    if not loaded.library.opdb_delegate_qnn_libraries(os.pathsep.join(map(str, folders)).encode()):
        raise OpdbError("the folders with QNN's libraries are longer than 4095 bytes together; name fewer")
    return loaded


@cache
def _loaded(path: Path) -> Loaded:
    _load_runtime()
    try:
        library = ctypes.CDLL(str(path), mode=os.RTLD_LOCAL | os.RTLD_NOW)
    except OSError as error:
        raise OpdbError(f"{path}: this ExecuTorch cannot load the backend: {error}") from None
    library.opdb_delegate_reason.restype = ctypes.c_char_p
    library.opdb_delegate_qnn_libraries.restype = ctypes.c_bool
    library.opdb_delegate_instructions.restype = ctypes.c_bool
    library.opdb_delegate_kernels(ctypes.c_void_p(native.address_of_find()))
    if code := library.opdb_delegate_registered():
        raise OpdbError(f"{path}: ExecuTorch did not register {BACKEND}: error {code:#x}")
    return Loaded(library)


def _load_runtime() -> None:
    """Loads ExecuTorch's Python module, and makes its symbols global if they have no library of their own."""
    found = wheel()
    try:
        import torch  # noqa: F401  before its libraries are looked for

        if found.core is not None:
            portable_lib()
            return
        # selective_build holds its own runtime, which must resolve its own symbols: import it before another's become global.
        from executorch.codegen.tools import selective_build  # noqa: F401
        from executorch.extension.pybindings import _portable_lib
    except ImportError as error:
        raise OpdbError(f"{found.root}: ExecuTorch's runtime cannot be imported: {error}") from None
    ctypes.CDLL(_portable_lib.__file__, mode=os.RTLD_GLOBAL | os.RTLD_NOW)
