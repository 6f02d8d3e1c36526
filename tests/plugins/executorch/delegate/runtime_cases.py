"""Programs for the runtime's tests, and the child process that runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from executorch.exir import EdgeProgramManager, to_edge_transform_and_lower

import opdb.plugins.executorch.delegate.backend  # noqa: F401  ExecuTorch looks for the class by its name
from opdb.plugins.executorch.delegate import blob
from opdb.plugins.executorch.delegate.partitioner import OpdbPartitioner
from opdb.plugins.executorch.delegate.specs import Options

CHILD = Path(__file__).with_name("runtime_child.py")
X = torch.arange(16.0).reshape(2, 8) / 8 - 1


class Classifier(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[2, 8] -> [2, 4]"""
        return torch.softmax(self.second(torch.nn.functional.gelu(self.first(x))), -1)


class Ends(torch.nn.Module):
    """64-bit indices, a tensor returned twice, an input returned unchanged."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.arange(20.0).reshape(5, 4))

    def forward(self, index: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """int64 [3], [3, 4] -> int64 [3], twice [3, 4]"""
        y = torch.nn.functional.embedding(index, self.table) * x
        return index + index, y, y


class Counter(torch.nn.Module):
    """Accumulates its inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.ones(2, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[2, 4] -> [2, 4]"""
        self.total.add_(x)
        return self.total * 2.0


@dataclass(frozen=True)
class Made:
    """A program of one method, and its inputs."""

    pte: Path
    inputs: Path

    def case(self, **more: Any) -> dict[str, Any]:
        return {"do": "run", "pte": str(self.pte), "inputs": str(self.inputs),
                "outputs": str(self.pte.with_suffix(".outputs")), **more}  # fmt: skip


def edge(
    module: torch.nn.Module, example: Sequence[torch.Tensor], options: Options, etrecord: bool = False
) -> EdgeProgramManager:
    exported = torch.export.export(module.eval(), tuple(example))
    partitioner = [OpdbPartitioner(options)]
    return to_edge_transform_and_lower(exported, partitioner=partitioner, generate_etrecord=etrecord)


def made(
    folder: Path, module: torch.nn.Module, runs: Sequence[Sequence[torch.Tensor]], options: Options
) -> Made:
    folder.mkdir(parents=True, exist_ok=True)
    found = Made(folder / "model.pte", folder / "inputs")
    found.pte.write_bytes(edge(module, runs[0], options).to_executorch().buffer)
    torch.save([tuple(run) for run in runs], found.inputs)
    return found


def child(
    folder: Path, cases: Sequence[dict[str, Any]], seconds: float = 500
) -> tuple[list[dict[str, Any]], str]:
    """The results, and the text on stderr.  A child that dies fails the test."""
    asked, answered = folder / "cases.json", folder / "results.json"
    asked.write_text(json.dumps(cases), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(CHILD), str(asked), str(answered)],
        capture_output=True, text=True, timeout=seconds, check=False, errors="replace",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(answered.read_text(encoding="utf-8")), done.stderr


def changed(found: Made, name: str, change: Callable[[bytearray], None]) -> Made:
    """The program with another last blob of the same size, with a correct checksum."""
    data = bytearray(found.pte.read_bytes())
    begin = data.rindex(blob.MAGIC)
    size = blob.HEADER.unpack_from(data, begin)[3]
    content = data[begin : begin + size]
    change(content)
    data[begin : begin + size] = sealed(content)
    path = found.pte.with_name(name)
    path.write_bytes(data)
    return Made(path, found.inputs)


def sealed(content: bytearray) -> bytearray:
    import hashlib

    digest = hashlib.sha256(content[: blob.HEADER.size] + content[blob.TABLE :]).digest()
    content[blob.DIGEST] = digest
    return content
