"""The report as a folder of static pages, for any number of results: an index, a page for each op, badge, JUnit.

Each page is self-contained and needs no server; the page of an op is ``html.page`` with only the op's results,
its error plots, and a comparison of documents and measurements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from opdb.core.version import __version__
from opdb.measure.conformance.judge import OUTCOMES
from opdb.measure.conformance.report import junit
from opdb.measure.conformance.report.badge import badge
from opdb.measure.conformance.report.html import agreement_section, page
from opdb.measure.conformance.report.type_rows import AS_DOCUMENTED, Measured, measured
from opdb.measure.conformance.report.plots import plots
from opdb.measure.conformance.report.rows import Row
from opdb.core.errors import OpdbError
from opdb.core.pages import (LARGEST, broken, checked, resource, style, table)
from opdb.core.names import counted
from opdb.catalog.schema import STATUS_COLUMNS

if TYPE_CHECKING:
    from opdb.measure.conformance.gaps import Gaps
    from opdb.measure.conformance.report.changes import Change

#: value of a cell -> its sign and meaning.
SIGNS = {
    "yes": ("✓", "yes"),
    "partly": ("✓", "yes, some not known"),
    "mixed": ("◐", "some yes, some no"),
    "no": ("✗", "no"),
    "crashed": ("↯", "crashed"),
    "hung": ("…", "hung"),
    "unknown": ("?", "not known: not asked, or nothing to compare with"),
    "not-applicable": ("–", "not applicable"),
}
MOST_CHANGES = 500


def files(
    rows: Sequence[Row],
    runs: Sequence[Mapping[str, Any]],
    gaps: Gaps | None = None,
    agreement: Sequence[Mapping[str, Any]] = (),
    changes: Sequence[Change] = (),
) -> dict[str, str]:
    """Returns the text of every file by its path in the folder."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.op, []).append(row)
    every = list(measured(rows))
    texts = {
        "index.html": _index(groups, rows, runs, gaps, agreement, changes, every),
        "badge.svg": badge(rows),
    }
    for op, group in groups.items():
        about = _section("errors", "Errors", plots(group)) + _section(
            "measured", "Documented and measured", _measured_table([m for m in every if m.op == op])
        )
        texts[f"junit/{op}.xml"] = junit.document(group)
        texts |= _op(op, group, runs, _of(gaps, op), about)
    cure = "report fewer results, e.g. those of one run with --run NUMBER"
    return {path: checked(text, cure) if path.endswith(".html") else text for path, text in texts.items()}


