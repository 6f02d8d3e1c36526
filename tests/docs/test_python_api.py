"""The examples in the docstrings of opdb's public names, run as a user would, with QNN's libraries."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import opdb
from opdb.plugins.executorch import env

pytestmark = [pytest.mark.torch, pytest.mark.executorch, pytest.mark.vendor, pytest.mark.slow]

RUN = """
import doctest, importlib, sys
for name, module in [a.split("=") for a in sys.argv[1:]]:
    found = doctest.DocTestFinder(recurse=False).find(getattr(importlib.import_module(module), name), name, globs={})
    examples = [t for t in found if t.examples]
    assert examples, f"{name}: no example"
    runner = doctest.DocTestRunner()
    failed = sum(runner.run(t).failed for t in examples)
    assert not failed, f"{name}: {failed} examples fail"
"""


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"sqlite:///{tmp_path_factory.mktemp('database') / 'opdb.db'}"
    subprocess.run([sys.executable, "-m", "opdb", "init", "--db", url], check=True, capture_output=True)
    return url


@pytest.mark.parametrize("name", sorted(opdb._MODULES))
def test_the_example_of_a_public_name_runs(name: str, database: str, tmp_path: Path) -> None:
    environment = env.prepare().variables if name == "register" else {}
    done = subprocess.run(
        [sys.executable, "-c", RUN, f"{name}={opdb._MODULES[name]}"],
        cwd=tmp_path, env={**os.environ, **environment, "OPDB_URL": database}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_public_name_exists() -> None:
    for name in opdb.__all__:
        assert getattr(opdb, name) is not None
    assert set(opdb.__all__) == {*opdb._MODULES, "__version__"}
