"""A backend that no code names: its file, and how it is added to specs and to a process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import opdb.specs
from opdb.codegen import constants
from opdb.spec.catalog import Catalog

MINI = Path(__file__).parents[2] / "data/mini"
SPECS = Path(opdb.specs.__file__).parent
NPU = """\
backend: NPU
about: a made-up card
letter: N
chips: [SM8650, SM8750]
op_packages: {by: vendor, made: sources for the card's own compiler}
"""
RELU = {
    "op": "Relu",
    "inputs": [{"name": "x", "dtype": "FLOAT_32", "shape": [2, 3]}],
    "outputs": [{"name": "y", "dtype": "FLOAT_32", "shape": [2, 3]}],
}
#: The command, with the generated constants of a folder instead of the project's.
COMMAND = """
import sys
import opdb.generated.constants as constants
constants.__path__.insert(0, sys.argv.pop(1))
from opdb.cli import main
main()
"""


def with_file(folder: Path, text: str = NPU, specs: Path = MINI, name: str = "NPU") -> Path:
    """A copy of specs with one more backend."""
    made = folder / "specs"
    shutil.copytree(specs, made)
    (made / "backends" / f"{name}.yaml").write_text(text)
    return made


def write_constants(catalog: Catalog, folder: Path) -> Path:
    """The generated constants of a catalog."""
    folder.mkdir()
    for artifact in constants.python(catalog):
        name = Path(artifact.path).name
        if name in ("backends.py", "sdks.py"):
            (folder / name).write_text(artifact.text)
    return folder


def run(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Runs the real command in its own process, with the constants in ``folder``."""
    url = f"sqlite:///{folder.parent / 'run.db'}"
    return subprocess.run(
        [sys.executable, "-c", COMMAND, str(folder), *args],
        input=json.dumps(RELU),
        capture_output=True,
        text=True,
        env={**os.environ, "OPDB_URL": url, "COLUMNS": "200"},
        timeout=300,
        check=False,
    )
