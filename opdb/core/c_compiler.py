"""Compiles folders of C on this machine."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from opdb.core.errors import OpdbError

BUILD_SECONDS = 300


def compiled(folder: Path, what: str, command: Sequence[str], seconds: float = BUILD_SECONDS) -> None:
    """Runs a compiler, or make, in a folder for at most ``seconds``.  Raises OpdbError if there is none, or with its first error."""
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=seconds, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OpdbError(f"{folder}: {what} was not built: {error}") from None
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if "rror" in line] or [
            "no message"
        ]  # finds Python's errors, too
        raise OpdbError(f"{folder}: {what} was not built: {said[0].strip()}")


def make(folder: Path, what: str, *variables: str) -> None:
    """Runs ``make`` in a folder that has a Makefile, with this machine's compiler.  Raises OpdbError as ``compiled`` does."""
    compiler = " ".join(compiler_command())
    compiled(folder, what, ["make", "--silent", "-j2", f"CC={compiler}", *variables])


def compiler_command() -> list[str]:
    """The C compiler: CC, or the one that Python was built with.  Raises OpdbError if it is not installed."""
    command = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    if not command or shutil.which(command[0]) is None:
        raise OpdbError(
            f"no C compiler: {command[0] if command else 'CC'!r} is not on PATH; install one (Debian: apt-get "
            "install gcc libc6-dev) or name yours in CC"
        )
    return command
