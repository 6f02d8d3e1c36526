"""Builds opdb.runtime._native: generated validators, shims, and the kernels, for Python.

setuptools runs it (cffi_modules in setup.py) from the repository's root.
"""

from __future__ import annotations

import re
from pathlib import Path

from cffi import FFI

ROOT = Path(__file__).resolve().parents[1]
HEADERS = (
    "generated/c/include/opdb/dtypes.h",
    "generated/c/include/opdb/backends.h",
    "runtime/include/opdb/runtime.h",
    "generated/c/include/opdb/ops.h",
)


#: Only the first affects results: a * b + c has two roundings on every machine.  The others let gcc vectorize loops
#: that select, round, or take roots.
EXACT = ["-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]


def declarations() -> str:
    """The headers for cffi: without preprocessor lines, C++ guards, and small-stack variants."""
    text = "\n".join((ROOT / header).read_text(encoding="utf-8") for header in HEADERS)
    text = re.sub(r"#ifdef __cplusplus\n.*?#endif\n", "", text, flags=re.DOTALL)
    text = re.sub(r"#ifdef OPDB_SMALL_STACK\b[^\n]*\n.*?#else\n", "", text, flags=re.DOTALL)
    text = re.sub(r"^#(?:[^\n]*\\\n)*[^\n]*\n", "", text, flags=re.MULTILINE)
    return re.sub(
        r"^(void|size_t|opdb_status) opdb_(validate|infer|scratch|run)_[^;]*;", "", text, flags=re.MULTILINE
    )


def sources() -> list[str]:
    folders = ("generated/c/src", "generated/c/kernels", "runtime/src", "runtime/src/kernels")
    return sorted(p.relative_to(ROOT).as_posix() for f in folders for p in (ROOT / f).glob("*.c"))


ffibuilder = FFI()
ffibuilder.cdef(declarations())
ffibuilder.set_source(
    "opdb.runtime._native",
    '#include "opdb/runtime.h"\n#include "opdb/ops.h"\n',
    sources=sources(),
    include_dirs=["generated/c/include", "runtime/include", "runtime/src/kernels"],
    libraries=["m"],
    extra_compile_args=["-std=c99", "-O3", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden", *EXACT],
)
