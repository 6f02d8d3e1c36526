"""Shared parts of all questions: filters, and the definitions, including inherited parts, read from SQL."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from opdb.catalog.query.sql import Sql, every
from opdb.catalog.schema.views import ABOUT, VALUES
from opdb.catalog.store.reader import Reader
from opdb.catalog.store.reader import Row as Record
from opdb.catalog.targets.chips import resolve
from opdb.catalog.targets.sdks import known_sdk
from opdb.core.dtypes import BY_SHORT, lookup
from opdb.core.errors import OpdbError
from opdb.core.guess import did_you_mean
from opdb.core.names import spelled
from opdb.core.sdk import same_sdk

Row = dict[str, Any]

Several = str | Sequence[str] | None


@dataclass(frozen=True)
class Filters:
    """Filters on rows: a value, several values of which one must match, or None for anything."""

    op: Several = None
    backend: Several = None
    soc: Several = None
    sdk: Several = None  # 2.47 also matches 2.47.0
    dtype: Several = None  # short name or QNN's; matches a type row with it in any slot
    torch_op: Several = None  # e.g. aten.relu.default, or aten.relu
    disagree: bool | None = None  # True: only probes where the library and we disagree

    def many(self, name: str) -> tuple[str, ...]:
        """The values of a filter; () if it is not set."""
        value = getattr(self, name)
        return () if value is None else (value,) if isinstance(value, str) else tuple(value)


@dataclass(frozen=True)
class Op:
    """An op and the definitions it is made of: its base's, then its own."""

    name: str
    definitions: tuple[int, ...]


