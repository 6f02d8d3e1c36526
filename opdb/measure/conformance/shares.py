"""Divides a run over processes: each derives the cases of some ops, then asks its own executors about some cases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from opdb.catalog.store.records import ResultRecord
from opdb.core.errors import OpdbError
from opdb.core.pool import Pool
from opdb.core.pool.facts import code_facts, package_facts
from opdb.generated.constants.backends import ASKED
from opdb.measure.conformance.cases import Case, CaseSet, cases
from opdb.measure.conformance.executors import open_executors
from opdb.measure.conformance.lanes import Judge, Lane
from opdb.runtime.qnn.libraries import installed
from opdb.spec.catalog import Catalog

#: Cases of one op per share.
SHARE = 25
#: The packages that numbers depend on.
PACKAGES = ("numpy", "onnx", "torch")


@dataclass(frozen=True)
class Question:
    """The settings that all shares of a run have in common: a Work of opdb.core.pool."""

    catalog: Catalog
    executors: tuple[str, ...]
    socs: tuple[str, ...]
    seed: int

    def open(self) -> Answerer:
        return Answerer(self)

    def facts(self) -> dict[str, str]:
        """See opdb.core.pool.Work: opdb, the packages, QNN's libraries."""
        asked = [b.name for b in ASKED if f"qnn-{b.name.lower()}" in self.executors]
        libraries = {f"QNN's {b} library": _library(b) for b in asked}
        return code_facts() | package_facts(*PACKAGES) | libraries


def _library(backend: str) -> str:
    try:
        return installed().sha256(backend)
    except OpdbError:
        return "not installed"


@dataclass(frozen=True)
class Derive:
    """Asks for the cases of an op."""

    op: str

    @property
    def name(self) -> str:
        return f"the cases of {self.op}"


@dataclass(frozen=True)
class Ask:
    """Asks the executor of lane number ``lane`` about cases of one op."""

    lane: int
    executor: str
    soc: str
    cases: tuple[Case, ...]

    @property
    def name(self) -> str:
        return f"the cases {self.cases[0].id} to {self.cases[-1].id} on {self.executor} {self.soc}".rstrip()


class Answerer:
    """Executors, kept from share to share."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._judge = Judge(question.catalog, question.seed)
        self._lanes: dict[tuple[str, str], Lane] = {}

    def answer(self, job: Derive | Ask) -> CaseSet | list[ResultRecord]:
        """Answers a share.  Raises OpdbError if an executor is unavailable."""
        if isinstance(job, Derive):
            return cases(self._question.catalog, job.op, self._question.socs)
        lane = self._lane(job.executor, job.soc)
        return [self._judge.ask(lane, case) for case in job.cases]

    def _lane(self, name: str, soc: str) -> Lane:
        if (name, soc) not in self._lanes:
            (executor,) = open_executors(name, (soc,), self._question.catalog)
            self._lanes[name, soc] = Lane(executor, executor.record(), [])
        return self._lanes[name, soc]

    def close(self) -> None:
        for lane in self._lanes.values():
            lane.executor.close()


def derived(pool: Pool, ops: Sequence[str]) -> list[CaseSet]:
    """The cases of each op."""
    found: dict[str, CaseSet] = {job.op: _good(sets) for job, sets in pool.answers(map(Derive, ops))}
    return [found[op] for op in ops]


def answers(pool: Pool, lanes: Sequence[Lane]) -> Iterator[tuple[Lane, ResultRecord]]:
    """Yields the results of all lanes as they arrive."""
    for job, records in pool.answers(_shares(lanes)):
        for record in _good(records):
            yield lanes[job.lane], record


def _good(answer: Any) -> Any:
    if isinstance(answer, OpdbError):
        raise answer
    return answer


def _shares(lanes: Sequence[Lane]) -> Iterator[Ask]:
    for number, lane in enumerate(lanes):
        for _, group in groupby(lane.cases, key=lambda c: c.op):
            left = tuple(group)
            for start in range(0, len(left), SHARE):
                share = left[start : start + SHARE]
                yield Ask(number, lane.executor.name, lane.executor.soc, share)
