"""The generated C and the runtime under UBSan, as a replacement for opdb.runtime._native."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from cffi import FFI
from filelock import FileLock

from opdb.runtime import build_cffi

FLAGS = ["-std=c99", "-O0", "-Wall", "-Wextra", "-Werror"]
UNDEFINED = ["-fsanitize=undefined", "-fno-sanitize-recover=all"]


NAME = "opdb_native_undefined"


def build(folder: Path) -> ModuleType:
    """Loads the extension of setup.py compiled with other flags; undefined behavior ends the process.

    An existing build in ``folder`` is reused; processes that share it wait for one another.
    """
    with FileLock(folder / "lock"):
        path = next(folder.glob(f"{NAME}*.so"), None) or compiled(folder)
    spec = importlib.util.spec_from_file_location(NAME, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = module
    spec.loader.exec_module(module)
    return module


def compiled(folder: Path) -> Path:
    root = build_cffi.ROOT
    ffi = FFI()
    ffi.cdef(build_cffi.declarations())
    headers = [
        root / "generated/c/include",
        *(root / f for f in ("runtime/include", "runtime/src/kernels")),
    ]
    ffi.set_source(
        NAME,
        '#include "opdb/runtime.h"\n#include "opdb/ops.h"\n',
        sources=[str(root / s) for s in build_cffi.sources()],
        include_dirs=[str(h) for h in headers],
        libraries=["m"],
        extra_compile_args=[*FLAGS, *UNDEFINED],
        extra_link_args=UNDEFINED,
    )
    return Path(ffi.compile(tmpdir=str(folder)))
