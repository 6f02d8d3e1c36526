"""Prints what compile wrote."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opdb.cli.library_output import outcome_json, print_ends, print_failure, tensor_json
from opdb.cli.output import print_json
from opdb.core.names import counted
from opdb.generated.constants.backends import BACKENDS

if TYPE_CHECKING:
    from opdb.cli.compile_graphs import ContextGraphs
    from opdb.cli.compile_options import Plan
    from opdb.cli.progress import Stages
    from opdb.core.graph import QnnGraph
    from opdb.execute.compile.build import Compiled
    from opdb.execute.libraries.results import Outcome
    from opdb.runtime.qnn.graph import GraphOptions


@dataclass(frozen=True)
class Compilation:
    """The result of compile.  ``recorded``: the Saver's outcome, ``compiled``: the context; None if not requested.

    ``verbose``: print the library's warnings, too; its errors are always printed.
    """

    made: ContextGraphs
    plan: Plan
    settings: GraphOptions
    stages: Stages
    saver: Path | None
    recorded: Outcome | None
    compiled: Compiled | None
    verbose: bool = False

    @property
    def outcomes(self) -> list[Outcome]:
        """The outcome of each library."""
        compiled = None if self.compiled is None else self.compiled.result
        return [outcome for outcome in (self.recorded, compiled) if outcome is not None]

    @property
    def failed(self) -> list[Outcome]:
        """The outcomes of libraries that refused, crashed, or hung."""
        return [o for o in self.outcomes if o.stage != "done"]

    @property
    def saved(self) -> bool:
        """True if the Saver wrote its folder."""
        return self.recorded is not None and self.recorded.stage == "done"

    def print_json(self) -> None:
        """Prints one document with stable keys."""
        compiled = self.compiled
        print_json({
            "output": str(compiled.path) if compiled and compiled.size else None,
            "size": compiled.size if compiled else None,
            "backend": self.plan.target.backend,
            "soc": self.plan.target.soc,
            "build_id": compiled.build_id if compiled else None,
            "saver": str(self.saver) if self.saved else None,
            "precision": self.settings.precision,
            "optimization": self.settings.optimization,
            "io_layout": self.plan.how.io_layout,
            "calibration": self.made.calibrated and self.made.calibrated.to_json(),
            "states": [
                {"graph": s.graph, "buffer": s.buffer, "input": s.input, "output": s.output}
                for s in self.made.states
            ],
            "graphs": [
                {"name": g.name, "nodes": len(g.ops), "inputs": [tensor_json(t) for t in g.inputs],
                 "outputs": [tensor_json(t) for t in g.outputs]} for g in self.made.graphs
            ],
            "seconds": list(self._seconds()),
            "errata": [vars(e) for e in self.made.errata],
            "result": outcome_json((self.failed or self.outcomes[-1:])[0]),
        })  # fmt: skip

    def _seconds(self) -> Iterator[dict[str, Any]]:
        own = [s for s in self.stages.seconds if s[0] in ("export", "read", "lower", "record")]
        for stage, graph, seconds in (*own, *(self.compiled.seconds if self.compiled else ())):
            yield {"stage": stage, "graph": graph, "seconds": round(seconds, 6)}

    def print(self) -> None:
        """Prints the written files, and failures on stderr."""
        target = self.plan.target
        for outcome in self.failed:
            print_failure(outcome, str(target))
        if self.saved:
            print(f"{self.saver}: saver_output.c and params.bin")
            if BACKENDS[str(target.backend)].per_soc:
                what = "own configurations (SoC, precision, optimization)"
                print(f"  without {target.backend}'s {what}: the Saver leaves them out")
        if self.compiled is not None and self.compiled.size:
            self._print_context(self.compiled)

    def _print_context(self, compiled: Compiled) -> None:
        print(
            f"{compiled.path}: {counted(compiled.size, 'byte')} for {self.plan.target}, QNN {compiled.build_id}"
        )
        for graph in self.made.graphs:
            self._print_graph(graph)
        if self.made.calibrated is not None:
            self.made.calibrated.print()
        if self.made.encodings is not None:
            self.made.encodings.print()
        for erratum in self.made.errata:
            print(f"  {erratum.text}")
        for line in compiled.result.log:
            if self.verbose or line.startswith("error"):
                print(f"  {line}")

    def _print_graph(self, graph: QnnGraph) -> None:
        ends = "; images at its ends in NHWC" if self.plan.how.io_layout == "nhwc" else ""
        print(f"graph {graph.name}: {counted(len(graph.ops), 'node')}{ends}")
        print_ends(graph.inputs, graph.outputs)
        for s in self.made.states:
            if s.graph == graph.name:
                print(f"  state  {s.buffer}: the output {s.output} is the next run's input {s.input}")
