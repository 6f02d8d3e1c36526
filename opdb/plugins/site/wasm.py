"""Compiles the validator of each op to WebAssembly: one small module per op, freestanding, by clang and wasm-ld.

The same C files as everywhere (``opdb.generated.c``, ``opdb.runtime``) with ``c/bridge.c``, which takes an op config as numbers, and
``c/libc.c``, since wasm32 has no C library.  Nothing is committed or put into the wheel: the C is in both, a module depends on the
compiler's version, and all of them take seconds.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path

from opdb.codegen.c_sources import plugin_folder, runtime_folder
from opdb.codegen.rules import snake
from opdb.core.errors import OpdbError

COMPILER, LINKER = "clang", "wasm-ld"
#: As runtime/build_cffi.py: a * b + c has two roundings.
FLAGS = ("--target=wasm32", "-Oz", "-std=c99", "-ffreestanding", "-fno-builtin", "-ffunction-sections", "-fdata-sections",
         "-fvisibility=hidden", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror")  # fmt: skip
#: A report is on the stack of some rules: 28 KB.
LINKS = ("--no-entry", "--gc-sections", "--strip-all", "-z", "stack-size=262144")
SECONDS = 120


def missing() -> str | None:
    """What has to be installed to compile, as a line with the cure; None if all is there."""
    lacking = [tool for tool in (COMPILER, LINKER) if shutil.which(tool) is None]
    if not lacking:
        return None
    return f"{' and '.join(lacking)} {'are' if lacking[1:] else 'is'} not on PATH (Debian: apt-get install clang lld)"


def modules(
    ops: Sequence[str], count: Callable[[int, int], None] = lambda done, total: None
) -> dict[str, bytes]:
    """The module of each op by its name.  ``count`` is told how many of how many are done.

    Raises OpdbError without the compiler, or with the compiler's first error.
    """
    lacking = missing()
    if lacking:
        raise OpdbError(lacking)
    generated, runtime, own = (
        Path(str(files("opdb.generated"))) / "c",
        runtime_folder(),
        plugin_folder("site"),
    )
    if not generated.is_dir():  # a checkout: generated/c is no part of opdb.generated there
        generated = Path(str(files("opdb.generated"))).parent / "c"
    includes = [own / "include", generated / "include", runtime / "include", runtime / "src" / "kernels"]
    flags = [*FLAGS, *(f"-I{folder}" for folder in includes)]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as threads:
        at = Path(folder)

        def compiled(source: Path, name: str, *more: str) -> Path:
            _run([COMPILER, *flags, *more, "-c", str(source), "-o", str(at / name)], source.name)
            return at / name

        shared = list(
            threads.map(
                lambda s: compiled(s, f"{s.stem}.shared.o"),
                [*sorted((runtime / "src").glob("*.c")), own / "libc.c"],
            )
        )

        def module(op: str) -> bytes:
            bridge = compiled(own / "bridge.c", f"{op}.bridge.o", f"-DOPDB_WEB_OP={op}")
            validator = compiled(generated / "src" / f"{snake(op)}.c", f"{op}.o")
            made = at / f"{op}.wasm"
            _run([LINKER, *LINKS, *map(str, shared), str(bridge), str(validator), "-o", str(made)], op)
            return made.read_bytes()

        found = {}
        for op, data in zip(ops, threads.map(module, ops), strict=True):
            found[op] = data
            count(len(found), len(ops))
    return found


def _run(command: Sequence[str], what: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OpdbError(f"{what}: {command[0]} did not compile it to WebAssembly: {error}") from None
    if done.returncode:
        said = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip())
        raise OpdbError(f"{what}: {command[0]} did not compile it to WebAssembly: {said}")
