"""What all questions share: filters, and the definitions with what they inherit, read from SQL."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnClause,
    ColumnElement,
    Connection,
    Double,
    FromClause,
    Select,
    Table,
    Text,
    column,
    select,
    table,
)
from sqlalchemy import Row as SqlRow
from sqlalchemy.types import TypeEngine

from opdb import schema as t
from opdb.dtypes import BY_SHORT, lookup
from opdb.errors import OpdbError
from opdb.schema.views import ABOUT, NARROWED, ViewColumn, select_of
from opdb.targets.chips import resolve

Row = dict[str, Any]
Record = SqlRow[Any]


Several = str | Sequence[str] | None


@dataclass(frozen=True)
class Filters:
    """What rows must be about: one value, several of which one must fit, or None for anything."""

    op: Several = None
    backend: Several = None
    soc: Several = None
    sdk: Several = None  # 2.47 stands for 2.47.0 too
    dtype: Several = None  # short name or QNN's; a type row with it in any slot
    torch_op: Several = None  # ex) aten.relu.default, or aten.relu
    disagree: bool | None = None  # True: only what a library said otherwise than we did

    def many(self, name: str) -> tuple[str, ...]:
        """The values of a filter; none for anything."""
        value = getattr(self, name)
        return () if value is None else (value,) if isinstance(value, str) else tuple(value)


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
    """One reading of the database, narrowed by filters that have been checked against what is known.

    ``narrowed`` is a condition on the columns of one view, by the view's name.
    """

    def __init__(
        self,
        connection: Connection,
        filters: Filters,
        narrowed: Mapping[str, ColumnElement[bool]] | None = None,
    ) -> None:
        self.connection = connection
        self.filters = filters
        self.narrowed = narrowed or {}
        self.backends = {r.id: r for r in sorted(self.all(select(t.backend)), key=lambda r: int(r.position))}
        chips = self.all(select(t.soc).order_by(t.soc.c.position))
        self.chips = {str(r.chip): str(r.names or "").split(", ") for r in chips}
        socs = [resolve(name, self.chips) for name in filters.many("soc")]
        self.filters = replace(filters, soc=socs or None)
        bases = {r.id: r for r in self.all(select(t.base))}
        self.ops: dict[str, Op] = {}
        rows = self.all(select(t.op))
        for row in sorted(rows, key=lambda r: str(r.name)):
            base = bases.get(row.base_id)
            parts = (row.definition_id,) if base is None else (base.definition_id, row.definition_id)
            self.ops[row.name] = Op(row, None if base is None else base.name, parts)
        self.dtypes = self._check()
        self.inside: dict[str, list[str]] = {}  # what rows are counted for, if not for all
        if asked := filters.many("op"):
            self.ops = {name: op for name, op in self.ops.items() if name in asked}

    def _check(self) -> list[str]:
        """The short names of the data types that are asked about."""
        f = self.filters
        _require("op", f.many("op"), self.ops)
        _require("backend", f.many("backend"), [b.name for b in self.backends.values()])
        found = {name: lookup(name) for name in f.many("dtype")}
        _require("data type", [name for name, dtype in found.items() if dtype is None], BY_SHORT)
        return [dtype.short for dtype in found.values() if dtype is not None]

    def all(self, query: Select[Any]) -> list[Record]:
        return list(self.connection.execute(query))

    def stream(self, name: str, *conditions: ColumnElement[bool], order: Sequence[str] = ()) -> Iterator[Row]:
        """The rows of an SQL view, a few thousand at a time; text in the order of its characters."""
        about = ABOUT[name].columns
        columns = {c.name: typed(c) for c in about}
        query = select(*columns.values()).select_from(self._rows_of(name, columns)).where(*conditions)
        if name in self.narrowed:
            query = query.where(self.narrowed[name])
        for key in order:
            by = columns[key]
            if self.connection.dialect.name == "postgresql" and isinstance(by.type, Text):
                query = query.order_by(by.collate("C").nulls_first())
            else:
                query = query.order_by(by.nulls_first())
        names = list(columns)
        for row in self.connection.execute(query, execution_options={"yield_per": 5000}):
            yield dict(zip(names, row, strict=True))

    def _rows_of(self, name: str, columns: Mapping[str, ColumnClause[Any]]) -> FromClause:
        """The view; or its SELECT, narrowed from inside by the filters that are columns of it."""
        inner = {n: self.inside[n] for n in ("op", "backend", "soc", "sdk") if self.inside.get(n)}
        if name not in NARROWED or not inner:
            return table(name)
        made = select_of(name, self.connection.dialect.name == "postgresql", inner).bindparams(**inner)
        return made.columns(*columns.values()).subquery("narrowed")

    def read(self, name: str, *conditions: ColumnElement[bool], order: Sequence[str] = ()) -> list[Row]:
        return list(self.stream(name, *conditions, order=order))

    def parts(self, of: Table) -> dict[int, list[Record]]:
        """The rows of a table by definition, in order, for the ops that are asked about."""
        wanted = sorted({d for op in self.ops.values() for d in op.definitions})
        out: dict[int, list[Record]] = {d: [] for d in wanted}
        for row in self.all(select(of).where(of.c.definition_id.in_(wanted))):
            out[row.definition_id].append(row)
        if "position" in of.c:
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

    def wants_backend(self, name: str) -> bool:
        return name in (self.filters.many("backend") or (name,))

    def per_soc(self, backend: str) -> bool:
        """Whether verdicts of a backend depend on the SoC: its rules may read the architecture."""
        return any(b.name == backend and b.context and '"arch"' in b.context for b in self.backends.values())

    def wants_sdk(self, version: str) -> bool:
        asked = self.filters.many("sdk")
        return not asked or any(same_sdk(s, version) for s in asked)

    def has_dtype(self, cells: str | None) -> bool:
        """Whether a type row allows one of the data types that are asked about, in any slot."""
        if not self.dtypes:
            return True
        found = {d for cell in (cells or "").split(", ") for d in cell.partition(": ")[2].split("|")}
        return not found.isdisjoint(self.dtypes)

    def wanted_ops(self) -> list[str]:
        """The ops of the catalogue that are asked about, by name or by a torch op that becomes them."""
        asked = self.filters.many("torch_op")
        if not asked:
            return list(self.ops)
        rows = self.read("v_op_torch")
        found = {
            r["op"]
            for r in rows
            if any(r["torch_op"] == a or r["torch_op"].startswith(f"{a}.") for a in asked)
        }
        return [name for name in self.ops if name in found]


def typed(c: ViewColumn) -> ColumnClause[Any]:
    """A view's column, for an SQL expression."""
    kinds: dict[str, TypeEngine[Any]] = {"integer": BigInteger(), "number": Double(), "boolean": Boolean()}
    return column(c.name, kinds.get(c.type, Text()))


def _require(what: str, names: Iterable[str], known: Iterable[str]) -> None:
    known = list(known)
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1, 0.5) or [
                k for k in known if k.lower() == name.lower()
            ]
            hint = (
                f"did you mean '{close[0]}'?"
                if close
                else f"known: {', '.join(known) or 'none; run opdb sync'}"
            )
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
