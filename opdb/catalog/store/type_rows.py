"""Type rows of ops -> SQL rows, and the SDKs and chip classes that each is declared for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opdb.catalog.store.write import Rows
    from opdb.spec.catalog import Catalog
    from opdb.spec.soc import Soc


def add_type_rows(rows: Rows, catalog: Catalog, ops: Iterable[str]) -> None:
    """Adds the type rows of ops, including inherited ones, and the SDKs that have each row on each chip class."""
    from opdb.spec.declared import Declared
    from opdb.spec.errata import occurs

    chips: dict[str, Soc | None] = {"": None}
    for soc in catalog.socs.values():
        chips.setdefault(rows.class_of[soc.chip], soc)
    known = {name: {c: b.reads(soc) for c, soc in chips.items()} for name, b in catalog.backends.items()}
    for name in ops:
        op = catalog.compiled(name)
        place = 0
        for backend, of in op.type_rows.items():
            places = chips if catalog.backends[backend].per_soc else [""]
            asked = Declared(op, backend)
            for row in of:
                place += 1
                ident = rows.add(
                    "op_type_row",
                    op=name,
                    backend=backend,
                    type_row=row.id,
                    config=row.id.split(".")[1],
                    cells=", ".join(f"{slot}: {'|'.join(cell)}" for slot, cell in row.cells.items()),
                    since=row.since,
                    until=row.until,
                    source_id=rows.source(row.source),
                    needs=row.needs and catalog.backends[backend].feature(row.needs),
                    place=place,
                )
                pairs = [(slot, dtype) for slot, cell in row.cells.items() for dtype in cell]
                for column, (slot, dtype) in enumerate(pairs):
                    rows.add("op_type_cell", op_type_row_id=ident, position=column, slot=slot, dtype=dtype)
                for erratum in op.errata.get(backend, ()):
                    if (always := occurs(erratum, row.cells)) is not False:
                        fault = erratum.definition.erratum
                        rows.add("op_type_fault", op_type_row_id=ident, erratum=fault, always=always is True)
                for chip in places:
                    for first, last in asked.ranges(row, known[backend][chip]):
                        rows.add(
                            "declared",
                            op_type_row_id=ident,
                            chip_class_id=rows.classes[chip],
                            first=first,
                            last=last,
                        )
