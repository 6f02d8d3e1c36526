"""Report lines: how nodes depart from the recipe, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, QnnGraph
from opdb.core.names import counted, plural
from opdb.lower.quantize.choose import Form, NoForm
from opdb.lower.quantize.recipe_types import Asked
from opdb.lower.quantize.slots import places

#: The number of nodes that a line names.
SHOWN = 3
#: The number of refused nodes that an error names.
MOST = 8


def together(refused: Sequence[NoForm]) -> OpdbError:
    """One error for all nodes without a form."""
    if len(refused) == 1:
        return refused[0]
    lines = "".join(f"\n  {refusal}" for refusal in refused[:MOST])
    more = f"\n  and {len(refused) - MOST} more" if len(refused) > MOST else ""
    return OpdbError(
        f"{counted(len(refused), 'node')} {plural(len(refused), 'has', 'have')} no form in these types:{lines}{more}"
    )


def otherwise(form: Form) -> tuple[str, str]:
    """The fallback of a node without a faultless row of integers, and the reason; ("", "") if it has a row."""
    if form.floats:
        return "in floats", form.floats
    if form.table:
        return "as a table", form.table
    if form.wider:
        return "in 16 bits", form.wider
    return ("doubtful", form.doubt) if form.doubt else ("", "")


def lines(graph: QnnGraph, forms: Mapping[str, Form], wish: Asked) -> Iterator[str]:
    """Yields a line for the nodes that depart from the recipe in the same way, for the same reason."""
    nodes: dict[tuple[str, str, str], list[str]] = {}
    for op in graph.ops:
        for how, reason in _departures(op, forms[op.name], wish):
            nodes.setdefault((how, op.op, reason), []).append(op.origin or op.name)
    for (how, op_name, reason), names in nodes.items():
        some = ", ".join(dict.fromkeys(names[:SHOWN])) + (" ..." if len(names) > SHOWN else "")
        yield f"{how}: {len(names)} {op_name} ({some})" + (f": {reason}" if reason else "")


def _departures(op: GraphOp, form: Form, wish: Asked) -> Iterator[tuple[str, str]]:
    """Yields how a node departs from the recipe, and why."""
    how, reason = otherwise(form)
    if how:
        yield how, reason
    wanted = wish.weights_of.get(op.name, wish.weights)
    with_channels = any(p.rule.axis is not None and p.slot in form.dtypes for p in places(op))
    if with_channels and wanted.bits is not None and form.weight != wanted:
        yield f"weights of {form.weight.text} instead of {wanted.text}", ""
