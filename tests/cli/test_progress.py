"""Progress on stderr: lines in a pipe for what takes long, a bar on a terminal, nothing for what is quick or switched off."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import textwrap
import time

import pytest

from opdb.cli import progress
from opdb.cli.progress import Stages, working


@pytest.fixture(autouse=True)
def shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(progress.VARIABLE, "1")


def test_quick_stages_print_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with Stages(("open", "finalize")) as stages:
        stages("open")
        stages("finalize", "g")
        stages("finalize", "g", 1.0)
    assert capsys.readouterr() == ("", "")
    assert [(s, g) for s, g, _ in stages.seconds] == [("open", ""), ("finalize", "g")]


def test_a_long_stage_is_mentioned_while_it_runs_and_when_it_is_done(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.3)
    monkeypatch.setattr(progress, "STILL_SECONDS", 1.0)
    with Stages() as stages:
        stages("finalize", "g")
        time.sleep(1.8)
        stages("save")
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert lines[:2] == ["finalize g ...", "finalize g: 1 s so far"]
    assert lines[2].startswith("finalize g: 1.") and lines[2].endswith(" s") and len(lines) == 3


def test_the_parts_of_a_stage_are_counted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.2)
    with working("conformance") as stages:
        stages.count(3, 10, "qnn-htp SM8650")
        time.sleep(0.8)
    assert capsys.readouterr().err.splitlines()[0] == "conformance: 3 of 10, qnn-htp SM8650 ..."


def test_a_failed_stage_is_not_reported_as_done(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    stages = Stages()
    with pytest.raises(KeyError), stages:
        stages("open")
        stages("finalize", "g")
        raise KeyError
    done = [line.split(":")[0] for line in capsys.readouterr().err.splitlines() if line.endswith(" s")]
    assert done == ["open the library"]
    assert [s for s, _, _ in stages.seconds] == ["open"]


def test_it_can_be_switched_off(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(progress.VARIABLE, "0")
    monkeypatch.setattr(progress, "PATIENCE", 0.1)
    with working("export"):
        time.sleep(0.5)
    assert capsys.readouterr() == ("", "")


def on_a_terminal(program: str) -> tuple[str, str]:
    """What a Python program writes to a pipe at stdout, and to a terminal of 80 columns at stderr."""
    leader, follower = pty.openpty()
    env = {**os.environ, "COLUMNS": "80", "TERM": "xterm-256color", progress.VARIABLE: "1"}
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        stderr=follower,
        text=True,
        env=env,
    )
    os.close(follower)
    written = b""
    while True:
        try:
            part = os.read(leader, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        written += part
    out, _ = child.communicate()
    os.close(leader)
    assert child.returncode == 0
    return out, written.decode()


def test_a_terminal_shows_a_bar_and_the_pipe_gets_the_answer_alone() -> None:
    out, shown = on_a_terminal("""
        import time
        from opdb.cli.progress import Stages
        with Stages(("export", "lower")) as stages:
            stages("export")
            time.sleep(0.4)
            stages("lower", "net")
            time.sleep(0.4)
            print("the answer")
    """)
    assert out == "the answer\n"
    assert "export" in shown and "lower net" in shown and "0:00:00" in shown and "━" in shown
    last = shown.rsplit("\r", 1)[-1]
    assert "lower" not in last  # the bar disappears when it is done
