"""The history as JSON lines, for a backup or for another database.

The first line names the format; then one line for each row: {"table": ..., "row": {...}}, parents first.
Restoring adds the rows whose natural keys are missing, with new row ids.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from sqlalchemy import Connection, Table, UniqueConstraint, insert, select
from sqlalchemy.exc import DataError, IntegrityError

from opdb.catalog import schema as t
from opdb.core.errors import OpdbError

FORMAT = "opdb-history-1"


def dump(connection: Connection) -> Iterator[str]:
    """Every row of the history, one line each, without newlines."""
    yield json.dumps({"format": FORMAT, "revision": t.REVISION})
    for table in t.HISTORY:
        for row in connection.execute(select(table).order_by(table.c.id)):
            yield json.dumps({"table": table.name, "row": dict(row._mapping)}, ensure_ascii=False)


def restore(connection: Connection, lines: Iterable[str], name: str = "dump") -> int:
    """Adds the rows of a dump and returns how many were new.  Raises OpdbError that names the faulty line."""
    tables = {table.name: table for table in t.HISTORY}
    ids: dict[tuple[str, int], int] = {}
    added, number = 0, 0
    for number, line in enumerate(lines, 1):
        place = f"{name}:{number}"
        entry = _parse(line, place)
        if number == 1:
            if entry.get("format") != FORMAT:
                raise OpdbError(
                    f'{place}: not a dump of opdb\'s history (its first line says "format": "{FORMAT}")'
                )
            continue
        table, row = tables.get(str(entry.get("table"))), entry.get("row")
        if table is None or not isinstance(row, dict):
            raise OpdbError(f'{place}: expected {{"table": ..., "row": ...}} with one of {", ".join(tables)}')
        rules = (
            row.pop("rules", "").split() if table is t.result else []
        )  # dumps of opdb 0.2.0 have them here
        added += _add(connection, table, row, ids, place)
        for position, rule in enumerate(dict.fromkeys(rules)):
            said = {"id": 0, "result_id": row["id"], "position": position, "rule": rule}
            _add(connection, t.result_rule, said, ids, place)
    if number == 0:
        raise OpdbError(f"{name}: empty; expected a dump of opdb's history")
    return added


def _parse(line: str, place: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except ValueError as error:
        raise OpdbError(f"{place}: not JSON ({error}); is the file complete?") from None
    if not isinstance(entry, dict):
        raise OpdbError(f"{place}: expected a JSON object")
    return entry


def _add(
    connection: Connection, table: Table, row: dict[str, Any], ids: dict[tuple[str, int], int], place: str
) -> int:
    unknown = row.keys() ^ {c.name for c in table.c}
    if unknown:
        raise OpdbError(
            f"{place}: '{table.name}' has other columns in this opdb: {', '.join(sorted(unknown))}"
        )
    old = row["id"]
    new = {k: v for k, v in row.items() if k != "id"}
    for column in table.c:
        for key in column.foreign_keys:
            if row[column.name] is not None:
                parent = (key.column.table.name, row[column.name])
                if parent not in ids:
                    raise OpdbError(
                        f"{place}: the row's {column.name} {row[column.name]} is not in the dump before it"
                    )
                new[column.name] = ids[parent]
    natural = next([c.name for c in u.columns] for u in table.constraints if isinstance(u, UniqueConstraint))
    found = connection.execute(select(table.c.id).where(*(table.c[k] == new[k] for k in natural))).scalar()
    if found is None:
        try:
            key_row = connection.execute(insert(table), new).inserted_primary_key
        except (IntegrityError, DataError) as error:
            raise OpdbError(f"{place}: the database refuses the row: {error.orig}") from None
        assert key_row is not None
        ids[table.name, old] = int(key_row[0])
        return 1
    ids[table.name, old] = int(found)
    return 0
