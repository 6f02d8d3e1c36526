"""Creates the tables of opdb.catalog.schema and brings them up to date.  The only module that imports Alembic.

Each call is one transaction: a killed process leaves either the old tables or the new ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, insert, inspect, text

import opdb.migrations
from opdb.catalog.schema import HISTORY, metadata
from opdb.catalog.schema.names import OLDEST
from opdb.catalog.schema.views import drop_views
from opdb.catalog.store.connect import Database, cure_of
from opdb.catalog.store.evidence import MARK_NEWEST
from opdb.core.errors import OpdbError


def config(connection: Connection | None = None) -> Config:
    """Alembic's settings; the migrations run on ``connection``."""
    folder = Path(opdb.migrations.__file__).parent
    settings = Config(attributes={} if connection is None else {"connection": connection})
    settings.set_main_option("script_location", str(folder).replace("%", "%%"))
    settings.set_main_option("path_separator", "os")
    settings.set_main_option("file_template", "%%(rev)s_%%(slug)s")
    return settings


def heads() -> tuple[str, ...]:
    """The newest revisions; more than one only if branches were not merged."""
    return tuple(ScriptDirectory.from_config(config()).get_heads())


def upgrade(url: str, revision: str = "head") -> None:
    """Creates the database and its tables, or upgrades them to ``revision``; does nothing if they are current."""
    database = Database(url)
    if database.sqlite:
        _make_folder(Path(database.name).parent)
    with _migration(database) as connection:
        found = MigrationContext.configure(connection).get_current_revision()
        if found is not None and found < OLDEST:
            raise OpdbError(f"{database.name}: the tables have revision {found}; {cure_of(found)}")
        kept = _set_aside(connection) if found == OLDEST else []
        command.upgrade(config(connection), revision)
        _bring_back(connection, kept)


#: The tables whose rows survive the upgrade of an opdb 0.2.0 database: history, and merged evidence.
KEPT = (
    *(t.name for t in HISTORY if t.name != "result_rule"),
    "evidence_run",
    "evidence_outcome",
    "evidence_cell",
)


def _set_aside(connection: Connection) -> list[str]:
    """Drops all tables of an opdb 0.2.0 database except copies of KEPT named kept_<name>; returns KEPT."""
    drop_views(connection)
    for name in KEPT:
        connection.execute(text(f"CREATE TABLE kept_{name} AS SELECT * FROM {name}"))
    cascade = "" if connection.dialect.name == "sqlite" else " CASCADE"
    for name in inspect(connection).get_table_names():
        if not name.startswith("kept_"):
            connection.execute(text(f'DROP TABLE "{name}"{cascade}'))
    return [*KEPT]


def _bring_back(connection: Connection, kept: Sequence[str]) -> None:
    """Copies the kept rows into the new tables.  The next sync loads definitions and the shipped evidence."""
    for name in kept:
        there = {c["name"] for c in inspect(connection).get_columns(f"kept_{name}")}
        columns = ", ".join(f'"{c.name}"' for c in metadata.tables[name].c if c.name in there)
        more = {"evidence_cell": (", newest", ", TRUE")}.get(name, ("", ""))
        rows = f"SELECT {columns}{more[1]} FROM kept_{name} ORDER BY id"
        connection.execute(text(f"INSERT INTO {name} ({columns}{more[0]}) {rows}"))
        if connection.dialect.name != "sqlite":  # the next row gets the next number
            connection.execute(
                text(
                    f"SELECT setval(pg_get_serial_sequence('{name}', 'id'), MAX(id)) FROM {name} HAVING MAX(id) > 0"
                )
            )
    if kept:
        rules = metadata.tables["result_rule"]
        for ident, listed in connection.execute(
            text("SELECT id, rules FROM kept_result WHERE rules <> ''")
        ).all():
            each = dict.fromkeys(str(listed).split())
            said = [{"result_id": ident, "position": i, "rule": rule} for i, rule in enumerate(each)]
            connection.execute(insert(rules), said)
        connection.execute(text(MARK_NEWEST))
    for name in kept:
        connection.execute(text(f"DROP TABLE kept_{name}"))


def downgrade(url: str, revision: str) -> None:
    """Downgrades the tables to ``revision`` ("base": none).  Data that the older tables cannot hold is lost."""
    with _migration(Database(url)) as connection:
        command.downgrade(config(connection), revision)


def check(url: str) -> list[str]:
    """Lists the differences between the tables and opdb.catalog.schema, one line each; empty if there are none.

    Raises OpdbError for a database without tables or with another revision.
    """
    with Database(url).reading() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        return [_difference(d) for d in compare_metadata(context, metadata)]


def draft(url: str, message: str) -> None:
    """Drafts a revision from the tables at ``url`` to opdb.catalog.schema; review and edit it."""
    with _migration(Database(url)) as connection:
        command.revision(config(connection), message, autogenerate=True, rev_id=f"{int(heads()[0]) + 1:04}")


@contextmanager
def _migration(database: Database) -> Iterator[Connection]:
    with database.transaction(write=True, migrate=True) as connection:
        try:
            yield connection
        except CommandError as error:
            raise OpdbError(f"{database.name}: {error}; was it written by a newer opdb?") from None
        if database.sqlite and connection.exec_driver_sql("PRAGMA foreign_key_check").first() is not None:
            raise OpdbError(f"{database.name}: rows refer to rows that are not there; nothing was changed")


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OpdbError(
            f"{folder}: cannot make the folder: {error.strerror}; name another database with --db or OPDB_URL"
        ) from None


def _difference(entry: object) -> str:
    """One entry of Alembic's comparison as text; a changed column is a one-element list."""
    return (
        "; ".join(map(str, entry))
        if isinstance(entry, list)
        else " ".join(map(str, entry if isinstance(entry, tuple) else [entry]))
    )
