"""Prices of ops in context, from a table that `opdb cost build-table` made with Qualcomm's simulation (docs/guides/cost.md).

A price is in microseconds: a part for the op, a part per MB that it reads and writes, a part per G of products.  They were
fitted to the differences in time between whole graphs that differ in a few ops, so an op that the library fuses with its
neighbor costs next to nothing.  An op without a line gets the pooled price of ops with its numbers and shape.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from functools import cache, cached_property
from math import prod
from pathlib import Path
from typing import Any

from opdb.catalog.targets.target import Target
from opdb.core.errors import OpdbError
from opdb.lower.cost import MODELED, Cost, Prices, cost_of, nbytes
from opdb.runtime.forms import Lowered, LoweredOp
from opdb.runtime.qnn import SIMULATING
from opdb.runtime.tensors import TensorRef

FILE = Path(__file__).with_name("table.json")
FORMAT = 1
MB, G = 1e6, 1e9
#: The architectures on which the estimates for the table's chip rank graphs (docs/guides/cost.md).
RANKED = range(73, 82)
#: Shapes that the chip treats differently: five dimensions or more, large tensors with short rows, products of many matrices.
FIVE, NARROW, MANY, USUAL = "5d", "narrow", "many", ""
NARROW_ROW, NARROW_SIZE, MATRICES = 16, 1024, 16
#: The minimum cost of an op, in microseconds.
LEAST = 0.05
#: The minimum saving of a later candidate: in microseconds, and as a share of the price of the earlier one.
MARGIN_US, MARGIN_PART = 2.0, 0.25


@dataclass(frozen=True, order=True)
class Kind:
    """The key of a line of the table.  ``op``: with the number of its operation, e.g. ElementWiseNeuron.1; "": any other op."""

    op: str
    numbers: str  # fp16, 8 bits, 16 bits or 32 bits
    shape: str  # one of FIVE, NARROW, MANY, USUAL


@dataclass(frozen=True)
class Line:
    """Microseconds per op, per MB and per G of products.  ``pairs``: the number of differences that have the op."""

    us: float
    us_per_mb: float
    us_per_g: float
    pairs: int

    def price(self, cost: Cost) -> float:
        """The price of all work in ``cost``; changes of layout cost their bytes, as they do when they are not dropped."""
        return (
            self.us * cost.ops
            + self.us_per_mb * (cost.bytes + cost.layout_bytes) / MB
            + self.us_per_g * cost.macs / G
        )


#: Used if nothing was measured at all: 5 us an op, 50 GB/s, 5e12 products a second (opdb.lower.cost).
UNKNOWN = Line(5.0, 20.0, 200.0, 0)


def kind_of(op: LoweredOp) -> Kind:
    """The key of an op's line."""
    operation = next((f".{p.value}" for p in op.params if p.name == "operation"), "")
    inputs = [t for t in op.inputs if t is not None]
    moving = [t for t in (*inputs, *op.outputs) if not t.static]
    shape = _shape(moving)
    if op.op == "MatMul" and shape == USUAL and prod(op.outputs[0].shape[:-2]) >= MATRICES:
        shape = MANY
    return Kind(op.op + operation, _numbers([*op.outputs, *inputs]), shape)


def _numbers(tensors: list[TensorRef]) -> str:
    """The class of the first tensor that holds real numbers; floats of any type are computed in 16 bits."""
    for t in tensors:
        if t.dtype in ("f32", "f16"):
            return "fp16"
        if t.quant is not None or t.dtype in ("uq8", "sq8", "uq16", "sq16"):
            return "8 bits" if t.dtype.endswith("8") else "16 bits"
    return "32 bits"


def _shape(tensors: list[TensorRef]) -> str:
    if any(len(t.shape) >= 5 for t in tensors):
        return FIVE
    if any(len(t.shape) > 1 and t.shape[-1] < NARROW_ROW and prod(t.shape) >= NARROW_SIZE for t in tensors):
        return NARROW
    return USUAL


#: The columns of a line in the table's file.
COLUMNS = ("op", "numbers", "shape", "us", "us_per_mb", "us_per_g", "pairs")
#: Ops by the key of their line: their count, bytes and products.  Negative numbers occur in differences.
Work = Mapping[Kind, Cost]
#: Two forms that were compared in real graphs: the torch operator, the names of the forms in the order of their family, the class of
#: their numbers, the shapes of the ops of each.
Forms = tuple[str, str, str, str, str, str]


def forms_of(torch_target: str, earlier: str, later: str, works: tuple[Work, Work]) -> Forms:
    """The key under which two forms of one or more nodes are compared; ``works``: those of the earlier and of the later form."""
    numbers = next((k.numbers for k in works[0]), "")
    shapes = ["+".join(sorted({k.shape for k in work})) for work in works]
    return torch_target, earlier, later, numbers, shapes[0], shapes[1]


def work_of(ops: Iterable[LoweredOp]) -> dict[Kind, Cost]:
    """Sums ops by kind, including the Transposes of images that they need if their neighbors have channels last."""
    found: dict[Kind, Cost] = {}
    for op in ops:
        kind = kind_of(op)
        turned = [nbytes(t) for t in (*op.inputs, *op.outputs) if t is not None and _channels_first(t)]
        costs = [(kind, cost_of(op))]
        if turned:
            costs.append((Kind("Transpose", kind.numbers, USUAL), Cost(2 * sum(turned), ops=len(turned))))
        for k, cost in costs:
            found[k] = found.get(k, Cost(ops=0)) + cost
    return found


