"""Files that the pages take for granted, written into the current folder: python first_hour_files.py PAGE.md

Only those that the page names and does not show.  They are small, so that a first hour takes no more than that.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

MODEL = '''
import torch
from torch import Tensor, nn


class Net(nn.Module):
    """A convolution and four linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.head = nn.Sequential(*(nn.Linear(8, 8) for _ in range(4)))

    def forward(self, input: Tensor) -> Tensor:
        return self.head(torch.relu(self.stem(input)).mean((2, 3)))


class Block(nn.Module):
    """Attention; ``early`` scales the keys instead of the scores."""

    def __init__(self, early: bool) -> None:
        super().__init__()
        self.early = early
        self.q, self.k, self.v, self.out = (nn.Linear(32, 32) for _ in range(4))

    def forward(self, input: Tensor) -> Tensor:
        q, k, v = self.q(input), self.k(input), self.v(input)
        scores = q @ (k.transpose(-1, -2) * 0.2) if self.early else (q @ k.transpose(-1, -2)) * 0.2
        return self.out(torch.softmax(scores, -1) @ v)


def made(module: nn.Module, *shape: int) -> tuple[nn.Module, tuple[Tensor, ...]]:
    torch.manual_seed(0)
    return module.eval(), (torch.randn(*shape),)


def make():
    return made(Net(), 1, 3, 32, 32)


def block():
    return made(Block(True), 1, 64, 32)


def scaled_scores():
    return made(Block(False), 1, 64, 32)
'''
STATES = '''
import torch
from torch import Tensor, nn


class Step(nn.Module):
    """Writes a row into a cache and reads all of it."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(8, 8)
        self.register_buffer("cache", torch.zeros(16, 8))

    def forward(self, rows: Tensor, position: Tensor) -> Tensor:
        self.cache.index_copy_(0, position, self.mix(rows))
        return rows @ self.cache.T


def made(tokens: int):
    torch.manual_seed(0)
    return Step().eval(), (torch.randn(tokens, 8), torch.arange(tokens))


def decode():
    return made(1)


def prefill():
    return made(4)
'''


def model(name: str) -> None:
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text(MODEL, encoding="utf-8")


def program(name: str) -> None:
    import torch

    space: dict[str, Callable] = {}
    exec(MODEL, space)
    module, inputs = space["make"]()
    torch.export.save(torch.export.export(module, inputs), name)


def onnx_file(name: str) -> None:
    import torch

    space: dict[str, Callable] = {}
    exec(MODEL, space)
    module, inputs = space["make"]()
    torch.onnx.export(module, inputs, name, input_names=["input"], output_names=["logits"], dynamo=False)


def samples(name: str) -> None:
    import numpy

    generator = numpy.random.default_rng(0)
    shape = (8, 1, 3, 32, 32) if name == "calibration.npz" else (1, 3, 32, 32)
    numpy.savez(name, input=generator.standard_normal(shape, numpy.float32))


def raw(name: str) -> None:
    import numpy

    numpy.random.default_rng(0).standard_normal((1, 3, 32, 32), numpy.float32).tofile(name)


FILES: dict[str, Callable[[str], None]] = {
    "model.py": model,
    "package/module.py": model,
    "net.py": lambda name: Path(name).write_text(STATES, encoding="utf-8"),
    "model.pt2": program,
    "other.pt2": program,
    "model.onnx": onnx_file,
    "calibration.npz": samples,
    "sample.npz": samples,
    "inputs.npz": samples,
    "input.raw": raw,
}
#: What a page says instead of a file's name.
NAMED = {"package/module.py": "package.module:make"}


def main() -> None:
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    for name, write in FILES.items():
        if NAMED.get(name, name) in text and not Path(name).exists() and f"```python {name}" not in text:
            write(name)
    if "samples/" in text:
        Path("samples").mkdir(exist_ok=True)
        for number in range(4):
            samples(f"samples/{number}.npz")


if __name__ == "__main__":
    main()
