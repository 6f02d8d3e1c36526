"""Connections to the catalog's database, SQLite or PostgreSQL; every failure is one line with the cure.

Principles.  Transactions are opened only here, and are snapshots: they see one state, from begin to
end.  Writers wait for each other (SQLite: BEGIN IMMEDIATE; PostgreSQL: an advisory lock) at most
``WAIT`` seconds.  A database without the tables of this version is refused before anything is read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opdb.catalog.schema.names import OLDEST, REVISION
from opdb.catalog.schema.views import views_are_current
from opdb.catalog.store.reader import AlchemyWriter, Reader, SqliteReader, SqliteWriter, Writer, reader_of
from opdb.core.errors import MissingExtra, OpdbError

if TYPE_CHECKING:  # loaded only to write history, and for PostgreSQL
    from sqlalchemy import URL, Connection, Engine

#: Seconds that a transaction waits for another one, and that a connection waits for a server.
WAIT = 10
_LOCK = 0x6F706462  # the advisory lock of writers on PostgreSQL: "opdb"
_CURES = (
    # (part of the driver's message, its meaning and the cure)
    ("file is not a database", "is not an SQLite database; name another file with --db or OPDB_URL"),
    (
        "unable to open database file",
        "cannot be opened; check that the folder exists and that you may write to it",
    ),
    (
        "readonly database",
        "is read-only; give yourself the right to write to the file and its folder, or name another",
    ),
    ("database is locked", f"is in use by another process (waited {WAIT} s); try again when that has ended"),
    ("lock timeout", f"is in use by another process (waited {WAIT} s); try again when that has ended"),
    (
        "disk image is malformed",
        "is damaged; move it away, then run 'opdb init' and 'opdb db restore' with your last dump",
    ),
    ("database or disk is full", "cannot grow: the disk is full"),
    ("disk i/o error", "cannot be read or written: the disk reports an error"),
)


class Database:
    """A database by URL; nothing is opened before the first transaction."""

    def __init__(self, url: str) -> None:
        self._given = url
        self._file = _plain_file(url)
        if self._file is None and self.url.get_backend_name() == "sqlite":
            self._file = self.url.database

    @cached_property
    def url(self) -> URL:
        return parse_url(self._given)

    @property
    def name(self) -> str:
        """The database's name in messages: the file, or the URL without its password."""
        return self._file if self._file is not None else self.url.render_as_string(hide_password=True)

    @property
    def sqlite(self) -> bool:
        return self._file is not None

    @cached_property
    def engine(self) -> Engine:
        return _sqlite_engine(self.url) if self.sqlite else _postgres_engine(self.url)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A consistent, read-only transaction on the catalog and its history."""
        with self.transaction(write=False) as connection:
            self.require_tables(reader_of(connection))
            yield connection

    @contextmanager
    def asking(self) -> Iterator[Reader]:
        """Like ``reading``, for SQL text; on SQLite without SQLAlchemy, which takes longer to load than most questions."""
        with self._asking() as reader:
            self.require_tables(reader)
            yield reader

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A write transaction; an exception that leaves the block rolls it back."""
        with self.transaction(write=True) as connection:
            self.require_tables(reader_of(connection))
            yield connection

    @contextmanager
    def changing(self) -> Iterator[Writer]:
        """Like ``writing``, for SQL text; on SQLite without SQLAlchemy."""
        if not self.sqlite:
            with self.writing() as connection:
                yield AlchemyWriter(connection)
            return
        with self._opened() as opened:
            _begin_writing(opened.execute)
            writer = SqliteWriter(opened)
            self.require_tables(writer)
            yield writer
            opened.execute("COMMIT")  # closing before this changes nothing

    @contextmanager
    def transaction(self, write: bool, migrate: bool = False) -> Iterator[Connection]:
        """A transaction on a database in any state.  Raises OpdbError when the database fails.

        ``migrate``: tables may be rebuilt, which must not count as the deletion of their rows' parents.
        """
        from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, ProgrammingError

        if not write:
            self._require_file()
        try:
            with self.engine.connect() as connection:
                if not self.sqlite:
                    level = "READ COMMITTED" if write else "REPEATABLE READ"
                    connection.execution_options(isolation_level=level, postgresql_readonly=not write)
                connection.execution_options(opdb_write=write, opdb_migrate=migrate)
                with connection.begin():
                    yield connection
        except (DataError, IntegrityError, ProgrammingError):
            raise  # opdb's own mistake, not the database's
        except DBAPIError as error:
            raise self.failure(error.orig, error.connection_invalidated) from error

    @contextmanager
    def _asking(self) -> Iterator[Reader]:
        """A read-only transaction on a database in any state."""
        if not self.sqlite:
            with self.transaction(write=False) as connection:
                yield reader_of(connection)
            return
        self._require_file()
        with self._opened() as opened:
            for statement in _BEGIN_READING:
                opened.execute(statement)
            yield SqliteReader(opened)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """A connection to an SQLite database, outside a transaction."""
        try:
            opened = sqlite3.connect(self.name, timeout=WAIT, isolation_level=None)
            try:
                yield opened
            finally:
                opened.close()
        except (sqlite3.DataError, sqlite3.IntegrityError, sqlite3.ProgrammingError):
            raise
        except sqlite3.DatabaseError as error:
            raise self.failure(error) from error

    def _require_file(self) -> None:
        if self.sqlite and not Path(self.name).exists():
            raise OpdbError(
                f"{self.name}: no database; create it with 'opdb init', or name another with --db or OPDB_URL"
            )

    def require_tables(self, reader: Reader) -> None:
        """Raises OpdbError unless the tables have this code's revision."""
        found = _revision(reader)
        if found is None:
            raise OpdbError(f"{self.name}: the database has no opdb tables; create them with 'opdb init'")
        if found != REVISION:
            raise OpdbError(
                f"{self.name}: the tables have revision {found}, this opdb needs {REVISION}; {cure_of(found)}"
            )

    def is_current(self) -> bool:
        """True if the tables and views match this code; False if that cannot be told, e.g. on PostgreSQL."""
        if not self.sqlite or not Path(self.name).exists():
            return False
        with self._asking() as reader:
            views = reader.rows("SELECT name, sql FROM sqlite_master WHERE type = 'view'")
            return _revision(reader) == REVISION and views_are_current({r["name"]: r["sql"] for r in views})

    def failure(self, error: BaseException | None, disconnected: bool = False) -> OpdbError:
        """The driver's error as one line that names the database and the cure."""
        text = " ".join(str(error).split())
        for part, meaning in _CURES:
            if part in text.lower():
                return OpdbError(f"{self.name}: {meaning}")
        if (not self.sqlite and disconnected) or "connection" in text.lower():
            return OpdbError(
                f"{self.name}: cannot connect: {_first(text)}; check the URL and that the server runs"
            )
        return OpdbError(f"{self.name}: {_first(text)}")


