"""Asks all libraries of this machine about all ops; creates or updates a file of evidence.

Rows that the file already has for the same library, cases and data are not asked again: an interrupted build resumes.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from opdb.catalog.evidence import Cell, Evidence, Key, Outcome, Run
from opdb.catalog.evidence.format import read, write
from opdb.catalog.store.records import LibraryRecord
from opdb.core.errors import OpdbError
from opdb.core.pool import Pool, open_pool
from opdb.core.pool.facts import code_facts, package_facts
from opdb.core.version import __version__
from opdb.measure.conformance.shares import PACKAGES
from opdb.measure.evidence.chips import Place
from opdb.measure.evidence.measure import LIMIT, Library, Measurer, execution_of
from opdb.spec.catalog import Catalog

#: Ops per share, which runs in one process of the library, plus another for answers that were not right.
SHARE = 14
#: The interval in seconds at which the file is written during a build.
WRITE_SECONDS = 60.0
#: (op, type row) -> the hash of the cases that were asked.
Known = dict[tuple[str, str], str]


@dataclass(frozen=True)
class Task:
    """The settings that all shares of a build have in common: a Work of opdb.core.pool."""

    catalog: Catalog
    seed: int = 0
    limit: int = LIMIT

    def open(self) -> Answerer:
        return Answerer(self)

    def facts(self) -> dict[str, str]:
        return code_facts() | {"the catalog": self.catalog.hash} | package_facts(*PACKAGES)


@dataclass(frozen=True)
class Share:
    """Asks about some ops in one place, except for the rows whose cases are ``known``."""

    place: Place
    ops: tuple[str, ...]
    known: tuple[tuple[tuple[str, str], str], ...] = ()
    only: frozenset[tuple[str, str]] | None = None  # (op, type row); None: all

    @property
    def name(self) -> str:
        return f"the ops {self.ops[0]} to {self.ops[-1]} on {self.place}"


@dataclass(frozen=True)
class Answer:
    """``rows``: all rows of the ops, ``found``: those that were asked."""

    library: LibraryRecord
    rows: tuple[tuple[str, str], ...]
    found: tuple[tuple[str, str, Outcome], ...]


class Answerer:
    """Keeps PyTorch's results, and the last library."""

    def __init__(self, task: Task) -> None:
        self._measurer = Measurer(task.catalog, task.seed, task.limit)
        self._library: tuple[Place, Library, LibraryRecord] | None = None

    def answer(self, share: Share) -> Answer:
        """Returns the outcomes of a share.  Raises OpdbError if the library cannot be opened for the chip."""
        place, known = share.place, dict(share.known)
        library, record = self._opened(place)
        rows = [r for op in share.ops for r in self._measurer.rows(op, place.backend, place.soc)]
        wanted = [r for r in rows if share.only is None or (r.op, r.row) in share.only]
        asked = [r for r in wanted if known.get((r.op, r.row)) != r.hash]
        found = self._measurer.outcomes(library, asked) if asked else ()
        return Answer(record, tuple((r.op, r.row) for r in rows), tuple((r.op, r.row, o) for r, o in found))

    def _opened(self, place: Place) -> tuple[Library, LibraryRecord]:
        if self._library is None or self._library[0] != place:
            self.close()
            library = Library(place.backend, self._measurer.catalog, place.soc, place.folder)
            self._library = (place, library, library.library())
        return self._library[1], self._library[2]

    def close(self) -> None:
        if self._library is not None:
            self._library[1].close()
            self._library = None


def answered(task: Task, shares: Sequence[Share], jobs: int) -> Iterator[tuple[Share, Answer | OpdbError]]:
    """Yields the answer to each share as it arrives; the error if its library cannot be opened."""
    with open_pool(task, jobs) if jobs > 1 else nullcontext(None) as pool:
        if pool is not None:
            yield from _pooled(pool, shares)
            return
        server = task.open()
        try:
            for share in shares:
                try:
                    answer: Answer | OpdbError = server.answer(share)
                except OpdbError as error:
                    answer = error
                yield share, answer
        finally:
            server.close()


def _pooled(pool: Pool, shares: Sequence[Share]) -> Iterator[tuple[Share, Any]]:
    yield from pool.answers(shares)


@dataclass(frozen=True)
class Progress:
    """The progress of a build: ``done`` of ``total`` shares."""

    done: int
    total: int
    place: str
    measured: int  # cells so far
    seconds: float


