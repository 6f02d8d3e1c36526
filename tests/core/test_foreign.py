"""Warnings of other projects' code are shown with -v alone; errors always."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import logging, sys, warnings
from opdb.core.foreign import hide_warnings
hide_warnings(sys.argv[1:])
warnings.warn("an interface changes", FutureWarning)
warnings.simplefilter("always")  # as some packages do when they are imported
warnings.warn("another changes", UserWarning)
logging.getLogger("torchao").warning("a library is not loaded")
logging.getLogger("torch").error("the export failed")
"""


def said(*words: str, python: tuple[str, ...] = ()) -> str:
    done = subprocess.run(
        [sys.executable, *python, "-c", PROGRAM, *words], capture_output=True, text=True, check=True
    )
    return done.stderr


def test_warnings_are_hidden_and_errors_are_not() -> None:
    assert said("compile", "model.onnx") == "the export failed\n"


@pytest.mark.parametrize("option", ["-v", "--verbose"])
def test_verbose_shows_them(option: str) -> None:
    text = said("compile", "model.onnx", option)
    for part in ("an interface changes", "another changes", "a library is not loaded", "the export failed"):
        assert part in text


def test_pythons_own_option_shows_them() -> None:
    assert "an interface changes" in said("compile", python=("-W", "default"))
