"""The differences of a model between two targets: nodes, errata of the library, graphs, work on the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from opdb.checks.coverage import Coverage, Row
from opdb.checks.side_by_side import npu_flops
from opdb.core.names import counted
from opdb.judge.errata.records import RECORDS
from opdb.judge.errata.report import ErratumCount

#: Kinds of changes of a node, in the order of reports: its words, with A and B for the targets.
KINDS: Mapping[str, str] = {
    "lost": "{b} refuses {nodes} that {a} takes",
    "gained": "{b} takes {nodes} that {a} refuses",
    "reasons": "{b} refuses {nodes} for other reasons than {a}",
    "ops": "{nodes} {become} other ops on {b}",
    "types": "{nodes} {compute} in other types on {b}",
    "errata": "{nodes} {meet} other errata on {b}",
    "warnings": "{nodes} {have} other warnings on {b}",
    "gone": "{nodes} {are} not in the graph of {b}",
    "new": "{nodes} {are} not in the graph of {a}",
}
#: Conditions on which a command can be told to fail; see ``Difference.failing``.
FAILURES = ("regression", "removed", "changed")


@dataclass(frozen=True)
class NodeChange:
    """A node that differs: one of KINDS, and its rows on both targets; a row is None if that graph has no such node."""

    kind: str
    before: Row | None
    after: Row | None

    @property
    def row(self) -> Row:
        """A row of the node, for its name, operator and place."""
        found = self.after or self.before
        assert found is not None
        return found

    def to_json(self) -> dict[str, Any]:
        row = self.row
        names = {
            "node": row.node,
            "target": row.target,
            "module": row.module,
            "line": row.line,
            "file": row.file,
        }
        return {"change": self.kind, **names, "before": _side(self.before), "after": _side(self.after)}


def _side(row: Row | None) -> dict[str, Any] | None:
    if row is None:
        return None
    told = asdict(row)
    keys = (
        "verdict",
        "form",
        "ops",
        "types",
        "reasons",
        "nearest",
        "warnings",
        "said",
        "avoided",
        "warned",
        "graph",
    )
    return {key: told[key] for key in keys}


@dataclass(frozen=True)
class Difference:
    """The changes from ``before`` to ``after``.  ``names``: the two targets, by what they do not share."""

    before: Coverage
    after: Coverage
    names: tuple[str, str]
    changes: tuple[NodeChange, ...]

    @property
    def errata_gone(self) -> tuple[ErratumCount, ...]:
        """The errata that nodes meet before and not after."""
        return _only(self.before, self.after)

    @property
    def errata_new(self) -> tuple[ErratumCount, ...]:
        """The errata that nodes meet after and not before."""
        return _only(self.after, self.before)

    def of(self, *kinds: str) -> list[NodeChange]:
        """The changes of these kinds."""
        return [c for c in self.changes if c.kind in kinds]

    def alike(self, other: Difference) -> bool:
        """True if the same changes are between the same two names, e.g. with another SDK."""
        sides = [(d.names, d.changes, d.errata_gone, d.errata_new, list(summary(d))) for d in (self, other)]
        return sides[0] == sides[1]

    @property
    def any(self) -> bool:
        """True if something differs."""
        graphs = self.before.partitions != self.after.partitions
        return bool(self.changes or self.errata_gone or self.errata_new or graphs)

    def failing(self, on: Sequence[str]) -> bool:
        """True if a condition of FAILURES holds.

        regression: ``after`` refuses a node that ``before`` takes, or meets a new erratum; removed: it refuses such a
        node; changed: anything differs.
        """
        removed = bool(self.of("lost"))
        worse = removed or bool(self.errata_new)
        held = {"regression": worse, "removed": removed, "changed": self.any}
        return any(held[condition] for condition in on)

    def to_json(self) -> dict[str, Any]:
        """The object that ``opdb diff --model --json`` has for each comparison; stable keys."""
        return {
            "before": _totals(self.before),
            "after": _totals(self.after),
            "summary": list(summary(self)),
            "errata_gone": [asdict(e) for e in self.errata_gone],
            "errata_new": [asdict(e) for e in self.errata_new],
            "nodes": [c.to_json() for c in self.changes],
        }


def _totals(coverage: Coverage) -> dict[str, Any]:
    return {key: value for key, value in coverage.to_json().items() if key not in ("rows", "errata")}


def _only(one: Coverage, other: Coverage) -> tuple[ErratumCount, ...]:
    there = {e.erratum for e in other.errata()}
    return tuple({e.erratum: e for e in one.errata() if e.erratum not in there}.values())


def difference(before: Coverage, after: Coverage, names: tuple[str, str]) -> Difference:
    """Compares a model's coverages by two targets, node by node."""
    old, new = ({r.node: r for r in c.rows} for c in (before, after))
    changes = []
    for node in dict.fromkeys((*old, *new)):
        kind = _kind(old.get(node), new.get(node))
        if kind:
            changes.append(NodeChange(kind, old.get(node), new.get(node)))
    order = list(KINDS)
    return Difference(before, after, names, tuple(sorted(changes, key=lambda c: order.index(c.kind))))


