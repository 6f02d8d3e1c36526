"""The counts of an outcome as words, as the tables have them."""

from __future__ import annotations

from opdb.catalog.evidence import STAGES, WORST, Outcome


def spelled(outcome: Outcome) -> str:
    """The counts in words, e.g. validates 3 yes; matches 2 yes 1 no.  Leaves out stages without known results."""
    found = []
    for stage, counts in zip(STAGES, outcome.counts, strict=True):
        told = [
            f"{n} {s}" for s, n in sorted(counts.items(), key=lambda e: -WORST.index(e[0])) if s != "unknown"
        ]
        found += [f"{stage} {' '.join(told)}"] if told else []
    return "; ".join(found)


def counted(text: str, cases: int) -> tuple[dict[str, int], ...]:
    """Parses the counts that ``spelled`` wrote."""
    found: dict[str, dict[str, int]] = {stage: {} for stage in STAGES}
    for part in filter(None, text.split("; ")):
        stage, *words = part.split(" ")
        found[stage] = {s: int(n) for n, s in zip(words[::2], words[1::2], strict=True)}
    for counts in found.values():
        if left := cases - sum(counts.values()):
            counts["unknown"] = left
    return tuple(found.values())
