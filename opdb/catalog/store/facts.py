"""What a database says of the catalogue that came out of it, for generated tables: declared rows, and the evidence that opdb ships.

Generated files are the same wherever they are made: one's own runs, and what was merged from others' files, are not in them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from opdb.catalog.store.support import sdk_number

if TYPE_CHECKING:
    from opdb.catalog.evidence import Cell
    from opdb.catalog.store.connect import Database


@dataclass(frozen=True)
class Facts:
    """Each question is a transaction of its own, asked once."""

    database: Database
    _known: dict[tuple[str, ...], Sequence[Cell]] = field(default_factory=dict, repr=False)

    def declared(self, backend: str, soc: str | None, sdk: str) -> Mapping[str, frozenset[str]]:
        """Op -> the ids of its type rows that a backend has, on a chip where one plays a part."""
        found: dict[str, set[str]] = defaultdict(set)
        with self.database.asking() as reader:
            for r in reader.rows(_DECLARED, backend=backend, soc=soc or "", number=sdk_number(sdk)):
                found[r["op"]].add(r["type_row"])
        return {op: frozenset(rows) for op, rows in found.items()}

    @cached_property
    def sdks(self) -> tuple[str, ...]:
        """The SDKs that the specs speak of, in order."""
        with self.database.asking() as reader:
            return tuple(r["version"] for r in reader.rows("SELECT version FROM sdk ORDER BY id"))

    @cached_property
    def evidence(self) -> str:
        """Names the evidence that opdb ships: other cells have another name."""
        with self.database.asking() as reader:
            return str(reader.value("SELECT sha256 FROM evidence_file WHERE origin = 'shipped'") or "")

    def of_op(self, name: str) -> Sequence[Cell]:
        """What libraries made of one op."""
        return self._cells("op", name=name)

    def at(self, backend: str, sdk: str, soc: str) -> Mapping[tuple[str, str], Cell]:
        """What one library made of ops for one chip: by op and type row."""
        return {(c.name, c.row): c for c in self._cells("op", backend=backend, sdk=sdk, soc=soc)}

    def operators(self, backend: str) -> Mapping[str, Sequence[Cell]]:
        """What whole flows made of PyTorch's operators: by target."""
        found: dict[str, list[Cell]] = defaultdict(list)
        for cell in self._cells("torch", backend=backend):
            found[cell.name].append(cell)
        return found

    def _cells(self, kind: str, **where: str) -> Sequence[Cell]:
        from opdb.catalog.store.evidence import stored

        key = (kind, *where, *where.values())
        if key not in self._known:
            with self.database.asking() as reader:
                self._known[key] = [*stored(reader, ["shipped"], kind=kind, **where).cells.values()]
        return self._known[key]


_DECLARED = """
SELECT t.op, t.type_row FROM declared AS d
JOIN op_type_row AS t ON t.id = d.op_type_row_id
JOIN chip_class AS k ON k.id = d.chip_class_id
LEFT JOIN soc AS c ON c.chip = @soc
WHERE t.backend = @backend AND @number BETWEEN d.first AND d.last AND (c.chip_class_id = k.id OR c.id IS NULL AND k.name = '')"""
