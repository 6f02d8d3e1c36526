"""`opdb diff --model`: what changes for a model between SDKs and chips, compared with what `opdb check` says of each."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from .conftest import ROOT, one_line

pytestmark = pytest.mark.torch
Run = Callable[..., "CompletedProcess[str]"]
#: amax of i32 is in HTP since 2.51; argmin along two elements (HTP-0317) is right since 2.48; pad of i32 never.
MODELS = """
import torch
from torch import nn
class Versions(nn.Module):
    def forward(self, x, n):
        return torch.argmin(x, -1), n.amax(-1), nn.functional.pad(n, (1, 1))
def versions():
    return Versions().eval(), (torch.randn(1, 8, 8, 2), torch.randint(0, 9, (1, 8, 16), dtype=torch.int32))
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Conv2d(3, 8, 3, padding=1)
        self.act = nn.Hardsigmoid()
        self.head = nn.Linear(8, 10)
    def forward(self, x):
        return torch.erf(self.head(self.act(self.body(x)).mean((2, 3))))
def net():
    print("read", file=open("reads.txt", "a"))
    return Net().eval(), (torch.randn(1, 3, 32, 32),)
"""
FILES = ROOT / "tests" / "programs"
ONNX = str(FILES / "onnx" / "files" / "aimet-net.onnx")
QDQ = str(FILES / "onnx" / "files" / "aimet-net-qdq.onnx")
TFLITE = str(FILES / "tflite" / "files" / "attention.tflite")


@pytest.fixture
def here(opdb: Run, tmp_path: Path) -> Run:
    (tmp_path / "models.py").write_text(MODELS)
    return lambda *args, **more: opdb(*args, cwd=tmp_path, **more)


def test_an_sdk_that_takes_more_is_told_first(here: Run) -> None:
    done = here("diff", "--model", "models.py:versions", "--soc", "SM8650", "--sdk", "2.47,2.51")
    assert done.returncode == 0 and not done.stderr
    assert done.stdout.splitlines()[:4] == [
        "SDK 2.47 -> 2.51 on HTP SM8650",
        "  2.51 takes 1 node that 2.47 refuses; 1 node becomes other ops on 2.51; 1 erratum is gone: HTP-0317",
        "  graphs: 2 instead of 1",
        "  on the NPU: 2 of 3 nodes (100 % of the FLOPs), instead of 1 of 3 nodes (88.9 % of the FLOPs)",
    ]
    details = done.stdout.split("\n\n")[2].splitlines()
    assert details[1].startswith(
        "  on 2.47 alone: HTP-0317 in 1 node: Argmin of floats returns the wrong place"
    )
    assert "  taken by 2.51, refused by 2.47" in details
    at = details.index("    amax  aten.amax.default")
    assert details[at + 1].startswith("      2.47: ReduceMax.TYPES_HTP: x is i32, y is i32; ")
    assert details[at + 1].endswith("nearest accepted ReduceMax: x f32 instead of i32, y f32 instead of i32")
    assert details[at + 2 : at + 4] == ["      2.51: ReduceMax", "      at models.py:6"]
    at = details.index("    argmin  aten.argmin.default")
    assert details[at - 1 : at + 3] == [
        "  other ops",
        "    argmin  aten.argmin.default",
        "      2.47: ElementWiseNeg -> Argmax",
        "      2.51: Argmin",
    ]
    assert "pad" not in "".join(details)  # refused by both for the same reason


def test_the_other_way_round_it_is_a_regression(here: Run) -> None:
    model = ("--model", "models.py:versions", "--soc", "SM8650", "--sdk", "2.51,2.47")
    done = here("diff", *model)
    assert done.stdout.splitlines()[1] == (
        "  2.47 refuses 1 node that 2.51 takes; 1 node becomes other ops on 2.47; 1 erratum is new: HTP-0317"
    )
    assert done.returncode == 0
    for condition in ("regression", "removed", "changed"):
        assert here("diff", *model, "--fail-on", condition).returncode == 1
    forth = ("--model", "models.py:versions", "--soc", "SM8650", "--sdk", "2.47,2.51", "--fail-on")
    assert [here("diff", *forth, c).returncode for c in ("regression", "removed", "changed")] == [0, 0, 1]


def test_each_side_is_what_check_says(here: Run, tmp_path: Path) -> None:
    done = here(
        "diff", "--model", "models.py:net", "--soc", "SM8350,SM8650,QCM6490", "--sdk", "2.47,2.51", "--json"
    )
    assert (tmp_path / "reads.txt").read_text() == "read\n"
    found = json.loads(done.stdout)
    places = [(d["before"]["soc"], d["before"]["sdk"], d["after"]["soc"], d["after"]["sdk"])
              for d in found["differences"]]  # fmt: skip
    assert places == [
        *((soc, "2.47", soc, "2.51") for soc in ("SM8350", "SM8650", "QCM6490")),
        *(("SM8350", sdk, soc, sdk) for sdk in ("2.47", "2.51") for soc in ("SM8650", "QCM6490")),
    ]
    alone: dict[tuple[str, str], Any] = {}
    for soc, sdk in {(t["soc"], t["sdk"]) for t in found["targets"]}:
        alone[soc, sdk] = json.loads(
            here("check", "models.py:net", "--soc", soc, "--sdk", sdk, "--json").stdout
        )
    for target in found["targets"]:
        told = dict(alone[target["soc"], target["sdk"]])
        rows = told.pop("rows")
        assert target == told and rows
    for difference in found["differences"]:
        before, after = (alone[d["soc"], d["sdk"]] for d in (difference["before"], difference["after"]))
        verdicts = [{r["node"]: r["verdict"] for r in side["rows"]} for side in (before, after)]
        for kind, was, now in (("gained", "rejected", "supported"), ("lost", "supported", "rejected")):
            names = {n["node"] for n in difference["nodes"] if n["change"] == kind}
            assert names == {n for n in verdicts[0] if (verdicts[0][n], verdicts[1][n]) == (was, now)}
        ids = [{e["erratum"] for e in side["errata"]} for side in (before, after)]
        assert {e["erratum"] for e in difference["errata_gone"]} == ids[0] - ids[1]
        assert {e["erratum"] for e in difference["errata_new"]} == ids[1] - ids[0]
        for node in difference["nodes"]:
            row = next(r for r in after["rows"] if r["node"] == node["node"])
            assert {key: row[key] for key in node["after"]} == node["after"]
    chips = [d for d in found["differences"] if d["after"]["soc"] == "SM8650" != d["before"]["soc"]]
    assert [n["node"] for n in chips[0]["nodes"] if n["change"] == "gained"] == ["hardsigmoid"]
    integers = found["differences"][4]
    assert integers["summary"][-1] == "SM8350 is judged in its own types, QCM6490 in 8a8w"


def test_equal_results_are_told_once(here: Run) -> None:
    told = here("diff", "--model", "models.py:net", "--soc", "SM8350,SM8650", "--sdk", "2.47,2.51").stdout
    blocks = told.split("\n\n")
    lines = blocks[0].splitlines()
    assert (
        lines[1]
        == "  nothing changes from 2.47 to 2.51: 4 of 5 nodes (98.2 % of the FLOPs) on the NPU, 2 graphs"
    )
    assert lines[-2:] == [
        "SM8350 -> SM8650 on HTP, SDK 2.51",
        "  the same as in SM8350 -> SM8650 on HTP, SDK 2.47",
    ]
    assert [b.splitlines()[0] for b in blocks[2:-1]] == ["SM8350 -> SM8650 on HTP, SDK 2.47"]
    assert blocks[-1].startswith("times: Qualcomm's libraries do not simulate SM8350 or SM8650; ")
    long = here("diff", "--model", "models.py:net", "--soc", "SM8350,SM8650").stdout.splitlines()
    assert (
        "      SM8350: 23 ops; only here: 3 Prelu" in long
        and "      SM8650: 21 ops; only here: 1 ReluMinMax" in long
    )
    whole = here("diff", "--model", "models.py:net", "--soc", "SM8350,SM8650", "-v").stdout
    assert "ElementWiseMultiply -> ReluMinMax" in whole.replace("ElementWiseExp -> ", "").replace(
        "ElementWiseNeg -> ", "ElementWiseMultiply -> "
    )


def test_simulated_chips_get_the_calls_of_opdb_cost(here: Run) -> None:
    told = here("diff", "--model", ONNX, "--soc", "SA8255", "--sdk", "2.47,2.51").stdout
    assert told.splitlines()[-1] == (
        f"times: opdb cost {ONNX} --soc SA8255 --qnn 2.47; opdb cost {ONNX} --soc SA8255 --qnn 2.51"
    )
    assert "times" not in here("diff", "--model", ONNX, "--backend", "CPU", "--sdk", "2.47,2.51").stdout


@pytest.mark.parametrize(
    "model",
    [(ONNX,), (QDQ,), (TFLITE,), ("models.py:net", "--quantize", "8a8w"), ("saved.pt2",)],
    ids=["onnx", "qdq", "tflite", "8a8w", "pt2"],
)
def test_every_kind_of_model_is_compared(here: Run, tmp_path: Path, model: tuple[str, ...]) -> None:
    if model[0] == "saved.pt2":
        here("check", "models.py:net", "--soc", "SM8650", "--save-node", "erf", "-o", "saved.pt2")
    done = here("diff", "--model", *model, "--soc", "SM8350,SM8650", "--json")
    assert done.returncode == 0, done.stderr
    (difference,) = json.loads(done.stdout)["differences"]
    for side in ("before", "after"):
        soc = difference[side]["soc"]
        alone = json.loads(here("check", *model, "--soc", soc, "--json").stdout)
        assert difference[side] == {k: v for k, v in alone.items() if k not in ("rows", "errata")}
    assert difference["summary"]


def test_markdown_and_html_have_the_summary_first(here: Run, tmp_path: Path) -> None:
    what = ("diff", "--model", "models.py:versions", "--soc", "SM8650", "--sdk", "2.47,2.51")
    lines = here(*what, "--format", "md").stdout.splitlines()
    assert lines[0] == "# What changes for models.py:versions"
    assert lines[3] == (
        "  - 2.51 takes 1 node that 2.47 refuses; 1 node becomes other ops on 2.51; 1 erratum is gone: HTP-0317"
    )
    assert "| change | node | operator | 2.47 | 2.51 | at |" in lines
    assert (
        "| other ops | argmin | aten.argmin.default | ElementWiseNeg -\\> Argmax | Argmin | models.py:6 |"
        in lines
    )
    done = here(*what, "--format", "html", "-o", "diff.html")
    assert done.stdout == "" and done.stderr.splitlines()[-1] == "written to diff.html"
    page = (tmp_path / "diff.html").read_text()
    assert "1 erratum is gone: HTP-0317" in page and page.count("<h2>") == 1


def test_mistakes_get_one_line(loaded: Run) -> None:
    mistakes = {
        ("--model", "m.py:f"): "--model: name what to compare, e.g. --soc SM8650 --sdk 2.47,2.51",
        ("--model", "m.py:f", "--soc", "SM8650"): "--model: name what to compare",
        ("2.47", "2.51", "--model", "m.py:f"): "instead of A and B",
        ("--model", "m.py:f", "--op", "Relu"): "--op Relu: for the catalog",
        (
            "--model",
            "m.py:f",
            "--soc",
            "SM8550,SM8650",
            "--format",
            "csv",
        ): "--format csv: --model takes table, json",
        ("--model", "m.py:f", "--soc", "SM8550,SM8650", "--fail-on", "x"): "--fail-on x: one of regression",
        ("--model", "m.py:f", "--soc", "SM8550,SM8650"): "m.py: no such file",
        ("--model", "m.py:f", "--soc", "SM8650,8 Gen 3"): "--model: name what to compare",
        ("2.47",): "name two sides, e.g. opdb diff 2.47 2.51, or a model",
        ("HTP@2.47", "HTP@2.51", "--soc", "SM8550,SM8650"): "several are for --model MODEL",
        ("2.47", "2.51", "--quantize", "8a8w"): "--quantize: goes with --model MODEL",
    }
    for args, line in mistakes.items():
        assert line in one_line(loaded("diff", *args)), args


def test_the_catalog_is_compared_as_before(loaded: Run) -> None:
    done = loaded(
        "diff", "2.47", "2.51", "--backend", "htp", "--soc", "SM8650", "--op", "ReduceMax", "--json"
    )
    rows = json.loads(done.stdout)
    assert {r["name"] for r in rows if r["change"] == "added"} >= {"HTP.INT16_2_51.1", "HTP.OTHERS_2_51.1"}
