"""Child processes: results and errors are returned, and crashes or hangs do no harm."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from opdb.core.errors import OpdbError
from opdb.plugins.executorch import env, process

from ... import forked

pytestmark = [pytest.mark.executorch, pytest.mark.vendor, pytest.mark.slow]

MODULE = """
import ctypes, os, sys, time
import numpy as np
from opdb.core.errors import OpdbError

def double(a, by=2): return {"a": a * by, "root": os.environ["QNN_SDK_ROOT"]}
def user_error(): raise OpdbError("this: is wrong; do that")
def bug(): print("about to fail", flush=True); return {}["missing"]
def segfault(): print("about to crash", flush=True); ctypes.string_at(0)
def hang(): print("about to hang", flush=True); time.sleep(600)
def leave(): sys.exit(3)
def unpicklable(): return lambda: None
def staged():
    from opdb.plugins.executorch.process import tell
    tell("lower"); time.sleep(0.2); tell("finalize"); return "done"
"""


@pytest.fixture(autouse=True, params=["started", "forked"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Starts children as for a user, and as for the other tests."""
    monkeypatch.setattr(process, "_run", forked.started if request.param == "started" else forked.run)


@pytest.fixture
def module(tmp_path: Path) -> Path:
    (tmp_path / "child_functions.py").write_text(MODULE)
    return tmp_path


def test_arguments_and_results_are_passed(environment: env.Environment, module: Path) -> None:
    a = np.arange(6.0).reshape(2, 3)
    got = process.call("child_functions:double", a, by=3, environment=environment, path=[module])
    assert np.array_equal(got["a"], a * 3) and got["root"] == str(environment.root)


def test_a_user_error_is_reraised(environment: env.Environment, module: Path) -> None:
    with pytest.raises(OpdbError, match=r"^this: is wrong; do that$"):
        process.call("child_functions:user_error", environment=environment, path=[module])


@pytest.mark.parametrize(
    ("function", "kind", "words"),
    [
        ("bug", "raised", "KeyError: 'missing'"),
        ("segfault", "crashed", "was killed by SIGSEGV"),
        ("leave", "crashed", "ended with exit code 3"),
        ("unpicklable", "raised", "pickle"),
    ],
)
def test_a_failure_shows_its_kind_and_last_lines(
    environment: env.Environment, module: Path, function: str, kind: str, words: str
) -> None:
    with pytest.raises(process.ChildError) as e:
        process.call(f"child_functions:{function}", environment=environment, path=[module])
    assert e.value.kind == kind
    assert words in str(e.value)
    if kind == "crashed" and function == "segfault":
        assert "| about to crash" in str(e.value)


def test_a_child_that_hangs_is_stopped(environment: env.Environment, module: Path) -> None:
    start = time.monotonic()
    with pytest.raises(process.ChildError, match=r"did not finish within 10 s[\s\S]*about to hang") as e:
        process.call("child_functions:hang", environment=environment, path=[module], timeout=10)
    assert e.value.kind == "hung" and time.monotonic() - start < 120


@pytest.mark.parametrize(
    "entry", ["child_functions:nothing", "no_such_module:f", "child_functions", "os:sep"]
)
def test_a_wrong_entry_is_one_clear_error(environment: env.Environment, module: Path, entry: str) -> None:
    with pytest.raises(OpdbError, match=entry):
        process.call(entry, environment=environment, path=[module])


def test_no_temporary_files_remain(
    environment: env.Environment, module: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    process.call("child_functions:double", 1, environment=environment, path=[module])
    assert os.listdir(scratch) == []


def test_stages_are_told_while_the_child_works(
    environment: env.Environment, module: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_run", forked.started)
    told: list[str] = []
    done = process.call(
        "child_functions:staged", environment=environment, path=[module], progress=told.append
    )
    assert (done, told) == ("done", ["lower", "finalize"])
