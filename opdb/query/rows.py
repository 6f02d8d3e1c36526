"""What all questions share: filters, and the definitions with what they inherit, read from SQL."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, Table, select
from sqlalchemy import Row as SqlRow

from opdb import schema as t
from opdb.dtypes import BY_SHORT, lookup
from opdb.errors import OpdbError

Row = dict[str, Any]
Record = SqlRow[Any]


@dataclass(frozen=True)
class Filters:
    """What rows must be about; None: anything."""

    op: str | None = None
    backend: str | None = None
    soc: str | None = None
    sdk: str | None = None  # 2.47 stands for 2.47.0 too
    dtype: str | None = None  # short name or QNN's; a type row with it in any slot
    torch_op: str | None = None  # ex) aten.relu.default, or aten.relu
    disagree: bool | None = None  # True: only what a library said otherwise than we did


@dataclass(frozen=True)
class Op:
    """An op's row, and the definitions whose parts it has: its base's, then its own."""

    row: Record
    base: str | None
    definitions: tuple[int, ...]

    @property
    def name(self) -> str:
        return str(self.row.name)


class View:
    """One reading of the database, narrowed by filters that have been checked against what is known."""

    def __init__(self, connection: Connection, filters: Filters) -> None:
        self.connection = connection
        self.filters = filters
        self.sources = {r.id: r.text for r in self.all(select(t.source))}
        self.backends = {r.id: r for r in sorted(self.all(select(t.backend)), key=lambda r: int(r.position))}
        self.chips = [str(r.chip) for r in self.all(select(t.soc).order_by(t.soc.c.position))]
        bases = {r.id: r for r in self.all(select(t.base))}
        self.ops: dict[str, Op] = {}
        rows = self.all(select(t.op))
        for row in sorted(rows, key=lambda r: str(r.name)):
            base = bases.get(row.base_id)
            parts = (row.definition_id,) if base is None else (base.definition_id, row.definition_id)
            self.ops[row.name] = Op(row, None if base is None else base.name, parts)
        self.dtype = self._check()
        if filters.op is not None:
            self.ops = {filters.op: self.ops[filters.op]}

    def _check(self) -> str | None:
        f = self.filters
        _require("op", f.op, self.ops)
        _require("backend", f.backend, [b.name for b in self.backends.values()])
        _require("SoC", f.soc, self.chips)
        if f.dtype is None:
            return None
        found = lookup(f.dtype)
        if found is None:
            _require("data type", f.dtype, BY_SHORT)
        return None if found is None else found.short

    def all(self, query: Select[Any]) -> list[Record]:
        return list(self.connection.execute(query))

    def parts(self, table: Table) -> dict[int, list[Record]]:
        """The rows of a table by definition, in order, for the ops that are asked about."""
        wanted = sorted({d for op in self.ops.values() for d in op.definitions})
        out: dict[int, list[Record]] = {d: [] for d in wanted}
        for row in self.all(select(table).where(table.c.definition_id.in_(wanted))):
            out[row.definition_id].append(row)
        if "position" in table.c:
            for rows in out.values():
                rows.sort(key=lambda r: int(r.position))
        return out

    def merged(self, op: Op, parts: dict[int, list[Record]], key: str = "name") -> list[Record]:
        """An op's rows of a table: its base's first; its own take the place of those with the same key."""
        found: dict[Any, Record] = {}
        for definition in op.definitions:
            for row in parts[definition]:
                found[getattr(row, key)] = row
        return list(found.values())

    def inherited(self, op: Op, row: Record) -> str | None:
        """The base that says this row, or None."""
        return op.base if row.definition_id != op.definitions[-1] else None

    def children(self, table: Table, parent: str, idents: Iterable[int]) -> dict[int, list[Record]]:
        """The parts of rows, in order, by the parent's id."""
        wanted = sorted(set(idents))
        out: dict[int, list[Record]] = {i: [] for i in wanted}
        column = table.c[parent]
        for start in range(0, len(wanted), 500):  # SQLite limits the number of parameters
            for row in self.all(select(table).where(column.in_(wanted[start : start + 500]))):
                out[getattr(row, parent)].append(row)
        for rows in out.values():
            rows.sort(key=lambda r: int(r.position))
        return out

    def wants_backend(self, name: str) -> bool:
        return self.filters.backend in (None, name)

    def wants_torch(self, target: str) -> bool:
        asked = self.filters.torch_op
        return asked is None or target == asked or target.startswith(f"{asked}.")

    def wants_sdk(self, version: str) -> bool:
        return self.filters.sdk is None or same_sdk(self.filters.sdk, version)

    def per_soc(self, backend: str) -> bool:
        """Whether verdicts of a backend depend on the SoC: its rules may read the architecture."""
        return any(b.name == backend and b.context and '"arch"' in b.context for b in self.backends.values())

    def ops_of_torch(self) -> set[str] | None:
        """The ops that a torch op is mapped to; None if none is asked about."""
        if self.filters.torch_op is None:
            return None
        mappings = self.parts(t.torch_mapping)
        direct = {op.name for op in self.ops.values()
                  for m in self.merged(op, mappings, "target") if self.wants_torch(m.target)}  # fmt: skip
        targets = self.all(select(t.decomposition_target))
        wanted = [r.decomposition_id for r in targets if self.wants_torch(r.target)]
        step = t.decomposition_step
        return direct | {r.op for r in self.all(select(step).where(step.c.decomposition_id.in_(wanted)))}


def _require(what: str, name: str | None, known: Iterable[str]) -> None:
    names = list(known)
    if name is None or name in names:
        return
    close = difflib.get_close_matches(name, names, 1, 0.5) or [k for k in names if k.lower() == name.lower()]
    hint = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(names) or 'none; run opdb sync'}"
    raise OpdbError(f"no {what} '{name}' in the catalogue; {hint}")


def version(text: str) -> tuple[int, ...]:
    """An SDK version as numbers, to compare; what is not a number counts as 0."""
    return tuple(int(p) if p.isdigit() else 0 for p in text.split("."))


def declared(since: str | None, until: str | None, sdk: str) -> bool:
    """Whether an SDK lies in the range that a document gives; an end that it does not give is open."""
    if since is not None and version(sdk) < version(since):
        return False
    return until is None or version(sdk) <= version(until) or same_sdk(sdk, until)


def same_sdk(a: str, b: str) -> bool:
    """Whether two versions are one, or one is the beginning of the other.  ex) 2.47, 2.47.0"""
    return a == b or a.startswith(f"{b}.") or b.startswith(f"{a}.")


def listed(names: Iterable[Any]) -> str:
    return ", ".join(str(n) for n in names)
