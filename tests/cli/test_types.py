"""Integers and booleans in models that --quantize builds for a chip without floating point, against PyTorch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from .compiling import Here

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.vendor, pytest.mark.torch]
MODEL = """
import torch

class Of(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, n):
        return self.function(x, n)

#: x: steps of 2 from -9 to 9, none near 0; n: whole numbers.
X = torch.arange(-9.0, 10.0, 2).repeat(12)[:96].reshape(3, 4, 8)
N = (torch.arange(96, dtype=torch.int32) % 7 - 3).reshape(3, 4, 8)

def neg():
    return Of(lambda x, n: x + (-torch.minimum(n, torch.zeros_like(n))).to(x.dtype)), (X, N)

def select():
    return Of(lambda x, n: torch.where((x > 0)[:, 1], 1.0, n[:, 1].to(x.dtype))), (X, N)

def cut():
    return Of(lambda x, n: torch.where((x > 0)[:, 1:3], 1.0, n[:, 1:3].to(x.dtype))), (X, N)

def gather():
    return Of(lambda x, n: torch.where((x > 0)[:, torch.tensor([2, 1])], 1.0, n[:, 1:3].to(x.dtype))), (X, N)

def cumsum():
    return Of(lambda x, n: x + torch.cumsum(x + 0.5, 1, dtype=torch.int32)), (X, N)
"""


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str]) -> Here:
    return Here(capsys)


@pytest.mark.parametrize("name", ["neg", "select", "cut", "gather", "cumsum"])
def test_8_bit_results_match_pytorch(name: str, here: Here, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    model = (f"{tmp_path / 'model.py'}:{name}", "--soc", "QCM6490", "--execution", "emulator")
    assert here("check", *model).code == 0
    context, given, made = (tmp_path / f for f in ("model.bin", "in.npz", "out.npz"))
    assert here("compile", *model, "--quantize", "8a8w", "--data", "example", "-o", context).code == 0
    space: dict[str, object] = {}
    exec(MODEL, space)
    module, inputs = space[name]()  # type: ignore[operator]
    np.savez(given, **{n: t.numpy() for n, t in zip("xn", inputs, strict=True)})
    assert here("run", context, "--inputs", given, "--outputs", made, "--real").code == 0
    (found,) = np.load(made).values()
    wanted = module(*inputs).numpy()
    assert np.abs(found - wanted).max() <= 2 * (wanted.max() - wanted.min()) / 255
