"""The migrations create the tables of opdb.catalog.schema, from nothing and from every older revision."""

from __future__ import annotations

import gzip
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, MetaData, text

from opdb.catalog import migrate
from opdb.catalog.query import Filters, ask
from opdb.catalog.schema import DEFINITIONS, EVIDENCE, HISTORY, REVISION, metadata
from opdb.catalog.schema.names import OLDEST
from opdb.catalog.schema.views import drop_views
from opdb.catalog.store import Store
from opdb.catalog.store.connect import Database
from opdb.core.errors import OpdbError

HERE = Path(__file__).parent
MINI = HERE.parents[1] / "data" / "mini"


def tables(url: str) -> dict[str, Any]:
    """The reflected description of every table of a database."""
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


def test_there_is_one_head_revision() -> None:
    assert migrate.heads() == (REVISION,)


def test_revisions_count_up() -> None:
    """Names count up, starting at the revision after opdb 0.2.0, in the order they apply."""
    revisions = [r.revision for r in ScriptDirectory.from_config(migrate.config()).walk_revisions()]
    assert revisions == [f"{int(OLDEST) + n:04}" for n in range(len(revisions), 0, -1)]


def test_the_migrations_make_the_schema(tmp_db_url: str) -> None:
    """Compares the checks and names that Alembic's own comparison ignores, too."""
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


def test_every_constraint_follows_the_naming_convention(tmp_db_url: str) -> None:
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


def test_downgrade_and_upgrade_restore_the_tables(tmp_db_url: str) -> None:
    migrate.upgrade(tmp_db_url)
    before = tables(tmp_db_url)
    migrate.upgrade(tmp_db_url)
    assert tables(tmp_db_url) == before
    migrate.downgrade(tmp_db_url, "base")
    assert set(tables(tmp_db_url)) == {"alembic_version"}
    migrate.upgrade(tmp_db_url)
    assert tables(tmp_db_url) == before


@pytest.fixture
def older(tmp_path: Path) -> sqlite3.Connection:
    """A small database as opdb 0.2.0 left it: specs of tests/data/mini, a conformance run, a sweep, a merged cell."""
    made = sqlite3.connect(tmp_path / "opdb.db")
    made.executescript(gzip.decompress((HERE / "opdb-0.2.0.sql.gz").read_bytes()).decode())
    return made


def test_a_database_of_opdb_0_2_keeps_its_history(older: sqlite3.Connection, tmp_path: Path) -> None:
    kept = [t.name for t in HISTORY if t.name != "result_rule"] + [
        "evidence_run",
        "evidence_outcome",
        "evidence_cell",
    ]

    def rows(columns: dict[str, list[str]]) -> dict[str, list[Any]]:
        return {
            name: older.execute(f"SELECT {', '.join(columns[name])} FROM {name} ORDER BY id").fetchall()
            for name in kept
        }

    def quoted(name: str) -> list[str]:
        return [f'"{r[1]}"' for r in older.execute(f"PRAGMA table_info({name})")]

    columns = {
        n: [c for c in quoted(n) if c not in ('"rules"', '"newest"') or n == "probe_result"] for n in kept
    }
    before, rules = (
        rows(columns),
        older.execute("SELECT id, rules FROM result WHERE rules <> '' ORDER BY id").fetchall(),
    )
    assert all(before[n] for n in kept if n != "implication") and rules
    older.close()
    url = f"sqlite:///{tmp_path / 'opdb.db'}"
    with pytest.raises(
        OpdbError,
        match=f"revision 0017, this opdb needs {REVISION}; bring it up to date with 'opdb db upgrade'",
    ):
        Store(url).load_catalog()
    migrate.upgrade(url)
    assert migrate.check(url) == []
    older = sqlite3.connect(tmp_path / "opdb.db")
    found = {
        name: older.execute(f"SELECT {', '.join(columns[name])} FROM {name} ORDER BY id").fetchall()
        for name in kept
    }
    assert found == before
    listed = older.execute("SELECT result_id, rule FROM result_rule ORDER BY result_id, position").fetchall()
    assert listed == [(ident, rule) for ident, said in rules for rule in said.split()]
    assert older.execute("SELECT newest FROM evidence_cell").fetchall() == [(1,)]
    store = Store(url)
    store.sync(MINI)
    support = [r for r in ask(store, "support", Filters(op="Relu")) if r["measurements"]]
    assert {r["library"] for r in support} == {"onnxruntime-qnn 2.3.0, host, own run"}


def test_a_database_older_than_0_2_is_refused_with_the_fix(older: sqlite3.Connection, tmp_path: Path) -> None:
    older.execute("UPDATE alembic_version SET version_num = '0009'")
    older.commit()
    with pytest.raises(OpdbError, match=r"revision 0009; bring it up to date with opdb 0\.2\.0 first"):
        migrate.upgrade(str(tmp_path / "opdb.db"))


def test_check_names_each_difference(tmp_db_url: str) -> None:
    migrate.upgrade(tmp_db_url)
    with Database(tmp_db_url).transaction(write=True) as connection:
        connection.execute(text("DROP TABLE erratum_let"))
        connection.execute(text("ALTER TABLE soc ADD COLUMN color TEXT"))
    found = migrate.check(tmp_db_url)
    assert len(found) == 2
    assert "add_table" in found[0] and "erratum_let" in found[0]
    assert "remove_column" in found[1] and "color" in found[1]


def test_check_of_a_database_without_tables_names_the_fix(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "empty.db").executescript("CREATE TABLE x (id INTEGER)")
    with pytest.raises(OpdbError, match="create them with 'opdb init'"):
        migrate.check(str(tmp_path / "empty.db"))


def test_every_table_has_exactly_one_kind() -> None:
    """Each table is rewritten by sync, part of a dump, or filled from files; none is forgotten."""
    kinds = [{x.name for x in kind} for kind in (DEFINITIONS, HISTORY, EVIDENCE)]
    assert set.union(*kinds) == set(metadata.tables)
    assert sum(map(len, kinds)) == len(metadata.tables)


def test_tables_have_natural_keys_and_indexed_parents() -> None:
    for table in metadata.tables.values():
        unique = [c for c in table.constraints if isinstance(c, sqlalchemy.UniqueConstraint)]
        assert unique or table.name == "snapshot" or table.name in ("definition",), table.name
        for column in table.c:
            for key in column.foreign_keys:
                if key.ondelete == "CASCADE":  # the parent's deletion finds its parts by an index
                    assert any(next(iter(u.columns)) is column for u in unique), (table.name, column.name)
