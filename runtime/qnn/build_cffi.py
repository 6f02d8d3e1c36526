"""Builds opdb.runtime.qnn._qnn: QNN's declarations and the C functions of qnn_binding.c, for Python.

setuptools runs it (cffi_modules in setup.py) from the repository's root; paths in an sdist must be relative.
"""

from __future__ import annotations

import re
from pathlib import Path

from cffi import FFI

ROOT = Path(__file__).resolve().parents[2]
ABI = [f"generated/c/include/opdb/qnn_{part}.h" for part in ("abi", "htp", "system")]
BINDING = "runtime/qnn/qnn_binding.h"


def declarations() -> str:
    """The C declarations for Python: the headers without parts that cffi does not support (va_list)."""
    abi = "".join(_between(path, "/* Declarations begin. */", "/* Declarations end. */") for path in ABI)
    abi = re.sub(r"[^;{}]*\bQnnLog_Callback_t\b[^;]*;", "", abi)
    abi = abi.replace("} QnnInterface_Functions_t;", "...; } QnnInterface_Functions_t;")
    return abi + _between(BINDING, "/* CDEF: what follows is read by build_cffi.py. */", "/* CDEF end. */")


def _between(path: str, begin: str, end: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8").split(begin)[1].split(end)[0]


ffibuilder = FFI()
ffibuilder.cdef(declarations())
ffibuilder.set_source(
    "opdb.runtime.qnn._qnn",
    '#include "qnn_binding.h"',
    sources=["runtime/qnn/qnn_binding.c"],
    depends=[*ABI, BINDING],
    include_dirs=["generated/c/include", "runtime/qnn"],
    libraries=["dl", "pthread"],
    extra_compile_args=["-std=c99", "-O2", "-fvisibility=hidden"],
)
