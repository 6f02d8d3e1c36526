"""Prints the results of `opdb cost`: text, tables, JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opdb.cli.cost_models import CostModel
from opdb.cli.options import Format
from opdb.cli.output import print_rows
from opdb.core.names import counted

if TYPE_CHECKING:
    from opdb.measure.cost import Difference, Estimate
    from opdb.measure.cost.errata import ErratumPrice
    from opdb.measure.cost.report.rows import Row

COLUMNS = ("us", "share", "dma_wait_us", "nodes", "what", "ops", "uncosted")
CHANGES = ("before_us", "after_us", "change_us", "ops")
OF_ERRATA = ("us", "share", "nodes", "erratum", "title")


@dataclass(frozen=True)
class Found:
    """The results of `opdb cost`.  ``rank_for``: the chip whose models are ranked by another chip's estimates."""

    loaded: CostModel
    estimates: tuple[Estimate, ...]
    by: str | None
    quantize: str | None
    rank_for: str | None
    difference: Difference | None
    prices: tuple[ErratumPrice, ...]  # with --by erratum
    failed: tuple[str, ...]

    @property
    def first(self) -> Estimate:
        return self.estimates[0]

    def rows(self) -> tuple[Row, ...]:
        from opdb.measure.cost.report.rows import BY, rows

        return rows(self.first, self.by, self.loaded.modules) if self.by in BY else ()

    def notes(self) -> tuple[str, ...]:
        from opdb.measure.cost.report.text import notes, rank_note

        ranking = (rank_note(self.rank_for, self.first.soc),) if self.rank_for else ()
        made_up, grouped = self.quantize is not None, bool(self.rows())
        return ranking + tuple(notes(self.first, made_up=made_up, alone=self.loaded.alone, grouped=grouped))


def document(found: Found) -> dict[str, Any]:
    from opdb.measure.cost.report.document import difference_json, errata_json, whole_json

    return {
        "model": found.loaded.model,
        "quantize": found.quantize,
        "rank_for": found.rank_for,
        **whole_json(found.estimates),
        "by": found.by,
        "rows": [vars(r) for r in found.rows()],
        "errata_prices": errata_json(found.prices),
        "against": None if found.difference is None else difference_json(found.difference),
        "errata": [vars(e) for e in found.loaded.errata],
        "notes": list(found.notes()),
        "failed": list(found.failed),
    }


def print_found(found: Found, top: int) -> None:
    from opdb.measure.cost.report import text

    if found.rank_for:
        print(text.rank_note(found.rank_for, found.first.soc))
    for e in found.estimates:
        print(text.headline(e))
        for line in text.figures(e):
            print(f"  {line}")
    if len(found.estimates) > 1:
        print(f"all {counted(len(found.estimates), 'graph')}: {sum(e.us for e in found.estimates):,.0f} us")
    for erratum in found.loaded.errata:
        print(f"  {erratum.text}")
    if rows := found.rows():
        print()
        print_rows([_cells(r) for r in rows[: top or None]], COLUMNS, Format.table)
        if top and (rest := rows[top:]):
            print(f"and {counted(len(rest), 'more row')} of {sum(r.us for r in rest):,.1f} us together")
    if found.by == "erratum":
        _print_prices(found.prices)
    if found.difference is not None:
        _print_difference(found.difference, top)
    print()
    for note in found.notes():
        print(f"- {note}")
    for line in found.failed:
        print(f"failed: {line}")


def _print_prices(prices: Sequence[ErratumPrice]) -> None:
    print()
    if not prices:
        print("no erratum is avoided")
        return
    print("what the graph takes longer since it avoids an erratum, and avoids the others:")
    cells = [
        {
            "us": "" if p.us is None else f"{p.us:,.1f}",
            "share": "" if p.share is None else f"{p.share:.1%}",
            "nodes": p.nodes,
            "erratum": p.erratum,
            "title": p.title + (f" (no graph without it: {p.why})" if p.why else ""),
        }
        for p in prices
    ]
    print_rows(cells, OF_ERRATA, Format.table)


def _cells(row: Row) -> dict[str, Any]:
    return {
        "us": f"{row.us:,.1f}",
        "share": f"{row.share:.1%}",
        "dma_wait_us": f"{row.dma_wait_us:,.1f}",
        "nodes": row.nodes or None,
        "what": row.what,
        "ops": row.ops if row.ops != row.what else None,
        "uncosted": "at least" if row.missing else None,
    }


def _print_difference(difference: Difference, top: int) -> None:
    from opdb.measure.cost.report import text

    other = difference.after
    print()
    print(text.headline(other))
    for line in text.figures(other):
        print(f"  {line}")
    sign = "+" if difference.us >= 0 else ""
    print(f"difference: {sign}{difference.us:,.0f} us, {difference.ratio - 1:+.1%} of the cycles")
    if difference.cycles and difference.noise:
        print("  less than 2 %: another order of the same work can make as much")
    changed = [c for c in difference.by_ops() if abs(c.us) >= 0.05]
    if not changed:
        return  # equal, or without groups: a saved result has none
    print_rows(
        [{"before_us": f"{c.before:,.1f}", "after_us": f"{c.after:,.1f}", "change_us": f"{c.us:+,.1f}", "ops": c.ops}
         for c in changed[: top or None]], CHANGES, Format.table,
    )  # fmt: skip
