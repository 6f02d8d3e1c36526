"""Predictions of ``opdb check --executorch``, beside ExecuTorch's own partitioner with the vendor's validator."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from opdb.catalog.targets.target import Target
from opdb.core.errors import OpdbError
from opdb.plugins.executorch import env
from opdb.plugins.executorch.tools import check
from opdb.plugins.executorch.tools.check import check_model

pytestmark = [pytest.mark.executorch, pytest.mark.vendor, pytest.mark.slow]

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
HTP = Target("HTP", "SM8650", execution="emulator")
#: Convolutions in ExecuTorch's layout, a refused TopK, two graphs, ExecuTorch's own builders, attention, and all nodes alike.
MODELS = ("SimpleModel", "Conv2dTopK", "Conv2dArgmin", "Conv2dUnbind", "MultiheadAttention", "CDistForward")
MODEL = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(8, 8)

    def forward(self, x):
        x = torch.relu(self.first(x))
        x = torch.special.erfcx(x)
        return torch.sigmoid(x) + x.to(torch.float32)

def make():
    return Model(), (torch.randn(2, 8),)

class Outliers(torch.nn.Module):
    def forward(self, x):
        return (x.abs().clamp(max=300.0) ** 2).sum(-1) + 1e-9

def outliers():
    return Outliers(), (torch.randn(2, 8),)

def needs_data():
    return Needs(), (torch.randn(4),)

class Needs(torch.nn.Module):
    def forward(self, x):
        return x.relu() if x.sum() > 0 else x
"""


@pytest.fixture(scope="module")
def agreement() -> Any:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import check_agreement
    finally:
        sys.path.remove(str(BENCHMARKS))
    return check_agreement


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: env.Environment) -> Path:
    """A file with models; the child runs in the tests' environment."""
    monkeypatch.setattr(check.env, "prepare", lambda: environment)
    (tmp_path / "predicted_model.py").write_text(MODEL)
    return tmp_path / "predicted_model.py"


def test_predictions_match_executorch(agreement: Any, environment: env.Environment) -> None:
    found = agreement.compare([f"executorch.{name}" for name in MODELS], environment)
    assert {o.model: o.error for o in found if o.error} == {}
    assert [d for o in found for d in o.disagreements] == []
    assert [o.model for o in found if o.partitions[0] != o.partitions[1]] == []
    assert all(o.nodes for o in found) and any(o.delegated for o in found)


def test_rows_have_reasons_and_locations(model: Path) -> None:
    coverage = check_model(f"{model}:make", HTP)
    rows = {r.node: r for r in coverage.rows}
    assert [r.target for r in coverage.rows][:2] == ["aten.linear.default", "aten.relu.default"]
    (left,) = [r for r in coverage.rows if r.verdict != "supported"]
    assert (left.node, left.verdict) == ("aten_special_erfcx_default", "host")
    assert "QNN has no op for" in left.reasons[0]["message"] and "no builder" in left.reasons[1]["message"]
    assert left.line == "predicted_model.py:11: x = torch.special.erfcx(x)" and left.file == str(model)
    assert rows["aten_linear_default"].module == "first"
    assert rows["aten_linear_default"].flops == 2 * 2 * 8 * 8
    assert coverage.partitions == 2
    json.dumps(coverage.to_json())


def test_values_beyond_fp16_are_warned_of(model: Path) -> None:
    rows = check_model(f"{model}:outliers", HTP).rows
    found = {w["rule"]: w["message"] for row in rows for w in row.warnings}
    assert found.keys() >= {"FP16.SQUARES", "FP16.VANISHES"}, found
    assert "the constant 1e-09 is 0 in fp16" in found["FP16.VANISHES"]


def test_a_saved_program_is_judged_alike(model: Path, tmp_path: Path) -> None:
    from opdb.programs.load import load_model
    from opdb.programs.torch.export import export

    torch.export.save(export(*load_model(f"{model}:make")), tmp_path / "model.pt2")
    saved = check_model(str(tmp_path / "model.pt2"), HTP)
    made = check_model(f"{model}:make", HTP)
    assert [(r.node, r.verdict, r.line) for r in saved.rows] == [
        (r.node, r.verdict, r.line) for r in made.rows
    ]


def test_executorchs_refusals_are_one_clear_error(model: Path) -> None:
    with pytest.raises(OpdbError, match="needs_data: ExecuTorch's flow fails before it partitions"):
        check_model(f"{model}:needs_data", HTP)
    with pytest.raises(OpdbError, match="for HTP only, not for CPU"):
        check_model(f"{model}:make", Target("CPU"))
    with pytest.raises(OpdbError, match="no such file"):
        check_model("nowhere.py:make", HTP)


@pytest.mark.sweep
def test_predictions_match_on_all_models(agreement: Any, environment: env.Environment) -> None:
    """Skips models of missing packages; 99 % of all nodes and all counts of graphs agree."""
    sys.path.insert(0, str(BENCHMARKS))
    from _check_models import MODELS as ALL

    names = list(ALL)
    found = [o for i in range(0, len(names), agreement.CHUNK)
             for o in agreement.compare(names[i : i + agreement.CHUNK], environment)]  # fmt: skip
    assert {o.model: o.error for o in found if o.error and "No module named" not in o.error} == {}
    whole = [o for o in found if not o.error]
    nodes, agreeing = sum(o.nodes for o in whole), sum(o.agreeing for o in whole)
    assert len(whole) >= 30 and agreeing >= 0.99 * nodes, [d for o in whole for d in o.disagreements]
