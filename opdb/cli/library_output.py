"""Prints tensors and a library's answer, for compile and run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from opdb.core.names import counted

if TYPE_CHECKING:
    from opdb.core.graph import GraphTensor
    from opdb.execute.libraries.results import Outcome


def print_ends(inputs: tuple[GraphTensor, ...], outputs: tuple[GraphTensor, ...]) -> None:
    """Prints a line for each input and output: name, type, shape, encoding."""
    from opdb.core.dtypes import BY_SHORT

    for side, tensors in (("input ", inputs), ("output", outputs)):
        for t in tensors:
            print(f"  {side} {t.name}  {BY_SHORT[t.dtype].qnn} {list(t.shape)}{quant_text(t)}")


def quant_text(tensor: GraphTensor) -> str:
    """Formats an encoding, e.g. `  scale 0.1, offset -128`; if there are many scales, only their number."""
    q = tensor.quant
    if q is None:
        return ""
    if len(q.scale) == 1:
        return f"  scale {q.scale[0]:g}, offset {q.offset[0] if q.offset else 0}"
    return f"  {q.encoding} with {counted(len(q.scale), 'scale')}"


def tensor_json(tensor: GraphTensor) -> dict[str, Any]:
    from opdb.core.dtypes import BY_SHORT
    from opdb.core.op_config import quant_json

    return {
        "name": tensor.name,
        "dtype": BY_SHORT[tensor.dtype].qnn,
        "shape": list(tensor.shape),
        "quant": None if tensor.quant is None else quant_json(tensor.quant),
    }


#: An emulated chip is slow: a model that a phone runs in milliseconds may take minutes.
HUNG = "the library gave no answer within --timeout; it hung, or it is slow, as emulation is: give a larger --timeout"


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """The outcome with the keys that all results have."""
    return {
        "stage": outcome.stage,
        "verdict": outcome.verdict,
        "code": outcome.code,
        "code_name": outcome.code_name,
        "graph": getattr(outcome, "graph", ""),
        "node": getattr(outcome, "node", ""),
        "log": list(outcome.log),
    }


def print_failure(outcome: Outcome, where: str) -> None:
    """Prints to stderr: the stage, how the library failed there, and its reasons."""
    graph, node = getattr(outcome, "graph", ""), getattr(outcome, "node", "")
    place = f"{outcome.stage} {graph}".rstrip() + (f", node {node}" if node not in ("", graph) else "")
    how = {"no": "refused", "crashed": "the library crashed", "hung": HUNG}[outcome.verdict]
    code = f": {outcome.explained}" if outcome.code_name else ""
    print(f"opdb: {where}: {place}: {how}{code}", file=sys.stderr)
    for line in outcome.log:
        if line.startswith(("error", "warning", "output")):
            print(f"  {line}", file=sys.stderr)