def _channels_first(t: TensorRef) -> bool:
    """True if an op reshapes an image as PyTorch holds it, so it takes the image with its channels first."""
    if t.static or len(t.base_shape) != 4 or not t.transforms or t.transforms[0].kind != "reshape":
        return False
    return t.base_shape[1] > 1 and t.base_shape[2] * t.base_shape[3] > 1


@dataclass(frozen=True)
class Table:
    """``soc``: the simulated chip, ``build_id``: the library's version, ``models``: the graphs that were simulated.

    ``compared``: the pairs of forms that the prices decide between; the prices agree with every graph in which the simulation
    compared the two.
    """

    soc: str
    build_id: str
    models: tuple[str, ...]
    lines: Mapping[Kind, Line]
    compared: frozenset[Forms] = frozenset()

    @cached_property
    def compared_names(self) -> frozenset[tuple[str, str, str]]:
        """The torch operators and the names of the forms in ``compared``."""
        return frozenset((operator, earlier, later) for operator, earlier, later, *_ in self.compared)

    def line(self, kind: Kind) -> Line:
        for k in (kind, Kind("", kind.numbers, kind.shape), Kind("", kind.numbers, USUAL)):
            if (found := self.lines.get(k)) is not None:
                return found
        return UNKNOWN

    def price(self, work: Work) -> float:
        """Microseconds in a graph on ``soc``."""
        return sum(max(LEAST * cost.ops, self.line(kind).price(cost)) for kind, cost in work.items())

    def difference(self, work: Work) -> float:
        """Price of the difference between two graphs; removed work counts negative."""
        return sum(self.line(kind).price(cost) for kind, cost in work.items())

    def saves(self, new: Work, old: Work) -> bool:
        """True if ``new`` is cheaper than ``old`` by more than the margin of the prices."""
        before = self.price(old)
        return self.price(new) + max(MARGIN_US, MARGIN_PART * before) <= before

    def knows(self, work: Work) -> bool:
        """True if the table has a line for every op: the op made a difference between two simulated graphs."""
        return all(kind in self.lines for kind in work)


@dataclass(frozen=True)
class OfOperator:
    """Compares the forms of one torch operator: by the table's prices for ``compared`` forms, otherwise by the model's."""

    table: Table
    torch_target: str

    def saves(self, new: Lowered, old: Lowered) -> bool:
        before, after = work_of(old.ops), work_of(new.ops)
        key = forms_of(self.torch_target, old.form, new.form, (before, after))
        if key in self.table.compared and self.table.knows(before) and self.table.knows(after):
            return self.table.saves(after, before)
        return MODELED.saves(new, old)

    def beyond(self, form: str, ops: tuple[str, ...], old: Lowered) -> bool:
        if (self.torch_target, old.form, form) in self.table.compared_names:
            return False
        return MODELED.beyond(form, ops, old)


def read(text: str) -> Table:
    """Reads a table from the text of its file.  Raises OpdbError for another format."""
    try:
        document = json.loads(text)
        if document["format"] != FORMAT:
            raise OpdbError(f"format {document['format']}; this opdb reads {FORMAT}")
        lines = {Kind(*row[:3]): Line(*row[3:]) for row in document["lines"]}
        compared = frozenset((a, b, c, d, e, f) for a, b, c, d, e, f in document["compared"])
        return Table(document["soc"], document["build_id"], tuple(document["models"]), lines, compared)
    except (ValueError, KeyError, TypeError) as error:
        raise OpdbError(f"not a table of prices: {type(error).__name__} {error}") from None


def written(table: Table) -> str:
    """The text of a table's file: one line per row, sorted."""
    head: dict[str, Any] = {
        "format": FORMAT,
        "soc": table.soc,
        "build_id": table.build_id,
        "columns": COLUMNS,
    }
    blocks = {
        "models": table.models,
        "lines": [(*astuple(k), *astuple(x)) for k, x in sorted(table.lines.items())],
        "compared": sorted(table.compared),
    }
    parts = [f' "{name}": {json.dumps(value)}' for name, value in head.items()]
    for name, rows in blocks.items():
        parts.append(f' "{name}": [\n  ' + ",\n  ".join(map(json.dumps, rows)) + "\n ]")
    return "{\n" + ",\n".join(parts) + "\n}\n"


@cache
def shipped() -> Table:
    """The table that opdb ships."""
    try:
        return read(FILE.read_text(encoding="utf-8"))
    except (OSError, OpdbError) as error:
        raise OpdbError(f"{FILE}: {error}; 'opdb cost build-table' makes one") from None


def covers(target: Target) -> bool:
    """True if the table ranks candidates on this target: HTP with an architecture of RANKED."""
    if target.backend != SIMULATING or target.soc is None:
        return False
    return target.context().arch in RANKED


def prices_of(torch_target: str, target: Target) -> Prices:
    """The table if it ranks candidates on ``target``, otherwise the model."""
    return OfOperator(shipped(), torch_target) if covers(target) else MODELED
