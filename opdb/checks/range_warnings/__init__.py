"""Warnings about values that do not fit fp16, if a backend computes float32 in it, or int32, for int64.

``constants`` and ``squares`` find values that fp16 cannot hold, ``int64_products`` values that int32 cannot; ``fused_norms`` finds
nodes that become part of a norm, which is computed in float32 as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torch.fx import Node

from opdb.catalog.targets.target import Target, backend_name
from opdb.checks.coverage import Row
from opdb.checks.range_warnings.constants import constant_warnings
from opdb.checks.range_warnings.fused_norms import fused_with
from opdb.checks.range_warnings.int64_products import is_int64, product_warnings
from opdb.checks.range_warnings.squares import square_warnings
from opdb.checks.range_warnings.warning import FP16_MAX, Warned, warning
from opdb.generated.constants.backends import BACKENDS
from opdb.programs.torch.value_sizes import largest_values

if TYPE_CHECKING:
    from opdb.programs.torch.program import Program


def with_warnings(
    program: Program,
    target: Target,
    rows: Iterable[Row],
    plain: Callable[[str], bool],
    samples: Sequence[Sequence[Any]] = (),
) -> Iterator[Row]:
    """``rows`` with warnings for supported nodes whose values do not fit fp16, or int32.

    ``plain``: True if a node of that name computes in floats or in integers, not in quantized tensors.
    """
    if target.backend is None or not BACKENDS[backend_name(target.backend)].half:
        yield from rows
        return
    largest = largest_values(program.exported, samples) if samples else {}
    fused = {name for view in program.nodes for name in fused_with(view.node)}
    nodes = {view.name: view.node for view in program.nodes}
    for row in rows:
        found: tuple[Warned, ...] = ()
        if row.verdict == "supported" and row.node in nodes and plain(row.node):
            if is_int64(nodes[row.node]):
                found = tuple(product_warnings(program, nodes[row.node]))
            elif row.node not in fused:
                found = tuple(_fp16_warnings(program, nodes[row.node], largest))
        yield replace(row, warnings=(*row.warnings, *found)) if found else row


def _fp16_warnings(program: Program, node: Node, largest: Mapping[str, float]) -> Iterator[Warned]:
    """``largest``: node -> the largest absolute value on the samples."""
    measured = largest.get(node.name, 0.0)
    if measured > FP16_MAX:
        yield warning(
            "FP16.OVERFLOW",
            f"its result reaches {measured:.3g} in the data; fp16 ends at 65504: scale the values down before it",
        )
    yield from constant_warnings(program, node)
    yield from square_warnings(node, largest)
