"""Turns models into graphs, and graphs into estimates, for the commands about cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from opdb.cli.graphs import GraphMaker, holds_op_configs
from opdb.cli.library_output import outcome_json, print_failure
from opdb.cli.output import print_json
from opdb.core.errors import OpdbError

if TYPE_CHECKING:
    from opdb.catalog.targets.target import Target
    from opdb.checks.coverage import Coverage
    from opdb.cli.progress import Stages
    from opdb.core.graph import QnnGraph
    from opdb.judge.errata.report import ErratumCount
    from opdb.lower.quantize import Recipe
    from opdb.measure.cost import Estimate, Simulator


@dataclass(frozen=True)
class CostModel:
    """The graphs of a model on a target.  ``modules``: by torch node.

    ``on``: makes the same graph for another target, and raises OpdbError if a node is refused there; None if the graphs are op
    configs, each a graph of one op.
    """

    model: str
    target: Target
    graphs: tuple[QnnGraph, ...]
    modules: Mapping[str, str]
    errata: tuple[ErratumCount, ...]
    on: Callable[[Target], QnnGraph] | None

    @property
    def alone(self) -> bool:
        """True if each graph is one op."""
        return self.on is None


@dataclass(frozen=True)
class CostModels:
    """Makes graphs of models, quantized by ``recipe`` with made-up ranges."""

    maker: GraphMaker
    recipe: Recipe | None

    def load(self, model: str) -> CostModel:
        """The graphs of a model; exits 1 if a node is refused."""
        from opdb.checks.graph_errata import with_errata_of
        from opdb.execute.compile.lowering import lowered_model

        maker = self.maker
        if holds_op_configs(model):
            return self._load_configs(model)
        program = maker.exported(model)
        coverage, made = maker.lowered(program, model)

        def on(target: Target) -> QnnGraph:
            coverage, graph = lowered_model(program, model, target, maker.how)
            if graph is None:
                row = next(r for r in coverage.rows if r.verdict != "supported")
                raise OpdbError(f"{row.node} ({row.target}) cannot be a QNN op then")
            return self._quantized(graph, target, coverage)

        graph = self._quantized(made, maker.target, coverage)
        coverage = with_errata_of(coverage, graph, maker.target)
        modules = {row.node: row.module for row in coverage.rows}
        return CostModel(model, maker.target, (graph,), modules, coverage.errata(), on)

    def _load_configs(self, file: str) -> CostModel:
        how = self.maker.how
        if self.recipe is not None:
            raise OpdbError(f"--quantize {self.recipe.name}: op configs say themselves what is quantized")
        if how.without or how.io_layout != "keep" or self.maker.dims:
            raise OpdbError(
                f"{file}: --no-pass, --io-layout and --dim are for models; op configs stay as they are"
            )
        graphs, errata = self.maker.of_configs(file)
        return CostModel(file, self.maker.target, tuple(graphs), {}, errata, None)

    def _quantized(self, graph: QnnGraph, target: Target, coverage: Coverage) -> QnnGraph:
        if self.recipe is None:
            return graph
        from opdb.execute.compile.sources import sources_of
        from opdb.lower.quantize.default_ranges import quantized

        self.maker.stages("quantize")
        return quantized(graph, self.recipe, target, sources_of(coverage.rows))


@dataclass(frozen=True)
class Estimator:
    """Estimates graphs.  ``traced``: with groups of nodes and a Chrome trace."""

    simulator: Simulator
    precision: str | None
    optimization: int | None
    traced: bool
    stages: Stages
    json: bool

    def estimate(self, graph: QnnGraph) -> Estimate:
        """The estimate of a graph; exits 1 if the library refuses it."""
        from opdb.measure.cost import NotEstimated

        try:
            return self.simulated(graph, self.traced)
        except NotEstimated as error:
            if self.json:
                print_json({"result": outcome_json(error.outcome)})
            else:
                print_failure(error.outcome, f"{graph.name} on {self.simulator.soc}")
            raise typer.Exit(1) from None

    def simulated(self, graph: QnnGraph, traced: bool = False) -> Estimate:
        """The estimate of a graph; raises NotEstimated if the library refuses it."""
        from opdb.execute.compile.model import graph_options
        from opdb.runtime.qnn import SIMULATING

        options = graph_options([graph], SIMULATING, self.precision, self.optimization)
        return self.simulator.estimate(graph, options, trace=traced, progress=self.stages)
