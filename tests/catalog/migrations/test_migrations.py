"""The migrations make the tables of opdb.catalog.schema, from nothing and from every older revision."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, MetaData, text

from opdb.catalog import migrate
from opdb.catalog.schema import DEFINITIONS, EVIDENCE, HISTORY, REVISION, metadata
from opdb.catalog.schema.views import drop_views
from opdb.catalog.store.connect import Database
from opdb.core.errors import OpdbError


def tables(url: str) -> dict[str, Any]:
    """Everything a database says about its tables."""
    with Database(url).transaction(write=False) as connection:
        return described(connection)


def described(connection: Connection) -> dict[str, Any]:
    inspector = sqlalchemy.inspect(connection)
    out: dict[str, Any] = {}
    for name in inspector.get_table_names():
        columns = [{k: str(v) for k, v in c.items() if k in ("name", "type", "nullable", "default", "autoincrement")}
                   for c in inspector.get_columns(name)]  # fmt: skip
        out[name] = {
            "columns": columns,
            "primary": inspector.get_pk_constraint(name),
            "foreign": sorted(map(str, inspector.get_foreign_keys(name))),
            "unique": sorted(map(str, inspector.get_unique_constraints(name))),
            "check": sorted(map(str, inspector.get_check_constraints(name))),
            "indexes": sorted(map(str, inspector.get_indexes(name))),
        }
    return out


def test_one_head() -> None:
    assert migrate.heads() == (REVISION,)


def test_revisions_count_up() -> None:
    """0001, 0002, ...: the order of their names is their order."""
    revisions = [r.revision for r in ScriptDirectory.from_config(migrate.config()).walk_revisions()]
    assert revisions == [f"{n:04}" for n in range(len(revisions), 0, -1)]


def test_the_migrations_make_the_schema(tmp_db_url: str) -> None:
    """With the checks and names that Alembic's own comparison passes over."""
    migrate.upgrade(tmp_db_url)
    assert migrate.check(tmp_db_url) == []
    migrated = tables(tmp_db_url)
    assert migrated.pop("alembic_version")
    with Database(tmp_db_url).transaction(write=True) as connection:
        drop_views(connection)
        metadata.drop_all(connection)
        metadata.create_all(connection)
    created = tables(tmp_db_url)
    created.pop("alembic_version")
    assert migrated == created
    assert set(created) == set(metadata.tables)


def test_every_constraint_has_a_name_of_the_convention(tmp_db_url: str) -> None:
    migrate.upgrade(tmp_db_url)
    found = tables(tmp_db_url)
    found.pop("alembic_version")
    reflected = MetaData()
    with Database(tmp_db_url).transaction(write=False) as connection:
        reflected.reflect(connection)
    for name in found:
        for constraint in reflected.tables[name].constraints:
            kind = {"PrimaryKeyConstraint": "pk", "ForeignKeyConstraint": "fk", "UniqueConstraint": "uq"}
            prefix = kind.get(type(constraint).__name__, "ck")
            assert str(constraint.name).startswith(f"{prefix}_{name}"), (name, constraint)


def test_down_and_up_again(tmp_db_url: str) -> None:
    migrate.upgrade(tmp_db_url)
    before = tables(tmp_db_url)
    migrate.upgrade(tmp_db_url)
    assert tables(tmp_db_url) == before
    migrate.downgrade(tmp_db_url, "base")
    assert set(tables(tmp_db_url)) == {"alembic_version"}
    migrate.upgrade(tmp_db_url)
    assert tables(tmp_db_url) == before


def test_probe_runs_of_before_sweeps_stay(tmp_db_url: str) -> None:
    """0003: they are sweeps over no op, with no verdict of ours."""
    migrate.upgrade(tmp_db_url)
    migrate.downgrade(tmp_db_url, "0002")
    with Database(tmp_db_url).transaction(write=True) as connection:
        for statement in (
            "INSERT INTO library (id, package, version, build_id, sha256, backend, sdk, emulated)"
            " VALUES (1, 'p', '1', 'b', 's', 'CPU', '2.47', FALSE)",
            "INSERT INTO probe_run (id, uid, library_id, started, opdb_version, catalog_hash, command, note)"
            " VALUES (1, 'u', 1, 't', '0', 'h', '', '')",
            "INSERT INTO probe_result (id, probe_run_id, position, op, type_row, backend, soc, sdk, config, validates,"
            " finalizes, executes, code_name, log, detail)"
            " VALUES (1, 1, 0, 'Relu', '', 'CPU', '', '2.47', '{}', 'yes', 'unknown', 'unknown', '', '', '')",
        ):
            connection.execute(text(statement))
    migrate.upgrade(tmp_db_url)
    with Database(tmp_db_url).transaction(write=False) as connection:
        assert connection.execute(text("SELECT op, soc, uid FROM probe_run")).all() == [("", "", "u")]
        found = connection.execute(text("SELECT ours, rules, reasons, validates FROM probe_result")).all()
        assert found == [("", "", "", "yes")]
    migrate.downgrade(tmp_db_url, "0002")
    migrate.upgrade(tmp_db_url)


def test_check_names_each_difference(tmp_db_url: str) -> None:
    migrate.upgrade(tmp_db_url)
    with Database(tmp_db_url).transaction(write=True) as connection:
        connection.execute(text("DROP TABLE artifact_input"))
        connection.execute(text("ALTER TABLE soc ADD COLUMN colour TEXT"))
    found = migrate.check(tmp_db_url)
    assert len(found) == 2
    assert "add_table" in found[0] and "artifact_input" in found[0]
    assert "remove_column" in found[1] and "colour" in found[1]


def test_check_of_a_database_without_tables(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "empty.db").executescript("CREATE TABLE x (id INTEGER)")
    with pytest.raises(OpdbError, match="create them with 'opdb init'"):
        migrate.check(str(tmp_path / "empty.db"))


def test_every_table_is_of_one_kind() -> None:
    """What sync rewrites, what a dump holds, what files bring, what generation records: nothing is forgotten."""
    generated = {"artifact", "artifact_input"}
    kinds = [{x.name for x in kind} for kind in (DEFINITIONS, HISTORY, EVIDENCE)] + [generated]
    assert set.union(*kinds) == set(metadata.tables)
    assert sum(map(len, kinds)) == len(metadata.tables)


def test_natural_keys_and_order() -> None:
    for table in metadata.tables.values():
        unique = [c for c in table.constraints if isinstance(c, sqlalchemy.UniqueConstraint)]
        assert unique or table.name == "snapshot" or table.name in ("definition",), table.name
        for column in table.c:
            for key in column.foreign_keys:
                if key.ondelete == "CASCADE":  # the parent's deletion finds its parts by an index
                    assert any(next(iter(u.columns)) is column for u in unique), (table.name, column.name)
