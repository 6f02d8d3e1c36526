"""The support of ops in words (opdb.catalog.evidence.status) for generated pages and tables, from the shipped evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from opdb.catalog.evidence import Cell
from opdb.catalog.evidence.status import (
    EXCEPT,
    NO,
    NOT_KNOWN,
    YES,
    Fault,
    Measured,
    Status,
    kind,
    refusal,
    status,
    unprepared,
)
from opdb.catalog.evidence.text import of_chips, provenance
from opdb.catalog.schema.names import FEATURES
from opdb.codegen.evidence import facts
from opdb.codegen.support import Place
from opdb.core.sdk import sdk_number
from opdb.spec.catalog import Catalog
from opdb.spec.definitions import CompiledOp, TypeRow
from opdb.spec.errata import occurs
from opdb.spec.lang.certain import parsed
from opdb.spec.lang.printer import to_text

#: The precisions of ExecuTorch's whole flow, in the order of tables.
PRECISIONS = ("float", "8a8w", "16a8w")
#: How many errata a cell names; a longer list ends in their number.
NAMED = 4


def of_row(catalog: Catalog, op: CompiledOp, row: TypeRow, place: Place, cell: Cell | None) -> Status:
    """The status of a type row at a place; ``cell``: what was measured there."""
    backend = catalog.backends[place.backend]
    soc = catalog.socs.get(place.soc or "") if backend.per_soc else None
    no_chip = backend.per_soc and soc is None  # a catalog whose backend names no chip to measure on
    known = {"sdk": sdk_number(place.sdk)} if no_chip else place.known(catalog)
    faults = []
    for erratum in op.errata.get(place.backend, ()):
        there = erratum.scope is None or parsed(to_text(erratum.scope))(known) is not False
        always = occurs(erratum, row.cells) if there else False
        if always is not False:
            record = erratum.definition
            faults.append(Fault(record.erratum, record.title, always is True))
    measured = None if cell is None else Measured.of(cell.outcome)
    named = {f.ident for f in faults}
    seen = () if measured is None else measured.errata
    faults += [
        Fault(e, catalog.errata[e].title, False) for e in seen if e not in named and e in catalog.errata
    ]
    refused = ""
    if soc is not None and backend.oldest is not None:
        refused = unprepared(backend.oldest.arch, soc.htp_arch, str(soc.more.get("libraries")))
    if not refused and not _declared(catalog, op.name, row, place):
        need = backend.feature(row.needs) if row.needs is not None else ""
        lacks = need if need in FEATURES and soc is not None and not soc.more.get(need) else ""
        refused = refusal(lacks, row.since, row.until, place.sdk)
    return status(refused, measured, faults)


def _declared(catalog: Catalog, op: str, row: TypeRow, place: Place) -> bool:
    found = facts(catalog)
    if found is None:
        return True
    there = catalog.once(("declared", place), lambda: found.declared(place.backend, place.soc, place.sdk))
    return row.id in there.get(op, frozenset())


def short(found: Status, cell: Cell | None) -> str:
    """A status for a cell of a table: the word with the errata, or the measured failures, of its exceptions."""
    if found.word == NO:
        return f"{NO} ({found.why})" if found.why.startswith("the chip") else NO
    if found.word != EXCEPT:
        return found.word
    seen = sorted(found.errata, key=lambda e: f"({e})" not in found.why)
    more = f" and {len(seen) - NAMED} more" if len(seen) > NAMED else ""
    unnamed = ", ".join(Measured.of(cell.outcome).failures) if cell is not None else ""
    return f"{EXCEPT} {', '.join(seen[:NAMED]) or unnamed}{more}"


def page(
    catalog: Catalog, op: CompiledOp
) -> tuple[list[str], list[tuple[str, list[str]]], list[str], list[tuple[str, str]]]:
    """An op page's libraries, lines (row, a cell per library), provenance, and the reasons of the cells; empty without evidence."""
    known = facts(catalog)
    found = () if known is None else known.of_op(op.name)
    places = sorted({(c.run.backend, c.run.sdk) for c in found}, key=lambda p: (p[0], sdk_number(p[1])))
    by_row: dict[str, list[Cell]] = {}
    for cell in found:
        if not cell.run.soc or cell.run.soc in catalog.socs:
            by_row.setdefault(cell.row, []).append(cell)
    lines = []
    whys: dict[str, str] = {}
    for backend, rows in op.type_rows.items():
        for row in rows:
            if mine := by_row.get(row.id):
                each = []
                for place in places:
                    texts = []
                    for c in mine:
                        if (c.run.backend, c.run.sdk) == place:
                            said = of_row(catalog, op, row, Place(backend, c.run.soc or None, c.run.sdk), c)
                            texts.append((c.run.soc, short(said, c)))
                            if said.why and said.word != EXCEPT:
                                whys.setdefault(f"{row.id}: {said.word}", said.why)
                    each.append(of_chips(texts) or (NOT_KNOWN if place[0] == backend else ""))
                lines.append((row.id, each))
    return [" ".join(p) for p in places], lines, provenance({c.run for c in found}), [*whys.items()]


