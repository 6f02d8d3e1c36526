"""Runs SQL text and returns rows by name; on SQLite without SQLAlchemy, whose import takes longer than a question.

    for row in reader.rows("SELECT name FROM op WHERE name IN @names", names=["Relu", "Concat"]):
        row["name"]

An @ marks a named value; a list expands to its values in parentheses.
"""

from __future__ import annotations

import re
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from opdb.catalog.schema.views import VALUES, escaped

if TYPE_CHECKING:
    from sqlalchemy import Connection

Row = Mapping[str, Any]
_NAME = re.compile(rf"{VALUES}(\w+)")


class Reader(ABC):
    """A connection inside a transaction."""

    postgres = False

    @abstractmethod
    def rows(self, sql: str, **values: Any) -> Iterator[Row]:
        """Yields the rows of a SELECT."""

    @abstractmethod
    def has_table(self, name: str) -> bool:
        """True if the database has a table with this name."""

    def value(self, sql: str, **values: Any) -> Any:
        """The first column of the first row; None if there is no row."""
        row = next(iter(self.rows(sql, **values)), None)
        return None if row is None else row[next(iter(row.keys()))]


class Writer(Reader):
    """A connection inside a transaction that may change rows."""

    @abstractmethod
    def run(self, sql: str, **values: Any) -> None:
        """Runs a statement that returns no rows."""

    @abstractmethod
    def run_each(self, sql: str, rows: Sequence[Row]) -> None:
        """Runs a statement that returns no rows once per row of values."""

    def insert(self, table: str, rows: Sequence[Row]) -> None:
        """Inserts rows, all with the columns of the first."""
        if rows:
            columns = list(rows[0])
            names = ", ".join(f'"{c}"' for c in columns)  # some are SQL keywords, e.g. by
            values = ", ".join(VALUES + c for c in columns)
            self.run_each(f"INSERT INTO {table} ({names}) VALUES ({values})", rows)


class SqliteReader(Reader):
    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def rows(self, sql: str, **values: Any) -> Iterator[Row]:
        cursor = self.connection.cursor()
        cursor.row_factory = cast("Any", sqlite3.Row)
        return cast("Iterator[Row]", cursor.execute(*_listed(sql, values)))

    def has_table(self, name: str) -> bool:
        found = self.value("SELECT name FROM sqlite_master WHERE type = 'table' AND name = @name", name=name)
        return found is not None


class SqliteWriter(SqliteReader, Writer):
    def run(self, sql: str, **values: Any) -> None:
        self.connection.execute(*_listed(sql, values))

    def run_each(self, sql: str, rows: Sequence[Row]) -> None:
        self.connection.executemany(sql, rows)


class AlchemyReader(Reader):
    """A reader of a SQLAlchemy connection, i.e. PostgreSQL."""

    postgres = True

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def rows(self, sql: str, **values: Any) -> Iterator[Row]:
        from sqlalchemy import text

        sql, values = _listed(sql, values)
        found = self.connection.execute(text(escaped(sql)), values, execution_options={"yield_per": 5000})
        return cast("Iterator[Row]", iter(found.mappings()))

    def has_table(self, name: str) -> bool:
        return bool(self.connection.dialect.has_table(self.connection, name))


class AlchemyWriter(AlchemyReader, Writer):
    def run(self, sql: str, **values: Any) -> None:
        from sqlalchemy import text

        sql, values = _listed(sql, values)
        self.connection.execute(text(escaped(sql)), values)

    def run_each(self, sql: str, rows: Sequence[Row]) -> None:
        from sqlalchemy import text

        self.connection.execute(text(escaped(sql)), rows)


def reader_of(connection: Connection) -> Reader:
    """A reader inside the transaction of a SQLAlchemy connection."""
    if connection.dialect.name != "sqlite":
        return AlchemyReader(connection)
    return SqliteReader(cast("sqlite3.Connection", connection.connection.driver_connection))


def writer_of(connection: Connection) -> Writer:
    """A writer inside the transaction of a SQLAlchemy connection."""
    if connection.dialect.name != "sqlite":
        return AlchemyWriter(connection)
    return SqliteWriter(cast("sqlite3.Connection", connection.connection.driver_connection))


def _listed(sql: str, values: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Expands the name of a list to one name per value; an empty list becomes NULL, which equals nothing."""
    found: dict[str, Any] = {}

    def named(match: re.Match[str]) -> str:
        name = match[1]
        given = values[name]
        if not isinstance(given, (list, tuple)):
            found[name] = given
            return match[0]
        found.update({f"{name}_{i}": v for i, v in enumerate(given)})
        return f"({', '.join(f'{VALUES}{name}_{i}' for i in range(len(given))) or 'NULL'})"

    return _NAME.sub(named, sql), found