def cure_of(found: str) -> str:
    """The cure for tables of another revision."""
    if found > REVISION:
        return "install the newer opdb that wrote it"
    if found < OLDEST:
        return "bring it up to date with opdb 0.2.0 first ('opdb db upgrade'), then with this one"
    return "bring it up to date with 'opdb db upgrade'"


def _revision(reader: Reader) -> str | None:
    """The Alembic revision of the tables; None if there are none."""
    if not reader.has_table("alembic_version"):
        return None
    found = reader.value("SELECT version_num FROM alembic_version")
    return None if found is None else str(found)


def _first(text: str) -> str:
    """The beginning of a driver's message, without its hints."""
    return text.split(" Is the server running")[0].split(" HINT:")[0][:300].rstrip(". ")


def _plain_file(text: str) -> str | None:
    """The file of an SQLite database given as a path or plain URL; None for other URLs."""
    if "://" not in text:
        return str(Path(text).expanduser().absolute())
    scheme, _, path = text.partition(":///")
    plain = scheme == "sqlite" and path and path != ":memory:" and "?" not in path
    return str(Path(path).absolute()) if plain else None


def parse_url(text: str) -> URL:
    """The URL of the database that a user named by URL or by the path of an SQLite file."""
    from sqlalchemy import URL, make_url
    from sqlalchemy.exc import ArgumentError

    if "://" not in text:
        return URL.create("sqlite", database=_plain_file(text))
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise OpdbError(_NOT_A_URL.format(text.split("@")[-1])) from None
    system = url.get_backend_name()
    if system == "sqlite":
        if not url.database or url.database == ":memory:":
            raise OpdbError(
                "a database in memory is gone after each command; name a file, e.g. sqlite:////data/opdb.db"
            )
        return URL.create("sqlite", database=str(Path(url.database).absolute()))
    if system in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    raise OpdbError(
        f"opdb works with SQLite and PostgreSQL, not with '{system}'; e.g. sqlite:////data/opdb.db"
    )


_NOT_A_URL = "'{}' is not the URL of a database; e.g. sqlite:////data/opdb.db or postgresql://user@host/opdb"


#: The statements that begin a read transaction on SQLite.
_BEGIN_READING = ("BEGIN", "PRAGMA query_only = ON")


def _begin_writing(execute: Callable[[str], Any], foreign_keys: bool = True) -> None:
    execute(f"PRAGMA foreign_keys = {'ON' if foreign_keys else 'OFF'}")
    if execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        execute("PRAGMA journal_mode = WAL")
    execute("BEGIN IMMEDIATE")


def _sqlite_engine(url: URL) -> Engine:
    from sqlalchemy import NullPool, create_engine, event

    engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": WAIT})

    @event.listens_for(engine, "connect")
    def connect(dbapi: Any, _record: Any) -> None:
        dbapi.isolation_level = None  # we send BEGIN ourselves: the driver's comes too late for a snapshot

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        options = connection.get_execution_options()
        if options.get("opdb_write", False):
            _begin_writing(connection.exec_driver_sql, not options.get("opdb_migrate", False))
        else:
            for statement in _BEGIN_READING:
                connection.exec_driver_sql(statement)

    return engine


def _postgres_engine(url: URL) -> Engine:
    from sqlalchemy import NullPool, create_engine, event
    from sqlalchemy.exc import NoSuchModuleError

    try:
        options = f"-c lock_timeout={WAIT * 1000}"
        engine = create_engine(
            url, poolclass=NullPool, connect_args={"connect_timeout": WAIT, "options": options}
        )
    except ModuleNotFoundError:
        raise MissingExtra("psycopg, the driver for PostgreSQL,", "postgres") from None
    except NoSuchModuleError as error:
        raise OpdbError(str(error)) from None

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        if connection.get_execution_options().get("opdb_write", False):
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")

    return engine