def _op(
    op: str, rows: Sequence[Row], runs: Sequence[Mapping[str, Any]], gaps: Gaps | None, about: str
) -> dict[str, str]:
    """The page of an op, or as many as its results need."""
    cases = list(dict.fromkeys(r.case for r in rows))
    for count in range(1, len(cases) + 1):
        texts = _parts(op, rows, runs, gaps, about, {case: i * count // len(cases) for i, case in enumerate(cases)})
        if max(len(t.encode()) for t in texts.values()) <= LARGEST:
            return texts
    raise OpdbError(f"{op}: a single case does not fit in a page of {LARGEST / 1e6:g} MB")


def _parts(
    op: str,
    rows: Sequence[Row],
    runs: Sequence[Mapping[str, Any]],
    gaps: Gaps | None,
    about: str,
    part_of: Mapping[str, int],
) -> dict[str, str]:
    """``part_of``: the number of the page, from 0, that holds a case; the first page has the parts about the whole op."""
    count = max(part_of.values()) + 1
    names = [op if i == 0 else f"{op}-{i + 1}" for i in range(count)]
    return {
        f"ops/{name}.html": page(
            [r for r in rows if part_of[r.case] == i],
            runs,
            gaps if i == 0 else None,
            home=_home(op, names, i),
            about=about if i == 0 else "",
        )
        for i, name in enumerate(names)
    }


def _home(op: str, names: Sequence[str], part: int) -> str:
    links = ['<a href="../index.html">All ops</a>', f'<a href="../junit/{op}.xml">JUnit XML</a>']
    if len(names) > 1:
        links += [f"part {i + 1}" if i == part else f'<a href="{name}.html">part {i + 1}</a>' for i, name in enumerate(names)]
    return f"<p>{' · '.join(links)}</p>"


def _of(gaps: Gaps | None, op: str) -> Gaps | None:
    if gaps is None:
        return None
    rules = tuple(r for r in gaps.rules if r.rule.startswith(f"{op}."))
    return replace(gaps, rules=rules, code_not_spec=(), cases_not_spec=(), cases_not_code=())


def _section(ident: str, title: str, body: str) -> str:
    return f'<section aria-labelledby="h-{ident}"><h2 id="h-{ident}">{title}</h2>{body}</section>' if body else ""


def _index(
    groups: Mapping[str, Sequence[Row]],
    rows: Sequence[Row],
    runs: Sequence[Mapping[str, Any]],
    gaps: Gaps | None,
    agreement: Sequence[Mapping[str, Any]],
    changes: Sequence[Change],
    every: Sequence[Measured],
) -> str:
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    environment.filters["broken"] = lambda words: Markup(broken(words))
    places = list(dict.fromkeys(r.place for r in sorted(rows, key=lambda r: (r.backend, r.executor, r.soc))))
    last = runs[-1] if runs else {}
    words = [f"opdb {__version__}", f"{counted(len(runs), 'run')}, the last of {last.get('started', 'unknown')}",
             f"catalog {str(last.get('catalog_hash', ''))[:12]}", counted(len({r.case for r in rows}), "case"),
             f"{counted(len(rows), 'result')}"]  # fmt: skip
    return environment.from_string(resource("index.html.j2", __package__)).render(
        style=style(resource("style.css", __package__)),
        script=resource("base.js"),
        about=" · ".join(words),
        tiles=[_tile(place, [r for r in rows if r.place == place]) for place in places],
        outcomes=OUTCOMES,
        legend=[(value, *sign) for value, sign in SIGNS.items()],
        places=places,
        ops=[_line(op, group, places) for op, group in groups.items()],
        changes=changes,
        most=MOST_CHANGES,
        measured=every,
        other=[m for m in every if not m.verdict.startswith(AS_DOCUMENTED)],
        measured_table=_measured_table,
        gaps=gaps,
        agreement=agreement_section(agreement),
    )


def _tile(place: str, rows: Sequence[Row]) -> dict[str, Any]:
    counts = Counter(r.outcome for r in rows)
    words = ", ".join(f"{counts[o]} {o}" for o in OUTCOMES if o != "pass" and counts[o])
    return {"place": place, "passed": counts["pass"], "asked": len(rows), "words": words or "all as stated"}


def _line(op: str, rows: Sequence[Row], places: Sequence[str]) -> dict[str, Any]:
    cells = [_cell(place, [r for r in rows if r.place == place]) for place in places]
    return {"name": op, "cells": cells, "outcomes": " ".join(sorted({r.outcome for r in rows}))}


def _cell(place: str, rows: Sequence[Row]) -> dict[str, Any] | None:
    if not rows:
        return None
    allowed = [r for r in rows if r.kind == "positive"]
    refused = [r for r in rows if r.kind != "positive"]
    words = f"{len(allowed)} allowed"
    if refused:
        words += f", {sum(r.validates == 'no' for r in refused)}/{len(refused)} refused"
    return {"place": place, "words": words, "segments": list(_segments(allowed))}


def _segments(rows: Sequence[Row]) -> Iterator[dict[str, str]]:
    """Yields the five statuses of a cell; a single crash among many successes stays visible."""
    for status in STATUS_COLUMNS:
        counts = Counter(getattr(r, status) for r in rows)
        title = ", ".join(f"{n} {s.replace('-', ' ')}" for s, n in sorted(counts.items())) or "not asked"
        bad = next((s for s in ("crashed", "hung", "no") if counts[s]), "")
        value = ("mixed" if counts["yes"] else bad) if bad else _quiet(counts)
        glyph = SIGNS[bad if bad in ("crashed", "hung") else value][0]
        yield {"value": value, "glyph": glyph, "title": f"{status}: {title}"}


def _quiet(counts: Counter[str]) -> str:
    if counts["yes"]:
        return "partly" if counts["unknown"] else "yes"
    return "unknown" if counts["unknown"] else "not-applicable"


def _measured_table(lines: Sequence[Measured]) -> str:
    """Returns the lines as an HTML table; "" without lines."""
    if not lines:
        return ""
    head = ("op", "executor", "type row", "cases", "validated", "finalized", "executed", "match", "measured")
    cells = [
        (m.op, m.place, m.row, *(str(n) for n in (m.cases, m.validated, m.finalized, m.executed, m.matched)), m.verdict)
        for m in lines
    ]
    made = table(head, cells, range(3, 8))
    return f'<div class="scroll tall" tabindex="0" role="region" aria-label="Type rows">{made}</div>'
