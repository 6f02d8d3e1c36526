"""Evidence: results of libraries on ops and PyTorch operators, counted by type row, version, and chip.

A cell holds the results of one library for one chip in one place of execution; emulator and device cells have different
keys, and nothing here adds them up.  ``format`` reads and writes the file and has the ``shipped`` one; ``merge`` merges a
colleague's.  opdb.measure.evidence does the measuring.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

#: The stages of a cell, first to last; the documents' declarations are separate.
STAGES = ("validates", "finalizes", "executes", "matches")
#: "op": an op in a type row, run by a library alone; "torch": a PyTorch operator in ExecuTorch's flow, by precision.
KINDS = ("op", "torch")
EXECUTIONS = ("emulator", "host", "device")
#: Worst first: a cell has the worst status of its cases.
WORST = ("crashed", "hung", "no", "yes", "not-applicable", "unknown")


@dataclass(frozen=True, order=True)
class Run:
    """The origin of cells: the library, the chip, the machine, the date, and the method."""

    backend: str  # e.g. HTP
    sdk: str  # e.g. 2.47
    soc: str  # the chip passed to the library; '' if none
    execution: str  # one of EXECUTIONS: an emulated chip, the library's own processor, a device
    package: str  # e.g. onnxruntime-qnn
    version: str  # of the package; e.g. 2.3.0
    build_id: str
    sha256: str  # of the library
    date: str  # ISO 8601, UTC; e.g. 2026-11-27
    host: str  # a description of the machine
    generator: str  # e.g. opdb 1.5.0
    seed: int = 0  # of the data
    limit: int = 0  # the maximum number of cases per cell; 0: all that the specs give
    flow: str = ""  # for kind torch, e.g. ExecuTorch 1.4.1

    @property
    def library(self) -> str:
        """The library's name, e.g. HTP 2.47 (onnxruntime-qnn 2.3.0)."""
        return f"{self.backend} {self.sdk} ({self.package} {self.version})"


@dataclass(frozen=True)
class Outcome:
    """The results of the cases of one cell.

    ``counts``: the number of cases by status, for each of STAGES.  ``furthest``: the last stage that any case passed ('' if
    none); ``case`` is the name of that case, ``config`` its op config (JSON).  ``stopped``: the stage and status at which
    the first case that did not pass all stages ended, e.g. "finalizes no", with the library's code and reason.
    """

    spec: str  # a prefix of the hash of the cases
    cases: int
    counts: tuple[Mapping[str, int], ...]
    furthest: str = ""
    case: str = ""
    config: str = ""
    stopped: str = ""
    stopped_case: str = ""
    code: int | None = None
    code_name: str = ""
    reason: str = ""
    errata: tuple[str, ...] = ()  # errata that explain the failures

    def status(self, stage: str) -> str:
        """The worst status of the cases at a stage; "unknown" if there are none."""
        return min(self.counts[STAGES.index(stage)] or ["unknown"], key=WORST.index)

    @property
    def statuses(self) -> tuple[str, ...]:
        return tuple(map(self.status, STAGES))


@dataclass(frozen=True)
class Key:
    """The identity of a cell.  ``row``: a type row, e.g. HTP.FP16.1; for kind torch a precision, e.g. 8a8w."""

    kind: str
    name: str
    row: str
    backend: str
    sdk: str
    soc: str
    execution: str

    def __str__(self) -> str:
        place = " ".join(filter(None, (self.backend, self.sdk, self.soc, f"({self.execution})")))
        return f"{self.name} {self.row} on {place}"


@dataclass(frozen=True)
class Cell:
    kind: str
    name: str
    row: str
    run: Run
    outcome: Outcome

    @property
    def key(self) -> Key:
        r = self.run
        return Key(self.kind, self.name, self.row, r.backend, r.sdk, r.soc, r.execution)


@dataclass
class Evidence:
    """Cells, one per key."""

    cells: dict[Key, Cell] = field(default_factory=dict)

    @classmethod
    def of(cls, cells: Iterable[Cell]) -> Evidence:
        return cls({cell.key: cell for cell in cells})

    @property
    def runs(self) -> tuple[Run, ...]:
        return tuple(sorted({cell.run for cell in self.cells.values()}))

    def __len__(self) -> int:
        return len(self.cells)
