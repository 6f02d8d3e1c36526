"""Output of `opdb debug` about the ops of a run: lines, modules, times, and the first op that departs from PyTorch."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from opdb.core.errors import OpdbError
from opdb.plugins.executorch.delegate.debug import Report, debug
from opdb.plugins.executorch.delegate.specs import KERNELS, Options

from . import runtime_cases
from .runtime_cases import Classifier, Made, X, changed, edge

pytestmark = [pytest.mark.slow, pytest.mark.executorch]


class Image(torch.nn.Module):
    """QNN stores images with channels last."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.body, self.head = torch.nn.Conv2d(3, 4, 3), torch.nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[1, 3, 6, 7] -> [1, 5]"""
        y = torch.relu(self.body(x))
        return self.head(y.mean((2, 3)))


PICTURE = torch.randn(1, 3, 6, 7, generator=torch.Generator().manual_seed(2))


def traced(folder: Path, module: torch.nn.Module, x: torch.Tensor, options: Options) -> Made:
    """A program and its ETRecord."""
    folder.mkdir()
    program = edge(module, [x], options, etrecord=True).to_executorch()
    program.get_etrecord().save(str(folder / "model.etrecord"))
    (folder / "model.pte").write_bytes(program.buffer)
    torch.save((x,), folder / "inputs")
    return Made(folder / "model.pte", folder / "inputs")


@pytest.fixture(scope="module")
def two_delegates(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The CPU computes between them."""
    folder = tmp_path_factory.mktemp("debug") / "kernels"
    return traced(folder, Classifier(), X, Options(KERNELS, leave=("aten.gelu.default",), weights="blob"))


def report_of(made: Made) -> Report:
    return debug(made.pte, made.pte.with_suffix(".etrecord"), runs=2)


def line(text: str) -> str:
    """The location of this text in runtime_cases.py."""
    path = Path(runtime_cases.__file__)
    lines = path.read_text(encoding="utf-8").splitlines()
    return f"{path}:{next(i for i, each in enumerate(lines, 1) if text in each)}"


def test_ops_of_two_delegates_are_reported(two_delegates: Made) -> None:
    report = report_of(two_delegates)
    assert set(report.backends.values()) == {"C kernels"} and len(report.backends) == 2
    first, *rest = report.rows
    assert (first.op, first.module, first.torch) == ("FullyConnected", "first", ("aten.linear.default",))
    assert {r.instruction for r in rest} == {max(report.backends)} and max(
        report.backends
    ) > first.instruction
    assert [r.module for r in rest if r.op == "FullyConnected"] == ["second"]
    assert {r.source for r in report.rows} == {line("torch.softmax(self.second(")}
    assert "torch.softmax(self.second(" in first.code
    assert all(r.ms is not None and r.ms > 0 and r.gap is not None and r.gap < 1e-5 for r in report.rows)
    assert report.first is None


def test_an_image_model_is_debugged_on_the_emulation(tmp_path: Path) -> None:
    made = traced(tmp_path / "htp", Image(), PICTURE, Options("HTP", "SM8650", results="all"))
    report = report_of(made)
    assert report.backends == {0: "HTP"}
    by_module = {r.module: r for r in report.rows}
    assert by_module["body"].op == "Conv2d" and by_module["head"].op == "FullyConnected"
    compared = [r for r in report.rows if r.gap is not None]
    assert len(compared) >= 3 and max(r.gap or 0.0 for r in compared) < 0.01
    for row in report.rows:
        assert row.ms is not None and row.cycles is not None
    assert sum(r.cycles or 0 for r in report.rows) > 1000


def test_the_first_deviating_op_is_named(two_delegates: Made, tmp_path: Path) -> None:
    """Its bias in the program differs from the model's."""
    bias = Classifier().second.bias.detach().numpy().tobytes()

    def other_bias(content: bytearray) -> None:
        at = content.index(bias)
        content[at : at + 4] = torch.tensor(3.0).numpy().tobytes()

    wrong = changed(two_delegates, "wrong.pte", other_bias)
    page = tmp_path / "page.html"
    done = subprocess.run(
        [sys.executable, "-m", "opdb", "debug", str(wrong.pte), "--etrecord",
         str(two_delegates.pte.with_suffix(".etrecord")), "--runs", "1", "--format", "html", "-o", str(page)],
        capture_output=True, text=True, check=False, timeout=500,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr[-2000:]
    said = done.stderr.splitlines()[-1]
    assert re.search(
        r"the first op that departs is aten_linear_default\S* \(FullyConnected\) at .*runtime_cases", said
    )
    text = page.read_text(encoding="utf-8")
    bars, _, ops = text.partition("<h2>Ops</h2>")
    assert bars.count("<tr><th") == ops.count("<tr") - 1 > 2 and "The first op that departs" in text
    assert ops.count("<tr class=first") == 1


def test_unreadable_programs_and_records_are_rejected(two_delegates: Made, tmp_path: Path) -> None:
    record = two_delegates.pte.with_suffix(".etrecord")
    (tmp_path / "no.pte").write_bytes(b"no program at all")
    plain = tmp_path / "plain.pte"
    exported = torch.export.export(Classifier().eval(), (X,))
    from executorch.exir import to_edge

    plain.write_bytes(to_edge(exported).to_executorch().buffer)
    for pte, etrecord, said in (
        (tmp_path / "missing.pte", record, "missing.pte: No such file"),
        (tmp_path / "no.pte", record, "no.pte: not an ExecuTorch program"),
        (plain, record, "forward calls no delegate of opdb's"),
        (two_delegates.pte, tmp_path / "none", "none: No such file"),
        (two_delegates.pte, plain, "plain.pte: no ETRecord"),
    ):
        with pytest.raises(OpdbError, match=re.escape(said)):
            debug(pte, etrecord)
    with pytest.raises(OpdbError, match="no method 'decode'; it has: forward"):
        debug(two_delegates.pte, record, method="decode")
