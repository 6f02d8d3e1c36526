"""Files that the pages take for granted, written into the current folder: python first_hour_files.py PAGE.md

Only those that the page names and does not show.  They are small, so that a first hour takes no more than that.
"""

from __future__ import annotations

import inspect
import subprocess
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


def made() -> tuple:
    """The module and inputs of the page's model.py, else of MODEL."""
    space: dict = {"__name__": "model"}
    exec(Path("model.py").read_text(encoding="utf-8") if Path("model.py").exists() else MODEL, space)
    return space["make"]()


def program(name: str) -> None:
    import torch

    torch.export.save(torch.export.export(*made()), name)


def onnx_file(name: str) -> None:
    import torch

    module, inputs = made()
    names = list(inspect.signature(module.forward).parameters)
    torch.onnx.export(module, inputs, name, input_names=names, output_names=["logits"], dynamo=False)


def arrays(*more: int) -> dict:
    """Random arrays in the shapes of the inputs, behind ``more`` axes."""
    import numpy

    module, inputs = made()
    generator = numpy.random.default_rng(0)
    shapes = {
        name: (*more, *x.shape)
        for name, x in zip(inspect.signature(module.forward).parameters, inputs, strict=True)
    }
    return {name: generator.standard_normal(shape, numpy.float32) for name, shape in shapes.items()}


def samples(name: str) -> None:
    import numpy

    numpy.savez(name, **(arrays(8) if name == "calibration.npz" else arrays()))


def raw(name: str) -> None:
    next(iter(arrays().values())).tofile(name)


def encodings(name: str) -> None:
    command = "opdb compile model.onnx --soc SM8650 --quantize 8a8w --data calibration.npz -o made.bin --export-encodings"
    subprocess.run([*command.split(), name], check=True, capture_output=True)


def estimate(name: str) -> None:
    done = subprocess.run(
        ["opdb", "cost", "model.pt2", "--soc", "SA8255", "--json"], check=True, capture_output=True, text=True
    )
    Path(name).write_text(done.stdout, encoding="utf-8")


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
    "model.encodings": encodings,
    "qdq.onnx": encodings,
    "before.json": estimate,
}
#: What a page says instead of a file's name.
NAMED = {"package/module.py": "package.module:make"}


def main() -> None:
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    for name, write in FILES.items():
        if NAMED.get(name, name) in text and not Path(name).exists():
            write(name)
    if "samples/" in text:
        Path("samples").mkdir(exist_ok=True)
        for number in range(4):
            samples(f"samples/{number}.npz")


if __name__ == "__main__":
    main()
