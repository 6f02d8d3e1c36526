"""`opdb check` on several chips and SDKs in one call: each answer is that of a call of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from xml.etree import ElementTree

import pytest

from .conftest import ROOT, one_line

pytestmark = pytest.mark.torch
Run = Callable[..., "CompletedProcess[str]"]
MODELS = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.act = nn.Hardsigmoid()
        self.head = nn.Linear(8, 10)
    def forward(self, x):
        return torch.erf(self.head(self.act(self.norm(self.body(x))).mean((2, 3)))).cumsum(1)
def net():
    print("read", file=open("reads.txt", "a"))
    return Net().eval(), (torch.randn(1, 3, 32, 32),)
"""
FILES = ROOT / "tests" / "programs"
ONNX = str(FILES / "onnx" / "files" / "aimet-net.onnx")
QDQ = str(FILES / "onnx" / "files" / "aimet-net-qdq.onnx")
TFLITE = str(FILES / "tflite" / "files" / "attention-8a8w.tflite")
CHIPS = ("SM8350", "SM8650", "QCM6490")


@pytest.fixture
def here(opdb: Run, tmp_path: Path) -> Run:
    (tmp_path / "models.py").write_text(MODELS)
    return lambda *args, **more: opdb(*args, cwd=tmp_path, **more)


@pytest.mark.parametrize(
    "model",
    [("models.py:net",), ("models.py:net", "--quantize", "8a8w"), (ONNX,), (QDQ,), (TFLITE,)],
    ids=["cnn", "8a8w", "onnx", "qdq", "tflite"],
)
def test_each_chip_is_answered_as_alone(here: Run, tmp_path: Path, model: tuple[str, ...]) -> None:
    done = here("check", *model, "--soc", ",".join(CHIPS), "--json")
    reads = tmp_path / "reads.txt"
    assert not reads.exists() or reads.read_text() == "read\n"
    found = json.loads(done.stdout)
    alone = [here("check", *model, "--soc", chip, "--json") for chip in CHIPS]
    assert found == [json.loads(each.stdout) for each in alone]
    assert [document["soc"] for document in found] == list(CHIPS)
    assert done.returncode == max(each.returncode for each in alone)
    again = here("check", *model, *(word for chip in CHIPS for word in ("--soc", chip)), "--json")
    assert again.stdout == done.stdout


def test_sdks_and_chips_are_combined(here: Run) -> None:
    done = here("check", "models.py:net", "--soc", "SM8350,8 Gen 3", "--sdk", "2.47,2.51", "--json")
    places = [(d["soc"], d["sdk"]) for d in json.loads(done.stdout)]
    assert places == [("SM8350", "2.47"), ("SM8350", "2.51"), ("SM8650", "2.47"), ("SM8650", "2.51")]


def test_the_table_has_a_line_for_each_chip(here: Run) -> None:
    done = here("check", "models.py:net", "--soc", ",".join(CHIPS), "--soc", "SM8650")
    head, _, *rows, hint = done.stdout.splitlines()
    assert head.split("  ")[0] == "target" and head.rstrip().endswith("first reason")
    assert [row.split("  ")[0] for row in rows] == list(CHIPS)  # SM8650, given twice, once
    assert rows[0].split()[1:4] == ["5", "of", "7"]
    assert "1 node: Finalization fails for ElementWiseNeuron " in rows[0]
    assert rows[0].endswith(" (HTP-0022); and 1 other reason")
    assert rows[1].split()[1:] == ["7", "of", "7", "100", "%", "1"]
    assert rows[2].split()[1:] == ["7", "of", "7", "100", "%", "1", "8a8w"]
    assert hint == "each node with its reasons: opdb check models.py:net --soc SM8350, or -v for all targets"
    assert done.returncode == 1 and not done.stderr


def test_verbose_adds_the_nodes_of_each_chip(here: Run) -> None:
    told = here("check", "models.py:net", "--soc", "SM8350,SM8650", "-v").stdout
    _, _, rest = told.partition("\n\nSM8350\n")
    for part, chip in zip(rest.split("\n\nSM8650\n"), ("SM8350", "SM8650"), strict=True):
        assert part.strip() == here("check", "models.py:net", "--soc", chip, "-v").stdout.strip()


