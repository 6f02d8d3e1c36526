"""Asks QNN's HTP library for its simulation of a graph, in a child process and a temporary folder."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from opdb.catalog.targets.target import soc_name
from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.execute.compile.model import precision_of
from opdb.execute.libraries.client import Progress, VendorWorker
from opdb.execute.libraries.results import SimulateResult
from opdb.measure.cost import groups, trace
from opdb.measure.cost.chips import ranks, simulated
from opdb.measure.cost.figures import Estimate, NotEstimated
from opdb.runtime.qnn import SIMULATING
from opdb.runtime.qnn.graph import GraphOptions
from opdb.runtime.qnn.libraries import Libraries, find

#: The library behind the figures of docs/guides/cost.md; versions differ by up to 36 %.
QNN = "2.51"
#: A simulation that fails gives bounds near 2**64 (seen with O1).
OVERFLOW = 2**62


class Simulator:
    """One library and one chip for any number of graphs; a context manager, whose child process starts with the first graph.

    ``libraries``: a version of QNN on this machine, e.g. "2.51", or a folder; see opdb.runtime.qnn.libraries.find.
    ``timeout``: seconds for a graph.  Raises OpdbError for an unknown chip and for libraries that are not on this machine.
    """

    def __init__(self, soc: str, *, libraries: Libraries | Path | str = QNN, timeout: float = 600.0) -> None:
        self.soc = soc_name(soc)
        found = libraries if isinstance(libraries, Libraries) else find(str(libraries))
        self._worker = VendorWorker(
            SIMULATING, self.soc, libraries=found.folder, timeout=timeout, log_level="warning"
        )

    @property
    def sdk(self) -> str:
        """The library's version of QNN, e.g. 2.51."""
        return self._worker.info().sdk

    @property
    def build_id(self) -> str:
        """The library's own name for its version, e.g. v2.51.0.260615..."""
        return self._worker.info().build_id

    def check_chip(self) -> None:
        """Raises OpdbError for a chip that the library does not simulate: tries a graph of one op."""
        x, y = (GraphTensor(n, "f32", (1, 8, 8, 32), t) for n, t in (("x", "APP_WRITE"), ("y", "APP_READ")))
        try:
            self.estimate(QnnGraph("chip", {"x": x, "y": y}, [GraphOp("relu", "Relu", ("x",), (), ("y",))]))
        except NotEstimated as error:
            if error.outcome.verdict != "no":
                raise
            self._refuse()  # e.g. a chip without floating point, or one that the library does not finalize for

    def estimate(
        self,
        graph: QnnGraph,
        options: GraphOptions | None = None,
        *,
        trace: bool = False,
        progress: Progress | None = None,
    ) -> Estimate:
        """Returns the cost of ``graph``; equal graphs give equal figures, cycle by cycle.

        ``options`` are those of compilation, by default fp16 for float32 tensors, else the library's choice.  ``trace``: with groups of
        nodes and a Chrome trace.  Raises NotEstimated if the library refuses the graph, crashes or hangs; OpdbError for
        optimization level 1, whose figures are nonsense, for a chip that the library does not simulate, and for figures that
        overflowed.
        """
        options = options or GraphOptions(precision=precision_of([graph], SIMULATING))
        if options.optimization == 1:
            raise OpdbError(
                "optimization level 1: the library's estimates are meaningless at this level; use 2 or 3"
            )
        with tempfile.TemporaryDirectory(prefix="opdb-cost-") as folder:
            result = self._worker.simulate(graph, folder, options, progress)
            if result.stage != "done":
                raise NotEstimated(graph.name, result)
            found = self._read(graph, options, result)
            return _traced(found, graph, result, Path(folder)) if trace else found

    def _read(self, graph: QnnGraph, options: GraphOptions, result: SimulateResult) -> Estimate:
        figures, info = result.figures, self._worker.info()
        if not figures.get("cycles"):
            self._refuse()
        if max(figures.values()) >= OVERFLOW:
            raise OpdbError(
                f"{graph.name}: the library's figures overflowed ({max(figures.values())}); they are worth nothing"
            )
        chip = trace.chip_of(trace.text_of(result.trace))
        cycles = [figures[name] for name in ("cycles", "cycles_lower", "cycles_upper")]
        return Estimate(
            graph=graph.name,
            soc=self.soc,
            build_id=info.build_id,
            chip=chip,
            nodes=len(graph.ops),
            precision=options.precision,
            cycles=cycles[0],
            cycles_lower=cycles[1],
            cycles_upper=cycles[2],
            us=cycles[0] / chip.mhz,
            us_lower=cycles[1] / chip.mhz,
            us_upper=cycles[2] / chip.mhz,
            read_bytes=figures.get("read_bytes", 0),
            filled_bytes=figures.get("filled_bytes", 0),
            spilled_bytes=figures.get("spilled_bytes", 0),
            written_bytes=figures.get("written_bytes", 0),
            missing_ops=figures.get("missing_ops", 0),
            missing=tuple(dict.fromkeys(name.rpartition(" : OpId_")[0] or name for name in result.missing)),
            seconds=result.seconds,
        )

    def _refuse(self) -> NoReturn:
        chips = ", ".join(simulated(self.sdk))
        cure = "; --rank-only orders models for this chip by another's simulation" if ranks(self.soc) else ""
        raise OpdbError(
            f"{self.soc}: QNN {self.sdk} does not simulate this chip; it does simulate {chips}{cure}"
        )

    def close(self) -> None:
        """Ends the child process; safe to repeat."""
        self._worker.close()

    def __enter__(self) -> Simulator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def estimate(
    graph: QnnGraph,
    soc: str,
    *,
    libraries: Libraries | Path | str = QNN,
    options: GraphOptions | None = None,
    trace: bool = False,
    timeout: float = 600.0,
    progress: Progress | None = None,
) -> Estimate:
    """Estimates the cost of one graph on a chip by Qualcomm's simulation; see ``Simulator`` and its ``estimate``."""
    with Simulator(soc, libraries=libraries, timeout=timeout) as simulator:
        return simulator.estimate(graph, options, trace=trace, progress=progress)


def _traced(found: Estimate, graph: QnnGraph, result: SimulateResult, folder: Path) -> Estimate:
    """Adds the trace and its evaluation to the estimate."""
    document: dict[str, Any] = json.loads(trace.text_of(result.trace))
    names = trace.node_names(folder)
    slices = tuple(trace.slices(document))
    divided = groups.shares(slices, names)
    ops = {op.name: op for op in graph.ops}
    told = {
        number: {"node": name, "kind": ops[name].op, "origin": ops[name].origin}
        for number, name in names.items()
        if name in ops
    }
    note = f"simulated by Qualcomm's library (QNN {found.build_id}) for {found.soc}, not measured"
    return replace(
        found,
        groups=groups.groups(graph, divided, found.chip, found.missing),
        busy=groups.engines(slices, divided.end, found.chip),
        trace=trace.in_microseconds(document, found.chip, told, note),
    )
