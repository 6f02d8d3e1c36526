"""A sweep: generated configs of many ops, asked of one set of libraries by several processes, stored in SQL.

Configs that have an answer are not asked again, so a killed sweep resumes.  Two sweeps with the same
seed give the same evidence with any number of processes (``evidence_hash``).  Nothing here prints.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select

from opdb.catalog import schema
from opdb.catalog.query import Row, agreement_of
from opdb.catalog.store import LibraryRecord, ProbeRunRecord, Store
from opdb.catalog.targets.target import Target, soc_name
from opdb.codegen.constants import PACKAGE
from opdb.core.errors import OpdbError
from opdb.core.pool import Pool, open_pool
from opdb.core.version import __version__
from opdb.execute.libraries.client import VendorWorker
from opdb.execute.libraries.reasons import masked
from opdb.execute.libraries.results import LibraryInfo
from opdb.generated.constants.backends import ASKED, BACKENDS
from opdb.measure.sweeps.generate import GENERATOR
from opdb.measure.sweeps.shard import Chunk, Settings
from opdb.measure.sweeps.verdicts import Validator, validators_of
from opdb.runtime.qnn.libraries import Libraries, installed
from opdb.spec.catalog import Catalog

#: Configs per chunk, which is one request to a process and one transaction.
CHUNK = 100
#: The default chips.
SOCS = tuple(b.soc for b in ASKED if b.soc is not None)


@dataclass(frozen=True)
class Limits:
    """The limits of a sweep besides its number of configs."""

    budget: float | None = None  # seconds, after which no new chunk starts
    timeout: float = 20.0  # seconds for each request to a library
    memory: int = 8 << 30  # bytes that a library may allocate


@dataclass(frozen=True)
class Progress:
    """The progress of a sweep: ``done`` of ``total`` configs in ``seconds``, the last ones of ``op``."""

    done: int
    total: int
    seconds: float
    op: str
    target: Target


@dataclass
class Summary:
    """The outcome of a sweep; its rows are in SQL under ``runs``."""

    runs: list[int] = field(default_factory=list)
    asked: int = 0
    kept: int = 0  # configs that already had an answer
    left: int = 0  # configs that the budget did not reach
    seconds: float = 0.0
    agreement: list[Row] = field(default_factory=list)  # see the question "agreement"
    evidence: str = ""  # ``evidence_hash``; "" if something is left
    skipped: dict[str, str] = field(default_factory=dict)  # op or backend -> why it was not asked about
    undocumented: dict[str, list[str]] = field(
        default_factory=dict
    )  # backend -> ops that it has but no document mentions


@dataclass
class _Run:
    """One op on one target, with its row in SQL and the indices without an answer."""

    op: str
    target: Target
    ident: int
    left: list[int]


def sweep(
    catalog: Catalog,
    store: Store,
    ops: Sequence[str] | None = None,
    backends: Sequence[str] | None = None,
    socs: Sequence[str] = SOCS,
    *,
    libraries: Libraries | None = None,
    count: int = 200,
    seed: int = 0,
    execute: int = 20,
    jobs: int | None = None,
    dask: str | None = None,
    limits: Limits = Limits(),
    command: str = "opdb probe",
    progress: Callable[[Progress], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Summary:
    """Asks ``libraries`` about ``count`` configs of each op (None: all) that the specs document for a backend.

    ``backends`` None: all that can be asked and whose libraries are present.  ``execute``: one good and accepted config in so many
    is finalized and executed, 0: none.  ``jobs`` None: one process per core; ``dask``: the
    address of a scheduler whose workers do it instead.  ``stop`` is called before each chunk; True leaves the rest.
    Raises OpdbError for an unknown op, SoC or backend, for a named library that does not open, and like
    opdb.core.pool.open_pool.
    """
    started = time.monotonic()
    for op in ops or ():
        if op not in catalog.ops:
            raise OpdbError(f"unknown op '{op}'; known: {', '.join(catalog.ops)}")
    libraries = libraries or installed()
    summary = Summary()
    names = [n for n in dict.fromkeys(ops or catalog.ops) if _askable(catalog, n, summary)]
    validators = validators_of(catalog, names)
    runs: list[_Run] = []
    for target, info in _targets(catalog, backends, socs, libraries, names, bool(ops), summary):
        for op in names:
            if target.backend in catalog.ops[op].backends:
                record = _record(catalog, validators[op], target, seed, execute, command)
                ident, there = store.continue_probe_run(record, _library(info))
                summary.kept += sum(i < count for i in there)
                runs.append(_Run(op, target, ident, [i for i in range(count) if i not in there]))
    summary.runs = [r.ident for r in runs]
    asked = tuple(dict.fromkeys(r.target.backend or "" for r in runs))
    flaky = frozenset((e.backend, e.op) for e in catalog.errata.values() if e.flaky and e.op is not None)
    settings = Settings(validators, libraries, asked, seed, execute, limits.timeout, limits.memory, flaky)
    with open_pool(settings, jobs or os.cpu_count() or 1, dask) as pool:
        _ask_all(store, pool, runs, limits, summary, progress, stop)
    for run in runs:
        if not run.left:
            store.finish_probe_run(run.ident)
    summary.left = sum(len(r.left) for r in runs if r.op not in summary.skipped)
    summary.agreement = agreement_of(store, summary.runs)
    if not summary.left:
        summary.evidence = evidence_hash(store, summary.runs, count)
    summary.seconds = time.monotonic() - started
    return summary


def evidence_hash(store: Store, runs: Collection[int], count: int | None = None) -> str:
    """Returns the sha256 of the evidence of runs: configs, the library's verdicts and opdb's; no times, no row numbers.

    Numbers in the log of a verdict are masked: libraries print some from uninitialized memory.  The
    log of a graph is left out entirely: its lines come from several threads.
    """
    run, result = schema.probe_run, schema.probe_result
    said = ("backend", "soc", "sdk", "position", "type_row", "config", "validates", "finalizes", "executes",
            "code", "code_name", "ours", "rules", "detail")  # fmt: skip
    hashed: list[tuple[Any, str]] = []
    with store.reading() as connection:
        for ident in runs:
            op = connection.execute(select(run.c.op).where(run.c.id == ident)).scalar()
            digest, key = hashlib.sha256(), None
            query = select(result).where(result.c.probe_run_id == ident).order_by(result.c.position)
            for row in connection.execute(query):
                if count is None or row.position < count:
                    log = masked(row.log) if row.finalizes == "unknown" else ""
                    digest.update(repr([*(getattr(row, c) for c in said), log]).encode())
                    key = (op, row.backend, row.soc, row.sdk)
            if key is not None:
                hashed.append((key, digest.hexdigest()))
    return hashlib.sha256(repr(sorted(hashed)).encode()).hexdigest()


def _askable(catalog: Catalog, op: str, summary: Summary) -> bool:
    definition = catalog.ops[op]
    if definition.package != PACKAGE:
        summary.skipped[op] = f"an op of the package {definition.package}, which no library of QNN has"
    elif not definition.samples:
        summary.skipped[op] = "its spec has no samples, so there is nothing to begin with"
    return op not in summary.skipped


def _targets(
    catalog: Catalog,
    backends: Sequence[str] | None,
    socs: Sequence[str],
    libraries: Libraries,
    ops: Sequence[str],
    named: bool,
    summary: Summary,
) -> Iterator[tuple[Target, LibraryInfo]]:
    chips = tuple(dict.fromkeys(soc_name(s) for s in socs))
    for backend in dict.fromkeys(backends or [b.name for b in ASKED]):
        if backend not in catalog.backends:
            raise OpdbError(f"unknown backend '{backend}'; known: {', '.join(catalog.backends)}")
        try:
            libraries.path(backend)
        except OpdbError as error:
            if backends is not None:
                raise
            summary.skipped[backend] = str(error)
            continue
        for soc in chips if catalog.backends[backend].per_soc else (None,):
            with VendorWorker(backend, soc, libraries=libraries.folder) as worker:
                info = worker.info()
                has = set(worker.supported_operations())
            if not named:
                without = [op for op in ops if op in has and backend not in catalog.ops[op].backends]
                summary.undocumented[backend] = without
            yield Target(backend, soc, info.sdk), info


def _record(
    catalog: Catalog, validator: Validator, target: Target, seed: int, execute: int, command: str
) -> ProbeRunRecord:
    """The key of a run.  ``note`` has everything besides the op's definition that its evidence depends on."""
    note = f"generator {GENERATOR}, execute {execute}, validator {validator.sha256[:16]}"
    op = validator.op
    return ProbeRunRecord(__version__, catalog.op_hash(op), seed, command, note, op=op, soc=target.soc or "")


