"""Checks that HTP finalizes random chains of two to four float ops that ``opdb check`` passes, or that an erratum warned.

Each chain starts from one tensor; a step is an element-wise function, arithmetic with another input or a constant, a
reduction, a product of matrices or a convolution.  Chains with a node that opdb refuses are counted and replaced.  The
others are compiled as by ``opdb compile``, once as lowered for a device and once as for the emulator.

    python benchmarks/float_chains.py [--chains 60] [--seed 0] [--soc SM8350] [--ignore-erratum ID] [--json FILE]

Exit code 1 if a chain is not finalized and no erratum was named.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as f

from opdb.catalog.targets.target import Target
from opdb.checks.graph import build_graph
from opdb.checks.verdicts import check_nodes
from opdb.execute.libraries.client import VendorWorker
from opdb.programs.torch.export import export
from opdb.programs.torch.program import Program
from opdb.runtime.qnn.graph import GraphOptions

Shape = tuple[int, ...]
Function = Callable[..., Tensor]
SHAPES: tuple[Shape, ...] = ((8, 16), (1, 16, 64), (2, 7, 24), (1, 8, 12, 16), (2, 3, 9, 5))
FUNCTIONS: dict[str, Function] = {
    name: getattr(torch, name)
    for name in ("abs", "ceil", "cos", "erf", "exp", "floor", "neg", "relu", "round", "sigmoid", "sign", "sin", "tanh")
} | {name: getattr(f, name) for name in ("elu", "gelu", "hardswish", "relu6", "silu", "softplus")} | {
    "log": lambda x: (x.abs() + 1).log(), "rsqrt": lambda x: (x.abs() + 1).rsqrt(), "sqrt": lambda x: x.abs().sqrt(),
}  # fmt: skip
ARITHMETIC: dict[str, Function] = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "maximum": torch.maximum, "minimum": torch.minimum,
}  # fmt: skip
REDUCTIONS: dict[str, Function] = {
    "mean": torch.mean,
    "sum": torch.sum,
    "amax": torch.amax,
    "amin": torch.amin,
}
ALONG: dict[str, Function] = {"softmax": torch.softmax, "log_softmax": torch.log_softmax}
EXECUTIONS = ("device", "emulator")


class Chain(nn.Module):
    """A chain of steps from one tensor to the next; each has a name, and the module inputs that it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.steps: list[Callable[[Tensor, tuple[Tensor, ...]], Tensor]] = []
        self.parts = nn.ModuleList()
        self.shapes: list[Shape] = []

    def forward(self, *inputs: Tensor) -> Tensor:
        x = inputs[0]
        for step in self.steps:
            x = step(x, inputs)
        return x

    def add(self, name: str, function: Function, *, other: Shape | None = None) -> None:
        """Adds a step.  ``other``: the shape of another input that ``function`` takes after x."""
        self.names.append(name)
        if other is None:
            self.steps.append(lambda x, _: function(x))
            return
        self.shapes.append(other)
        place = len(self.shapes) - 1
        self.steps.append(lambda x, inputs: function(x, inputs[place]))

    def add_part(self, name: str, part: nn.Module) -> None:
        self.parts.append(part)
        self.add(name, part)


def function(chain: Chain, shape: Shape, choose: random.Random) -> None:
    name = choose.choice(list(FUNCTIONS))
    chain.add(name, FUNCTIONS[name])


def arithmetic(chain: Chain, shape: Shape, choose: random.Random) -> None:
    name, operand = choose.choice(list(ARITHMETIC)), choose.choice(("input", "row", "number", "constant"))
    made = ARITHMETIC[name]
    if operand == "number":
        number = torch.tensor(choose.choice((0.5, 1.25, 3.0)))
        chain.add(f"{name} number", lambda x: made(x, number))
    elif operand == "constant":
        constant = torch.rand(shape[-1:]) + 0.5
        chain.add(f"{name} constant", lambda x: made(x, constant))
    else:
        chain.add(f"{name} {operand}", made, other=shape if operand == "input" else shape[-1:])


def reduction(chain: Chain, shape: Shape, choose: random.Random) -> None:
    """Keeps the dimension, so that the next step has the same rank."""
    dim = choose.randrange(1, len(shape))
    if choose.random() < 0.3:
        name = choose.choice(list(ALONG))
        chain.add(f"{name} {dim}", lambda x: ALONG[name](x, dim))
        return
    name = choose.choice(list(REDUCTIONS))
    chain.add(f"{name} {dim}", lambda x: REDUCTIONS[name](x, dim, keepdim=True))


def product(chain: Chain, shape: Shape, choose: random.Random) -> None:
    columns = choose.choice((1, 5, 16))
    if choose.random() < 0.5:
        chain.add_part(f"linear {columns}", nn.Linear(shape[-1], columns, bias=choose.random() < 0.5))
    else:
        chain.add(f"matmul {columns}", torch.matmul, other=(*shape[:-2], shape[-1], columns))


