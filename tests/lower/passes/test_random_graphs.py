"""Random graphs of typical network ops: all passes keep the numbers, and Transposes never move more bytes."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from graphs import CPU, HTP, Made, agree, number, numbers, pads, passed

from opdb.core.graph import QnnGraph
from opdb.core.op_config import ParamConfig
from opdb.lower.passes import optimize

SEEDS = range(60)


class Grown(Made):
    """A graph that grows by random steps; ``open`` has the tensors that the next steps read."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.open = [self.input(1, int(self.rng.integers(2, 5)), 6, 5)]

    def shape(self, x: str) -> tuple[int, ...]:
        return self.graph.tensors[x].shape

    def pick(self) -> str:
        return self.open[int(self.rng.integers(max(0, len(self.open) - 3), len(self.open)))]

    def turn(self, x: str, perm: tuple[int, ...]) -> str:
        return self.op("Transpose", [x], [self.shape(x)[i] for i in perm], [numbers("perm", *perm)])

    def conv(self, x: str) -> str:
        channels, height, width = self.shape(x)[1:]
        made = int(self.rng.integers(2, 6))
        filters = self.random(3, 3, channels, made, low=-0.3, high=0.3)
        same = [numbers("stride", 1, 1), pads(1, 1, 1, 1)]
        y = self.op("Conv2d", [self.turn(x, (0, 2, 3, 1)), filters], (1, height, width, made), same)
        return self.turn(y, (0, 3, 1, 2))

    def element(self, x: str) -> str:
        kind = str(self.rng.choice(["Relu", "Sigmoid", "Tanh", "ElementWiseAbs"]))
        return self.op(kind, [x], self.shape(x))

    def constant_of(self, x: str) -> str:
        sizes = self.shape(x)
        cut = int(self.rng.integers(0, 4))
        shape = [d if self.rng.random() < 0.5 else 1 for d in sizes[cut:]]
        kind = str(self.rng.choice(["ElementWiseAdd", "ElementWiseMultiply", "ElementWiseMaximum"]))
        operands = [x, self.random(*shape)]
        return self.op(kind, operands[:: int(self.rng.choice([1, -1]))], sizes)

    def two(self, x: str) -> str:
        same = [y for y in self.open if self.shape(y) == self.shape(x)]
        return self.op("ElementWiseAdd", [x, same[int(self.rng.integers(len(same)))]], self.shape(x))

    def concat(self, x: str) -> str:
        axis = int(self.rng.integers(1, 4))
        rest = [d for i, d in enumerate(self.shape(x)) if i != axis]
        like = [y for y in self.open if [d for i, d in enumerate(self.shape(y)) if i != axis] == rest]
        y = like[int(self.rng.integers(len(like)))]
        sizes = list(self.shape(x))
        sizes[axis] += self.shape(y)[axis]
        return x if sizes[axis] > 12 else self.op("Concat", [x, y], sizes, [number("axis", axis)])

    def pad(self, x: str) -> str:
        amounts = [0, 0, *(int(v) for v in self.rng.integers(0, 2, 6))]
        sizes = [d + amounts[2 * i] + amounts[2 * i + 1] for i, d in enumerate(self.shape(x))]
        return x if max(sizes) > 12 else self.op("Pad", [x], sizes, [number("scheme", 0), pads(*amounts)])

    def mean(self, x: str) -> str:
        axes = [int(a) for a in np.flatnonzero(self.rng.random(3) < 0.5) + 1] or [1]
        sizes = [1 if i in axes else d for i, d in enumerate(self.shape(x))]
        kept = ParamConfig("keep_dims", "bool8", True)
        y = self.op("ReduceMean", [x], sizes, [numbers("axes", *axes), kept])
        return self.op("ElementWiseMultiply", [x, y], self.shape(x))

    def permute(self, x: str) -> str:
        perm = (0, *(int(i) for i in self.rng.permutation(3) + 1))
        return self.turn(x, perm)

    def reshape(self, x: str) -> str:
        one, a, b, c = self.shape(x)
        y = self.op("Reshape", [x], (one, a, b * c) if self.rng.random() < 0.5 else (a * b, c))
        if self.rng.random() < 0.5:
            y = self.op("Relu", [y], self.shape(y))
        return self.op("Reshape", [y], (one, a, b, c))

    def slice(self, x: str) -> str:
        sizes = self.shape(x)
        first = [int(self.rng.integers(0, 2)) if d > 2 else 0 for d in sizes]
        rows = [v for f, d in zip(first, sizes, strict=True) for v in (f, d, 1)]
        made = [d - f for f, d in zip(first, sizes, strict=True)]
        return self.op("StridedSlice", [x], made, [ParamConfig("ranges", "i32", tuple(rows), (4, 3))])

    def finish(self) -> QnnGraph:
        last = self.open[-1]
        if self.rng.random() < 0.5:
            flat = self.op("Reshape", [last], (1, math.prod(self.shape(last))))
            weights = self.random(3, math.prod(self.shape(last)))
            self.open.append(self.op("FullyConnected", [flat, weights], (1, 3)))
        ends = {self.open[-1], self.pick()} - {self.open[0]}
        return self.output(*sorted(ends))


def grown(seed: int, steps: int = 25) -> QnnGraph:
    made = Grown(seed)
    ways: list[Callable[[str], str]] = [
        made.conv, made.conv, made.element, made.element, made.constant_of, made.two, made.two, made.concat, made.pad,
        made.mean, made.permute, made.reshape, made.slice,
    ]  # fmt: skip
    for _ in range(steps):
        way = ways[int(made.rng.integers(len(ways)))]
        y = way(made.pick())
        if y not in made.open:
            made.open.append(y)
    return made.finish()


def moved(graph: QnnGraph) -> int:
    """The bytes that Transposes write."""
    return sum(4 * math.prod(graph.tensors[op.outputs[0]].shape) for op in graph.ops if op.op == "Transpose")


@pytest.mark.parametrize("seed", SEEDS)
def test_passes_keep_results_and_transposed_bytes_do_not_grow(seed: int) -> None:
    graph = grown(seed)
    target = HTP if seed % 2 else CPU
    alone = passed(graph, "sink-transposes", target=target).graph
    agree(graph, alone)
    assert moved(alone) <= moved(graph)
    after = optimize(graph, target)
    agree(graph, after.graph, 1e-5)
    assert optimize(after.graph, target).counts == {}