def _library(info: LibraryInfo) -> LibraryRecord:
    return LibraryRecord(
        info.package,
        info.version,
        info.build_id,
        info.sha256,
        info.backend,
        info.sdk,
        BACKENDS[info.backend].emulated,
    )


def _ask_all(
    store: Store,
    pool: Pool,
    runs: Sequence[_Run],
    limits: Limits,
    summary: Summary,
    progress: Callable[[Progress], None] | None,
    stop: Callable[[], bool],
) -> None:
    started = time.monotonic()
    of = {(r.op, r.target): r for r in runs}
    total = sum(len(r.left) for r in runs)

    def following() -> Iterator[Chunk]:
        """Yields the next chunk while there is time."""
        for chunk in list(_chunks(runs)):
            late = limits.budget is not None and time.monotonic() - started >= limits.budget
            if late or stop():
                return
            if chunk.op not in summary.skipped:
                yield chunk

    for chunk, answer in pool.answers(following()):
        run = of[chunk.op, chunk.target]
        if isinstance(answer, OpdbError):
            summary.skipped[run.op] = str(answer)
        else:
            store.record_probes(run.ident, answer)
            answered = set(chunk.indices)
            run.left = [i for i in run.left if i not in answered]
            summary.asked += len(answer)
        if progress is not None:
            seconds = time.monotonic() - started
            progress(Progress(summary.asked, total, seconds, chunk.op, chunk.target))


def _chunks(runs: Sequence[_Run]) -> Iterator[Chunk]:
    """Yields the first chunk of every run, then the second ones...: a budget cuts off depth, not ops."""
    longest = max((len(r.left) for r in runs), default=0)
    for start in range(0, longest, CHUNK):
        for run in runs:
            if indices := tuple(run.left[start : start + CHUNK]):
                yield Chunk(run.op, run.target, indices)
