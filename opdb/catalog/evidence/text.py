"""Evidence in a few words, for tables and pages."""

from __future__ import annotations

from collections.abc import Iterable

from opdb.catalog.evidence import Cell, Outcome, Run
from opdb.catalog.evidence.status import failures
from opdb.core.sdk import sdk_number


def told(outcome: Outcome) -> str:
    """Summarizes an outcome, e.g. right; wrong numbers in 1 of 3 (HTP-0201); refused; crashes in 2 of 3."""
    found = failures(outcome.counts, outcome.cases)
    errata = f" ({', '.join(outcome.errata)})" if outcome.errata else ""
    if found:
        return f"{', '.join(found)}{errata}"
    ends = outcome.counts[-1]
    if ends.get("yes"):
        return "right"
    if outcome.counts[-2].get("yes"):
        return "runs, numbers not judged"
    return "validated" if outcome.counts[0].get("yes") else "unknown"


def of_chips(texts: Iterable[tuple[str, str]]) -> str:
    """Summarizes texts by chip, as (chip, text): the most common text, then the others with their chips."""
    groups: dict[str, list[str]] = {}
    for chip, text in texts:
        groups.setdefault(text, []).append(chip)
    ordered = sorted(groups.items(), key=lambda e: (-len(e[1]), e[0]))
    return "; ".join(
        f"{text} on {', '.join(sorted(chips))}" if i else text for i, (text, chips) in enumerate(ordered)
    )


def by_row(cells: Iterable[Cell]) -> dict[str, dict[str, str]]:
    """Maps row -> place (e.g. HTP 2.47 emulator) -> outcome there, with the chips that differ."""
    groups: dict[tuple[str, str, str, str], list[Cell]] = {}
    for c in cells:
        groups.setdefault((c.row, c.run.backend, c.run.sdk, c.run.execution), []).append(c)
    found: dict[str, dict[str, str]] = {}
    for key in sorted(groups, key=lambda k: (k[0], k[1], sdk_number(k[2]), k[3])):
        found.setdefault(key[0], {})[" ".join(key[1:])] = of_chips(
            (c.run.soc, told(c.outcome)) for c in groups[key]
        )
    return found


def provenance(runs: Iterable[Run]) -> list[str]:
    """One line per library: its identity, where and when it ran, and for which chips."""
    groups: dict[tuple[str, ...], set[Run]] = {}
    for r in runs:
        groups.setdefault((r.backend, r.sdk, r.package, r.version, r.execution, r.flow), set()).add(r)
    lines = []
    for key in sorted(groups, key=lambda k: (k[0], sdk_number(k[1]), *k[2:])):
        backend, sdk, package, version, execution, flow = key
        dates = sorted({r.date for r in groups[key]})
        when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
        chips = ", ".join(sorted({r.soc for r in groups[key]} - {""}))
        parts = [f"{backend} {sdk}: {package} {version}", execution, flow, when, chips]
        lines.append(", ".join(filter(None, parts)))
    return lines
