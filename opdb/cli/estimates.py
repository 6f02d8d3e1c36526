"""Models as graphs, and graphs as estimates, for the commands about cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import typer

from opdb.cli.output import print_json
from opdb.core.errors import OpdbError

if TYPE_CHECKING:
    from opdb.catalog.targets.target import Target
    from opdb.checks.verdicts import Coverage
    from opdb.cli.compile import Lowering
    from opdb.cli.progress import Stages
    from opdb.core.graph import QnnGraph
    from opdb.judge.errata.report import ErratumCount
    from opdb.lower.quantize import Recipe
    from opdb.measure.cost import Estimate, Simulator


@dataclass(frozen=True)
class Loaded:
    """What a model became.  ``modules``: of the torch nodes.

    ``on``: makes the same graph for another target, raises OpdbError where a node is refused there; None where the graphs are op
    configs, each a graph of one op.
    """

    model: str
    graphs: tuple[QnnGraph, ...]
    modules: Mapping[str, str]
    errata: tuple[ErratumCount, ...]
    on: Callable[[Target], QnnGraph] | None

    @property
    def alone(self) -> bool:
        """Whether each graph is one op."""
        return self.on is None


@dataclass(frozen=True)
class Wish:
    """The options that make graphs of a model.  ``dims``: sizes of what an ONNX file leaves open."""

    target: Target
    how: Lowering
    recipe: Recipe | None
    dims: Mapping[str, int] = field(default_factory=dict)


def load(model: str, wish: Wish, stages: Stages, json: bool) -> Loaded:
    """The graphs of a model; exits 1 where a node is refused."""
    from opdb.cli.compile import exported, graphs_of_configs, lowered_or_exit, made_of

    if model == "-" or model.endswith((".json", ".jsonl")):
        if wish.recipe is not None:
            raise OpdbError(f"--quantize {wish.recipe.name}: op configs say themselves what is quantized")
        if wish.how.without or wish.how.io_layout != "keep" or wish.dims:
            raise OpdbError(
                f"{model}: --no-pass, --io-layout and --dim are for models; op configs stay as they are"
            )
        graphs, errata = graphs_of_configs(model, wish.target, wish.how.name, stages, json)
        return Loaded(model, tuple(graphs), {}, errata, None)
    program = exported(model, stages, wish.dims, quick=not wish.how.decompose)
    coverage, made = lowered_or_exit(program, model, wish.target, wish.how, stages, json)

    def on(target: Target) -> QnnGraph:
        coverage, graph = made_of(program, model, target, wish.how)
        if graph is None:
            row = next(r for r in coverage.rows if r.verdict != "supported")
            raise OpdbError(f"{row.node} ({row.target}) cannot be a QNN op then")
        return _quantized(graph, replace(wish, target=target), coverage, stages)

    modules = {row.node: row.module for row in coverage.rows}
    return Loaded(model, (_quantized(made, wish, coverage, stages),), modules, coverage.errata(), on)


def _quantized(graph: QnnGraph, wish: Wish, coverage: Coverage, stages: Stages) -> QnnGraph:
    if wish.recipe is None:
        return graph
    from opdb.execute.compile.sources import sources_of
    from opdb.lower.quantize.default_ranges import quantized

    stages("quantize")
    return quantized(graph, wish.recipe, wish.target, sources_of(coverage.rows))


@dataclass(frozen=True)
class Run:
    """How graphs are simulated."""

    simulator: Simulator
    precision: str | None
    optimization: int | None
    traced: bool
    stages: Stages
    json: bool

    def estimate(self, graph: QnnGraph) -> Estimate:
        """The estimate of a graph; exits 1 where the library refuses it."""
        from opdb.cli.compile_output import outcome_json, print_failure
        from opdb.measure.cost import NotEstimated

        try:
            return self.asked(graph, self.traced)
        except NotEstimated as error:
            if self.json:
                print_json({"result": outcome_json(error.outcome)})
            else:
                print_failure(error.outcome, f"{graph.name} on {self.simulator.soc}")
            raise typer.Exit(1) from None

    def asked(self, graph: QnnGraph, traced: bool = False) -> Estimate:
        """The same; raises NotEstimated where the library refuses it."""
        from opdb.execute.compile.model import precision_of
        from opdb.runtime.qnn import SIMULATING
        from opdb.runtime.qnn.graph import GraphOptions

        precision = precision_of([graph], SIMULATING) if self.precision is None else self.precision
        options = GraphOptions(
            precision=None if precision == "default" else precision, optimization=self.optimization
        )
        return self.simulator.estimate(graph, options, trace=traced, progress=self.stages)
