"""The modules to compare: those of the tests, by name."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

TESTS = Path(__file__).parents[2] / "tests"
FOLDERS = (TESTS.parent / "corpus" / "operators", TESTS / "plugins" / "executorch")
#: Largest error of a float program over the largest value of the reference: HTP computes in half precision.
FLOAT_TOLERANCE = 1e-2
#: A case with a stride: ExecuTorch cannot build the other pooling cases, or loses their nodes earlier.
POOL = "max_pool2d of 2 by 2"


class Plain(torch.nn.Module):
    """Makes a module that returns a named tuple return a plain one: torch.export saves no other kind."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(self.module(*given))


@dataclass(frozen=True)
class Case:
    """``tolerance``: of the float program."""

    name: str
    build: Callable[[], torch.nn.Module]
    inputs: Callable[[], tuple[torch.Tensor, ...]]
    tolerance: float = FLOAT_TOLERANCE


def cases() -> dict[str, Case]:
    """All modules of corpus/operators and tests/plugins/executorch that are lists of cases."""
    sys.path[:0] = [str(f) for f in FOLDERS if str(f) not in sys.path]
    import every_module
    import fault_cases
    import flow_cases
    import plugged_cases

    found = [
        Case(c.id, c.build, c.inputs, max(FLOAT_TOLERANCE, c.off.get("HTP", 0))) for c in every_module.CASES
    ]
    for name, (make, shapes) in flow_cases.CASES.items():
        found.append(Case(f"flow: {name}", _seeded(make), _random(shapes)))
    for name, (module, inputs) in plugged_cases.FLOATS.items():
        found.append(Case(f"plugged: {name}", _seeded(lambda m=module: m), lambda i=inputs: i))
    for name, (make, inputs) in fault_cases.CASES.items():
        found.append(Case(f"fault: {name}", _seeded(make), lambda i=inputs: i))
    found.append(Case(POOL, torch.nn.MaxPool2d(2, 2).eval, _random([(1, 4, 8, 6)])))
    return {c.name: c for c in found}


def _seeded(make: Callable[[], Any]) -> Callable[[], torch.nn.Module]:
    def build() -> torch.nn.Module:
        torch.manual_seed(0)
        module: torch.nn.Module = torch.nn.Module.eval(make())
        return module

    return build


def _random(shapes: list[tuple[int, ...]]) -> Callable[[], tuple[torch.Tensor, ...]]:
    def inputs() -> tuple[torch.Tensor, ...]:
        generator = torch.Generator().manual_seed(1)
        return tuple(torch.randn(s, generator=generator) for s in shapes)

    return inputs


def names(compared: Collection[str] = ()) -> list[str]:
    """All cases, or the subset chosen for ``compared``."""
    return chosen(cases(), compared) if compared else list(cases())


class _Seen(TorchDispatchMode):
    """Records the ATen operators that run."""

    def __init__(self) -> None:
        super().__init__()
        self.operators: set[str] = set()

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operators.add(str(operator))
        return operator(*args, **(kwargs or {}))


def chosen(known: Mapping[str, Case], compared: Collection[str], count: int = 3) -> list[str]:
    """Cases for each ATen operator that runs in them: ``count`` for operators of ``compared``, one for any other.

    ``compared``: names of the edge graph.  Cases with few operators come first.
    """
    wanted = {_base(edge) for edge in compared}
    reached = {}
    for name, case in known.items():
        with torch.no_grad(), _Seen() as seen:
            case.build()(*case.inputs())
        reached[name] = seen.operators
    uses: dict[str, int] = defaultdict(int)
    found = []
    for name in sorted(reached, key=lambda n: len(reached[n])):
        if name == POOL or any(uses[o] < (count if _base(o) in wanted else 1) for o in reached[name]):
            found.append(name)
            for operator in reached[name]:
                uses[operator] += 1
    return found


def _base(operator: str) -> str:
    """The base name of an operator; e.g. aten.view_copy.default, aten.view.default -> view."""
    return operator.split(".")[1].removesuffix("_copy").lstrip("_")
