"""Makes the pairs of a network: graphs that differ in one thing, each finalized once by the library that simulates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from opdb.catalog.targets.target import Target
from opdb.checks.coverage import Coverage
from opdb.checks.graph import build_graph
from opdb.checks.verdicts import check_nodes, read_program
from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, QnnGraph
from opdb.core.names import counted
from opdb.judge.errata.policy import AVOID
from opdb.lower.cost import MODELED
from opdb.lower.obey import obeyed_in_program
from opdb.lower.passes import channels_last, optimize
from opdb.lower.quantize.default_ranges import quantized
from opdb.lower.quantize.recipe import named
from opdb.lower.select import fitting
from opdb.measure.cost.price_fit.pairs import Pair, less, work_lowered, work_of_graph
from opdb.measure.cost.simulator import Simulator
from opdb.runtime.forms import Lowered, Rejected

if TYPE_CHECKING:
    from torch.export import ExportedProgram

#: The number of groups of equal ops that are left out of a graph, one at a time, the largest first.
BYPASSED = 10


@dataclass(frozen=True)
class Variant:
    """A float graph that differs from the network's own in one thing; ``kind``, ``what``, ``forms``: see Pair.

    ``taken``, ``others``: for a candidate, the nodes in the original form and in the other form.
    """

    kind: str
    what: str
    graph: QnnGraph
    forms: tuple[str, str, str] | None = None
    taken: tuple[Lowered, ...] = ()
    others: tuple[Lowered, ...] = ()


class Network:
    """One network; its images have their channels last."""

    def __init__(self, simulator: Simulator, target: Target, name: str, program: ExportedProgram) -> None:
        self.simulator, self.target, self.name = simulator, target, name
        self.read = read_program(program)
        self.coverage = self._checked(target)
        if not self.coverage.complete:
            row = next(r for r in self.coverage.rows if r.verdict != "supported")
            why = row.reasons[0]["message"] if row.reasons else row.verdict
            raise OpdbError(f"{name}: {row.node} ({row.target}) cannot be a QNN op: {why}")
        self.base = self._graph(self.coverage.lowered, target)
        self.variants = [*self._variants()]

    def pairs(self, precision: str, say: Callable[[str], None] = lambda text: None) -> Iterator[Pair]:
        """Yields all pairs of the network in one of PRECISIONS; none if the library refuses the network itself."""
        try:
            base = self._finished(self.base, precision)
            estimate = self.simulator.estimate(base)
        except OpdbError as error:
            say(f"{self.name} {precision}: {str(error).splitlines()[0]}")
            return
        say(
            f"{self.name} {precision}: {estimate.us:,.0f} us, {counted(estimate.nodes, 'op')}, {estimate.seconds:.1f} s"
        )
        whole = work_of_graph(base)
        if not estimate.missing_ops:
            yield Pair(self.name, precision, "whole", "", 0.0, round(estimate.us, 3), whole)
        bypasses = (Variant("bypass", what, graph) for what, graph in bypassed(base))
        for v in (*self.variants, *bypasses):
            try:
                graph = v.graph if v.kind == "bypass" else self._finished(v.graph, precision)
                changed = less(work_of_graph(graph), whole)
                other = self.simulator.estimate(graph) if changed else estimate
            except OpdbError:
                continue  # without a quantized form, or the library does not finalize it
            if other.missing_ops == estimate.missing_ops and (changed or v.forms):
                works = (work_lowered(nodes, precision) if v.forms else None for nodes in (v.others, v.taken))
                us = round(estimate.us, 3), round(other.us, 3)
                yield Pair(self.name, precision, v.kind, v.what, *us, changed, v.forms, *works)

    def _checked(self, target: Target) -> Coverage:
        """Checks nodes with the model of prices: the table under construction must not influence its own data."""
        return check_nodes(self.read, target, prices=MODELED)

    # -- graphs

    def _graph(self, lowered: Mapping[str, Lowered | Rejected], target: Target) -> QnnGraph:
        graph = build_graph(self.read, lowered, self.name)
        return optimize(channels_last(graph, target), target).graph

    def _finished(self, graph: QnnGraph, precision: str) -> QnnGraph:
        return graph if precision == "fp16" else quantized(graph, named(precision), self.target)

    # -- variants

    def _variants(self) -> Iterator[Variant]:
        whole = work_of_graph(self.base)
        for each in (*self._candidates(), *self._errata()):
            if each.forms or less(work_of_graph(each.graph), whole):
                yield each

    def _candidates(self) -> Iterator[Variant]:
        """Every other form of all nodes that share one operator and one form."""
        groups: dict[tuple[str, str, str], dict[str, Lowered]] = defaultdict(dict)
        for node in self.read.nodes:
            chosen = self._own(node.name)
            for each in fitting(node, self.target):
                if each.form != chosen.form:
                    groups[node.target, chosen.form, each.form][node.name] = each
        for (target, form, other), nodes in groups.items():
            lowered = {**self.coverage.lowered, **nodes}
            lowered |= obeyed_in_program(lowered, self.target)
            what = f"{target}: {other} for {form} in {counted(len(nodes), 'node')}"
            taken, others = tuple(map(self._own, nodes)), tuple(nodes.values())
            graph = self._graph(lowered, self.target)
            yield Variant("candidate", what, graph, (target, form, other), taken, others)

    def _own(self, node: str) -> Lowered:
        found = self.coverage.lowered[node]
        assert isinstance(found, Lowered)  # the coverage is complete
        return found

    def _errata(self) -> Iterator[Variant]:
        """Avoids every erratum that is not avoided, and ignores every one that is, one at a time."""
        everywhere = replace(self.target, errata="avoid")
        avoided = {e.erratum for e in self.coverage.errata() if e.policy == AVOID}
        met = {e.erratum for e in self._checked(everywhere).errata()}
        for erratum in sorted(met | avoided):
            if erratum in avoided:
                target = replace(self.target, ignored=frozenset([erratum]))
            else:
                target = replace(everywhere, ignored=frozenset(met - avoided - {erratum}))
            coverage = self._checked(target)
            if coverage.complete:
                yield Variant("erratum", erratum, self._graph(coverage.lowered, target))


def bypassed(graph: QnnGraph) -> Iterator[tuple[str, QnnGraph]]:
    """Yields the graph without all ops of one kind and shape whose only result has the shape and type of their first input."""
    ends = {t.name for t in graph.outputs}
    groups: dict[tuple[object, ...], list[GraphOp]] = defaultdict(list)
    for op in graph.ops:
        if op.inputs and op.inputs[0] and len(op.outputs) == 1 and op.outputs[0] not in ends:
            a, b = graph.tensors[op.inputs[0]], graph.tensors[op.outputs[0]]
            others = [n for n in op.inputs[1:] if n is not None and graph.tensors[n].type != "STATIC"]
            if a.type == "NATIVE" and (a.shape, a.dtype) == (b.shape, b.dtype) and not others:
                groups[op.op, a.shape, tuple(p.value for p in op.params if p.name == "operation")].append(op)
    ranked = sorted(groups.items(), key=lambda g: -len(g[1]))
    for (kind, shape, _), ops in ranked[:BYPASSED]:
        yield f"{len(ops)} {kind} of {shape}", without(graph, ops)


def without(graph: QnnGraph, ops: list[GraphOp]) -> QnnGraph:
    """The graph without ``ops``: readers of their results read their first inputs."""
    source = {op.outputs[0]: op.inputs[0] for op in ops}

    def first(name: str | None) -> str | None:
        while name in source:
            name = source[name]
        return name

    gone = {op.name for op in ops}
    kept = [replace(op, inputs=tuple(map(first, op.inputs))) for op in graph.ops if op.name not in gone]
    used = {n for op in kept for n in (*op.inputs, *op.outputs)}
    tensors = {n: t for n, t in graph.tensors.items() if n in used or t.type in ("APP_WRITE", "APP_READ")}
    return QnnGraph(graph.name, tensors, kept)
