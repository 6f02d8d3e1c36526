"""Evidence: what libraries made of ops and of PyTorch's operators, counted by type row, version and chip.

A cell is what one library showed for one chip in one place of execution; cells of an emulator and of a device have
different keys, and nothing here adds them up.  ``format`` reads and writes the file, ``shipped`` is the one that opdb brings
along, ``merged`` takes a colleague's in.  Measuring is opdb.measure.evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

#: Of a cell, from the first to the last; what the documents declare stands beside them.
STAGES = ("validates", "finalizes", "executes", "matches")
#: An op in a type row by a library alone; a PyTorch operator by ExecuTorch's whole flow, with a precision as its row.
KINDS = ("op", "torch")
EXECUTIONS = ("emulator", "host", "device")
#: From the worst: a cell says the worst of its cases.
WORST = ("crashed", "hung", "no", "yes", "not-applicable", "unknown")


@dataclass(frozen=True, order=True)
class Run:
    """Where cells come from: which library, for which chip, on which machine, when and how."""

    backend: str  # e.g. HTP
    sdk: str  # e.g. 2.47
    soc: str  # the chip that was named to the library; '' where there is none
    execution: str  # one of EXECUTIONS: an emulated chip, the processor that the library is for, a device
    package: str  # e.g. onnxruntime-qnn
    version: str  # of the package; e.g. 2.3.0
    build_id: str
    sha256: str  # of the library
    date: str  # ISO 8601, UTC; e.g. 2026-11-27
    host: str  # what the machine is, in words
    generator: str  # e.g. opdb 1.5.0
    seed: int = 0  # of the data
    limit: int = 0  # the most cases of a cell; 0: all that the specs give
    flow: str = ""  # of kind torch: e.g. ExecuTorch 1.4.1

    @property
    def library(self) -> str:
        """E.g. HTP 2.47 (onnxruntime-qnn 2.3.0)."""
        return f"{self.backend} {self.sdk} ({self.package} {self.version})"


@dataclass(frozen=True)
class Outcome:
    """What cases of one cell came to.

    ``counts``: for each of STAGES how many cases had which status; ``furthest``: the last stage that a case passed, ''
    for none, ``case`` the name of that case and ``config`` its op config (JSON).  ``stopped``: the stage and status at which
    the first case that did not pass all stages ended, e.g. "finalizes no", with the library's code and reason.
    """

    spec: str  # the beginning of the hash of the cases
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
    errata: tuple[str, ...] = ()  # that explain what is not right

    def status(self, stage: str) -> str:
        """The worst of the cases at a stage; "unknown" for none."""
        return min(self.counts[STAGES.index(stage)] or ["unknown"], key=WORST.index)

    @property
    def statuses(self) -> tuple[str, ...]:
        return tuple(map(self.status, STAGES))


@dataclass(frozen=True)
class Key:
    """What a cell is about.  ``row``: a type row, e.g. HTP.FP16.1; of kind torch a precision, e.g. 8a8w."""

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
    """Cells by what they are about: one for each key."""

    cells: dict[Key, Cell] = field(default_factory=dict)

    @classmethod
    def of(cls, cells: Iterable[Cell]) -> Evidence:
        return cls({cell.key: cell for cell in cells})

    @property
    def runs(self) -> tuple[Run, ...]:
        return tuple(sorted({cell.run for cell in self.cells.values()}))

    def __len__(self) -> int:
        return len(self.cells)
