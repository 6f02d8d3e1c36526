"""Buffers that a model changes: opdb check judges them, compile pairs them in the context, run --steps passes them on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from .compiling import Here

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.vendor, pytest.mark.slow]
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
TWO = """
import torch
from torch import nn

torch.manual_seed(0)
WEIGHT = torch.randn(256, 256) / 16


class Net(nn.Module):
    \"\"\"A prompt of `length` rows goes into the cache at once, or one row at a time.\"\"\"

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(1, 8, 256))
        self.weight = nn.Parameter(WEIGHT.clone())

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        self.cache.index_copy_(1, position, x @ self.weight)
        return self.cache.sum(1)


def prefill():
    return Net().eval(), (torch.randn(1, 4, 256), torch.arange(4))


def decode():
    return Net().eval(), (torch.randn(1, 1, 256), torch.tensor([4]))
"""
STEPS, SOC = 5, ("--soc", "SM8650")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    monkeypatch.chdir(tmp_path)
    Path("stateful_net.py").write_text(MODEL)
    generator = np.random.default_rng(0)
    keys = generator.standard_normal((STEPS, 1, 2, 1, 4)).astype(np.float32)
    np.savez("inputs.npz", key=keys, position=np.arange(STEPS, dtype=np.int32)[:, None])
    return Here(capsys)


@pytest.mark.parametrize(("start", "on"), [("zeros", "HTP"), ("ones", "HTP"), ("ones", "CPU")])
def test_a_cache_is_passed_from_run_to_run(here: Here, start: str, on: str) -> None:
    model = f"stateful_net.py:{start}"
    target = ("--backend", on, *(("--soc", "SM8650", "--execution", "emulator") if on == "HTP" else ()))
    assert here("check", model, *target).code == 0
    done = here("compile", model, *target, "-o", "net.bin")
    assert done.code == 0, done.err
    assert "state  cache: the output " in done.out and "state  count: " in done.out
    ran = here("run", "net.bin", "--inputs", "inputs.npz", "--steps", STEPS, "--outputs", "outputs.npz")
    assert ran.code == 0, ran.err
    from opdb.programs.load import load_model

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


@pytest.mark.parametrize(("recipe", "within"), [("8a8w", 0.06), ("16a8w", 4e-3)])
@pytest.mark.parametrize("start", ["zeros", "ones"])
def test_a_quantized_cache_is_passed_from_run_to_run(
    here: Here, start: str, recipe: str, within: float
) -> None:
    """Samples are steps: the ranges of states cover all of them.  ``within``: relative to the largest value."""
    model = f"stateful_net.py:{start}"
    how = ("--execution", "emulator", "--quantize", recipe, "--data", "inputs.npz")
    made = here("compile", model, *SOC, *how, "-o", "net.bin")
    assert made.code == 0, made.err
    ran = here("run", "net.bin", "--inputs", "inputs.npz", "--steps", STEPS, "--real", "--outputs", "outputs.npz")  # fmt: skip
    assert ran.code == 0, ran.err
    from opdb.programs.load import load_model

    module, _ = load_model(model)
    given, got = np.load("inputs.npz"), np.load("outputs.npz")
    result = next(v for v in got.values() if v.shape == (STEPS, 1, 2, 4))
    for step in range(STEPS):
        key, position = (torch.from_numpy(given[name][step]) for name in ("key", "position"))
        wanted = module(key, position.long()).detach().numpy()
        assert np.abs(result[step] - wanted).max() < within * np.abs(result).max()


def test_a_layout_change_of_a_state_is_refused(here: Here) -> None:
    done = here("compile", "stateful_net.py:ones", "--soc", "SM8650", "--io-layout", "nhwc", "-o", "net.bin")
    assert done.code == 2 and "keeps its layout" in done.err and not Path("net.bin").exists()


def test_steps_are_separate_runs(here: Here) -> None:
    assert here("compile", "stateful_net.py:zeros", "--soc", "SM8650", "-o", "net.bin").code == 0
    for more in (("--repeat", "2"), ("--profile", "basic")):
        done = here("run", "net.bin", "--inputs", "inputs.npz", "--steps", STEPS, *more)
        assert done.code == 2 and "--steps: without --repeat and --profile" in done.err
    assert here("run", "net.bin", "--inputs", "inputs.npz", "--steps", "0").code == 2


def test_graphs_of_one_context_share_weights_and_states(here: Here) -> None:
    Path("two_graphs.py").write_text(TWO)
    sizes = {}
    for name in ("prefill", "decode"):
        assert here("compile", f"two_graphs.py:{name}", *SOC, "-o", f"{name}.bin").code == 0
        sizes[name] = Path(f"{name}.bin").stat().st_size
    both = ("compile", "two_graphs.py:decode", "--with", "two_graphs.py:prefill", *SOC, "-o", "both.bin")
    made = here(*both)
    assert made.code == 0, made.err
    assert Path("both.bin").stat().st_size < sum(sizes.values()) - 256 * 256  # the weight is there once
    loaded = here("run", "both.bin", "--graph", "decode", "--inputs", "random:0")
    assert loaded.code == 1 and "Shared weights buffer isn't supported on this platform" in loaded.err
    assert here(*both, "--execution", "emulator").code == 0
    x = np.random.default_rng(1).standard_normal((1, 5, 256)).astype(np.float32)
    np.savez("prompt.npz", x=x[:, :4], position=np.arange(4, dtype=np.int32))
    np.savez("next.npz", x=x[:, 4:], position=np.array([4], np.int32))
    first = here(
        "run", "both.bin", "--graph", "prefill", "--inputs", "prompt.npz", "--save-states", "cache.npz"
    )
    assert first.code == 0, first.err
    given = ("--graph", "decode", "--states", "cache.npz", "--inputs", "next.npz")
    then = here("run", "both.bin", *given, "--outputs", "out.npz")
    assert then.code == 0, then.err
    from opdb.programs.load import load_model

    weight = load_model("two_graphs.py:decode")[0].weight.detach().numpy()
    got = next(v for v in np.load("out.npz").values() if v.shape == (1, 256))
    wanted = (x @ weight).sum(1)
    assert np.abs(got - wanted).max() < 1e-2 * np.abs(wanted).max()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("compile", "two_graphs.py:decode", *SOC, "--with", "two_graphs.py:decode", "-o", "x.bin"), "has a graph decode already"),
        (("compile", "two_graphs.py:decode", *SOC, "--with", "two_graphs.py:prefill", "-o", "x.pte"), "become one context file"),
        (("compile", "two_graphs.py:decode", *SOC, "--with", "two_graphs.py:prefill", "--graph", "g", "-o", "x.bin"), "without --graph"),
        (("run", "net.bin", "--inputs", "one.npz", "--states", "none.npz"), "no such file"),
        (("run", "net.bin", "--inputs", "one.npz", "--states", "one.npz"), "has no buffer position"),
    ],
)  # fmt: skip
def test_bad_use_gives_one_line(here: Here, arguments: tuple[str, ...], message: str) -> None:
    Path("two_graphs.py").write_text(TWO)
    np.savez("one.npz", x=np.zeros((1, 1, 256), np.float32), position=np.array([0], np.int32))
    if arguments[0] == "run":
        assert here("compile", "two_graphs.py:decode", *SOC, "-o", "net.bin").code == 0
    done = here(*arguments)
    assert done.code == 2 and message in done.err
