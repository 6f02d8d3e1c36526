"""Joined tensors share one encoding: compile --quantize warns if that leaves one of them few steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from .compiling import Here

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.vendor]
MODEL = """
import torch


class Head(torch.nn.Module):
    def forward(self, boxes, scores):
        return torch.cat([torch.relu(boxes), torch.sigmoid(scores)], -1)


def make():
    return Head().eval(), (torch.zeros(1, 20, 4), torch.zeros(1, 20, 3))
"""


@pytest.mark.parametrize(
    ("largest", "recipe", "told"), [(116, "8a8w", True), (116, "16a8w", False), (2, "8a8w", False)]
)
def test_scores_joined_with_boxes_are_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], largest: int, recipe: str, told: bool
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("detection_head.py").write_text(MODEL)
    rng = np.random.default_rng(0)
    boxes = rng.uniform(0, largest, (1, 20, 4)).astype(np.float32)
    np.savez("data.npz", boxes=boxes, scores=rng.standard_normal((1, 20, 3)).astype(np.float32))
    how = ("--soc", "SM8650", "--quantize", recipe, "--data", "data.npz", "--ranges", "ranges.json")
    done = Here(capsys)("compile", "detection_head.py:make", *how, "-o", "head.bin")
    assert done.code == 0, done.err
    warning = (
        "in one encoding, which leaves sigmoid 2 steps; return them as separate outputs, or scale one of them"
    )
    assert (warning in done.out) == told == ("warnings" in Path("ranges.json").read_text())
