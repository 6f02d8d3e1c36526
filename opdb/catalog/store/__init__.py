"""The only place that opens transactions: specs in, catalog out, history kept.

    store = Store(settings.database_url())
    store.sync(settings.specs_folder())
    catalog = store.load_catalog()

Methods import pydantic models, SQLAlchemy, and the YAML library only when they need them, so that questions do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from opdb.catalog import schema
from opdb.catalog.store import current, state, support
from opdb.catalog.store.connect import Database
from opdb.catalog.store.reader import writer_of
from opdb.catalog.store.records import (
    CaseRecord,
    ExecutorRecord,
    LibraryRecord,
    ProbeRecord,
    ProbeRunRecord,
    ResultRecord,
    RunRecord,
)
from opdb.core.names import spelled

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from opdb.catalog.evidence import Evidence
    from opdb.catalog.store.current import Snapshot, SyncReport
    from opdb.catalog.store.reader import Reader
    from opdb.spec.catalog import Catalog

__all__ = [
    "CaseRecord",
    "Database",
    "ExecutorRecord",
    "LibraryRecord",
    "ProbeRecord",
    "ProbeRunRecord",
    "ResultRecord",
    "RunRecord",
    "Store",
    "read_catalog",
]


def read_catalog(folder: Path, drafts: bool = False, missing: str | None = None) -> Catalog:
    """Reads the catalog from a spec folder that is in no database.  Raises SpecError with all faults.

    There are two kinds: a folder of custom ops (``opdb.spec.paths.is_own``), and one with a draft that is tried before a
    sync.  For everything else use ``Store.load_catalog`` after ``Store.sync``.
    ``drafts``, ``missing``: as in ``opdb.catalog.store.check.read_catalog``.
    """
    from opdb.catalog.store.check import read_catalog as read

    return read(folder, drafts=drafts, missing=missing)


class Store:
    """The catalog in one database.  Every method is one transaction; failures are one-line OpdbErrors."""

    def __init__(self, url: str) -> None:
        self.database = Database(url)

    @property
    def name(self) -> str:
        """The database's name in messages, without a password."""
        return self.database.name

    def is_current(self) -> bool:
        """True if the tables and views match this opdb; False if only an upgrade could tell."""
        return self.database.is_current()

    def asking(self) -> AbstractContextManager[Reader]:
        """A consistent, read-only transaction for SQL text, used by questions."""
        return self.database.asking()

    def reading(self) -> AbstractContextManager[Connection]:
        """A consistent, read-only transaction for SQLAlchemy expressions."""
        return self.database.reading()

    # -- definitions

    def sync(self, specs_folder: Path, full: bool = False) -> SyncReport:
        """Updates SQL to match the specs; ``full`` rereads unchanged files.  On SpecError nothing changes."""
        files = current.digests(specs_folder)
        if not full and self.is_current():  # the usual case: no models, no write lock
            with self.database.asking() as reader:
                report = current.compare(reader, files)
            if report.nothing_new and report.reader == current.reader():
                return report
        from opdb.catalog.store.sync import sync

        with self.database.changing() as writer:
            return sync(writer, specs_folder, files, full)

    def snapshot(self) -> Snapshot:
        """A lightweight stand-in that loads the catalog on demand.  Raises OpdbError before the first sync."""
        with self._synced() as reader:
            return current.snapshot(reader, self.load_catalog)

    def load_catalog(self) -> Catalog:
        """The catalog in SQL.  Raises OpdbError before the first sync."""
        from opdb.catalog.store.facts import Facts
        from opdb.catalog.store.load import load_catalog

        with self._synced() as reader:
            return load_catalog(reader, facts=Facts(self.database))

    def load_op(self, name: str) -> Catalog:
        """A catalog with one op, named in any case, and its errata but no families; all of it if the op is unknown.

        Raises like ``load_catalog``.
        """
        from opdb.catalog.store.load import load_catalog

        with self._synced() as reader:
            name = spelled(name, (str(r["name"]) for r in reader.rows("SELECT name FROM op")))
            found = load_catalog(reader, op=name)
            return found if name in found.ops else load_catalog(reader)

    def load_erratum(self, ident: str) -> Catalog:
        """A catalog with one erratum and its op; all of it if the erratum is unknown.  Raises like ``load_catalog``."""
        from opdb.catalog.store.load import load_catalog

        with self._synced() as reader:
            found = load_catalog(reader, erratum=ident)
            return found if ident in found.errata else load_catalog(reader)

    @contextmanager
    def _synced(self) -> Iterator[Reader]:
        with self.database.asking() as reader:
            state.require_synced(reader, self.name)
            yield reader

    def catalog_hash(self) -> str | None:
        """The hash that ``load_catalog().hash`` would return; None before the first sync."""
        with self.database.asking() as reader:
            return state.catalog_hash(reader)

    # -- probes and conformance

    def begin_run(self, record: RunRecord) -> int:
        """Starts a conformance run and returns its id for the calls below."""
        from opdb.catalog.store import history

        with self.database.writing() as connection:
            return history.begin_run(connection, schema.run, record)

    def record_results(self, run: int, results: Iterable[ResultRecord]) -> None:
        """Adds results, with cases and executors; replaces an earlier result of the same case, executor, and SoC."""
        from opdb.catalog.store import history

        with self.database.writing() as connection:
            ops = history.record_results(connection, run, results)
            support.refresh(writer_of(connection), ops)

    def record_implications(self, implications: Iterable[tuple[str, str, str]]) -> None:
        """Records triples (rule, the rule that implies it, why), replacing those of the same ops."""
        from opdb.catalog.store import history

        with self.database.writing() as connection:
            history.record_implications(connection, implications)

    def finish_run(self, run: int) -> None:
        """Marks a conformance run as complete."""
        from opdb.catalog.store import history

        with self.database.writing() as connection:
            history.finish_run(connection, schema.run, run, state.now())

    def begin_probe_run(self, record: RunRecord, library: LibraryRecord) -> int:
        """Starts a probe run on one library and returns its id."""
        from opdb.catalog.store import history

        with self.database.writing() as connection:
            return history.begin_run(connection, schema.probe_run, record, library)

    def continue_probe_run(
        self, record: ProbeRunRecord, library: LibraryRecord
    ) -> tuple[int, frozenset[int]]:
        """Returns the last sweep with the same parameters, else a new one, and its answered positions."""
        from opdb.catalog.store import history

        with self.database.writing() as connection:
            return history.continue_probe_run(connection, record, library)

    def record_probes(self, run: int, probes: Iterable[ProbeRecord]) -> None:
        """Adds a library's answers about configs to a probe run."""
        from opdb.catalog.store import history

        with self.database.writing() as connection:
            ops = history.record_probes(connection, run, probes)
            support.refresh(writer_of(connection), ops)

    def finish_probe_run(self, run: int) -> None:
        """Marks a probe run as complete."""
        from opdb.catalog.store import history

        with self.database.writing() as connection:
            history.finish_run(connection, schema.probe_run, run, state.now())

    # -- evidence from files

    def load_shipped(self) -> int | None:
        """Loads the shipped evidence, replacing the previous one; returns the number of cells, None if already loaded."""
        from opdb.catalog.store import evidence

        if self.is_current():  # the usual case: no write lock
            with self.database.asking() as reader:
                if evidence.is_loaded(reader):
                    return None
        with self.database.changing() as writer:
            return evidence.load_shipped(writer)

    def evidence(self, *origins: str, name: str | None = None) -> Evidence:
        """The newest evidence cells from files of origin "shipped", "merged", or both, limited to one op if ``name`` is given."""
        from opdb.catalog.store import evidence

        with self.database.asking() as reader:
            return evidence.stored(reader, origins, **({} if name is None else {"name": name}))

    def record_merged(self, cells: Evidence) -> None:
        """Replaces the evidence merged from colleagues' files."""
        from opdb.catalog.store import evidence

        with self.database.changing() as writer:
            evidence.replace(writer, "merged", cells)

    # -- backup

    def dump(self) -> Iterator[str]:
        """The history as JSON lines; the definitions come from the specs."""
        from opdb.catalog.store import dump

        with self.database.reading() as connection:
            yield from dump.dump(connection)

    def restore(self, lines: Iterable[str], name: str = "dump") -> int:
        """Adds the missing rows of a dump, all or nothing; returns their number."""
        from opdb.catalog.store import dump

        with self.database.writing() as connection:
            added = dump.restore(connection, lines, name)
            support.refresh(writer_of(connection))
            return added
