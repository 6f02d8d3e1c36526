"""Makes QnnGraphs to compile: from PyTorch programs, and from op configs as graphs of one node."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from opdb.catalog.targets.target import Target, half
from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.core.op_config import ConfigError, OpConfig, TensorConfig
from opdb.execute.compile.model_io import Ends, scalars_of, with_ends
from opdb.execute.compile.states import states_of
from opdb.generated import validators
from opdb.judge.errata.policy import AVOID, WARN, policy
from opdb.judge.errata.records import RECORDS
from opdb.judge.errata.report import ErratumCount, Met, counted
from opdb.judge.validate import check
from opdb.runtime.binding import arrange

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from opdb.checks.coverage import Coverage
    from opdb.runtime.qnn.graph import GraphOptions


def lowered(
    program: ExportedProgram,
    target: Target,
    name: str,
    *,
    float_dtype: str = "f32",
    decompose: bool = False,
    without: Collection[str] = (),
    io_layout: str = "keep",
    ends: Ends | None = None,
    to_quantize: bool = False,
    incomplete: bool = False,
) -> tuple[Coverage, QnnGraph | None]:
    """Returns the verdict on every node, and the optimized graph called ``name`` if every node is supported.

    ``incomplete``: otherwise returns the graph of the supported nodes, with the tensors that the others read as outputs; for queries,
    not for compiling.

    ``ends``: the file's names for its inputs and outputs.  Buffers that the program changes are inputs and outputs of
    the graph, and ``states`` of the coverage, whose ``scalars`` are the inputs and outputs without dimensions.

    ``to_quantize``: the graph, in floats, is input for opdb.lower.quantize: it does not matter whether the chip has floating point.

    ``float_dtype`` and ``decompose``: see opdb.checks.verdicts.check_program.  ``without``: names of passes to skip
    (opdb.lower.passes).  ``io_layout``: "nhwc" for inputs and outputs of four dimensions with their channels last
    (opdb.lower.passes.image_io).  Raises OpdbError for an unknown pass or layout.
    """
    from opdb.checks.graph import build_part, supported_part
    from opdb.checks.graph_errata import with_errata_of
    from opdb.checks.verdicts import read_and_check
    from opdb.lower.passes import channels_last, check_layout, check_names, optimize

    check_names(without)
    check_layout(io_layout)
    target = replace(target, to_quantize=to_quantize)
    read, coverage = read_and_check(program, target, float_dtype, decompose)
    if not coverage.complete:
        rest = supported_part(read, coverage.lowered, name) if incomplete else None
        if rest is None:
            return coverage, None
        graph = optimize(rest, target, without).graph
        return with_errata_of(coverage, graph, target), graph
    part = build_part(read, coverage.lowered, name, read.nodes, read.inputs, read.outputs)
    coverage = replace(coverage, states=states_of(read, part), scalars=scalars_of(read, part, ends))
    if coverage.states and io_layout != "keep":
        raise OpdbError(f"--io-layout {io_layout}: the buffer '{coverage.states[0].buffer}' keeps its layout")
    graph = channels_last(part.graph, target) if io_layout == "nhwc" else part.graph
    graph = optimize(graph, target, without).graph
    coverage = with_errata_of(coverage, graph, target)
    return coverage, graph if ends is None else with_ends(graph, part, read, ends, target)


def precision_of(graphs: Iterable[QnnGraph], backend: str | None) -> str | None:
    """The default precision of float32 tensors: fp16 on a backend that computes in half precision, None if there are no float32 tensors."""
    floats = any(t.dtype == "f32" for g in graphs for t in g.tensors.values())
    return "fp16" if half(backend) and floats else None


def graph_options(
    graphs: Iterable[QnnGraph], backend: str | None, precision: str | None, optimization: int | None
) -> GraphOptions:
    """The options for graphs; ``precision``: "default" for the library's choice, None for ``precision_of``."""
    from opdb.runtime.qnn.graph import GraphOptions

    if precision is None:
        precision = precision_of(graphs, backend)
    return GraphOptions(precision=None if precision == "default" else precision, optimization=optimization)


def graph_name(model: str) -> str:
    """Derives a graph name from a model in the command line's notation; e.g. models/net.pt2 -> net."""
    last = re.split(r"[/\\:]", model.removesuffix(".pt2"))[-1]
    return re.sub(r"\W+", "_", last).strip("_") or "graph"