class View:
    """A read transaction on the database, narrowed by filters that were checked for unknown names.

    ``narrowed`` maps names of views to conditions on their columns.
    """

    def __init__(self, reader: Reader, filters: Filters, narrowed: Mapping[str, Sql] | None = None) -> None:
        self.reader = reader
        self.narrowed = narrowed or {}
        self.backends = {r["id"]: r for r in reader.rows("SELECT * FROM backend ORDER BY position")}
        self.chips: dict[str, list[str]] = {}
        for r in reader.rows(_CHIPS):
            self.chips.setdefault(str(r["chip"]), []).append(str(r["name"] or ""))
        socs = [resolve(name, self.chips) for name in filters.many("soc")]
        ops = {str(r["name"]): _op(r) for r in reader.rows(_OPS)}
        backends = [b["name"] for b in self.backends.values()]
        self.filters = replace(
            filters,
            soc=socs or None,
            op=[spelled(name, ops) for name in filters.many("op")] or None,
            backend=[spelled(name, backends) for name in filters.many("backend")] or None,
        )
        self.ops = {name: ops[name] for name in sorted(ops)}
        self.dtypes = self._check()
        if asked := filters.many("op"):
            self.ops = {name: op for name, op in self.ops.items() if name in asked}

    def _check(self) -> list[str]:
        """The short names of the filtered data types.  Raises OpdbError for unknown values of filters."""
        f = self.filters
        _require("op", f.many("op"), self.ops)
        _require("backend", f.many("backend"), [b["name"] for b in self.backends.values()])
        for sdk in f.many("sdk"):
            known_sdk(sdk, self._sdks())
        found = {name: lookup(name) for name in f.many("dtype")}
        _require("data type", [name for name, dtype in found.items() if dtype is None], BY_SHORT)
        return [dtype.short for dtype in found.values() if dtype is not None]

    def _sdks(self) -> tuple[str, ...]:
        """The SDKs that the specs mention, and the SDKs of measured libraries."""
        columns = (
            "version AS sdk FROM sdk",
            "sdk FROM library",
            "sdk FROM evidence_run",
            "sdk FROM conformance_case",
        )
        found = {str(r["sdk"]) for c in columns for r in self.reader.rows(f"SELECT DISTINCT {c}") if r["sdk"]}
        return tuple(sorted(found))

    def stream(self, name: str, *conditions: Sql, order: Sequence[str] = ()) -> Iterator[Row]:
        """Yields the rows of an SQL view; text sorts by code point."""
        columns = {c.name: c.type for c in ABOUT[name].columns}
        listed = ", ".join(f'"{c}"' for c in columns)
        query = f"SELECT {listed} FROM {name}"
        said, values = _where([*conditions, *([self.narrowed[name]] if name in self.narrowed else [])])
        query += said
        if order:
            collate = ' COLLATE "C"' if self.reader.postgres else ""
            keys = (f'"{c}"{collate if columns[c] == "text" else ""} NULLS FIRST' for c in order)
            query += f" ORDER BY {', '.join(keys)}"
        booleans = [c for c, kind in columns.items() if kind == "boolean"]
        for found in self.reader.rows(query, **values):
            row = dict(found)
            for c in booleans:  # SQLite returns numbers
                row[c] = None if row[c] is None else bool(row[c])
            yield row

    def read(self, name: str, *conditions: Sql, order: Sequence[str] = ()) -> list[Row]:
        return list(self.stream(name, *conditions, order=order))

    def matching(self, query: str, *conditions: Sql) -> Iterator[Record]:
        """The rows of a SELECT that meet these conditions on its columns, ordered by id."""
        said, values = _where(conditions)
        return self.reader.rows(f"SELECT * FROM ({query}) AS asked{said} ORDER BY id", **values)

    def merged(self, table: str, key: str) -> dict[str, list[Record]]:
        """The rows of a table by op, the base's first; an op's own row replaces the base's row with the same key."""
        parts: dict[int, list[Record]] = {}
        for row in self.reader.rows(f"SELECT * FROM {table} ORDER BY position"):
            parts.setdefault(row["definition_id"], []).append(row)
        return {
            op.name: list({r[key]: r for d in op.definitions for r in parts.get(d, ())}.values())
            for op in self.ops.values()
        }

    def wants_backend(self, name: str) -> bool:
        return name in (self.filters.many("backend") or (name,))

    def wants_sdk(self, version: str) -> bool:
        asked = self.filters.many("sdk")
        return not asked or any(same_sdk(s, version) for s in asked)

    def has_dtype(self, cells: str | None) -> bool:
        """True if a type row allows one of the filtered data types in any slot."""
        if not self.dtypes:
            return True
        found = {d for cell in (cells or "").split(", ") for d in cell.partition(": ")[2].split("|")}
        return not found.isdisjoint(self.dtypes)

    def wanted_ops(self) -> list[str]:
        """The filtered ops, selected by name and by the torch ops that become them."""
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


def _where(conditions: Sequence[Sql]) -> tuple[str, dict[str, Any]]:
    """The WHERE clause that requires every condition, and its values by name; empty if there are no conditions."""
    if not conditions:
        return "", {}
    condition = every(conditions)
    names = (f"{VALUES}v{i}" for i in range(len(condition.values)))
    said = re.sub("[?]", lambda _: next(names), condition.text)
    return f" WHERE {said}", {f"v{i}": v for i, v in enumerate(condition.values)}


_CHIPS = """SELECT s.chip, n.name FROM soc AS s LEFT JOIN soc_name AS n ON n.soc_id = s.id ORDER BY s.position, n.position"""
_OPS = """SELECT o.name, o.definition_id, b.definition_id AS base_definition
FROM op AS o LEFT JOIN base AS b ON b.id = o.base_id"""


def _op(r: Record) -> Op:
    base = r["base_definition"]
    return Op(str(r["name"]), (*(() if base is None else (base,)), r["definition_id"]))


def _require(what: str, names: Iterable[str], known: Iterable[str]) -> None:
    known = list(known)
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known, f"known: {', '.join(known) or 'none; run opdb sync'}")
            raise OpdbError(f"no {what} '{name}' in the catalog{hint}")