def by_kind(rows: Iterable[tuple[str, Status]]) -> str:
    """A cell of support.md: type rows as (id, status), by kind of data types, e.g. FP16 yes; INT8 yes, except HTP-0224."""
    groups: dict[str, list[Status]] = {}
    for ident, found in rows:
        groups.setdefault(kind(ident), []).append(found)
    texts: dict[str, list[str]] = {}
    for name, several in groups.items():
        texts.setdefault(_merged(several), []).append(name)
    return "; ".join(f"{' '.join(names)} {text}" for text, names in texts.items())


def _merged(found: Sequence[Status]) -> str:
    """The text for the rows of one kind; a row that is refused, or not known, among others is an exception."""
    words = {s.word for s in found}
    if len(words) == 1 and words != {EXCEPT}:
        return found[0].word
    if not words & {YES, EXCEPT}:
        return NOT_KNOWN
    parts = [*dict.fromkeys(e for s in found if s.word == EXCEPT for e in s.errata)]
    more = f" and {len(parts) - NAMED} more" if len(parts) > NAMED else ""
    parts = parts[:NAMED]
    if any(s.word == EXCEPT and not s.errata for s in found):
        parts.append("some cases")
    if refused := sum(s.word not in (YES, EXCEPT) for s in found):
        parts.append(f"{refused} of {len(found)} type rows")
    return f"{EXCEPT} {', '.join(parts)}{more}"


def of_operator(catalog: Catalog, cells: Sequence[Cell], backend: str) -> str:
    """A cell of op-support.csv: the status of ExecuTorch's flow per precision, with the flow, SDK, chips, and date.

    Returns "not known" without evidence.
    """
    lines = []
    for precision in PRECISIONS:
        mine = [c for c in cells if c.row == precision]
        for run in sorted({(c.run.flow, c.run.sdk, c.run.execution, c.run.date) for c in mine}):
            there = [c for c in mine if (c.run.flow, c.run.sdk, c.run.execution, c.run.date) == run]
            flow, sdk, execution, date = run
            chips = " ".join(sorted({c.run.soc for c in there}))
            text = of_chips((c.run.soc, short(_of_flow(catalog, c), c)) for c in there)
            lines.append(f"{precision}: {text} ({flow}, {backend} {sdk}, {execution}, {chips}, {date})")
    return "\n".join(lines) or NOT_KNOWN


def _of_flow(catalog: Catalog, cell: Cell) -> Status:
    """The status of a PyTorch operator in a whole flow, from its cell alone."""
    seen = [catalog.errata[e] for e in cell.outcome.errata if e in catalog.errata]
    return status("", Measured.of(cell.outcome), [Fault(e.erratum, e.title, False) for e in seen])
