"""The report of a dispatcher: times of the segments, and every copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from opdb.core.names import counted

#: in: from the caller; out: to the caller; between: from one segment to another; layout: a Transpose or Reshape
#: at the input or output of a graph, only there because the reader and the program hold the tensor differently.
KINDS = ("in", "out", "between", "layout")


@dataclass(frozen=True)
class Copy:
    """A tensor that is written a second time.  ``bytes``: the size of each write."""

    kind: str  # one of KINDS
    tensor: str
    source: str  # a segment, or "caller"
    to: str
    bytes: int
    why: str


@dataclass(frozen=True)
class Shared:
    """A tensor that passes from one segment to another in place."""

    tensor: str
    source: str
    to: str
    bytes: int


@dataclass
class Times:
    """The times of one segment, in microseconds."""

    segment: str
    runs_on: str
    nodes: int
    runs: int = 0
    total: float = 0.0
    shortest: float = 0.0
    last: float = 0.0

    def add(self, microseconds: float) -> None:
        self.shortest = min(self.shortest, microseconds) if self.runs else microseconds
        self.runs += 1
        self.total += microseconds
        self.last = microseconds


@dataclass(frozen=True)
class Report:
    """``copies`` and ``shared`` are those of the last run; ``copied`` counts every run."""

    runs: int
    prepare_ms: float
    buffer_bytes: int  # allocated once, for the inputs and outputs of graphs
    segments: tuple[Times, ...]
    copies: tuple[Copy, ...]
    shared: tuple[Shared, ...]
    copied: int
    copied_bytes: int

    def count(self, kind: str) -> int:
        """The number of copies of this kind in the last run."""
        return sum(c.kind == kind for c in self.copies)

    def bytes(self, kind: str) -> int:
        return sum(c.bytes for c in self.copies if c.kind == kind)

    def to_json(self) -> dict[str, Any]:
        per_run = {k: {"copies": self.count(k), "bytes": self.bytes(k)} for k in KINDS}
        return asdict(self) | {"per_run": per_run}

    def table(self) -> str:
        """Segments with their times, then the copies of the last run, then the sums."""
        lines = [
            f"{counted(self.runs, 'run')}; prepared in {self.prepare_ms:.1f} ms, {counted(self.buffer_bytes, 'byte')} of buffers"
        ]
        lines += _columns(
            [("segment", "nodes", "runs", "last us", "shortest us", "mean us")]
            + [
                (t.segment, str(t.nodes), str(t.runs), f"{t.last:.1f}", f"{t.shortest:.1f}",
                 f"{t.total / t.runs if t.runs else 0.0:.1f}")
                for t in self.segments
            ]
        )  # fmt: skip
        if self.copies:
            rows = [(c.kind, c.tensor, c.source, c.to, str(c.bytes), c.why) for c in self.copies]
            lines += _columns([("copy", "tensor", "from", "to", "bytes", "why"), *rows])
        sums = ", ".join(f"{self.count(k)} {k} ({self.bytes(k)} bytes)" for k in KINDS)
        passed = f"{len(self.shared)} in place ({counted(sum(s.bytes for s in self.shared), 'byte')})"
        lines.append(f"per run: {sums}; between segments {passed}")
        return "\n".join(lines)


def _columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(r[c]) for r in rows) for c in range(len(rows[0]))]
    return ["  ".join(v.ljust(w) for v, w in zip(r, widths, strict=True)).rstrip() for r in rows]
