"""The coverage of a program by a target: a row with the verdict on each node, and the totals.

opdb.checks.verdicts computes it; reports, gates and compilation read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from opdb.judge.errata.records import RECORDS
from opdb.judge.errata.report import ErratumCount, Extra, Met, counted
from opdb.runtime.forms import Lowered, Rejected

#: supported: a form is accepted; rejected: all forms are refused; host: opdb does not map the operator.
VERDICTS = ("supported", "rejected", "host")


@dataclass(frozen=True)
class Row:
    """One node.

    ``bytes``: the size of its inputs and results in PyTorch.  ``flops``: see opdb.checks.flops.  Both are None if a
    shape is symbolic.  ``reads``: the rows whose results it reads.  ``graph``: the number of the QNN graph that holds it, from 1;
    None on the CPU.
    """

    node: str
    target: str
    verdict: str
    form: str = ""  # the chosen op or decomposition
    ops: tuple[str, ...] = ()
    reasons: tuple[
        Mapping[str, str], ...
    ] = ()  # rule, message, brief, form: why it, or each form before, was refused
    warnings: tuple[Mapping[str, str], ...] = ()
    #: For a rejected node: form, op, and the changes after which the target accepts the op.
    nearest: tuple[Mapping[str, Any], ...] = ()
    module: str = ""  # e.g. encoder.layers.0.norm
    line: str = ""  # of the model's source; e.g. model.py:12: return self.norm(x)
    file: str = ""  # the path of that source
    bytes: int | None = None
    flops: int | None = None
    avoided: tuple[str, ...] = ()  # errata of the library that the ops avoid
    warned: tuple[str, ...] = ()  # errata that the ops may show
    extra: Mapping[str, Extra | None] = field(
        default_factory=dict
    )  # what avoiding each costs (opdb.judge.errata.report.Met)
    reads: tuple[str, ...] = ()
    graph: int | None = None
    types: str = ""  # the types it computes in; e.g. uq16, weights of sq8
    said: tuple[str, ...] = ()  # notes on types other than the program's; see opdb.checks.notes


@dataclass(frozen=True)
class Coverage:
    """A target's verdicts on a program: ``rows`` has one on each node, ``lowered`` the lowering of each node, by name."""

    backend: str | None
    soc: str | None
    sdk: str | None
    rows: tuple[Row, ...]
    partitions: int  # connected groups of supported nodes that one graph each can hold
    lowered: Mapping[str, Lowered | Rejected] = field(default_factory=dict, compare=False, repr=False)
    states: tuple[Any, ...] = field(default=(), compare=False, repr=False)  # see opdb.execute.compile.states
    scalars: tuple[str, ...] = field(
        default=(), compare=False, repr=False
    )  # see opdb.execute.compile.model_io
    quantize: str | None = None  # the scheme, e.g. 8a8w, in which a float program was judged
    about: str = ""  # the first sentence of a report

    @property
    def complete(self) -> bool:
        """True if every node is supported."""
        return all(r.verdict == "supported" for r in self.rows)

    @property
    def unsupported(self) -> set[str]:
        """The nodes without a form."""
        return {r.node for r in self.rows if r.verdict != "supported"}

    @property
    def warnings(self) -> int:
        """The number of supported nodes with a warning of a rule or an erratum."""
        return sum(bool(r.warnings) for r in self.rows if r.verdict == "supported")

    @property
    def refused_by_errata(self) -> bool:
        """True if each unsupported node has a form that only errata refuse."""
        return all(r.verdict == "supported" or _errata_alone(r) for r in self.rows)

    def errata(self) -> tuple[ErratumCount, ...]:
        """The errata that the nodes avoid or are warned of; avoided ones first, then by id."""
        return counted(Met(r.avoided, r.warned, r.extra) for r in self.rows)

    def count(self, verdict: str) -> int:
        """The number of nodes with this verdict: supported, rejected or host."""
        return sum(r.verdict == verdict for r in self.rows)

    def cost(self, *verdicts: str) -> dict[str, int]:
        """FLOPs and bytes of the nodes with these verdicts, by default of all; ``unknown``: nodes with symbolic shapes."""
        rows = [r for r in self.rows if not verdicts or r.verdict in verdicts]
        return {
            "nodes": len(rows),
            "flops": sum(r.flops or 0 for r in rows),
            "bytes": sum(r.bytes or 0 for r in rows),
            "unknown": sum(r.bytes is None or r.flops is None for r in rows),
        }

    @property
    def any_quantized(self) -> bool:
        """True if some node computes in quantized types."""
        return any("q" in r.types for r in self.rows)

    def to_json(self) -> dict[str, Any]:
        """The object that ``opdb check --json`` prints; stable keys."""
        return {
            "backend": self.backend,
            "soc": self.soc,
            "sdk": self.sdk,
            "quantize": self.quantize,
            "nodes": len(self.rows),
            **{v: self.count(v) for v in VERDICTS},
            "partitions": self.partitions,
            "cost": self.cost(),
            "cpu": self.cost("rejected", "host"),
            "errata": [asdict(e) for e in self.errata()],
            "rows": [asdict(r) for r in self.rows],
        }


def _errata_alone(row: Row) -> bool:
    forms: dict[str, set[str]] = {}
    for reason in row.reasons:
        forms.setdefault(reason["form"], set()).add(reason["rule"])
    return any(rules <= RECORDS.keys() for rules in forms.values())
