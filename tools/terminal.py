"""Commands on a pseudo-terminal: what somebody sees who types them."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyte

#: The screen on which output is drawn is wider than the terminal, so that a line too long for it stays one line.
CANVAS = 1000


@dataclass(frozen=True)
class Shown:
    """What a command left on the screen, its exit code (None after the time limit), and its seconds."""

    lines: list[str]
    code: int | None
    seconds: float


def show(
    command: Sequence[str],
    env: Mapping[str, str],
    columns: int,
    folder: Path | None = None,
    timeout: float = 900,
) -> Shown:
    """Runs ``command`` on a terminal of ``columns`` by 24 that is its standard input, output, and error."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    began = time.monotonic()
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env={**env, "TERM": "xterm-256color"}, cwd=folder,
        start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    written = b""
    while time.monotonic() - began < timeout:
        if not select.select([ours], [], [], 1)[0]:
            if process.poll() is not None:
                break
            continue
        try:
            part = os.read(ours, 65536)
        except OSError:  # the last process that held the other end is gone
            break
        if not part:
            break
        written += part
    else:
        os.killpg(process.pid, 9)
    os.close(ours)
    code = process.wait()
    seconds = time.monotonic() - began
    return Shown(drawn(written.decode(errors="replace")), None if seconds >= timeout else code, seconds)


def drawn(written: str) -> list[str]:
    """The lines that are left after cursor movements and erasures (spinners, progress bars)."""
    screen = pyte.Screen(CANVAS, written.count("\n") + 2)
    pyte.Stream(screen).feed(written)
    lines = [line.rstrip() for line in screen.display]
    while lines and not lines[-1]:
        lines.pop()
    return lines