def _kind(old: Row | None, new: Row | None) -> str:
    """The first of KINDS that applies; "" if nothing differs."""
    if old is None or new is None:
        return "new" if old is None else "gone"
    was, now = old.verdict == "supported", new.verdict == "supported"
    if was != now:
        return "gained" if now else "lost"
    if not now:
        return "reasons" if _rules(old) != _rules(new) else ""
    if (old.form, old.ops) != (new.form, new.ops):
        return "ops"
    if (old.types, old.said) != (new.types, new.said):
        return "types"
    if (old.avoided, old.warned) != (new.avoided, new.warned):
        return "errata"
    return "warnings" if _warnings(old) != _warnings(new) else ""


def _rules(row: Row) -> set[tuple[str, str]]:
    """The refusals of a node: form and rule; a reason without a rule is its text.  Texts name the chip, so they are not compared."""
    return {(r["form"], r["rule"] or r["brief"]) for r in row.reasons}


def _warnings(row: Row) -> set[str]:
    return {w["rule"] or w["brief"] for w in row.warnings if w["rule"] not in RECORDS}


def summary(found: Difference) -> Iterator[str]:
    """One line each: what changes for nodes, for errata, for graphs, and for the work on the CPU; or that nothing does."""
    a, b = found.names
    parts = [_nodes_changed(found, kind) for kind in KINDS if found.of(kind)]
    parts += [_errata(found.errata_gone, "gone"), _errata(found.errata_new, "new")]
    if told := "; ".join(filter(None, parts)):
        yield told
    if (old := found.before.partitions) != (new := found.after.partitions):
        yield f"graphs: {new} instead of {old}"
    if (was := on_npu(found.before)) != (now := on_npu(found.after)):
        yield f"on the NPU: {now}, instead of {was}"
    if found.before.quantize != found.after.quantize:
        yield f"{a} is judged in {found.before.quantize or 'its own types'}, {b} in {found.after.quantize or 'its own types'}"
    if not found.any:
        yield f"nothing changes from {a} to {b}: {on_npu(found.after)} on the NPU, {_graphs(found.after)}"


def _nodes_changed(found: Difference, kind: str) -> str:
    n = len(found.of(kind))
    one = n == 1
    words = {
        "become": "becomes" if one else "become",
        "compute": "computes" if one else "compute",
        "meet": "meets" if one else "meet",
        "have": "has" if one else "have",
        "are": "is" if one else "are",
    }
    return KINDS[kind].format(a=found.names[0], b=found.names[1], nodes=f"{n} node{'s' * (not one)}", **words)


def _errata(counts: Sequence[ErratumCount], word: str) -> str:
    if not counts:
        return ""
    ids = ", ".join(e.erratum for e in counts)
    return f"1 erratum is {word}: {ids}" if len(counts) == 1 else f"{len(counts)} errata are {word}: {ids}"


def on_npu(coverage: Coverage) -> str:
    """E.g. 80 of 82 nodes (99.1 % of the FLOPs)."""
    share = npu_flops(coverage)
    flops = f" ({share} of the FLOPs)" if share else ""
    return f"{coverage.count('supported')} of {counted(len(coverage.rows), 'node')}{flops}"


def _graphs(coverage: Coverage) -> str:
    return f"{coverage.partitions} graph{'s' * (coverage.partitions != 1)}"


def steps(coverages: Sequence[Coverage]) -> list[Difference]:
    """The comparisons of a model's targets.

    For each chip each SDK with the one before it, then for each SDK each chip with the first one.  Names are what the two do
    not share.
    """
    socs = list(dict.fromkeys(c.soc for c in coverages))
    sdks = list(dict.fromkeys(c.sdk for c in coverages))
    at = {(c.soc, c.sdk): c for c in coverages}
    found = []
    for soc in socs:
        for a, b in pairwise(sdks):
            found.append(difference(at[soc, a], at[soc, b], (str(a), str(b))))
    for sdk in sdks:
        for soc in socs[1:]:
            found.append(difference(at[socs[0], sdk], at[soc, sdk], (str(socs[0]), str(soc))))
    return found


def heading(found: Difference) -> str:
    """The two sides in words, e.g. "SDK 2.47 -> 2.51 on HTP SM8650"."""
    a, b = found.before, found.after
    if a.soc != b.soc:
        sdk = f", SDK {a.sdk}" if a.sdk else ""
        return f"{a.soc} -> {b.soc} on {a.backend}{sdk}"
    return f"SDK {a.sdk} -> {b.sdk} on {' '.join(p for p in (a.backend, a.soc) if p)}"
