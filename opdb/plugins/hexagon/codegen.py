"""The additions to a C library for Hexagon: its own C runtime, a server of its ops, a Makefile for clang.

Debian has clang and lld for Hexagon and an emulator, but no C library and no compiler runtime.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opdb.codegen import c_sources
from opdb.codegen.environment import render

COMPILER, LINKER, ARCHIVER = "clang-19", "ld.lld-19", "llvm-ar-19"
#: v68 is the newest architecture for which QEMU runs clang's vector code: for v69 and later, clang vectorizes floats,
#: with HVX instructions that QEMU 10 lacks.
MACHINE = ("--target=hexagon-unknown-linux-musl", "-mv68", "-mhvx", "-mhvx-length=128b")
#: clang only vectorizes for HVX on request.
CFLAGS = ("-std=c99", "-O2", "-mllvm -hexagon-autohvx", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off",
          "-fno-math-errno", "-fno-trapping-math", "-ffunction-sections", "-fdata-sections", "-fno-stack-protector")  # fmt: skip
#: The runtime's functions must not be compiled into calls of themselves.
RUNTIME_CFLAGS = ("-std=gnu11", "-O2", "-ffreestanding", "-fno-builtin", "-Wall", "-Wextra", "-Werror",
                  "-ffp-contract=off", "-ffunction-sections", "-fno-stack-protector")  # fmt: skip
LDFLAGS = ("-nostdlib", "-static", "-fuse-ld=lld", "-Wl,--gc-sections")
HEADERS = ("inttypes", "math", "stdio", "string", "unistd")
RUNTIME = ("functions.c", "integers.c", "print.c", "reals.c", "system.c", "text.c")
SERVER = "opdb_server"


def folder(
    texts: Mapping[str, str], ops: Sequence[str], includes: Sequence[str], name: str
) -> dict[str, str]:
    """``texts``, the runtime, the server, and a Makefile: path -> text."""
    files = (*RUNTIME, "server.c", "counters.h", "frames.h", "reals.h", *(f"include/{h}.h" for h in HEADERS))
    runtime = c_sources.of_plugin("hexagon", "src/hexagon", files)
    made = render(
        "hexagon.mk.j2", name=name, ops=ops, server=SERVER, compiler=COMPILER, archiver=ARCHIVER, machine=MACHINE,
        cflags=CFLAGS, runtime_cflags=RUNTIME_CFLAGS, ldflags=LDFLAGS, includes=includes,
        sources=c_sources.sources(texts), headers=sorted(p for p in (*texts, *runtime) if p.endswith(".h")),
        runtime=[f"src/hexagon/{file}" for file in RUNTIME],
    )  # fmt: skip
    return dict(sorted({**texts, **runtime, "Makefile": made}.items()))
