"""`opdb add-op` from a name to numbers, in a copy of the checkout: three operators missing in ExecuTorch's list.

A person edits one file each time, the spec; PyTorch is the reference for QNN's CPU library.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import ROOT

pytestmark = [pytest.mark.native, pytest.mark.vendor, pytest.mark.torch]
FOLDERS = ("opdb", "codegen", "generated", "runtime", "specs", "migrations", "build")
#: Import names of folders beside the package, as setup.py has them.
INSIDE = {"codegen": "codegen", "runtime": "runtime", "specs": "specs", "migrations": "migrations"} | {
    "generated": "generated/python"
}
LIBRARY = """
import torch


@torch.library.custom_op("mylib::my_relu", mutates_args=())
def my_relu(x: torch.Tensor) -> torch.Tensor:
    return torch.clamp(x, min=0)


@my_relu.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)
"""
SCATTER = {
    "when": 'include_self and reduce in ("sum", "prod", "amax") and index.shape[1:] == self.shape[1:]',
    "why": "QNN starts from x, and has no mean and no minimum.",
    "reduction": """'ADD if reduce == "sum" else MUL if reduce == "prod" else MAX'""",
}
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory, libraries: object) -> Path:
    """A copy of the checkout, as if cloned and built."""
    root = tmp_path_factory.mktemp("checkout")
    for name in FOLDERS:
        if (ROOT / name).is_dir():
            kept = shutil.ignore_patterns("__pycache__", "*.db*", "lint", "packages")
            shutil.copytree(
                ROOT / name,
                root / name,
                ignore=kept if name == "build" else shutil.ignore_patterns("__pycache__"),
            )
    for file in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy2(ROOT / file, root / file)
    for name, folder in INSIDE.items():
        (root / "opdb" / name).symlink_to(Path("..", folder))
    return root


@pytest.fixture
def opdb(checkout: Path) -> Run:
    """The command of the copied checkout."""

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        own = {"PYTHONPATH": str(checkout), "OPDB_URL": f"sqlite:///{checkout / 'opdb.db'}"}
        environment = {k: v for k, v in os.environ.items() if k != "OPDB_SPECS"} | own
        command = [sys.executable, "-m", "opdb", *args]
        return subprocess.run(
            command, cwd=checkout, env=environment, capture_output=True, text=True, timeout=900, check=False
        )

    return run


def digests(root: Path, folder: str) -> dict[str, str]:
    files = (p for p in (root / folder).rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    return {p.relative_to(root).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {p for p in before.keys() | after.keys() if before.get(p) != after.get(p)}


def calls(opdb: Run, op: str, target: str, *more: str) -> list[dict[str, Any]]:
    done = opdb("conformance", "torch", op, "--torch", target, "--json", *more)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.mark.sweep
def test_another_scatter_reduction_can_be_mapped(checkout: Path, opdb: Run) -> None:
    """Argument `reduce` has no counterpart by name: the command asks for it instead of guessing."""
    path, target = checkout / "specs" / "ops" / "ScatterElements.yaml", "aten.scatter_reduce.two"
    specs, generated = digests(checkout, "specs"), digests(checkout, "generated")
    done = opdb("add-op", "ScatterElements", "--torch", target, "--yes")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    left = [line for line in done.stdout.splitlines() if line.startswith("left: ")]
    assert [line.split("'")[1] for line in left] == ["include_self", "reduce"]
    assert all(line.startswith("left: ops/ScatterElements.yaml:") for line in left)
    assert digests(checkout, "generated") == generated  # half a mapping generates no files
    refused = opdb("generate")
    assert refused.returncode == 2 and "'reduce' of aten.scatter_reduce.two is neither read" in refused.stderr

    drafted = path.read_text(encoding="utf-8")
    head, mark, mine = drafted.partition(f"  {target}:\n")
    kept = [line for line in mine.splitlines(keepends=True) if not line.startswith("    # ")]
    mine = f"    when: {SCATTER['when']}\n    why: {SCATTER['why']}\n" + "".join(kept)
    axis = "      axis: dim % self.rank\n"
    mine = mine.replace(axis, f"{axis}      reduction: {SCATTER['reduction']}\n", 1)
    path.write_text(head + mark + mine, encoding="utf-8")

    done = opdb("add-op", "ScatterElements", "--torch", target, "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert changed(specs, digests(checkout, "specs")) == {"specs/ops/ScatterElements.yaml"}
    assert {
        "generated/python/builders/scatter_elements.py",
        "generated/tables/executorch/op-support.csv",
    } <= changed(generated, digests(checkout, "generated"))
    found = calls(opdb, "ScatterElements", target)
    assert {c["outcome"] for c in found} == {"same"}  # without include_self by a decomposition
    for reduce in ("sum", "prod", "amax"):
        assert any(f"reduce='{reduce}', include_self=True" in c["arguments"] for c in found)


@pytest.mark.sweep
def test_a_removed_mapping_can_be_restored(checkout: Path, opdb: Run) -> None:
    """A person restores the scheme, the amounts, and the guard."""
    path, target = checkout / "specs" / "ops" / "Pad.yaml", "aten.replication_pad2d.default"
    whole = path.read_text(encoding="utf-8")
    start, end = whole.index(f"  {target}:\n"), whole.index("  aten.reflection_pad2d.default:\n")
    removed = whole[start:end]
    path.write_text(whole[:start] + whole[end:], encoding="utf-8")
    done = opdb("add-op", "Pad", "--torch", target, "--yes")
    assert done.returncode == 1
    left = [
        line.partition(": ")[2].partition(": ")[2]
        for line in done.stdout.splitlines()
        if line.startswith("left: ")
    ]
    assert [w.split("'")[1] for w in left] == ["pad_amount", "scheme", "padding"]
    drafted = path.read_text(encoding="utf-8")
    assert "# to fill in: Pad needs the parameter 'scheme'; it is enum {CONSTANT: 0" in drafted
    block = drafted[drafted.index(f"  {target}:\n") : drafted.index("quant:\n")]
    given = [line for line in block.splitlines() if not line.startswith("    # ")]
    assert set(given) <= set(removed.splitlines())  # every drafted line is unchanged
    path.write_text(drafted.replace(block, removed), encoding="utf-8")
    assert sorted(path.read_text(encoding="utf-8").splitlines()) == sorted(whole.splitlines())

    assert opdb("sync").returncode == 0 and opdb("generate").returncode == 0
    found = calls(opdb, "Pad", target)
    assert {c["outcome"] for c in found} == {"same", "refused"}
    assert sum(c["outcome"] == "same" for c in found) >= 9
    assert all("-1" in c["arguments"] for c in found if c["outcome"] == "refused")


@pytest.mark.breadth
def test_a_custom_operator_gets_a_custom_package(checkout: Path, opdb: Run) -> None:
    (checkout / "mylib.py").write_text(LIBRARY, encoding="utf-8")
    specs = digests(checkout, "specs")
    asked = ("--torch", "mylib.my_relu.default", "--torch-library", "mylib.py")
    unknown = opdb(
        "add-op", "MyRelu", "--torch", "mylib.my_rel.default", *asked[2:], "--like", "Relu", "--yes"
    )
    assert unknown.returncode == 2 and "PyTorch knows no operator mylib.my_rel.default" in unknown.stderr
    done = opdb("add-op", "MyRelu", *asked, "--like", "Relu", "--package", "MyOps", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert changed(specs, digests(checkout, "specs")) == {"specs/ops/MyRelu.yaml"}
    said = done.stdout
    for made in ("python/builders/my_relu.py", "python/constants/quant.py", "c/packages/MyOps.c", "docs/ops/MyRelu.md",
                 "tables/executorch/op-support.csv"):  # fmt: skip
        assert f"  generated/{made}\n" in said
    assert "    signature: my_relu(Tensor x) -> Tensor\n" in said
    assert (checkout / "build/packages/MyOps/libs/cpu/libQnnMyOps.so").is_file()
    assert "mylib.my_relu.default: 3 calls on qnn-cpu: 3 as PyTorch\n" in said
    counts = {line.split("  ")[1]: line for line in said.splitlines() if line.endswith(("stated", "asked"))}
    assert {"python", "c", "qnn-cpu"} <= counts.keys() and " wrong" not in said
    builder = (checkout / "generated/python/builders/my_relu.py").read_text(encoding="utf-8")
    assert 'package="MyOps"' in builder
