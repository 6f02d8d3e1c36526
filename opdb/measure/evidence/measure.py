"""Asks one library and chip about the type rows of some ops: cases in, cells out.

The cases are those of opdb.measure.conformance, which also judges; only here, several ops share a process.  Other ops may
have damaged the process, so a case with a wrong answer runs again in a fresh one, and if its answer changes,
once more alone in a process of its own: the last answer counts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from opdb.catalog.evidence import STAGES, Outcome
from opdb.catalog.store.records import LibraryRecord, ResultRecord
from opdb.codegen.constants import PACKAGE
from opdb.core.op_config import OpConfig, to_json
from opdb.generated.constants.backends import BACKENDS
from opdb.measure.conformance import lanes
from opdb.measure.conformance.cases import Case, row_cases
from opdb.measure.conformance.executors.base import Array
from opdb.measure.conformance.executors.vendor import VendorExecutor
from opdb.measure.conformance.expected_failures import explain
from opdb.spec.catalog import Catalog

#: The number of digits of the cases' hash that a cell keeps.
HASH = 12
#: The default maximum number of cases per row.
LIMIT = 3
_GOOD = ("yes", "not-applicable", "unknown")
#: Log lines that only say that something failed.
_EMPTY = re.compile(
    r"QnnBackend_validateOpConfig failed|Failed to validate op |exits with \d+|OpConfig validation failed"
)
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{5,}|\b[0-9a-f]{10,}\b|\b\d+(\.\d+)? ?[um]s\b")


@dataclass(frozen=True)
class Row:
    """The cases of one op in one type row.

    The ids and data seeds name no chip: all chips get the same data, and PyTorch computes once.
    """

    op: str
    row: str
    cases: tuple[Case, ...]

    @property
    def hash(self) -> str:
        """A hash of everything besides the library that the outcome depends on: a cell with other cases must be measured again."""
        each = [[c.id, c.kind, to_json(replace(c.config, id=None))] for c in self.cases]
        return hashlib.sha256(json.dumps(each).encode()).hexdigest()[:HASH]


def rows_of(catalog: Catalog, op: str, backend: str, soc: str, limit: int) -> list[Row]:
    """The type rows of one op, each with up to ``limit`` (0: all) of its samples that the specs accept on this chip.

    A row without any has the first sample that they refuse: it is validated, not run.  Returns [] for an op of a package
    other than QNN's own.
    """
    if catalog.ops[op].package != PACKAGE:
        return []
    by_row: dict[str, list[Case]] = {}
    for case in row_cases(catalog, op, backend, soc):
        ident = case.id.removesuffix(f"-{soc}") if soc else case.id
        by_row.setdefault(case.type_row or _row_in(ident, backend), []).append(replace(case, id=ident))
    return [Row(op, row, tuple(_some(found, limit))) for row, found in by_row.items()]


def _row_in(ident: str, backend: str) -> str:
    found = re.search(rf"-({re.escape(backend)}\.[^.-]+\.\d+)", ident)
    return found[1] if found is not None else ""


def _some(cases: Sequence[Case], limit: int) -> Sequence[Case]:
    """Picks cases evenly over samples and combinations of types, including the first one."""
    good = [c for c in cases if c.kind == "positive"]
    if not good:
        return cases[:1]
    if not limit or len(good) <= limit:
        return good
    return [good[i * (len(good) - 1) // max(1, limit - 1)] for i in range(limit)]


class Library(VendorExecutor):
    """A library whose process serves several ops; ``fresh`` starts another process."""

    def __init__(self, backend: str, catalog: Catalog, soc: str, libraries: Path | None) -> None:
        super().__init__(f"qnn-{backend.lower()}", backend, catalog, soc, libraries)

    def renew(self) -> None:
        """Does nothing: cases with wrong answers run again anyway (see the module)."""

    def fresh(self) -> None:
        super().renew()

    def library(self) -> LibraryRecord:
        """Returns the library's record.  Raises OpdbError if it cannot be opened."""
        found = self.record().library
        assert found is not None  # a vendor executor has one
        return found


