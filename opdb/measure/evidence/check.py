"""Measures a random share of the evidence again, to check that each library still gives the recorded results."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil

from opdb.catalog.evidence import STAGES, Cell, Evidence, Key
from opdb.core.errors import OpdbError
from opdb.core.names import counted
from opdb.measure.conformance.expected_failures import hits
from opdb.measure.evidence.build import Answer, Share, Task, answered
from opdb.measure.evidence.chips import Place
from opdb.measure.evidence.measure import rows_of
from opdb.spec.catalog import Catalog


@dataclass(frozen=True)
class Difference:
    """A cell with a different result: e.g. matches was "2 yes 1 no", is "3 yes"."""

    key: Key
    stage: str
    was: str
    now: str

    def __str__(self) -> str:
        return f"{self.key}: {self.stage} was {self.was}, is {self.now}"


@dataclass
class Checked:
    """The result of a check."""

    seed: int
    asked: int = 0  # cells that were measured again and compared
    same: int = 0
    differences: list[Difference] = field(default_factory=list)
    flaky: list[tuple[Key, str]] = field(
        default_factory=list
    )  # differ, but these errata make the result depend on memory
    stale: list[Key] = field(default_factory=list)  # not compared: their cases have changed
    elsewhere: int = 0  # chosen, but their library is not on this machine, or another build of it
    missing: list[str] = field(default_factory=list)  # places that could not be asked, and why

    @property
    def ok(self) -> bool:
        return not self.differences and not self.missing


def chosen(cells: Iterable[Cell], share: float, seed: int) -> list[Cell]:
    """A random ``share`` (0..1] of cells; at least one, if there is any."""
    ordered = sorted(cells, key=lambda c: str(c.key))
    return random.Random(seed).sample(ordered, ceil(len(ordered) * share))


def check(
    catalog: Catalog,
    evidence: Evidence,
    places: Sequence[Place],
    share: float,
    seed: int,
    jobs: int = 1,
    progress: Callable[[str], None] | None = None,
) -> Checked:
    """Measures a share again in ``places``, with the file's own data, and compares the counts of each status.

    Raises OpdbError for a share that is not in (0, 1], and if no library of the evidence is on this machine.
    """
    if not 0 < share <= 1:
        raise OpdbError(f"--share {share:g}: give a part of all cells, over 0 and at most 1; e.g. 0.01")
    here = {(p.backend, p.sdk): p for p in places}
    checked = Checked(seed)
    there = [c for c in evidence.cells.values() if c.kind == "op"]
    picked = chosen(
        [c for c in there if (c.run.backend, c.run.sdk) in here and c.run.execution != "device"], share, seed
    )
    if not picked:
        raise OpdbError(
            f"nothing of the {counted(len(there), 'cell')} can be measured again here: no library of theirs; "
            "'opdb libraries list' shows those of this machine"
        )
    groups: dict[tuple[int, int], dict[Place, list[Cell]]] = defaultdict(lambda: defaultdict(list))
    for cell in picked:
        r = cell.run
        known = here[r.backend, r.sdk]
        place = Place(r.backend, r.sdk, r.soc, known.folder)
        groups[r.seed, r.limit][place].append(cell)
    for (data, limit), by_place in sorted(groups.items(), key=lambda e: e[0]):
        shares = [
            Share(p, tuple(sorted({c.name for c in cells if c.name in catalog.ops})),
                  only=frozenset((c.name, c.row) for c in cells))
            for p, cells in sorted(by_place.items(), key=lambda e: str(e[0]))
        ]  # fmt: skip
        for done, answer in answered(Task(catalog, data, limit), [s for s in shares if s.ops], jobs):
            if progress is not None:
                progress(done.name)
            _compare(catalog, checked, by_place[done.place], answer, str(done.place))
    return checked


def _compare(
    catalog: Catalog, checked: Checked, cells: Sequence[Cell], answer: Answer | OpdbError, place: str
) -> None:
    if isinstance(answer, OpdbError):
        checked.missing.append(f"{place}: {answer}")
        return
    now = {(op, row): outcome for op, row, outcome in answer.found}
    for cell in cells:
        was, found = cell.outcome, now.get((cell.name, cell.row))
        if answer.library.sha256 != cell.run.sha256:
            checked.elsewhere += 1
            continue
        if found is None or found.spec != was.spec:
            checked.stale.append(cell.key)
            continue
        other = [
            Difference(cell.key, stage, _told(a), _told(b))
            for stage, a, b in zip(STAGES, was.counts, found.counts, strict=True)
            if dict(a) != dict(b)
        ]
        flaky = _flaky(catalog, cell) if other else ""
        if flaky:
            checked.flaky.append((cell.key, flaky))
            continue
        checked.asked += 1
        checked.differences += other
        checked.same += not other


def _flaky(catalog: Catalog, cell: Cell) -> str:
    """The errata with ``flaky: true`` that the cases of a cell hit: the library reads uninitialized memory there."""
    run = cell.run
    records = {
        i: e for i, e in catalog.errata.items() if e.flaky and (e.op, e.backend) == (cell.name, run.backend)
    }
    if not records:
        return ""
    cases = [
        c
        for r in rows_of(catalog, cell.name, run.backend, run.soc, run.limit)
        if r.row == cell.row
        for c in r.cases
    ]
    met = {e.id for c in cases for e in hits(c.config, run.backend, run.soc, run.sdk)}
    return ", ".join(sorted(i for i, e in records.items() if i in met or e.pattern == cell.name))


def _told(counts: object) -> str:
    assert isinstance(counts, dict)
    return " ".join(f"{n} {status}" for status, n in sorted(counts.items()))
