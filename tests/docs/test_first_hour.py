"""The outputs that tools/first-hour keeps are those of the pages' commands, and fit the terminal."""

from __future__ import annotations

import re
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

from . import transcript
from .pages import ROOT

KEPT = ROOT / "docs" / "results" / "first-hour"
TEXTS = sorted(KEPT.glob("*.txt"))


@pytest.fixture(scope="module")
def first_hour() -> ModuleType:
    """tools/first-hour, which has no ending."""
    pytest.importorskip("pyte")
    for folder in ("tools", "tests/docs"):
        sys.path.insert(0, str(ROOT / folder))
    loader = SourceFileLoader("first_hour", str(ROOT / "tools" / "first-hour"))
    spec = spec_from_loader("first_hour", loader)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules["first_hour"] = module
    loader.exec_module(module)
    return module


def test_every_page_has_its_outputs_and_every_command_is_in_them(first_hour: ModuleType) -> None:
    """A page whose commands have changed is followed again: tools/first-hour --keep --page NAME."""
    stale = {
        page.stem
        for page in first_hour.all_pages()
        if (commands := [c for c in first_hour.commands(page) if not isinstance(c, first_hour.pages.Block)])
        and (
            not (text := KEPT / f"{page.stem}.txt").is_file()
            or transcript.commands(text.read_text()) != commands
        )
    }
    assert stale == set()
    assert {t.stem for t in TEXTS} <= {page.stem for page in first_hour.all_pages()}


def test_the_summary_counts_the_kept_commands() -> None:
    summary = (ROOT / "docs" / "results" / "first-hour.md").read_text(encoding="utf-8")
    counted = {name: int(n) for n, name in re.findall(r"\[(\d+)\]\(first-hour/([\w-]+)\.txt\)", summary)}
    assert counted == {t.stem: len(transcript.commands(t.read_text())) for t in TEXTS}


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.stem)
def test_no_kept_line_is_wider_than_the_terminal(text: Path) -> None:
    assert [line for step in transcript.steps(text.read_text()) for line in transcript.too_wide(step)] == []


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.stem)
def test_no_kept_output_is_a_crash(text: Path) -> None:
    steps = transcript.steps(text.read_text())
    for step, following in zip(steps, [*steps[1:], transcript.Step("", [])], strict=True):
        assert step.code in (0, 1) or following.command == "echo $?", step.command
        assert not any(line.startswith("Traceback ") for line in step.lines), step.command


def test_a_wide_line_and_a_broken_word_are_found() -> None:
    wide = transcript.Step("opdb query ops", ["library   /" + "x" * 81, "two " * 30])
    assert transcript.too_wide(wide) == ["two " * 30]
    assert transcript.too_wide(transcript.Step("pip install x", ["two " * 30])) == []
    narrow = transcript.Step("opdb query ops", ["ElementWise  yes", "Neuron"])
    assert transcript.broken(narrow, ["ElementWiseNeuron  yes"]) == ["ElementWise", "Neuron"]
    assert transcript.broken(narrow, ["ElementWise Neuron  yes"]) == []


def test_a_transcript_is_read_as_it_was_written() -> None:
    steps = [transcript.Step("opdb query ops", ["Relu", "Tanh"]), transcript.Step("echo $?", ["0"], 1)]
    assert transcript.steps("\n".join(s.text() for s in steps)) == steps