def test_gates_hold_for_each_chip_and_name_it(here: Run) -> None:
    gates = ("--fail-on", "cpu>0", "--fail-on", "graphs>1")
    done = here("check", "models.py:net", "--soc", "SM8650,SM8350", *gates)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "SM8350: --fail-on cpu>0: nodes on the CPU: 2",
        "SM8350: --fail-on graphs>1: graphs: 2",
    ]
    done = here("check", "models.py:net", "--soc", "SM8650,SM8350", "--fail-on", "cpu>2")
    assert (done.returncode, done.stderr) == (0, "")
    done = here("check", "models.py:net", "--soc", "SM8350", "--sdk", "2.47,2.51", "--fail-on", "cpu>1")
    assert [line.partition(": ")[0] for line in done.stderr.splitlines()] == ["SDK 2.47", "SDK 2.51"]


def test_junit_has_a_suite_for_each_chip(here: Run, tmp_path: Path) -> None:
    done = here("check", "models.py:net", "--soc", ",".join(CHIPS), "--format", "junit", "-o", "several.xml")
    assert done.stderr.splitlines()[-1] == "written to several.xml"
    assert [line.split("  ")[0] for line in done.stderr.splitlines()[2:5]] == list(CHIPS)
    root = ElementTree.parse(tmp_path / "several.xml").getroot()
    assert dict(root.attrib) == {"tests": "21", "failures": "2", "errors": "0", "skipped": "0"}
    names = [suite.attrib["name"] for suite in root]
    assert names == [f"models.py:net on HTP {chip}" for chip in CHIPS]
    cases = [(c.attrib["classname"], c.attrib["name"]) for c in root.iter("testcase")]
    assert len(set(cases)) == len(cases)
    assert ("SM8350.act", "hardsigmoid") in cases and ("QCM6490.act", "hardsigmoid") in cases
    alone = here("check", "models.py:net", "--soc", "SM8350", "--format", "junit").stdout
    one = ElementTree.fromstring(alone)[0]
    assert dict(one.attrib) == dict(root[0].attrib)
    assert [c.attrib["name"] for c in one.iter("testcase")] == [
        c.attrib["name"] for c in root[0].iter("testcase")
    ]


def test_sarif_has_a_run_for_each_chip(here: Run) -> None:
    document = json.loads(
        here("check", "models.py:net", "--soc", "SM8350,SM8650", "--format", "sarif").stdout
    )
    assert [r["properties"]["soc"] for r in document["runs"]] == ["SM8350", "SM8650"]
    assert [r["automationDetails"]["id"] for r in document["runs"]] == [
        "opdb check/HTP/SM8350/", "opdb check/HTP/SM8650/",
    ]  # fmt: skip
    errors = [r["message"]["text"] for r in document["runs"][0]["results"] if r["level"] == "error"]
    assert len(errors) == 2 and all(text.startswith("on SM8350: ") for text in errors)
    alone = json.loads(here("check", "models.py:net", "--soc", "SM8350", "--format", "sarif").stdout)["runs"][
        0
    ]
    assert "automationDetails" not in alone
    prints = [[r["partialFingerprints"] for r in run["results"]] for run in (alone, document["runs"][0])]
    assert prints[0] == prints[1]


def test_markdown_and_html_begin_with_the_chips(here: Run, tmp_path: Path) -> None:
    told = here("check", "models.py:net", "--soc", "SM8350,SM8650", "--format", "md").stdout
    lines = told.splitlines()
    assert lines[0] == "# models.py:net on 2 targets"
    assert lines[4].startswith("| SM8350 | 5 of 7 |") and lines[5].startswith(
        "| SM8650 | 7 of 7 | 100 % | 1 |"
    )
    assert here("check", "models.py:net", "--soc", "SM8350", "--format", "md").stdout in told
    here("check", "models.py:net", "--soc", "SM8350,SM8650", "--format", "html", "-o", "several.html")
    page = (tmp_path / "several.html").read_text()
    assert "models.py:net on 2 targets" in page.replace("<wbr>", "")
    assert page.count("<tr>") == 2 + 2 + 2  # heads, targets, and the two nodes that SM8350 does not take


def test_a_bad_chip_among_several_is_told_before_the_model_is_read(here: Run, tmp_path: Path) -> None:
    assert "SM0000" in one_line(here("check", "models.py:net", "--soc", "SM8650,SM0000"))
    assert "9.99" in one_line(here("check", "models.py:net", "--soc", "SM8650", "--sdk", "2.47,9.99"))
    assert not (tmp_path / "reads.txt").exists()