def convolution(chain: Chain, shape: Shape, choose: random.Random) -> None:
    if len(shape) != 4:
        product(chain, shape, choose)
        return
    taps, channels, depthwise = choose.choice((1, 3)), choose.choice((1, 4, 8)), choose.random() < 0.3
    made = shape[1] if depthwise else channels
    part = nn.Conv2d(
        shape[1], made, taps, choose.choice((1, 2)), taps // 2, groups=shape[1] if depthwise else 1
    )
    chain.add_part(f"conv2d {taps}{' depthwise' * depthwise}", part)


STEPS = (function, function, arithmetic, arithmetic, reduction, product, convolution)


def chosen(seed: int, number: int) -> Chain:
    """The chain of a number: always the same for the same arguments."""
    choose = random.Random(f"{seed} {number}")
    torch.manual_seed(number)
    chain = Chain()
    chain.shapes.append(choose.choice(SHAPES))
    with torch.no_grad():
        for _ in range(choose.choice((2, 3, 4))):
            shape = tuple(chain(*map(torch.ones, chain.shapes)).shape)
            choose.choice(STEPS)(chain, shape, choose)
    return chain.eval()


@dataclass(frozen=True)
class Outcome:
    number: int
    chain: str
    execution: str
    ops: tuple[str, ...]
    avoided: tuple[str, ...]
    warned: tuple[str, ...]
    said: str  # "finalized", or the stage and code of the error

    @property
    def kind(self) -> str:
        if self.said == "finalized":
            return "finalized, with a warning" if self.warned else "finalized"
        return "not finalized, with a warning" if self.warned else "not finalized without a warning"


def outcome(
    number: int, chain: Chain, program: Program, target: Target, worker: VendorWorker
) -> Outcome | None:
    """The outcome of a chain; None if opdb refuses a node."""
    coverage = check_nodes(program, target)
    if not coverage.complete:
        return None
    graph = build_graph(program, coverage.lowered)
    with tempfile.TemporaryDirectory() as folder:
        answer = worker.compile([graph], Path(folder, "context"), GraphOptions(precision="fp16"))
    said = "finalized" if answer.stage == "done" else f"{answer.stage}: {answer.code} {answer.code_name}"
    rows = coverage.rows
    return Outcome(
        number,
        " -> ".join(chain.names),
        str(target.execution),
        tuple(op.op for op in graph.ops),
        tuple(dict.fromkeys(i for r in rows for i in r.avoided)),
        tuple(dict.fromkeys(i for r in rows for i in r.warned)),
        said,
    )


def outcomes(
    seed: int, wanted: int, soc: str, ignored: frozenset[str], refused: Counter[str]
) -> Iterator[Outcome]:
    """The outcomes of the first ``wanted`` chains that opdb accepts, for each execution."""
    passed = dict.fromkeys(EXECUTIONS, 0)
    number = 0
    with VendorWorker("HTP", soc, log_level="error") as worker:
        while min(passed.values()) < wanted:
            chain = chosen(seed, number)
            program = Program(export(chain, tuple(torch.randn(s) for s in chain.shapes)))
            for execution in [e for e in EXECUTIONS if passed[e] < wanted]:
                target = Target("HTP", soc, execution=execution, ignored=ignored)
                found = outcome(number, chain, program, target, worker)
                if found is None:
                    refused[execution] += 1
                else:
                    passed[execution] += 1
                    yield found
            number += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chains", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--soc", default="SM8350")
    parser.add_argument("--ignore-erratum", action="append", default=[], metavar="ID")
    parser.add_argument("--json", type=Path, metavar="FILE", help="All outcomes.")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    refused: Counter[str] = Counter()
    found = []
    ignored = frozenset(asked.ignore_erratum)
    for each in outcomes(asked.seed, asked.chains, asked.soc, ignored, refused):
        found.append(each)
        if each.kind != "finalized":
            print(f"{each.number} {each.execution}: {each.chain}: {each.said}; {', '.join(each.ops)}; warned: "
                  f"{', '.join(each.warned) or 'of nothing'}", flush=True)  # fmt: skip
    for execution in EXECUTIONS:
        own = [o for o in found if o.execution == execution]
        counts = Counter(o.kind for o in own)
        ids = Counter(i for o in own for i in o.avoided)
        print(f"{execution}: {len(own)} chains: {', '.join(f'{n} {k}' for k, n in counts.most_common())}; "
              f"{refused[execution]} more were refused; avoided: {dict(ids.most_common())}")  # fmt: skip
    if asked.json:
        asked.json.write_text(json.dumps([asdict(o) for o in found], indent=1))
    return int(any(o.kind == "not finalized without a warning" for o in found))


if __name__ == "__main__":
    sys.exit(main())
