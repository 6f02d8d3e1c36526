"""The only place that opens a transaction: specs in, catalogue out, history kept.

    store = Store(settings.database_url())
    store.sync(settings.specs_folder())
    catalog = store.load_catalog()

What needs the models (pydantic) or the YAML library is imported by the method that needs it, not by a query.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from opdb import schema
from opdb.store import dump, history, state
from opdb.store.connect import Database
from opdb.store.records import (
    ArtifactRecord,
    CaseRecord,
    ExecutorRecord,
    LibraryRecord,
    ProbeRecord,
    ProbeRunRecord,
    ResultRecord,
    RunRecord,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from opdb.spec.catalog import Catalog
    from opdb.store.current import Snapshot, SyncReport

__all__ = [
    "ArtifactRecord",
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
    """The catalogue in a folder of specs, without a database (for lint).  Raises SpecError with all faults.

    ``drafts``, ``missing``: as in ``opdb.store.check.read_catalog``.
    """
    from opdb.store.check import read_catalog as read

    return read(folder, drafts=drafts, missing=missing)


class Store:
    """The catalogue in one database.  Every method is one transaction; failures are OpdbError in one line."""

    def __init__(self, url: str) -> None:
        self.database = Database(url)

    @property
    def name(self) -> str:
        """How messages name the database; without a password."""
        return self.database.name

    def is_current(self) -> bool:
        """Whether the tables and views are those of this opdb; False where only an upgrade could tell."""
        return self.database.is_current()

    def reading(self) -> AbstractContextManager[Connection]:
        """A consistent, read-only view for queries."""
        return self.database.reading()

    # -- definitions

    def sync(self, specs_folder: Path, full: bool = False) -> SyncReport:
        """Brings SQL in line with the specs; ``full`` reads unchanged files too.  SpecError: no change."""
        from opdb.store import current

        if not full and self.is_current():  # the usual case, which needs no models and locks nobody out
            with self.database.reading() as connection:
                report = current.compare(connection, current.digests(specs_folder))
            if report.nothing_new and report.reader == current.reader():
                return report
        from opdb.store.sync import sync

        with self.database.writing() as connection:
            return sync(connection, specs_folder, full)

    def snapshot(self) -> Snapshot:
        """What stands for the catalogue until something of it must be read.  Raises OpdbError before the first sync."""
        from opdb.store.current import snapshot

        with self.database.reading() as connection:
            state.require_synced(connection, self.name)
            return snapshot(connection, self.load_catalog)

    def load_catalog(self) -> Catalog:
        """The catalogue as it is in SQL.  Raises OpdbError before the first sync."""
        from opdb.store.load import load_catalog

        with self.database.reading() as connection:
            state.require_synced(connection, self.name)
            return load_catalog(connection)

    def load_op(self, name: str) -> Catalog:
        """A catalogue with one op, and no families; the whole one if there is no such op.  Raises as before."""
        from opdb.store.load import load_catalog

        with self.database.reading() as connection:
            state.require_synced(connection, self.name)
            found = load_catalog(connection, name)
            return found if name in found.ops else load_catalog(connection)

    def catalog_hash(self) -> str | None:
        """The hash that ``load_catalog().hash`` would have; None before the first sync."""
        with self.database.reading() as connection:
            return state.catalog_hash(connection)

    # -- generation

    def artifacts(self) -> dict[str, ArtifactRecord]:
        """The generated files that are on record, by path."""
        with self.database.reading() as connection:
            return history.artifacts(connection)

    def record_artifacts(self, records: Iterable[ArtifactRecord], removed: Iterable[str] = ()) -> None:
        """Puts these records in place of those with the same paths; forgets ``removed``."""
        with self.database.writing() as connection:
            history.record_artifacts(connection, records, removed)

    # -- probes and conformance

    def begin_run(self, record: RunRecord) -> int:
        """A new conformance run; its number for the calls below."""
        with self.database.writing() as connection:
            return history.begin_run(connection, schema.run, record)

    def record_results(self, run: int, results: Iterable[ResultRecord]) -> None:
        """Adds results, with their cases and executors; the same case, executor and SoC again replaces."""
        with self.database.writing() as connection:
            history.record_results(connection, run, results)

    def record_implications(self, implications: Iterable[tuple[str, str, str]]) -> None:
        """(rule, the rule that implies it, why), in place of what was known of the same ops."""
        with self.database.writing() as connection:
            history.record_implications(connection, implications)

    def finish_run(self, run: int) -> None:
        with self.database.writing() as connection:
            history.finish_run(connection, schema.run, run, state.now())

    def begin_probe_run(self, record: RunRecord, library: LibraryRecord) -> int:
        """A new probe run on one library."""
        with self.database.writing() as connection:
            return history.begin_run(connection, schema.probe_run, record, library)

    def continue_probe_run(
        self, record: ProbeRunRecord, library: LibraryRecord
    ) -> tuple[int, frozenset[int]]:
        """The last sweep that asks the same, else a new one; and the positions that have an answer."""
        with self.database.writing() as connection:
            return history.continue_probe_run(connection, record, library)

    def record_probes(self, run: int, probes: Iterable[ProbeRecord]) -> None:
        with self.database.writing() as connection:
            history.record_probes(connection, run, probes)

    def finish_probe_run(self, run: int) -> None:
        with self.database.writing() as connection:
            history.finish_run(connection, schema.probe_run, run, state.now())

    # -- backup

    def dump(self) -> Iterator[str]:
        """The history as JSON lines; the definitions come from the specs."""
        with self.database.reading() as connection:
            yield from dump.dump(connection)

    def restore(self, lines: Iterable[str], name: str = "dump") -> int:
        """Adds the rows of a dump that are not there yet; returns their number.  All or nothing."""
        with self.database.writing() as connection:
            return dump.restore(connection, lines, name)
