"""Finds the compiler for Hexagon, and the emulator."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from opdb.core.errors import OpdbError
from opdb.plugins.hexagon.codegen import ARCHIVER, COMPILER, LINKER

#: This variable names the emulator if it is not on PATH.
EMULATOR = "OPDB_QEMU_HEXAGON"
#: QEMU 7 lacks v68, and crashes in some of the kernels.
OLDEST = 10
_CURE = (
    f"install QEMU {OLDEST} or newer (Debian 12: qemu-user of bookworm-backports) or name it in {EMULATOR}"
)


def check_compiler() -> None:
    """Raises OpdbError if a part of the compiler for Hexagon is not installed."""
    missing = [tool for tool in (COMPILER, LINKER, ARCHIVER) if shutil.which(tool) is None]
    if missing:
        raise OpdbError(
            f"no compiler for Hexagon: {' and '.join(missing)} {'are' if missing[1:] else 'is'} not on PATH; install "
            "them (Debian: apt-get install clang-19 lld-19 llvm-19)"
        )


def emulator() -> str:
    """The path of QEMU's user-mode emulator of Hexagon.  Raises OpdbError if there is none or it is too old."""
    named = os.environ.get(EMULATOR)
    found = [shutil.which(name) for name in ([named] if named else ["qemu-hexagon", "qemu-hexagon-static"])]
    path = next(filter(None, found), None)
    if path is None:
        raise OpdbError(f"no emulator of Hexagon: {named or 'qemu-hexagon'} is not on PATH; {_CURE}")
    try:
        said = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=30, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OpdbError(f"{path}: the emulator of Hexagon does not start: {error}; {_CURE}") from None
    version = re.match(r"qemu-hexagon version (\d+)\.\S*", said)
    if version is None or int(version[1]) < OLDEST:
        got = version[0] if version else "no qemu-hexagon"
        raise OpdbError(f"{path}: {got}, which cannot run opdb's kernels; {_CURE}")
    return path
