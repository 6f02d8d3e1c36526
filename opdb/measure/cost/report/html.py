"""An estimate as one self-contained HTML file: where the time goes, and what the engines do meanwhile."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence

from opdb.core import pages
from opdb.measure.conformance.report.plots import COLORS
from opdb.measure.cost.figures import Estimate
from opdb.measure.cost.report import timeline, text
from opdb.measure.cost.report.rows import TOP, Row, rows
from opdb.core.pages import broken

#: The maximum number of bars in a chart; the rest is one more.
BARS = 24
COLUMNS = ("nodes", "us", "share", "waits for data", "ops", "uncosted")
NUMBERS = ("us", "share", "waits for data")
#: The drawing never shrinks so far that its text is unreadable; it scrolls in its own frame.
STYLE = ".drawing svg { min-width: 900px; }\n"


def page(estimate: Estimate, modules: Mapping[str, str], title: str) -> str:
    """Returns the whole page as text.  ``estimate`` must have a trace; ``modules`` maps the origins of nodes to modules."""
    by_op = rows(estimate, "op", modules)
    free = [c for c in COLORS if c != timeline.OTHER]
    colors = {r.what: c for r, c in zip((r for r in by_op if r.ops), free, strict=False)}
    by_module = rows(estimate, "module", _shortened(estimate, modules))
    parts = {
        "TITLE": html.escape(f"Cost of {title} on {estimate.soc}"),
        "HEADLINE": html.escape(text.headline(estimate)),
        "FIGURES": "".join(f"<li>{html.escape(line)}</li>" for line in text.figures(estimate)),
        "NOTES": "".join(f"<li>{html.escape(n)}</li>" for n in text.notes(estimate, grouped=True)),
        "MODULES": "".join(_bars(by_module, {})),
        "OPS": "".join(_bars(by_op, colors)),
        "TIMELINE": timeline.picture(estimate, colors),
        "STYLE": pages.style(STYLE),
        "HEAD": "".join(f"<th scope=col{_number(c)}>{c}</th>" for c in COLUMNS),
        "ROWS": "\n".join(_row(r) for r in rows(estimate, "node", modules)),
    }
    made = pages.filled(pages.resource("page.html", __package__), parts)
    return pages.checked(made, "opdb cost --by node prints every group of a graph of this size")


def _shortened(estimate: Estimate, modules: Mapping[str, str]) -> dict[str, str]:
    """Cuts the modules to the greatest depth at which a chart can show all."""
    used = {origin: modules.get(origin, "") for g in estimate.groups for origin in g.origins}
    depth = max((m.count(".") + 1 for m in used.values()), default=1)
    while depth > 1 and len({_cut(m, depth) for m in used.values()}) > BARS:
        depth -= 1
    return {origin: _cut(m, depth) for origin, m in used.items()}


def _cut(module: str, depth: int) -> str:
    return ".".join(module.split(".")[:depth])


def _bars(found: Sequence[Row], colors: Mapping[str, str]) -> Iterator[str]:
    """Yields a line for each row with a bar as long as its share of the longest."""
    longest = max((r.us for r in found), default=1.0) or 1.0
    for r in found[:BARS]:
        yield _bar(r.what, r.us, r.share, r.us / longest, colors.get(r.what, ""))
    if rest := found[BARS:]:
        us, share = sum(r.us for r in rest), sum(r.share for r in rest)
        yield _bar(f"{len(rest)} more", us, share, us / longest, "")


def _bar(what: str, us: float, share: float, length: float, color: str) -> str:
    style = f"width:{min(1.0, length):.1%}" + (f";background:{color}" if color else "")
    name = what if what != TOP else "the model itself"
    return (
        f'<tr><th scope=row>{broken(name)}</th><td class=bar><i style="{style}"></i></td>'
        f"<td class=n>{us:,.1f} us</td><td class=n>{share:.1%}</td></tr>"
    )


def _row(r: Row) -> str:
    figures = (f"{r.us:,.1f}", f"{r.share:.1%}", f"{r.dma_wait_us:,.1f}")
    texts = (r.what, *figures, r.ops, "at least" if r.missing else "")
    cells = (f'<td data-l="{c}"{_number(c)}>{broken(t)}</td>' for c, t in zip(COLUMNS, texts, strict=True))
    return f"<tr>{''.join(cells)}</tr>"


def _number(column: str) -> str:
    return " class=n" if column in NUMBERS else ""
