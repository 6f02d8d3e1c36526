"""The coverage of a program by a target: a row with the verdict on each node, and the totals.

opdb.checks.verdicts computes it; reports, gates and compilation read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from opdb.checks.answer import Answer, answer_of
from opdb.checks.rows import VERDICTS, Row
from opdb.generated.constants.backends import BACKENDS
from opdb.judge.errata.records import RECORDS
from opdb.judge.errata.report import ErratumCount, Met, counted
from opdb.runtime.forms import Lowered, Rejected

__all__ = ["VERDICTS", "Coverage", "Row"]


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
    about: str = ""  # what a report says behind its first sentence

    @property
    def complete(self) -> bool:
        """True if every node is supported."""
        return all(r.verdict == "supported" for r in self.rows)

    @property
    def from_documents(self) -> bool:
        """True if the backend's rules were never compared with its library, which does not answer on x86-64."""
        record = BACKENDS.get(self.backend or "")
        return record is not None and not record.asked

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
        """FLOPs and bytes of the nodes with these verdicts, by default of all.

        ``unknown``: nodes with symbolic shapes, which are left out; ``at_least``: nodes with loops that are counted once.
        """
        rows = [r for r in self.rows if not verdicts or r.verdict in verdicts]
        return {
            "nodes": len(rows),
            "flops": sum(r.flops or 0 for r in rows),
            "bytes": sum(r.bytes or 0 for r in rows),
            "unknown": sum(r.bytes is None or r.flops is None for r in rows),
            "at_least": sum(r.at_least for r in rows),
        }

    @property
    def answer(self) -> Answer:
        """The first lines of a report."""
        return answer_of(self.rows, place_of(self.backend, self.soc), self.partitions)

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
            **self.answer.to_json(),
            "nodes": len(self.rows),
            **{v: self.count(v) for v in VERDICTS},
            "partitions": self.partitions,
            "cost": self.cost(),
            "cpu": self.cost("rejected", "host"),
            "errata": [asdict(e) for e in self.errata()],
            "rows": [asdict(r) for r in self.rows],
        }


def place_of(backend: str | None, soc: str | None) -> str:
    """Where the supported nodes run; e.g. the NPU (HTP SM8650), or GPU."""
    name = " ".join(p for p in (backend, soc) if p)
    record = BACKENDS.get(backend or "")
    return f"the NPU ({name})" if record is not None and record.per_soc else name or "QNN"


def _errata_alone(row: Row) -> bool:
    forms: dict[str, set[str]] = {}
    for reason in row.reasons:
        forms.setdefault(reason["form"], set()).add(reason["rule"])
    return any(rules <= RECORDS.keys() for rules in forms.values())
