"""Two graphs of one network that differ in one thing: the differing ops, and the difference in microseconds; and their file format."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from opdb.core.graph import GraphOp, QnnGraph
from opdb.lower.cost import Cost
from opdb.lower.prices import Kind, Work, work_of
from opdb.runtime.forms import Lowered, LoweredOp
from opdb.runtime.tensors import TensorRef

#: Precisions in which networks are estimated -> the class of numbers that floats become, and its fraction of their bytes.
PRECISIONS = {"fp16": ("fp16", 1.0), "8a8w": ("8 bits", 0.25), "16a8w": ("16 bits", 0.5)}


@dataclass(frozen=True)
class Pair:
    """``before`` and ``after`` are microseconds of two graphs, ``ops`` the additional ops of the second; missing ones have negative costs.

    ``kind``: candidate (another form of some torch nodes), erratum (one that is ignored or avoided), bypass (ops that are left out),
    whole (all ops, against nothing).  ``forms``, for candidates: the torch operator, the chosen form, the other one.  ``more``
    and ``fewer`` are then what the selection compares, before the optimizer.
    """

    network: str
    precision: str  # one of PRECISIONS
    kind: str
    what: str
    before: float
    after: float
    ops: Work
    forms: tuple[str, str, str] | None = None
    more: Work | None = None
    fewer: Work | None = None

    @property
    def us(self) -> float:
        return self.after - self.before

    @property
    def numbers(self) -> str:
        return PRECISIONS[self.precision][0]


def work_of_graph(graph: QnnGraph) -> dict[Kind, Cost]:
    """The ops of a graph by kind."""
    return work_of(_read(graph, op) for op in graph.ops)


def _read(graph: QnnGraph, op: GraphOp) -> LoweredOp:
    def tensor(name: str) -> TensorRef:
        t = graph.tensors[name]
        return TensorRef(t.shape, t.dtype, t.type == "STATIC", quant=t.quant, base_shape=t.shape)

    inputs = tuple(None if name is None else tensor(name) for name in op.inputs)
    return LoweredOp(op.op, inputs, op.params, tuple(map(tensor, op.outputs)))


def work_lowered(nodes: Iterable[Lowered], precision: str) -> dict[Kind, Cost]:
    """The ops of float nodes by kind, converted to a precision."""
    numbers, part = PRECISIONS[precision]
    found = work_of(op for node in nodes for op in node.ops)
    return {
        (Kind(k.op, numbers, k.shape) if k.numbers == "fp16" else k): Cost(
            round(c.bytes * part), c.macs, round(c.layout_bytes * part), c.ops
        )
        for k, c in found.items()
    }


def less(after: Work, before: Work) -> dict[Kind, Cost]:
    """The work that ``after`` has in addition to ``before``."""
    nothing = Cost(ops=0)
    found = {}
    for kind in {**after, **before}:
        a, b = after.get(kind, nothing), before.get(kind, nothing)
        change = Cost(*(x - y for x, y in zip(astuple(a), astuple(b), strict=True)))
        if change != nothing:
            found[kind] = change
    return found


def line(pair: Pair) -> str:
    """A pair as a line of JSON, with the ops sorted by name."""
    return json.dumps(
        {**vars(pair), **{name: _rows(getattr(pair, name)) for name in ("ops", "more", "fewer")}}
    )


def _rows(work: Work | None) -> list[list[Any]] | None:
    return None if work is None else [[*astuple(k), *astuple(c)] for k, c in sorted(work.items())]


def parsed(text: str) -> Pair:
    """Parses the pair of a line."""
    row = json.loads(text)
    works = {name: _work(row[name]) for name in ("ops", "more", "fewer")}
    return Pair(**{**row, **works, "forms": tuple(row["forms"]) if row["forms"] else None})


def _work(rows: Sequence[Sequence[Any]] | None) -> Work | None:
    return None if rows is None else {Kind(*row[:3]): Cost(*row[3:]) for row in rows}
