"""opdb cost: its output, files, gates and refusals."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from .compiling import Here

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.vendor, pytest.mark.torch, pytest.mark.slow]
ON = ("--soc", "sa8255")
MODELS = """
import torch
from torch import nn

def net(channels=16, act=nn.ReLU):
    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv2d(3, channels, 3, padding=1), act(), nn.Conv2d(channels, channels, 3), act())
    return body.eval(), (torch.rand(1, 3, 32, 32),)

def wide():
    return net(64)

def refused():
    class Refused(nn.Module):
        def forward(self, x):
            return torch.special.bessel_j0(x)
    return Refused(), (torch.rand(4, 4),)
"""
RELU = {"op": "Relu", "inputs": [{"dtype": "FLOAT_32", "shape": [1, 8, 8, 32]}],
        "outputs": [{"dtype": "FLOAT_32", "shape": [1, 8, 8, 32]}]}  # fmt: skip


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str]) -> Here:
    return Here(capsys)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("models") / "models.py"
    path.write_text(MODELS)
    return str(path)


def test_text_gives_the_time_and_its_limits(here: Here, models: str) -> None:
    done = here("cost", f"{models}:net", *ON, "--by", "node", "--top", "2")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].startswith("net on SA8255: ")
    assert lines[0].endswith(" cycles")
    assert "fp16" in done.out
    assert "not measured" in done.out
    assert "not per-node costs" in done.out
    table = lines[lines.index("") + 1 :]
    assert table[0].split()[:3] == ["us", "share", "dma_wait_us"]
    assert table[4].startswith("and ")


def test_a_page_is_html_in_a_file(here: Here, models: str, tmp_path: Path) -> None:
    page, old = tmp_path / "page.html", tmp_path / "old.html"
    done = here("cost", f"{models}:net", *ON, "--format", "html", "-o", page)
    assert (done.code, done.out, done.err) == (0, "", f"written to {page}\n")
    text = page.read_text()
    assert text.startswith("<!doctype html>") and "Engines over time" in text
    done = here("cost", f"{models}:net", *ON, "--html", old)
    notice = (
        f"opdb: --html {old} is now written --format html -o {old}; the old form goes with the next release\n"
    )
    assert (done.code, done.err) == (0, notice) and done.out
    timeless = [re.sub(r"finalized in [\d.]+ s", "", page) for page in (old.read_text(), text)]
    assert timeless[0] == timeless[1]


def test_json_has_the_figures_and_the_rows(here: Here, models: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    done = here(
        "cost",
        f"{models}:net",
        *ON,
        "--by",
        "module",
        "--trace",
        trace,
        "--json",
    )
    assert (done.code, done.err) == (0, "")
    told = done.document
    assert (told["soc"], told["qnn"], told["by"], told["quantize"]) == ("SA8255", "2.51", "module", None)
    assert told["simulator"]["sim_core_freq"] == 1497.6
    assert told["us"] == told["graphs"][0]["us"] == pytest.approx(told["cycles"] / 1497.6)
    assert sum(r["us"] for r in told["rows"]) == pytest.approx(told["us"], rel=0.01)
    assert {"0", "2"} & {r["what"] for r in told["rows"]}  # the names of the modules
    assert (told["at_least"], told["failed"], told["against"]) == (False, [], None)
    assert any("not measured" in note for note in told["notes"])
    assert json.loads(trace.read_text())["traceEvents"]


def test_a_quantized_model_costs_less(here: Here, models: str) -> None:
    floats = here("cost", f"{models}:net", *ON, "--json").document
    quantized = here("cost", f"{models}:net", *ON, "--quantize", "8a8w", "--json").document
    assert quantized["us"] < floats["us"]
    assert quantized["written_bytes"] < floats["written_bytes"]
    assert any("made-up ranges" in note for note in quantized["notes"])


def test_against_compares_with_another_model(here: Here, models: str) -> None:
    done = here("cost", f"{models}:net", *ON, "--against", f"{models}:wide", "--json")
    told = done.document
    alone = here("cost", f"{models}:wide", *ON, "--json").document
    assert told["against"]["other"]["cycles"] == alone["cycles"]
    assert told["against"]["cycles"] == alone["cycles"] - told["cycles"] > 0
    assert told["against"]["ratio"] == pytest.approx(alone["cycles"] / told["cycles"])
    assert told["against"]["same_simulator"]
    text = here("cost", f"{models}:net", *ON, "--against", f"{models}:wide").out
    assert "difference: +" in text
    same = here("cost", f"{models}:net", *ON, "--against", f"{models}:net").out
    assert "difference: +0 us, +0.0% of the cycles" in same
    assert "another order of the same work" not in same


def test_gates_decide_the_exit_code(here: Here, models: str) -> None:
    assert here("cost", f"{models}:net", *ON, "--fail-over", "100000", "--fail-spill", "0").code == 0
    done = here("cost", f"{models}:net", *ON, "--fail-over", "1")
    assert done.code == 1
    assert "failed: --fail-over 1: the estimate is " in done.out
    done = here("cost", f"{models}:net", *ON, "--fail-spill", "-1", "--json")
    assert done.code == 1
    assert done.document["failed"] == ["--fail-spill -1: 0.00 MB are spilled"]


def test_each_op_config_is_a_graph_of_its_own(here: Here, tmp_path: Path) -> None:
    path = tmp_path / "ops.jsonl"
    path.write_text("\n".join(json.dumps({**RELU, "id": name}) for name in ("first", "second")))
    told: Any = here("cost", path, *ON, "--json").document
    assert [g["name"] for g in told["graphs"]] == ["first", "second"]
    assert told["cycles"] == sum(g["cycles"] for g in told["graphs"])
    assert any("an op alone does not cost" in note for note in told["notes"])
    assert "all 2 graphs: " in here("cost", path, *ON).out
    done = here("cost", path, *ON, "--by", "op")
    assert (done.code, done.err) == (2, f"{path}: it has 2 graphs; choose one with --graph NAME\n")
    assert here("cost", path, *ON, "--by", "op", "--graph", "second").code == 0
    done = here("cost", path, *ON, "--quantize", "8a8w")
    assert "--quantize 8a8w: op configs say themselves what is quantized" in done.err


def test_an_onnx_file_is_priced(here: Here, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    weight = helper.make_tensor("w", TensorProto.FLOAT, [8, 3, 3, 3], [0.01 * i for i in range(216)])
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    shapes = {"x": ["batch", 3, 16, 16], "y": ["batch", 8, 14, 14]}
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, s) for name, s in shapes.items()]
    model = helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:], [weight]))
    onnx.save(model, tmp_path / "small.onnx")
    told = here("cost", tmp_path / "small.onnx", *ON, "--dim", "batch=1", "--by", "op", "--json").document
    assert told["us"] > 0
    assert any("Conv2d" in r["what"] for r in told["rows"])


def test_another_qnn_version_can_be_chosen(here: Here, models: str) -> None:
    told = here("cost", f"{models}:net", *ON, "--qnn", "2.47", "--json").document
    assert (told["qnn"], told["simulator"]["vtcm_size_in_bytes"]) == ("2.47", 4 << 20)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            ("--soc", "SM8650"),
            "SM8650: QNN 2.51 does not simulate this chip; it does simulate AIC100, QCS9100, SA8255",
        ),
        (
            (*ON, "--optimization", "1"),
            "--optimization 1: the library's estimates are meaningless at this level; use 2 or 3",
        ),
        ((*ON, "--by", "line"), "--by line: one of node, module, op"),
        ((*ON, "--quantize", "4a4w"), "--quantize 4a4w: no such recipe; give one of 8a8w, 16a8w"),
        ((*ON, "--qnn", "1.2"), "no QNN libraries of version 1.2 are here"),
        ((*ON, "--dtype", "f64"), "--dtype f64: one of f32, f16"),
        ((*ON, "--timeout", "0"), "--timeout 0: give a time above 0 seconds"),
        ((*ON, "--top", "-1"), "--top -1: a number of rows, 0 for all"),
        ((*ON, "--precision", "fp8"), "'fp8' is not a precision; fp16 or none"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, tuple) else "",
)
def test_unsupported_options_are_refused(
    here: Here, models: str, options: tuple[str, ...], reason: str
) -> None:
    done = here("cost", f"{models}:net", *options)
    assert done.code == 2
    assert done.err.startswith(reason)


def test_a_model_the_target_refuses_fails(here: Here, models: str) -> None:
    done = here("cost", f"{models}:refused", *ON)
    assert done.code == 1
    assert "bessel_j0" in done.out
    told = here("cost", f"{models}:refused", *ON, "--json")
    assert told.code == 1
    assert told.document["result"] == {"stage": "lower", "verdict": "no"}
