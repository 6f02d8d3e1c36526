"""Squares that overflow fp16: written as a product or a power, or inside an operator that sums squares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch.fx import Node

from opdb.checks.range_warnings.warning import FP16_MAX, Warned, warning
from opdb.programs.torch.bounds import bound, operator_of

#: Operators that square their first argument and nothing else.
PLAIN_SQUARES = frozenset({"mul", "pow", "square"})
NORMS = frozenset({"norm", "linalg_vector_norm"})
#: Operators that sum squares of their first argument, except those that QNN has as one op.
SUMS_OF_SQUARES = frozenset({"var", "var_mean", "std", "std_mean"}) | NORMS


def squared_input(node: Node) -> Node | None:
    """The node whose result ``node`` squares; None if it squares nothing."""
    x = node.args[0] if node.args else None
    if not isinstance(x, Node):
        return None
    name = operator_of(node)
    squares = (
        name == "square"
        or (name == "mul" and node.args[1] is x)
        or (name == "pow" and node.args[1] == 2)
        or (name in SUMS_OF_SQUARES and not _has_other_power(node))
    )
    return x if squares else None


def square_warnings(node: Node, largest: Mapping[str, float]) -> Iterator[Warned]:
    """FP16.SQUARES if the node squares numbers that may pass 255.

    ``largest``: node -> the largest absolute value on the samples; if known, it is used instead of the static bound.
    """
    x = squared_input(node)
    if x is None or largest.get(node.name, 0.0) > FP16_MAX:  # the latter has a warning of its result
        return
    measured = largest.get(x.name)
    if (bound(x) if measured is None else measured) ** 2 <= FP16_MAX:
        return
    reached = f"; {x.name} reaches {measured:.3g} in the data" if measured is not None else ""
    cure = (
        "divide before, and multiply after"
        if operator_of(node) in PLAIN_SQUARES and not _is_summed(node)
        else "use layer_norm, rms_norm or normalize whole, or divide before"
    )
    yield warning(
        "FP16.SQUARES",
        f"the squares of {x.name} overflow fp16 (65504) where |{x.name}| > 255{reached}: {cure}",
    )


def _has_other_power(node: Node) -> bool:
    """True for a norm whose power is not 2."""
    power = node.args[1] if len(node.args) > 1 and operator_of(node) in NORMS else 2
    return power is not None and power != 2


def _is_summed(node: Node) -> bool:
    return any(operator_of(u) in ("mean", "sum") for u in node.users)
