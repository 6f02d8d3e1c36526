"""Database errors are one line with the database's name and the fix; passwords are hidden."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from opdb.catalog import migrate
from opdb.catalog.store import Store, connect
from opdb.core.errors import MissingExtra, OpdbError

pytestmark = pytest.mark.slow


def message(call: object) -> str:
    with pytest.raises(OpdbError) as caught:
        assert callable(call)
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_path_is_a_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("x.db", "sqlite:///x.db", f"sqlite:///{tmp_path}/x.db"):
        assert Store(name).name == str(tmp_path / "x.db")


@pytest.mark.parametrize(
    "url", ["mysql://a:secret@b/c", "sqlite://", "sqlite:///:memory:", "postgresql://a:secret@b:x/c"]
)
def test_unusable_urls_are_rejected_without_the_password(url: str) -> None:
    found = message(lambda: Store(url))
    assert "e.g. sqlite:////data/opdb.db" in found and "secret" not in found


def test_a_missing_file_and_missing_tables_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "opdb.db"
    assert message(Store(str(path)).load_catalog) == (
        f"{path}: no database; create it with 'opdb init', or name another with --db or OPDB_URL"
    )
    assert not path.exists()
    sqlite3.connect(path).executescript("CREATE TABLE other (id INTEGER)")
    assert (
        message(Store(str(path)).load_catalog)
        == f"{path}: the database has no opdb tables; create them with 'opdb init'"
    )


def test_a_file_that_is_not_a_database_is_rejected(tmp_path: Path, specs: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("op: LayerNorm\n" * 100)
    for call in (
        Store(str(path)).load_catalog,
        lambda: Store(str(path)).sync(specs),
        lambda: migrate.upgrade(str(path)),
    ):
        assert message(call) == f"{path}: is not an SQLite database; name another file with --db or OPDB_URL"
    assert path.read_text() == "op: LayerNorm\n" * 100


def test_folders_and_paths_in_missing_folders_are_rejected(tmp_path: Path, specs: Path) -> None:
    assert "cannot be opened" in message(lambda: migrate.upgrade(str(tmp_path)))
    assert "cannot be opened" in message(lambda: Store(str(tmp_path / "no" / "x.db")).sync(specs))
    (tmp_path / "file").touch()
    assert "cannot make the folder" in message(lambda: migrate.upgrade(str(tmp_path / "file" / "x.db")))


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that any user can reach."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_writing_to_a_read_only_folder_is_one_error(public: Path, tmp_path: Path) -> None:
    """Run as a user who may read the database and its folder, but not write."""
    path = public / "opdb.db"
    migrate.upgrade(str(path))
    sqlite3.connect(path).execute("PRAGMA journal_mode = DELETE")
    path.chmod(0o444)
    public.chmod(0o555)
    code = """if True:
        import os, sys
        from opdb.catalog import migrate, store
        from opdb.core.errors import OpdbError
        migrate.upgrade(sys.argv[3])  # imports all that the other user may not be able to read
        if os.getuid() == 0:
            os.setgid(65534), os.setuid(65534)
        for call in (lambda: store.Store(sys.argv[1]).record_implications([("a.b", "a.c", "")]),
                     lambda: migrate.upgrade(sys.argv[2])):
            try:
                call()
            except OpdbError as error:
                print(error)
    """
    args = [sys.executable, "-c", code, str(path), str(public / "new.db"), str(tmp_path / "x.db")]
    done = subprocess.run(args, capture_output=True, text=True, check=False)
    public.chmod(0o755)
    assert done.stdout.splitlines() == [
        f"{path}: is read-only; give yourself the right to write to the file and its folder, or name another",
        f"{public}/new.db: cannot be opened; check that the folder exists and that you may write to it",
    ], done.stderr


def test_a_locked_database_is_reported_to_writers_only(
    store: Store, specs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "WAIT", 1)
    other = Store(store.database.url.render_as_string(hide_password=False))
    with store.database.writing():
        assert "is in use by another process" in message(lambda: other.sync(specs))
        assert other.catalog_hash() is None  # readers do not wait
    other.sync(specs)


def test_a_reader_sees_one_state_during_a_sync(store: Store, specs: Path) -> None:
    store.sync(specs)
    other = Store(store.database.url.render_as_string(hide_password=False))
    with store.reading() as connection:
        count = text("SELECT count(*) FROM op")
        assert connection.execute(count).scalar() == 4
        (specs / "ops/Concat.yaml").unlink()
        (specs / "torch/cat.yaml").unlink()
        other.sync(specs)
        assert connection.execute(count).scalar() == 4
    with store.reading() as connection:
        assert connection.execute(count).scalar() == 3


def test_queries_cannot_write(store: Store) -> None:
    with store.reading() as connection, pytest.raises(DBAPIError, match=r"readonly|read-only"):
        connection.execute(text("DELETE FROM op"))


def test_tables_of_another_revision_are_refused_with_the_fix(tmp_db_url: str) -> None:
    migrate.upgrade(tmp_db_url)
    store = Store(tmp_db_url)
    for revision, cure in (
        ("0017", "bring it up to date with 'opdb db upgrade'"),
        ("0000", "bring it up to date with opdb 0.2.0 first"),
        ("9999", "install the newer opdb"),
    ):
        with store.database.transaction(write=True) as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = :r"), {"r": revision})
        assert cure in message(store.load_catalog)
    assert "written by a newer opdb" in message(lambda: migrate.upgrade(tmp_db_url))


def test_an_unreachable_server_is_reported() -> None:
    found = message(Store("postgresql://me:secret@127.0.0.1:1/opdb").load_catalog)
    assert found.startswith("postgresql+psycopg://me:***@127.0.0.1:1/opdb: cannot connect: ")
    assert found.endswith("check the URL and that the server runs")


def test_a_missing_postgresql_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra, match=r"pip install 'qnn-opdb\[postgres\]'") as caught:
        Store("postgresql://127.0.0.1/opdb").load_catalog()
    assert caught.value.extra == "postgres"


@pytest.mark.postgres
@pytest.mark.skipif("OPDB_TEST_POSTGRES_URL" not in os.environ, reason="OPDB_TEST_POSTGRES_URL is not set")
def test_a_database_missing_on_the_server_is_reported() -> None:
    from sqlalchemy import make_url

    url = make_url(os.environ["OPDB_TEST_POSTGRES_URL"]).set(database="opdb_nowhere")
    assert "does not exist" in message(Store(url.render_as_string(hide_password=False)).load_catalog)
