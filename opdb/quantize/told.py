"""What a report says of the forms of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from opdb.errors import OpdbError
from opdb.graph import QnnGraph
from opdb.quantize.choose import Form, NoForm

#: Nodes that a line names.
SHOWN = 3
#: Refused nodes that an error names.
MOST = 8


def together(refused: Sequence[NoForm]) -> OpdbError:
    """One error for all nodes without a form."""
    if len(refused) == 1:
        return refused[0]
    lines = "".join(f"\n  {refusal}" for refusal in refused[:MOST])
    more = f"\n  and {len(refused) - MOST} more" if len(refused) > MOST else ""
    return OpdbError(f"{len(refused)} nodes have no form in these types:{lines}{more}")


def otherwise(form: Form) -> tuple[str, str]:
    """How a node without a row of integers is computed, and why; ("", "") for one that has a row."""
    if form.floats:
        return "in floats", form.floats
    if form.table:
        return "as a table", form.table
    return ("in 16 bits", form.wider) if form.wider else ("", "")


def lines(graph: QnnGraph, forms: Mapping[str, Form]) -> Iterator[str]:
    """A line for the nodes that compute in floats, in more bits or as a table, for one reason."""
    nodes: dict[tuple[str, str, str], list[str]] = {}
    for op in graph.ops:
        how, reason = otherwise(forms[op.name])
        if how:
            nodes.setdefault((how, op.op, reason), []).append(op.origin or op.name)
    for (how, op_name, reason), names in nodes.items():
        some = ", ".join(dict.fromkeys(names[:SHOWN])) + (" ..." if len(names) > SHOWN else "")
        yield f"{how}: {len(names)} {op_name} ({some}): {reason}"