@dataclass
class Built:
    """The result of a build."""

    path: Path
    cells: int = 0
    measured: int = 0
    kept: int = 0  # that were there before
    removed: int = 0  # rows that the specs no longer have
    size: int = 0  # of the file, in bytes
    seconds: float = 0.0
    missing: list[str] = field(default_factory=list)  # places that could not be asked, and why


def build(
    catalog: Catalog,
    path: Path,
    places: Sequence[Place],
    ops: Sequence[str] | None = None,
    *,
    seed: int = 0,
    limit: int = LIMIT,
    jobs: int = 1,
    again: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Built:
    """Updates the file at ``path`` for ``places``; it is written every minute, and at an interruption.

    ``ops``: only these; ``limit``: cases per row (0: all); ``again``: also ask what the file already has.
    Raises OpdbError if the file exists and is not evidence; results from before an error are kept.
    """
    started = written = time.monotonic()
    evidence = read(path) if path.is_file() else Evidence()
    built = Built(path)
    shares = list(_shares(catalog, evidence, places, ops, seed, limit, again))
    task = Task(catalog, seed, limit)
    try:
        for done, (share, answer) in enumerate(answered(task, shares, jobs), 1):
            if isinstance(answer, OpdbError):
                built.missing.append(f"{share.name}: {answer}")
                continue
            _take(evidence, share, answer, run_of(share.place, answer.library, seed, limit), built)
            now = time.monotonic()
            if now - written > WRITE_SECONDS:
                write(path, evidence)
                written = now
            if progress is not None:
                progress(Progress(done, len(shares), str(share.place), built.measured, now - started))
    finally:
        built.size = write(path, evidence)
    built.cells, built.seconds = len(evidence), time.monotonic() - started
    return built


def run_of(place: Place, library: LibraryRecord, seed: int, limit: int, flow: str = "") -> Run:
    """Describes the origin of cells measured now."""
    return Run(
        backend=place.backend, sdk=place.sdk, soc=place.soc, execution=execution_of(place.backend),
        package=library.package, version=library.version, build_id=library.build_id, sha256=library.sha256,
        date=datetime.now(UTC).date().isoformat(), host=host(), generator=f"opdb {__version__}",
        seed=seed, limit=limit, flow=flow,
    )  # fmt: skip


def host() -> str:
    """Describes this machine without its name: e.g. Linux x86_64, glibc 2.36, 2 CPUs."""
    libc = " ".join(filter(None, platform.libc_ver()))
    parts = (f"{platform.system()} {platform.machine()}", libc, f"{os.cpu_count()} CPUs")
    return ", ".join(filter(None, parts))


def _shares(
    catalog: Catalog,
    evidence: Evidence,
    places: Sequence[Place],
    ops: Sequence[str] | None,
    seed: int,
    limit: int,
    again: bool,
) -> Iterator[Share]:
    for place in places:
        names = [o for o in ops or catalog.ops if place.backend in catalog.ops[o].backends]
        known = {} if again else _known(evidence, place, seed, limit)
        for i in range(0, len(names), SHARE):
            part = tuple(names[i : i + SHARE])
            yield Share(place, part, tuple((k, v) for k, v in known.items() if k[0] in part))


def _known(evidence: Evidence, place: Place, seed: int, limit: int) -> Known:
    """The rows measured with the present library and the same data."""
    from opdb.runtime.qnn.libraries import in_folder

    sha256 = in_folder(place.folder).sha256(place.backend)
    where = (place.backend, place.sdk, place.soc, execution_of(place.backend))
    return {
        (k.name, k.row): cell.outcome.spec
        for k, cell in evidence.cells.items()
        if k.kind == "op" and (k.backend, k.sdk, k.soc, k.execution) == where
        and (cell.run.sha256, cell.run.seed, cell.run.limit) == (sha256, seed, limit)
    }  # fmt: skip


def _take(evidence: Evidence, share: Share, answer: Answer, run: Run, built: Built) -> None:
    """Puts an answer into the evidence; deletes rows that the specs no longer have."""
    place = share.place

    def key(op: str, row: str) -> Key:
        return Key("op", op, row, place.backend, place.sdk, place.soc, run.execution)

    for op, row, outcome in answer.found:
        evidence.cells[key(op, row)] = Cell("op", op, row, run, outcome)
    there = {key(op, row) for op, row in answer.rows}
    gone = [k for k in evidence.cells if k.name in share.ops and k == key(k.name, k.row) and k not in there]
    for k in gone:
        del evidence.cells[k]
    built.measured += len(answer.found)
    built.kept += len(answer.rows) - len(answer.found)
    built.removed += len(gone)
