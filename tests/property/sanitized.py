"""The generated C and the runtime under UBSan, as a module that stands in for opdb.runtime._native."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from cffi import FFI

from opdb.runtime import build_cffi

FLAGS = ["-std=c99", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]
UNDEFINED = ["-fsanitize=undefined", "-fno-sanitize-recover=all"]


def build(folder: Path, root: Path = build_cffi.ROOT, name: str = "opdb_native_undefined") -> ModuleType:
    """Compiles what setup.py compiles, with other flags, and loads it; undefined behaviour ends the process."""
    ffi = FFI()
    ffi.cdef(build_cffi.declarations())
    headers = [
        root / "generated/c/include",
        *(build_cffi.ROOT / f for f in ("runtime/include", "runtime/src/kernels")),
    ]
    ffi.set_source(
        name,
        '#include "opdb/runtime.h"\n#include "opdb/ops.h"\n',
        sources=[str(build_cffi.ROOT / s) for s in build_cffi.sources()],
        include_dirs=[str(h) for h in headers],
        libraries=["m"],
        extra_compile_args=[*FLAGS, *UNDEFINED],
        extra_link_args=UNDEFINED,
    )
    path = ffi.compile(tmpdir=str(folder))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
