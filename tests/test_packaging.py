"""The wheel is complete and runs away from the checkout; the build names missing prerequisites."""

from __future__ import annotations

import email
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from opdb import __version__

ROOT = Path(__file__).parent.parent
NOT_SOURCE = (
    ".git",
    ".venv",
    "build",
    "dist",
    "report",
    "*.egg-info",
    "*.so",
    ".*_cache",
    ".hypothesis",
    "__pycache__",
)
#: Folder of the repository -> folder in the wheel.
ROOMS = {
    "opdb": "opdb",
    "codegen": "opdb/codegen",
    "generated/python": "opdb/generated",
    "generated/c": "opdb/generated/c",
    "migrations": "opdb/migrations",
    "runtime": "opdb/runtime",
    "specs": "opdb/specs",
}
#: Modules importable on a machine without extras, and modules they must not load.
LIGHT = (
    "opdb",
    "opdb.spec.definitions",
    "opdb.core.graph",
    "opdb.spec.lang",
    "opdb.spec.model",
    "opdb.core.op_config",
    "opdb.runtime.forms",
    "opdb.spec.files",
)
IMPORTED = (
    "opdb.cli",
    "opdb.codegen",
    "opdb.generated",
    "opdb.migrations",
    "opdb.runtime._native",
    "opdb.runtime.qnn._qnn",
)
HEAVY = ("alembic", "executorch", "numpy", "torch")


def _python(*args: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args], cwd=cwd, env=os.environ | env, capture_output=True, text=True, timeout=600
    )


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Only the sources, as in a fresh clone."""
    return shutil.copytree(
        ROOT, tmp_path_factory.mktemp("packaging") / "opdb", ignore=shutil.ignore_patterns(*NOT_SOURCE)
    )


@pytest.fixture(scope="module")
def wheel(checkout: Path) -> Path:
    built = _python("setup.py", "-q", "bdist_wheel", cwd=checkout)
    assert built.returncode == 0, built.stderr
    (path,) = (checkout / "dist").glob("*.whl")
    return path


@pytest.mark.breadth
def test_the_wheel_has_every_file_and_compiled_library(checkout: Path, wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = {
        f"{inside}/{file.relative_to(checkout / room).as_posix()}"
        for room, inside in ROOMS.items()
        for file in (checkout / room).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts and file.suffix != ".so"
    }
    assert expected - names == set()
    compiled = {n for n in names if n.endswith(".so")}
    assert compiled == {
        "opdb/runtime/_native.abi3.so",
        "opdb/runtime/forward/libopdb_qnn_forward.so",
        "opdb/runtime/qnn/_qnn.abi3.so",
    }


@pytest.mark.breadth
def test_one_wheel_serves_all_versions_and_requires_no_extra(wheel: Path) -> None:
    assert wheel.name == f"qnn_opdb-{__version__}-cp311-abi3-linux_x86_64.whl"
    with zipfile.ZipFile(wheel) as files:
        folder = f"qnn_opdb-{__version__}.dist-info"
        said = email.message_from_bytes(files.read(f"{folder}/METADATA"))
        assert {"opdb/py.typed", f"{folder}/licenses/LICENSE"} <= set(files.namelist())
    needed = {r.split(";")[0] for r in said.get_all("Requires-Dist", []) if "extra ==" not in r}
    assert len(needed) > 10 and not [r for r in needed if r.startswith(("torch", "executorch", "onnx"))]
    assert said["Description-Content-Type"] == "text/markdown" and "# opdb: which parts of your model" in str(
        said.get_payload()
    )


@pytest.mark.breadth
def test_the_wheel_runs_away_from_the_checkout(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    program = (
        f"import ctypes, importlib, importlib.resources as r\nfor name in {IMPORTED}:\n"
        "    print(importlib.import_module(name).__file__)\n"
        "print(*(p for p in (r.files('opdb.specs') / 'ops').iterdir()), sep='\\n')\n"
        "forward = r.files('opdb.runtime') / 'forward' / 'libopdb_qnn_forward.so'\n"
        "ctypes.CDLL(str(forward)).QnnInterface_getProviders\n"
    )
    done = _python("-c", program, cwd=tmp_path, PYTHONPATH=str(site))
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if not line.startswith(str(site))] == []


@pytest.mark.parametrize("module", LIGHT)
def test_a_light_module_loads_nothing_heavy(module: str, tmp_path: Path) -> None:
    done = _python("-c", f"import sys, {module}; print(*(sys.modules.keys() & {set(HEAVY)}))", cwd=tmp_path)
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_a_missing_compiler_is_named(checkout: Path) -> None:
    done = _python("setup.py", "-q", "build_ext", cwd=checkout, CC="no-such-compiler")
    assert done.returncode == 1
    assert "opdb: no C compiler: 'no-such-compiler' is not on PATH; install one" in done.stderr
    assert "Traceback" not in done.stderr
