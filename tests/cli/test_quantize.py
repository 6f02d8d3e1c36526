"""opdb compile --quantize --data: real samples determine the ranges, in context files and in ExecuTorch programs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from .compiling import Here

torch = pytest.importorskip("torch")
pytest.importorskip("executorch")
pytestmark = [pytest.mark.executorch, pytest.mark.vendor, pytest.mark.slow]
MODEL = """
import numpy as np
import torch
from torch import nn


def make():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 8))
    return net.eval(), (torch.zeros(4, 16),)


def samples():
    generator = np.random.default_rng(0)
    for _ in range(6):
        yield {"input": 20 * generator.standard_normal((4, 16))}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    monkeypatch.chdir(tmp_path)
    Path("calibrated_net.py").write_text(MODEL)
    return Here(capsys)


def quantized(here: Here, data: str, output: str) -> tuple[str, float]:
    """The output of compile, and the result's largest error relative to its largest value on an input as large as the samples."""
    make = ("calibrated_net.py:make", "--soc", "SM8650")
    done = here("compile", *make, "--quantize", "8a8w", "--data", data, "-o", output)
    assert done.code == 0, done.err
    x = 20 * np.random.default_rng(9).standard_normal((4, 16)).astype(np.float32)
    np.save("x.npy", x)
    ends = () if output.endswith(".pte") else ("--real",)
    ran = here("run", output, "--inputs", "x.npy", "--outputs", "y.npz", *ends)
    assert ran.code == 0, ran.err
    (y,) = np.load("y.npz").values()
    from opdb.programs.load import load_model

    wanted = load_model("calibrated_net.py:make")[0](torch.from_numpy(x)).detach().numpy()
    return done.out, float(np.abs(y - wanted).max() / np.abs(wanted).max())


@pytest.mark.parametrize(
    ("output", "most"),
    [("net.bin", 0.05), ("net.pte", 0.3)],  # ExecuTorch's quantizer averages the samples' ranges
)
def test_samples_decide_the_ranges(here: Here, output: str, most: float) -> None:
    out, error = quantized(here, "calibrated_net.py:samples", output)
    assert "calibrated on 6 samples of calibrated_net.py:samples" in out and error < most
    out, clipped = quantized(here, "random", output)
    assert "the data were random numbers: do not deploy this file" in out and clipped > 0.5


def test_ranges_are_written(here: Here, tmp_path: Path) -> None:
    asked = ("calibrated_net.py:make", "--soc", "SM8650", "--quantize", "16a8w", "--data", "random:7")
    assert here("compile", *asked, "-o", "net.bin", "--ranges", "ranges.json", "--json").code == 0
    written = json.loads((tmp_path / "ranges.json").read_text())
    assert (written["format"], written["samples"], written["data"]) == ("opdb-ranges", 8, "random:7")
    assert written["tensors"]["input"]["dtype"] == "uq16"
    low, high = (written["tensors"]["input"][end] for end in ("low", "high"))
    assert low < -2 and high > 2


def test_no_file_is_written_without_data(here: Here, tmp_path: Path) -> None:
    for output in ("net.bin", "net.pte"):
        done = here(
            "compile", "calibrated_net.py:make", "--soc", "SM8650", "--quantize", "8a8w", "-o", output
        )
        assert done.code == 2 and not (tmp_path / output).exists()
        assert "needs calibration data" in done.err and "--data random" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--data", "random"), "--data random: for --quantize"),
        (("--quantize", "16a5w", "--data", "random"), "--quantize 16a5w: no such recipe; give one of 8a8w, "),
        (("--quantize", "8a8w", "--data", "none.npz"), "none.npz: cannot read"),
        (
            ("--quantize", "8a8w", "--data", "calibrated_net.py:other"),
            "no callable 'other'; it has make, samples",
        ),
    ],
)
def test_bad_options_are_rejected(
    here: Here, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = here("compile", "calibrated_net.py:make", "--soc", "SM8650", "-o", "net.bin", *arguments)
    assert done.code == 2 and message in done.err and not (tmp_path / "net.bin").exists()
