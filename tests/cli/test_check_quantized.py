"""`opdb check --quantize` predicts what `opdb compile` does, run as a process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.vendor
MODELS = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 16, 3, stride=2, padding=1)
        self.b = nn.BatchNorm2d(16)
        self.d = nn.Conv2d(16, 16, 3, groups=16, padding=1)
        self.l = nn.Linear(16, 10)
        self.n = nn.LayerNorm(10)
    def forward(self, x):
        x = nn.functional.silu(self.b(self.c(x)))
        x = nn.functional.gelu(self.d(x))
        return nn.functional.softmax(self.n(self.l(x.mean((2, 3)))), -1)
def net():
    torch.manual_seed(0)
    return Net().eval(), (torch.randn(2, 3, 32, 32),)
class Odd(nn.Module):
    def forward(self, x):
        return torch.log(x.abs() + 1) + torch.sin(x) * 2
class Rest(nn.Module):
    def forward(self, x, y):
        return torch.fmod(x, y)
def rest():
    return Rest().eval(), (torch.randn(2, 8), torch.randn(2, 8))
class Sorted(nn.Module):
    def forward(self, x):
        values, places = torch.sort(torch.special.erfinv(torch.tanh(x)), -1)
        return values * 2, places
def sorts():
    return Sorted().eval(), (torch.randn(2, 16),)
def odd():
    return Odd().eval(), (torch.linspace(-3, 3, 64).reshape(2, 32),)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "models.py").write_text(MODELS)
    return tmp_path


def opdb(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "opdb", *args], cwd=folder, capture_output=True, text=True, timeout=300
    )


def compiled(folder: Path, model: str, soc: str, scheme: str) -> subprocess.CompletedProcess[str]:
    options = ("--soc", soc, "--quantize", scheme, "--data", "example", "--execution", "emulator")
    return opdb(folder, "compile", model, *options, "-o", "out.bin", "--json")


@pytest.mark.parametrize("scheme", ["8a8w", "16a8w"])
@pytest.mark.parametrize("soc", ["QCM6490", "SM8350", "SM8635", "SM8650"])
@pytest.mark.parametrize("model", ["net", "odd"])
def test_check_agrees_with_compile(folder: Path, model: str, soc: str, scheme: str) -> None:
    options = ("--soc", soc, "--quantize", scheme, "--execution", "emulator", "--json")
    checked = opdb(folder, "check", f"models.py:{model}", *options)
    made = compiled(folder, f"models.py:{model}", soc, scheme)
    document = json.loads(checked.stdout)
    assert document["quantize"] == scheme
    assert (checked.returncode == 0) == (made.returncode == 0), (checked.stdout, made.stderr)
    if model == "net":
        assert made.returncode == 0 and document["supported"] == document["nodes"]


def test_a_float_model_on_an_integer_chip_gets_a_hint(folder: Path) -> None:
    checked = opdb(folder, "check", "models.py:net", "--soc", "QCM6490")
    first, about, *others = checked.stdout.splitlines()
    assert first == "All 9 nodes run on the NPU (HTP QCM6490), in 1 graph."
    assert about.startswith("QCM6490 has no floating point on the NPU: the model is judged in 8a8w, ")
    assert checked.returncode == 0 and len(others) < 5
    tables = opdb(folder, "check", "models.py:odd", "--soc", "QCM6490")
    assert tables.returncode == 0 and len(tables.stdout.splitlines()) <= 25
    for node in ("log", "sin"):
        assert [line for line in tables.stdout.splitlines() if line.startswith(f"note: {node}: as a table: ")]


def test_check_and_compile_name_nodes_without_a_form(folder: Path) -> None:
    """Fmod of two tensors cannot be a table and has no integer type row."""
    refused = opdb(folder, "check", "models.py:rest", "--soc", "QCM6490")
    assert refused.returncode == 1 and "falls back to the CPU" in refused.stdout.partition("\n")[0]
    options = ("--soc", "QCM6490", "--quantize", "8a8w", "--data", "example", "-o", "x.bin")
    ended = opdb(folder, "compile", "models.py:rest", *options)
    assert ended.returncode in (1, 2) and not (folder / "x.bin").exists()


def test_bad_schemes_and_data_are_rejected(folder: Path) -> None:
    for options, message in (
        (("--quantize", "4a4w"), "--quantize 4a4w: no such recipe; give one of 8a8w, 16a8w"),
        (("--quantize", "8a8w", "--data", "example"), "measures them on data"),
    ):
        ended = opdb(folder, "check", "models.py:net", "--soc", "SM8650", *options)
        assert ended.returncode == 2 and message in ended.stderr


def test_neighbors_of_a_host_node_are_judged_in_integers(folder: Path) -> None:
    done = opdb(folder, "check", "models.py:sorts", "--soc", "QCM6490", "--quantize", "16a8w", "--json")
    assert done.returncode == 1, done.stderr
    rows = {row["target"]: row for row in json.loads(done.stdout)["rows"]}
    assert rows["aten.erfinv.default"]["verdict"] == "host"
    for target in ("aten.tanh.default", "aten.sort.default", "aten.mul.Tensor"):
        row = rows[target]
        assert (row["verdict"], row["types"], row["warnings"]) == ("supported", "uq16", []), target
