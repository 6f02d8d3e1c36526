"""A badge for a README: the number of results as stated."""

from __future__ import annotations

from collections.abc import Sequence

from opdb.measure.conformance.report.rows import Row
from opdb.core.names import counted

GREEN, RED, GRAY = "#1a7f37", "#cf222e", "#57606a"
LABEL = "conformance"


def badge(rows: Sequence[Row]) -> str:
    """SVG, 20 units high; red with the number of failures if there are any."""
    failed = sum(r.outcome == "fail" for r in rows)
    asked = sum(r.outcome != "unknown" for r in rows)
    words = f"{failed} wrong" if failed else counted(asked, "result") if asked else "no results"
    color = RED if failed else GREEN if asked else GRAY
    left, right = (6.6 * len(text) + 12 for text in (LABEL, words))
    width = f"{left + right:.0f}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="{LABEL}: {words}">'
        f"<title>{LABEL}: {words}</title>"
        f'<clipPath id="r"><rect width="{width}" height="20" rx="3"/></clipPath><g clip-path="url(#r)">'
        f'<rect width="{left:.0f}" height="20" fill="#3d444d"/>'
        f'<rect x="{left:.0f}" width="{right:.0f}" height="20" fill="{color}"/></g>'
        '<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
        f'<text x="{left / 2:.0f}" y="14">{LABEL}</text>'
        f'<text x="{left + right / 2:.0f}" y="14">{words}</text></g></svg>\n'
    )
