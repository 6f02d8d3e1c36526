"""fuse-functions: fuses chains that compute GELU, HardSwish, Sigmoid or Tanh into one op.

A chain is recognized by its values, not by its form: its results at 20,000 points, and far out, are compared with the function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from opdb.core.graph import GraphOp
from opdb.core.op_config import ParamConfig
from opdb.lower.passes.arithmetic import Array
from opdb.lower.passes.edit import Edit
from opdb.lower.passes.regions import Region, function_of, regions

FEW = np.array([-5.0, -1.5, -0.3, 0.7, 2.5, 4.5])
MANY = np.concatenate([np.linspace(-20, 20, 20001), [-1e4, -300.0, -60.0, 60.0, 300.0, 1e4]])
_erf = np.vectorize(math.erf, otypes=[np.float64])


@dataclass(frozen=True)
class Known:
    """``bound``: the largest error of a chain, absolute for values up to 1, relative for larger ones."""

    number: int  # operation number of ElementWiseNeuron
    compute: Callable[[Array], Array]
    bound: float


#: GELU by tanh is another function, at most 4.8e-4 off; the lowering of gelu uses the op for both.
KNOWN = (
    Known(1, lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))), 5e-4),
    Known(3, lambda x: x * np.clip(x + 3, 0, 6) / 6, 1e-6),
    Known(6, lambda x: 1 / (1 + np.exp(-np.clip(x, -700, 700))), 1e-6),
    Known(8, np.tanh, 1e-6),
)
WANTED = {known.number: (known.compute(FEW), known.compute(MANY)) for known in KNOWN}


def run(edit: Edit) -> int:
    """Returns the number of chains that became one op."""
    place = {op.name: i for i, op in enumerate(edit.ops)}
    ends = [op for op in reversed(edit.ops) if function_of(op) is not None]
    return sum(edit.has(op) and _fused(edit, op, place) for op in ends)


def _fused(edit: Edit, last: GraphOp, place: Mapping[str, int]) -> bool:
    for region in regions(edit, last, place):
        for known in KNOWN:
            if _is(edit, region, known):
                param = ParamConfig("operation", "u32", known.number)
                op = GraphOp(
                    last.name,
                    "ElementWiseNeuron",
                    (region.x,),
                    (param,),
                    (region.y,),
                    last.package,
                    last.origin,
                )
                return edit.rewrite(region.ops, [op], faultless=True)
    return False


def _is(edit: Edit, region: Region, known: Known) -> bool:
    for points, want in zip((FEW, MANY), WANTED[known.number], strict=True):
        got = region.values(edit, points)
        if not (np.abs(got - want) <= known.bound * np.maximum(1, np.abs(want))).all():
            return False
    return True
