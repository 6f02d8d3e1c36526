"""`opdb recipe show`, and recipes from a file, as processes: in a context file, in check, and in a .pte."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from opdb.runtime.qnn import context_file

MODEL = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 32, 1), nn.ReLU(), nn.Conv2d(32, 32, 1))
        self.head = nn.Linear(32, 10)
    def forward(self, x):
        return torch.softmax(self.head(self.features(x).mean((2, 3))), -1)
def make():
    torch.manual_seed(0)
    return Net().eval(), (torch.randn(2, 3, 8, 8),)
"""
RECIPE = """\
base: 8a8w
activations: {observer: mse}
rules:
  - module: head
    activations: {bits: 16}
  - operator: softmax
    float: true
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "mixed.yaml").write_text(RECIPE)
    return tmp_path


def opdb(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "opdb", *args]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def test_show_lists_recipes_and_round_trips_a_file(folder: Path) -> None:
    names = opdb(folder, "recipe", "show")
    assert names.returncode == 0 and [line.split()[0] for line in names.stdout.splitlines()] == [
        "8a8w", "16a8w", "16a4w", "16a4w-block", "8a4w", "16a16w", "fp16",
    ]  # fmt: skip
    assert max(len(line) for line in names.stdout.splitlines()) <= 140
    own = opdb(folder, "recipe", "show", "mixed.yaml")
    (folder / "again.yaml").write_text(own.stdout)
    assert opdb(folder, "recipe", "show", "again.yaml").stdout == own.stdout
    assert json.loads(opdb(folder, "recipe", "show", "mixed.yaml", "--json").stdout)["rules"] == [
        {"module": "head", "activations": {"bits": 16}},
        {"operator": "softmax", "float": True},
    ]


@pytest.mark.parametrize(
    "command", [("check",), ("compile", "-o", "x.bin", "--data", "example"), ("recipe",)]
)
def test_a_faulty_file_gives_one_error(folder: Path, command: tuple[str, ...]) -> None:
    (folder / "mixed.yaml").write_text(RECIPE.replace("operator", "operators"))
    name, *more = command
    given = (
        ("show", "mixed.yaml")
        if name == "recipe"
        else ("model.py:make", "--soc", "SM8650", "--quantize", "mixed.yaml")
    )
    said = opdb(folder, name, *given, *more)
    assert (
        said.returncode == 2
        and "mixed.yaml:6:5: unknown field 'operators'; did you mean 'operator'?" in said.stderr
    )
    assert "Traceback" not in said.stderr and not (folder / "x.bin").exists()


@pytest.mark.vendor
def test_a_context_file_has_its_recipe(folder: Path) -> None:
    options = ("--soc", "SM8650", "--quantize", "mixed.yaml", "--execution", "emulator")
    checked = opdb(folder, "check", "model.py:make", *options, "--json")
    assert checked.returncode == 0, checked.stderr
    rows: list[dict[str, Any]] = json.loads(checked.stdout)["rows"]
    told = {r["node"]: r.get("said") for r in rows if r.get("said")}
    assert told == {"softmax": ["in floats: the recipe says so"]}
    made = opdb(folder, "compile", "model.py:make", *options, "--data", "example", "-o", "x.bin", "--json")
    assert made.returncode == 0, made.stderr
    tensors = json.loads(made.stdout)["calibration"]["tensors"]
    kinds = {name: t["dtype"] for name, t in tensors.items()}
    assert kinds["linear"] == "uq16" and {"uq8"} == {kinds[n] for n in kinds if n.startswith("conv")}
    recipe = context_file.read(folder / "x.bin").header.metadata["calibration"]["recipe"]
    assert recipe["activations"]["observer"] == "mse" and len(recipe["rules"]) == 2


@pytest.mark.vendor
def test_fp16_quantizes_nothing(folder: Path) -> None:
    options = ("model.py:make", "--quantize", "fp16", "--execution", "emulator")
    assert opdb(folder, "check", *options, "--soc", "SM8650").returncode == 0
    assert opdb(folder, "check", *options, "--soc", "QCM6490").returncode == 1  # no floating point
    made = opdb(folder, "compile", *options, "--soc", "SM8650", "-o", "x.bin", "--json")
    assert made.returncode == 0 and json.loads(made.stdout)["calibration"] is None
    data = opdb(folder, "compile", *options, "--soc", "SM8650", "-o", "x.bin", "--data", "example")
    assert data.returncode == 2 and "quantizes nothing; leave --data and --ranges out" in data.stderr


@pytest.mark.vendor
def test_the_recipe_file_also_applies_to_a_pte(folder: Path) -> None:
    options = ("model.py:make", "--soc", "SM8650", "--data", "example", "-o", "x.pte", "--json")
    made = opdb(folder, "compile", *options, "--quantize", "mixed.yaml")
    assert made.returncode == 0, made.stderr
    kinds = {name: t["dtype"] for name, t in json.loads(made.stdout)["calibration"]["tensors"].items()}
    assert kinds["linear"] == "uq16" and kinds["conv2d"] == "uq8" and "softmax" not in kinds
    pattern = opdb(folder, "compile", *options, "--quantize", "pattern.yaml")
    assert pattern.returncode == 2 and "--quantize pattern.yaml: No such file" in pattern.stderr
    (folder / "pattern.yaml").write_text("base: 8a8w\nrules:\n  - {pattern: linear_rows, float: true}\n")
    pattern = opdb(folder, "compile", *options, "--quantize", "pattern.yaml")
    assert pattern.returncode == 2 and "pattern: linear_rows is for a context file" in pattern.stderr
