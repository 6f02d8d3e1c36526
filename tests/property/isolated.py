"""Runs a function in a forked child, so that a sanitizer's abort is a test failure instead of the end of pytest."""

from __future__ import annotations

import os
import pickle
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def isolated(function: Callable[[], T]) -> T:
    """The result of ``function``; AssertionError with the child's output if it died."""
    with tempfile.TemporaryDirectory() as folder:
        result, words = Path(folder, "result"), Path(folder, "stderr")
        child = os.fork()
        if child == 0:
            _child(function, result, words)
        _, status = os.waitpid(child, 0)
        said = words.read_text(errors="replace") if words.exists() else ""
        if status != 0 or not result.exists():
            raise AssertionError(f"the child ended with status {status}:\n{said[-4000:]}")
        value: T = pickle.loads(result.read_bytes())
        return value


def _child(function: Callable[[], object], result: Path, words: Path) -> None:
    code = 1
    try:
        stream = os.open(words, os.O_WRONLY | os.O_CREAT)
        os.dup2(stream, 2)
        result.write_bytes(pickle.dumps(function()))
        code = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)
