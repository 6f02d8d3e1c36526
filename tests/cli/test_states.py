"""Buffers that a model changes: opdb check judges it, compile pairs them in the context, run --steps hands them on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from .compiling import Here

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.vendor]
MODEL = """
import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, start: float = 0.0) -> None:
        super().__init__()
        self.register_buffer("cache", torch.full((1, 2, 8, 4), start))
        self.register_buffer("count", torch.zeros(1))
        self.project = nn.Linear(4, 4)

    def forward(self, key: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        self.cache.index_copy_(2, position, self.project(key))
        self.count.add_(1.0)
        return torch.softmax(self.cache.sum(2), -1) + self.count


def zeros():
    torch.manual_seed(0)
    return Decoder().eval(), (torch.randn(1, 2, 1, 4), torch.tensor([0]))


def ones():
    torch.manual_seed(0)
    return Decoder(1.0).eval(), (torch.randn(1, 2, 1, 4), torch.tensor([0]))
"""
STEPS = 5


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    monkeypatch.chdir(tmp_path)
    Path("stateful_net.py").write_text(MODEL)
    generator = np.random.default_rng(0)
    keys = generator.standard_normal((STEPS, 1, 2, 1, 4)).astype(np.float32)
    np.savez("inputs.npz", key=keys, position=np.arange(STEPS, dtype=np.int32)[:, None])
    return Here(capsys)


@pytest.mark.parametrize(("start", "on"), [("zeros", "HTP"), ("ones", "HTP"), ("ones", "CPU")])
def test_a_cache_goes_from_run_to_run(here: Here, start: str, on: str) -> None:
    model = f"stateful_net.py:{start}"
    target = ("--backend", on, *(("--soc", "SM8650", "--execution", "emulator") if on == "HTP" else ()))
    assert here("check", model, *target).code == 0
    done = here("compile", model, *target, "-o", "net.bin")
    assert done.code == 0, done.err
    assert "state  cache: the output " in done.out and "state  count: " in done.out
    ran = here("run", "net.bin", "--inputs", "inputs.npz", "--steps", STEPS, "--outputs", "outputs.npz")
    assert ran.code == 0, ran.err
    from opdb.coverage.load import load_model

    module, _ = load_model(model)
    given, made = np.load("inputs.npz"), np.load("outputs.npz")
    result = next(v for v in made.values() if v.shape == (STEPS, 1, 2, 4))
    for step in range(STEPS):
        wanted = module(
            torch.from_numpy(given["key"][step]), torch.from_numpy(given["position"][step]).long()
        )
        assert np.abs(result[step] - wanted.detach().numpy()).max() < 4e-3 * step + 4e-3


def test_without_steps_a_run_starts_from_the_buffer(here: Here) -> None:
    assert here("compile", "stateful_net.py:ones", "--soc", "SM8650", "-o", "net.bin").code == 0
    given = np.load("inputs.npz")
    np.savez("one.npz", key=given["key"][0], position=given["position"][0])
    first = here("run", "net.bin", "--inputs", "one.npz", "--json")
    again = here("run", "net.bin", "--inputs", "one.npz", "--json")
    assert first.code == 0 and first.document["outputs"] == again.document["outputs"]
    counts = [o for o in first.document["outputs"] if o["shape"] == [1]]
    assert [c["max"] for c in counts] == [pytest.approx(1.0, abs=1e-6)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("compile", "stateful_net.py:ones", "--soc", "SM8650", "--quantize", "8a8w", "--data", "random"), "changes the buffer"),
        (("compile", "stateful_net.py:ones", "--soc", "SM8650", "--io-layout", "nhwc"), "keeps its layout"),
    ],
)  # fmt: skip
def test_what_cannot_keep_a_state(here: Here, arguments: tuple[str, ...], message: str) -> None:
    done = here(*arguments, "-o", "net.bin")
    assert done.code == 2 and message in done.err and not Path("net.bin").exists()


def test_steps_are_runs_of_their_own(here: Here) -> None:
    assert here("compile", "stateful_net.py:zeros", "--soc", "SM8650", "-o", "net.bin").code == 0
    for more in (("--repeat", "2"), ("--profile", "basic")):
        done = here("run", "net.bin", "--inputs", "inputs.npz", "--steps", STEPS, *more)
        assert done.code == 2 and "--steps: without --repeat and --profile" in done.err
    assert here("run", "net.bin", "--inputs", "inputs.npz", "--steps", "0").code == 2