class Measurer:
    """Asks libraries; PyTorch's results are kept, because all libraries and chips get the same data."""

    def __init__(self, catalog: Catalog, seed: int = 0, limit: int = LIMIT) -> None:
        self.catalog, self.limit = catalog, limit
        self._judge = lanes.Judge(catalog, seed, self._expected)
        self._known: dict[OpConfig, list[tuple[list[bytes], list[Array] | str]]] = {}
        self._rows: dict[tuple[str, str, str], list[Row]] = {}

    def rows(self, op: str, backend: str, soc: str) -> list[Row]:
        """See ``rows_of``."""
        key = (op, backend, soc)
        if key not in self._rows:
            self._rows[key] = rows_of(self.catalog, op, backend, soc, self.limit)
        return self._rows[key]

    def outcomes(self, library: Library, rows: Sequence[Row]) -> Iterator[tuple[Row, Outcome]]:
        """Yields the outcome of each row on a library.  Starts with a fresh process."""
        library.fresh()
        lane = lanes.Lane(library, library.record(), [])
        asked = {case.id: case for row in rows for case in row.cases}
        said = {ident: self._judge.ask(lane, case) for ident, case in asked.items()}
        doubtful = [i for i, result in said.items() if _doubtful(asked[i], result)]
        if doubtful:
            library.fresh()
            for ident in doubtful:
                again = self._judge.ask(lane, asked[ident])
                if _statuses(again) != _statuses(said[ident]):
                    library.fresh()
                    again = self._judge.ask(lane, asked[ident])
                said[ident] = again
        for row in rows:
            yield row, outcome_of(row, [said[c.id] for c in row.cases], lane.record.version)

    def _expected(self, config: OpConfig, inputs: Sequence[Array | None]) -> list[Array] | str:
        data = [b"" if a is None else a.tobytes() for a in inputs]
        known = self._known.setdefault(replace(config, id=None), [])
        for before, result in known:
            if before == data:
                return result
        known.append((data, lanes.pytorch(config, inputs)))
        return known[-1][1]


def outcome_of(row: Row, results: Sequence[ResultRecord], sdk: str) -> Outcome:
    """Summarizes the results of a row's cases, one each; ``sdk``: the library's, for its errata."""
    passed = [_passed(r) for r in results]
    best = max(passed)
    furthest = row.cases[passed.index(best)] if best else None
    ended = next((i for i, r in enumerate(results) if _ended(r)), None)
    more = {} if ended is None else _stopped(row.cases[ended], results[ended])
    return Outcome(
        spec=row.hash,
        cases=len(results),
        counts=tuple(dict(Counter(getattr(r, stage) for r in results)) for stage in STAGES),
        furthest=STAGES[best - 1] if best else "",
        case=furthest.id if furthest else "",
        config=json.dumps(to_json(replace(furthest.config, id=None))) if furthest else "",
        errata=tuple(_errata(row.cases, results, sdk)),
        **more,  # type: ignore[arg-type]
    )


def _statuses(result: ResultRecord) -> tuple[str, ...]:
    return tuple(getattr(result, stage) for stage in STAGES)


def _doubtful(case: Case, result: ResultRecord) -> bool:
    """True if earlier work in the process may have spoiled it; validation alone reads no memory of other ops."""
    return case.runs and result.validates == "yes" and any(s not in _GOOD for s in _statuses(result)[1:])


def _passed(result: ResultRecord) -> int:
    """The number of stages that say yes before the first that does not."""
    statuses = [*_statuses(result), "no"]
    return next(i for i, s in enumerate(statuses) if s != "yes")


def _ended(result: ResultRecord) -> str:
    """The stage that ended a case, with its status; '' if none did."""
    return next((f"{stage} {s}" for stage in STAGES if (s := getattr(result, stage)) not in _GOOD), "")


def _stopped(case: Case, result: ResultRecord) -> dict[str, object]:
    ended = _ended(result)
    reason = result.detail.splitlines()[-1] if ended.startswith("matches") and result.detail else ""
    return {
        "stopped": ended,
        "stopped_case": case.id,
        "code": result.code or None,
        "code_name": result.code_name if result.code else "",
        "reason": (reason or _told(result.log))[:200],
    }


def _told(log: str) -> str:
    """The first line that says what is wrong, without addresses and times, which change each time."""
    errors = (line.removeprefix("error: ") for line in log.splitlines() if line.startswith("error: "))
    return next((_ADDRESS.sub("...", e) for e in errors if not _EMPTY.search(e)), "")


def _errata(cases: Iterable[Case], results: Iterable[ResultRecord], sdk: str) -> list[str]:
    found = set()
    for case, r in zip(cases, results, strict=True):
        if _ended(r):
            statuses = {"declared": r.declared} | {stage: getattr(r, stage) for stage in STAGES}
            erratum = explain(case.config, case.backend, r.soc, sdk, statuses)
            found |= {erratum.id} if erratum is not None else set()
    return sorted(found)


def execution_of(backend: str) -> str:
    """The place where this machine's library of a backend computes: the emulator or the host."""
    return "emulator" if BACKENDS[backend].emulated else "host"
