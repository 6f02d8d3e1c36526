"""The graphs of a context: of a model, quantized or not, and of other models; or of op configs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from opdb.cli.compile_options import CompileOptions, Plan, check_op_configs
from opdb.cli.graphs import GraphMaker, holds_op_configs
from opdb.cli.quantization import quantized, rounded_file
from opdb.core.errors import OpdbError

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from opdb.checks.coverage import Coverage
    from opdb.cli.encodings_export import Exported
    from opdb.cli.progress import Stages
    from opdb.cli.quantization import Calibrated, Calibration
    from opdb.core.graph import QnnGraph
    from opdb.execute.compile.states import State
    from opdb.judge.errata.report import ErratumCount


@dataclass(frozen=True)
class ContextGraphs:
    """The graphs of a context, and data for its record and the report.  ``scalars``: by graph."""

    graphs: Sequence[QnnGraph]
    errata: tuple[ErratumCount, ...]
    states: tuple[State, ...] = ()
    scalars: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    calibrated: Calibrated | None = None
    encodings: Exported | None = None


def context_graphs(model: str, plan: Plan, options: CompileOptions, stages: Stages) -> ContextGraphs:
    """The graphs for the options; exits 1 if a node or an op config is refused."""
    maker = GraphMaker(plan.target, plan.how, plan.dims, stages, options.json)
    if holds_op_configs(model):
        check_op_configs(model, options, plan.dims)
        return ContextGraphs(*maker.of_configs(model))
    made = _model(model, plan, maker)
    graphs = [made.graph]
    coverages = [made.coverage]
    maker = replace(maker, how=replace(plan.how, encodings=None))
    for other in options.others or ():
        coverage, graph = maker.lowered(maker.exported(other), other)
        if any(g.name == graph.name for g in graphs):
            raise OpdbError(
                f"--with {other}: the context has a graph {graph.name} already; rename the callable or file"
            )
        graphs.append(graph)
        coverages.append(coverage)
    rows = tuple(row for coverage in coverages for row in coverage.rows)
    return ContextGraphs(
        graphs,
        replace(coverages[-1], rows=rows).errata(),
        made.states + tuple(s for c in coverages[1:] for s in c.states),
        {g.name: c.scalars for g, c in zip(graphs, coverages, strict=True)},
        made.calibrated,
        made.encodings,
    )


@dataclass(frozen=True)
class _Model:
    """The graph of a model.  ``states``: in the graph's stored form."""

    graph: QnnGraph
    coverage: Coverage
    states: tuple[State, ...]
    calibrated: Calibrated | None = None
    encodings: Exported | None = None


def _model(model: str, plan: Plan, maker: GraphMaker) -> _Model:
    program = maker.exported(model)
    coverage, graph = maker.lowered(program, model)
    if plan.calibration is None:
        return _Model(graph, coverage, coverage.states)
    return _quantized_model(model, program, coverage, graph, plan, plan.calibration, maker)


def _quantized_model(
    model: str,
    program: ExportedProgram,
    coverage: Coverage,
    floats: QnnGraph,
    plan: Plan,
    calibration: Calibration,
    maker: GraphMaker,
) -> _Model:
    """Quantizes ``floats``, the graph of ``program``, by its recipe."""
    from opdb.checks.graph_errata import with_errata_of
    from opdb.execute.compile.sources import sources_of
    from opdb.execute.compile.states import stored_states

    states = coverage.states
    kept = {s.input for s in states}
    samples = calibration.samples([t for t in floats.inputs if t.name not in kept], program)
    learned: tuple[str, ...] = ()
    if plan.rounds:
        with rounded_file(model, calibration, samples, floats, coverage.rows, maker.stages) as (
            copy,
            learned,
        ):
            program = maker.exported(copy)
            coverage, floats = maker.lowered(program, copy)
    sources = sources_of(coverage.rows)
    graph, calibrated = quantized(floats, calibration, samples, plan.target, maker.stages, states, sources)
    coverage = with_errata_of(coverage, graph, plan.target)
    encodings = None
    if plan.export is not None:
        encodings = plan.export.named(program, coverage.rows, floats, graph, samples[0], states)
    calibrated = replace(calibrated, notes=(*learned, *calibrated.notes))
    return _Model(graph, coverage, stored_states(states, graph), calibrated, encodings)