def config_graphs(configs: Iterable[tuple[str, OpConfig]]) -> list[QnnGraph]:
    """Makes each op config a graph of one node, named by its id, otherwise by its op and its index in the list, from 0.

    ``configs``: (where it was read, op config).  Raises ConfigError with the place.
    """
    graphs: dict[str, str] = {}
    made = []
    for i, (place, config) in enumerate(configs):
        name = config.id or f"{config.op}_{i}"
        if name in graphs:
            raise ConfigError(
                f"{place}: id {name!r} is that of {graphs[name]} too; graphs need names of their own"
            )
        graphs[name] = place
        try:
            made.append(config_graph(config, name))
        except ConfigError as error:
            raise ConfigError(f"{place}: {error}") from None
    return made


def config_graph(config: OpConfig, name: str) -> QnnGraph:
    """Makes a graph of one node: inputs that are not static become graph inputs, outputs graph outputs.

    If all inputs, or all outputs, carry the names of the op's slots, they are sorted into the slots' order.
    Tensors keep their names; unnamed ones are called in0, in1... and out0...  An input that occurs twice
    under one name is one tensor.  Raises ConfigError for a static tensor without data and for two tensors of one
    name.
    """
    module = validators.module(config.op)
    graph = QnnGraph(name)
    read: Sequence[TensorConfig | None] = config.inputs
    written: Sequence[TensorConfig | None] = config.outputs
    if module is not None:
        read = arrange(config.inputs, module.SIGNATURE.inputs)
        written = arrange(config.outputs, module.SIGNATURE.outputs)
    inputs = [_add(graph, tensor, f"in{i}", "inputs") for i, tensor in enumerate(read)]
    outputs = [_add(graph, tensor, f"out{i}", "outputs") for i, tensor in enumerate(written)]
    if None in outputs:
        raise ConfigError("outputs: none can be omitted")
    made = tuple(o for o in outputs if o is not None)
    graph.ops.append(GraphOp(name, config.op, tuple(inputs), config.params, made, config.package))
    return graph


def _add(graph: QnnGraph, tensor: TensorConfig | None, spare: str, side: str) -> str | None:
    """Adds a tensor and returns its name; None for an omitted one."""
    if tensor is None or tensor.type == "NULL":
        return None
    name = tensor.name or spare
    kind = "APP_READ" if side == "outputs" else "STATIC" if tensor.type == "STATIC" else "APP_WRITE"
    if kind == "STATIC" and tensor.data is None:
        raise ConfigError(f"{side}.{name}: a static tensor is compiled with its data; give 'data'")
    data = tensor.data if kind == "STATIC" else None
    made = GraphTensor(name, tensor.dtype, tensor.shape, kind, data, tensor.quant)
    if name in graph.tensors and (kind != "APP_WRITE" or graph.tensors[name] != made):
        raise ConfigError(f"{side}.{name}: another tensor has the name {name!r}")
    graph.tensors[name] = made
    return name


def judged(graphs: Iterable[QnnGraph], target: Target) -> dict[str, list[str]]:
    """The objections to each graph by the rules of the specs and the errata to avoid; graphs without any are left out.

    An op without a spec is left to the library, which validates every node before it builds.
    """
    found: dict[str, list[str]] = {}
    for graph in graphs:
        avoid = dict.fromkeys(e for e, decision in _met(graph, target) if decision == AVOID)
        if avoid:
            found[graph.name] = [
                f"{e}: {RECORDS[e].title}; compile it all the same with --ignore-erratum {e}" for e in avoid
            ]
        for op in graph.ops:
            if validators.module(op.op) is None:
                continue
            verdict = check(graph.op_config(op), target)
            if verdict.verdict == "reject":
                broken = [v for v in verdict.violations if not v.warning and not v.undecidable]
                found.setdefault(graph.name, []).extend(f"{v.rule}: {v.message}" for v in broken)
    return found


def warned(graphs: Iterable[QnnGraph], target: Target) -> tuple[ErratumCount, ...]:
    """The errata that graphs of op configs may show, and that the policy of ``target`` warns of."""
    return counted(
        Met(warned=(e,)) for graph in graphs for e, decision in _met(graph, target) if decision == WARN
    )


def _met(graph: QnnGraph, target: Target) -> Iterator[tuple[str, str]]:
    """Yields the errata of each op, with the policy's decision on them."""
    for op in graph.ops:
        if validators.module(op.op) is not None:
            found = check(graph.op_config(op), target).violations
            yield from ((v.erratum, policy(v.erratum, target)) for v in found if v.erratum)


def chosen(graphs: list[QnnGraph], name: str | None) -> list[QnnGraph]:
    """Returns the graph called ``name``, or all.  Raises OpdbError with the known names."""
    if name is None:
        return graphs
    if found := [g for g in graphs if g.name == name]:
        return found
    raise OpdbError(f"--graph {name}: the file has the op configs {', '.join(g.name for g in graphs)}")
