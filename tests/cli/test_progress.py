"""Plain progress: a line per finished stage, and occasional lines during a long one."""

from __future__ import annotations

import pytest

from opdb.cli.progress import Stages


def test_a_line_is_printed_per_stage(capsys: pytest.CaptureFixture[str]) -> None:
    with Stages() as stages:
        stages("open")
        stages("finalize", "g")
        for so_far in (0.0, 1.0, 9.9, 10.1, 11.0, 19.0, 20.5, 39.0, 41.0):
            stages("finalize", "g", so_far)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["open", *["finalize g"] * 4]
    assert lines[1:4] == [f"finalize g: {s} s so far" for s in (10, 20, 41)]
    assert [(s, g) for s, g, _ in stages.seconds] == [("open", ""), ("finalize", "g")]


def test_a_failed_stage_is_not_reported_as_done(capsys: pytest.CaptureFixture[str]) -> None:
    stages = Stages()
    with pytest.raises(KeyError), stages:
        stages("open")
        stages("finalize", "g")
        raise KeyError
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == ["open"]
    assert [s for s, _, _ in stages.seconds] == ["open"]


def test_quiet_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with Stages(quiet=True) as stages:
        stages("open")
    assert capsys.readouterr() == ("", "")
    assert len(stages.seconds) == 1
