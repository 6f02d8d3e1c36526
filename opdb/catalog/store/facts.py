"""Facts from the catalog's database for generated tables: declared rows and the shipped evidence.

Generated files are the same on every machine: they exclude the user's own runs and merged evidence.
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
    """Facts from a database; each question runs in its own transaction."""

    database: Database
    _known: dict[tuple[str, ...], Sequence[Cell]] = field(default_factory=dict, repr=False)

    def declared(self, backend: str, soc: str | None, sdk: str) -> Mapping[str, frozenset[str]]:
        """Maps op to the ids of its type rows declared for a backend, SDK, and chip (None if no chip applies)."""
        found: dict[str, set[str]] = defaultdict(set)
        with self.database.asking() as reader:
            for r in reader.rows(_DECLARED, backend=backend, soc=soc or "", number=sdk_number(sdk)):
                found[r["op"]].add(r["type_row"])
        return {op: frozenset(rows) for op, rows in found.items()}

    @cached_property
    def sdks(self) -> tuple[str, ...]:
        """The SDKs that the specs mention, in order."""
        with self.database.asking() as reader:
            return tuple(r["version"] for r in reader.rows("SELECT version FROM sdk ORDER BY id"))

    @cached_property
    def evidence(self) -> str:
        """The hash of the shipped evidence."""
        with self.database.asking() as reader:
            return str(reader.value("SELECT sha256 FROM evidence_file WHERE origin = 'shipped'") or "")

    def of_op(self, name: str) -> Sequence[Cell]:
        """The evidence cells of one op."""
        return self._cells("op", name=name)

    def at(self, backend: str, sdk: str, soc: str) -> Mapping[tuple[str, str], Cell]:
        """The cells of one library for one chip, by op and type row."""
        return {(c.name, c.row): c for c in self._cells("op", backend=backend, sdk=sdk, soc=soc)}

    def operators(self, backend: str) -> Mapping[str, Sequence[Cell]]:
        """The cells of PyTorch operators in whole flows, by target."""
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
