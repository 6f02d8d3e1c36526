"""The ``opdb`` process exits at once even with PyTorch imported, yet flushes and exits cleanly."""

from __future__ import annotations

import subprocess
import sys

import pytest

from opdb import __version__

pytestmark = pytest.mark.torch


AT_EXIT = "atexit.register(print, 'at exit')"
CLOSED = "import os; ends = os.pipe(); os.close(ends[0]); os.dup2(ends[1], 1)"


def ended(arguments: str, before: str = AT_EXIT) -> subprocess.CompletedProcess[str]:
    code = f"""
import atexit, sys
import torch
from opdb.cli import run
{before}
sys.argv[1:] = {arguments.split()!r}
run()
print("not reached")
"""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_output_and_exit_handlers_are_completed() -> None:
    done = ended("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"opdb {__version__}\nat exit\n", "")


def test_bad_use_keeps_its_exit_code_and_error() -> None:
    done = ended("check nowhere.onnx --soc SM8650")
    assert done.returncode == 2
    assert done.stderr == "opdb: nowhere.onnx: no such file\n"
    assert done.stdout == "at exit\n"


def test_a_closed_pipe_gives_no_traceback() -> None:
    done = ended("--version", before=CLOSED)
    assert done.returncode in (0, 1) and done.stderr == ""
