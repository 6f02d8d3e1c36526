"""Runs a graph of a context file on the library that it was compiled for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opdb.core.errors import OpdbError
from opdb.core.graph import GraphTensor
from opdb.core.names import counted
from opdb.execute.compile.states import State
from opdb.execute.compile.successive_runs import stepped
from opdb.execute.libraries.client import VendorWorker
from opdb.execute.libraries.results import ExecuteResult

if TYPE_CHECKING:
    from opdb.catalog.targets.target import Target
    from opdb.runtime.qnn.context_file import Header

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Execution:
    """A run: a graph, its initial states, and the arrays of ``given``, its other inputs (opdb.execute.compile.inputs.feed).

    ``steps``: runs that pass the states on; ``repeat``: runs with the same inputs.  ``reports``: of the profile, as text.
    """

    file: Path
    header: Header
    graph: str
    states: Sequence[State]
    given: Sequence[GraphTensor]
    fed: Mapping[str, Array]
    steps: int = 1
    repeat: int = 1
    profile: str = "off"
    reports: tuple[str, ...] = ()

    def run(self, timeout: float) -> Executed:
        """Loads the file and runs the graph in a child process that counts as hung after ``timeout`` seconds."""
        header = self.header
        with VendorWorker(header.backend, header.soc, soc_model=header.soc_model, timeout=timeout) as worker:
            loaded = worker.load(self.file)
            if loaded.stage != "done":
                result = ExecuteResult("load", loaded.verdict, loaded.code, loaded.code_name, loaded.log)
                return Executed(result, loaded.seconds, {})
            if self.steps > 1:
                result, outputs = stepped(worker, self.graph, self.fed, self.given, self.states, self.steps)
                return Executed(result, loaded.seconds, outputs)
            first = {**{s.input: s.initial for s in self.states}, **self.fed}
            result = worker.execute(
                self.graph, first, repeat=self.repeat, profile=self.profile, reports=self.reports
            )
            return Executed(result, loaded.seconds, {})


@dataclass(frozen=True)
class Executed:
    """``result``: of the last run, or the first that failed.  ``steps``: the outputs of several steps, stacked along a new first axis."""

    result: ExecuteResult
    load_seconds: float
    steps: Mapping[str, Array]


def chosen_graph(header: Header, name: str | None, file: Path) -> str:
    """The graph called ``name``, or the only one.  Raises OpdbError with the known names."""
    known = ", ".join(header.graphs)
    if name is None and len(header.graphs) == 1:
        return next(iter(header.graphs))
    if name is None:
        raise OpdbError(
            f"{file}: it has {counted(len(header.graphs), 'graph')}; choose one with --graph: {known}"
        )
    if name not in header.graphs:
        raise OpdbError(f"--graph {name}: {file} has: {known}")
    return name


def emulation_notice(header: Header, target: Target, file: Path) -> str | None:
    """Returns a line if a context compiled for a device runs on the emulator, with the errata it may show; else None.

    Raises OpdbError if these must be avoided.
    """
    if target.execution != "emulator" or header.metadata.get("execution") != "device":
        return None
    if target.errata == "ignore":
        return None
    met = [e for e in header.metadata.get("errata", {}).get("warn", ()) if e not in target.ignored]
    if met and target.errata == "avoid":
        raise OpdbError(
            f"{file}: compiled for a device, it may show {', '.join(met)} here; compile it with --execution emulator"
        )
    may = f"it may show {', '.join(met)}" if met else "no known errata apply"
    return f"compiled for a device, run in emulation: {may}"
