"""The first lines of a check: how much of a model the target takes, in how many graphs, and why the rest falls back to the CPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opdb.checks.rows import Row
from opdb.core.names import counted
from opdb.judge.nearest import ADVICE

#: A mapping's condition has this in its id; it says less than a rule of the target.
CONDITION = ".M_"


@dataclass(frozen=True)
class Reason:
    """Why ``rows`` fall back to the CPU.

    ``rule``: the rule or erratum, "" if it is none.  ``cure``: what to change, "" if opdb knows nothing.
    """

    text: str
    rule: str
    cure: str
    rows: tuple[Row, ...]

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators of the nodes, the most frequent first."""
        return tuple(name for name, _ in Counter(r.target for r in self.rows).most_common())

    @property
    def more(self) -> str:
        """The cure, or where to read more."""
        return self.cure or (f"opdb explain {self.rule}" if self._named else "")

    @property
    def words(self) -> str:
        """The reason, with the id that `opdb explain` knows; e.g. x has rank 6, and HTP takes 1 to 5 (Reshape.RANK_x)."""
        return f"{self.text} ({self.rule})" if self._named else self.text

    @property
    def _named(self) -> bool:
        return bool(self.rule) and CONDITION not in self.rule

    @property
    def line(self) -> str:
        """The nodes' number and the reason."""
        return f"{counted(len(self.rows), 'node')}: {self.words}"


@dataclass(frozen=True)
class Answer:
    """``sentence``: the shares on the target and the graphs.  ``reasons``: of the rest; the one with the most nodes is first."""

    sentence: str
    reasons: tuple[Reason, ...]

    def to_json(self) -> dict[str, Any]:
        reasons = [
            {"count": len(r.rows), "reason": r.text, "rule": r.rule, "cure": r.cure, "operators": list(r.operators),
             "nodes": [row.node for row in r.rows]}
            for r in self.reasons
        ]  # fmt: skip
        return {"answer": self.sentence, "reasons": reasons}


def answer_of(rows: Sequence[Row], place: str, graphs: int) -> Answer:
    """The answer for the rows of a coverage.  ``place``: where the supported ones run; e.g. the NPU (HTP SM8650)."""
    return Answer(_sentence(rows, place, graphs), _reasons(rows))


def _sentence(rows: Sequence[Row], place: str, graphs: int) -> str:
    taken = [r for r in rows if r.verdict == "supported"]
    left = len(rows) - len(taken)
    if not rows:
        return "The model has no nodes."
    if not taken:
        return f"Nothing runs on {place}: {_all(left).lower()} {'falls' if left == 1 else 'fall'} back to the CPU."
    held = f"in {counted(graphs, 'graph')}"
    if not left:
        return f"{_all(len(rows))} {'runs' if len(rows) == 1 else 'run'} on {place}, {held}."
    work = [sum(r.flops or 0 for r in some) for some in (taken, rows)]
    most = "at most " if any(r.at_least for r in rows if r.verdict != "supported") else ""
    flops = f" and {most}{share(*work)} of the FLOPs" if work[1] else ""
    falls = f"{counted(left, 'node')} {'falls' if left == 1 else 'fall'} back to the CPU"
    nodes = f"{share(len(taken), len(rows))} of the nodes ({len(taken)} of {len(rows)})"
    return f"{nodes}{flops} run on {place}, {held}; {falls}."


def _all(nodes: int) -> str:
    return {1: "The only node", 2: "Both nodes"}.get(nodes, f"All {nodes} nodes")


def share(part: float, whole: float) -> str:
    """A share in percent, never rounded up to all."""
    if not whole:
        return "0 %"
    text = f"{100 * part / whole:.3g} %"
    return "above 99.9 %" if text == "100 %" and part < whole else text


def main_reason(row: Row) -> Mapping[str, str]:
    """Why the target does not take a node: the first reason; a rule of the target comes before a mapping's condition."""
    reasons = sorted(row.reasons, key=lambda reason: CONDITION in reason["rule"])
    return (
        reasons[0]
        if reasons
        else {"form": "", "rule": "", "message": "", "brief": f"opdb does not map {row.target}"}
    )


def _reasons(rows: Iterable[Row]) -> tuple[Reason, ...]:
    """Groups nodes by reason: the same words, or the same rule of the target with different values."""
    groups: list[list[Row]] = []
    known: dict[str, list[Row]] = {}
    for row in rows:
        if row.verdict == "supported":
            continue
        reason = main_reason(row)
        rule = reason["rule"] if CONDITION not in reason["rule"] else ""
        keys = [key for key in (rule, reason["brief"]) if key]
        group = next((known[key] for key in keys if key in known), None)
        if group is None:
            groups.append(group := [])
        for key in keys:
            known.setdefault(key, group)
        group.append(row)
    return tuple(_reason(group) for group in sorted(groups, key=len, reverse=True))


def _reason(rows: Sequence[Row]) -> Reason:
    first = main_reason(rows[0])
    return Reason(first["brief"], first["rule"], _cure(rows[0], first["brief"]), tuple(rows))


def _cure(row: Row, reason: str) -> str:
    """The nearest op that is accepted; of an advice, what it says beside the reason."""
    if not row.nearest:
        return ""
    near = row.nearest[0]
    text = near["text"]
    if text.startswith(ADVICE):
        return "; ".join(part for part in text.removeprefix(ADVICE).split("; ") if part not in reason)
    accepted = f"{near['op']} is accepted with {text}"
    changes = near.get("changes") or []
    only_floats = changes and all((c["from"], c["to"]) == ("FLOAT_32", "FLOAT_16") for c in changes)
    return f"--dtype f16: {accepted}" if only_floats else accepted
