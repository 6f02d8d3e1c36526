"""The results of probing a vendor library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from opdb.core.graph import GraphTensor
from opdb.runtime.qnn.errors import explained

HUNG = "no answer in time; it hung, or it is slow, as emulation is: give a larger timeout"


@dataclass(frozen=True)
class LibraryInfo:
    """The library that answered, without paths."""

    backend: str  # CPU or HTP
    soc: str | None
    soc_model: int | None
    package: str  # e.g. onnxruntime-qnn; "" for a plain folder
    version: str  # version of the package; e.g. 2.3.0
    build_id: str  # e.g. v2.47.0.260601114230
    api_version: tuple[int, int, int]  # core API
    backend_api_version: tuple[int, int, int]
    sha256: str = ""

    @property
    def sdk(self) -> str:
        """The SDK that the library belongs to; e.g. 2.47."""
        return ".".join(self.build_id.removeprefix("v").split(".")[:2])


@dataclass(frozen=True)
class Chip:
    """An HTP library's description of the chip that it was opened for; arch is None if it does not name one."""

    soc_model: int
    name: str
    arch: int | None  # Hexagon version; e.g. 75
    fp16: bool
    bf16: bool


@dataclass(frozen=True)
class Outcome:
    """The outcome of a piece of work.

    ``stage`` is where it stopped, "done" if all went well; ``verdict`` is then "yes", else "no" (the library
    refused), "crashed" or "hung".  ``code`` and ``code_name`` are QNN's; for "crashed" the signal's (or the exit
    code), for "hung" 0 and "".
    """

    stage: str
    verdict: str
    code: int
    code_name: str
    log: tuple[str, ...] = ()

    @property
    def explained(self) -> str:
        """The code for people; of a library that hung, what to do."""
        return HUNG if self.verdict == "hung" else explained(self.code, self.code_name)


@dataclass(frozen=True)
class RunResult(Outcome):
    """The stages are validate, finalize and execute."""

    outputs: Mapping[str, Any] = field(default_factory=dict)  # numpy arrays by tensor name
    node: str = ""  # the node that validation refused


@dataclass(frozen=True)
class CompileResult(Outcome):
    """The stages are validate, build and finalize for each graph in turn, then save."""

    graph: str = ""  # where it stopped
    node: str = ""  # the node that validation refused
    seconds: tuple[tuple[str, str, float], ...] = ()  # (stage, graph, wall time) in order


@dataclass(frozen=True)
class LoadResult(Outcome):
    """The stage is load.  ``graphs``: the inputs and outputs of each graph of the context."""

    graphs: Mapping[str, tuple[tuple[GraphTensor, ...], tuple[GraphTensor, ...]]] = field(
        default_factory=dict
    )
    seconds: float = 0.0


@dataclass(frozen=True)
class ExecuteResult(Outcome):
    """The stage is execute.  ``seconds`` is the wall time of each run.

    ``reports``: the library's measurements, by format; see opdb.runtime.qnn.profile_report.
    """

    outputs: Mapping[str, Any] = field(default_factory=dict)  # of the last run
    seconds: tuple[float, ...] = ()
    reports: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SimulateResult(Outcome):
    """The stages are build and finalize.

    ``figures`` are the simulation's figures for the graph, by name (opdb.execute.libraries.jobs.FIGURES), without those that it
    does not report; ``missing``: the names of events for ops without a cost, one for each.  ``trace`` is the optrace
    from the library, b"" for none.  ``seconds``: of finalization.
    """

    figures: Mapping[str, int] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    trace: bytes = field(default=b"", repr=False)
    seconds: float = 0.0
