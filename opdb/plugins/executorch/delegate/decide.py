"""Decides which nodes of an edge program one set of options takes, in which groups, and why not the others."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from opdb.checks.coverage import Coverage, Row
from opdb.checks.partition import groups
from opdb.checks.verdicts import check_nodes
from opdb.execute.dispatch.kernel import Kernels
from opdb.plugins.executorch.delegate import aten
from opdb.plugins.executorch.delegate.shapes import SCALAR_TYPES, symbolic
from opdb.plugins.executorch.delegate.specs import KERNELS, Options
from opdb.programs.torch.program import Program
from opdb.runtime.forms import Lowered, Rejected
from opdb.runtime.tensors import Rejection


@dataclass
class Decision:
    """``groups``: the names of each group's nodes.  ``reasons``: every reason for each node without a group.

    ``rows``: the validators' verdict on each node (opdb.checks.verdicts), including nodes that were left out later.
    """

    options: Options
    groups: list[tuple[str, ...]] = field(default_factory=list)
    reasons: dict[str, tuple[str, ...]] = field(default_factory=dict)
    rows: dict[str, Row] = field(default_factory=dict)

    @property
    def taken(self) -> set[str]:
        return {name for group in self.groups for name in group}


@dataclass(frozen=True)
class Judged:
    """Some nodes of an edge program as a Program, and the outcome of each."""

    program: Program
    coverage: Coverage
    refused: Mapping[str, tuple[str, ...]]  # node -> reasons


class Judge:
    """Asks the validators, and the C kernels, and remembers the kernels' answers."""

    def __init__(self, options: Options, scales: Mapping[str, torch.Tensor] | None = None) -> None:
        """``scales``: see opdb.plugins.executorch.delegate.aten.read."""
        self.options, self._kernels, self._scales = options, Kernels(), scales

    def ask(self, edge: ExportedProgram, inside: Collection[str]) -> Judged:
        judged = self.of(aten.read(edge, inside, values=False, scales=self._scales))
        return replace(judged, refused=_of_edge(judged, inside))

    def of(self, program: Program) -> Judged:
        coverage = check_nodes(program, self.options.target, refusal=self._missing)
        return Judged(program, coverage, dict(_refused(coverage)))

    def _missing(self, lowered: Lowered) -> str:
        if self.options.backend != KERNELS:
            return ""
        missing = self._kernels.missing(op.config() for op in lowered.ops)
        return f"no C kernel: {missing}" if missing else ""


def _refused(coverage: Coverage) -> Iterator[tuple[str, tuple[str, ...]]]:
    for name, outcome in coverage.lowered.items():
        if isinstance(outcome, Rejected):
            yield name, tuple(f"{r.rule}: {r.message}" if r.rule else r.message for r in outcome.reasons)


def _of_edge(judged: Judged, inside: Collection[str]) -> dict[str, tuple[str, ...]]:
    """The refused edge nodes; for a node that opdb inserted, the edge nodes that read it."""
    own = aten.nodes(judged.program)
    found: dict[str, tuple[str, ...]] = {}
    for name, why in judged.refused.items():
        readers = [own[name]]
        for node in readers:
            if node.name in inside:
                found.setdefault(node.name, why)
            else:
                readers += [u for u in node.users if u not in readers and u.op == "call_function"]
    return found


class Decider:
    def __init__(
        self,
        edge: ExportedProgram,
        options: Options,
        taken: Collection[str] = (),
        scales: Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        """``taken``: nodes that other options have.  ``scales``: see opdb.plugins.executorch.delegate.aten.read."""
        self.edge, self.options = edge, options
        self.judge = Judge(options, scales)
        self.calls = [n for n in edge.graph.nodes if n.op == "call_function"]
        self.refused: dict[str, tuple[str, ...]] = {}
        self.nodes = [n for n in self.calls if n.name not in taken and not self._outside(n)]
        self.asked = set(self.nodes)

    def decide(self) -> Decision:
        first = self.judge.ask(self.edge, [n.name for n in self.nodes])
        self.refused |= first.refused
        while True:
            found = [g for g in self._connected(first) if self._computes(first, g)]
            broken = [self._faults(group) for group in found]
            if not any(broken):
                break
            for faults in broken:
                self.refused |= faults
        decision = Decision(self.options, [tuple(n.name for n in g) for g in found])
        taken = decision.taken
        decision.reasons = {name: why for name, why in self.refused.items() if name not in taken}
        decision.rows = {r.node: self._row(r) for r in first.coverage.rows}
        return decision

    def _row(self, row: Row) -> Row:
        if row.verdict != "supported" or row.node not in self.refused:
            return row
        said = ({"form": row.form, "rule": "", "message": m, "brief": m} for m in self.refused[row.node])
        return replace(row, verdict="rejected", reasons=(*row.reasons, *said))

    # -- single nodes

    def _outside(self, node: Node) -> bool:
        """True if a node cannot be lowered or should be left; records the reason."""
        why = aten.readable(node)
        if not why and aten.target_of(node) in self.options.leave:
            why = f"asked: leave {aten.target_of(node)}"
        why = why or symbolic(node, self.edge)
        if why:
            self.refused[node.name] = (why,)
        return bool(why)

    # -- groups

    def _connected(self, judged: Judged) -> Iterator[list[Node]]:
        """Groups of accepted nodes, each with the constants that only it needs."""
        program = judged.program
        known = _known(program)
        computed = [n for n in self.calls if n.name not in known]
        place = {n: i for i, n in enumerate(computed)}
        reads = [sorted({place[s] for s in n.all_input_nodes if s in place}) for n in computed]
        group = groups(reads, [self._joins(n) for n in computed])
        members: dict[int, list[Node]] = {}
        for i, g in enumerate(group):
            if self._joins(computed[i]):
                members.setdefault(g, []).append(computed[i])
        home = {n: g for g, nodes in members.items() for n in nodes}
        for node in reversed(self.calls):  # constants that several groups read are computed outside
            if node not in place and node.name not in self.refused and node in self.asked:
                homes = {home.get(u, -1) for u in node.users}
                if len(homes) == 1 and -1 not in homes:
                    home[node] = homes.pop()
        for g in members:
            yield [n for n in self.calls if home.get(n) == g]

    def _joins(self, node: Node) -> bool:
        base = node.args[0] if aten.target_of(node) == aten.GETITEM else node
        assert isinstance(base, Node)
        return all(n in self.asked and n.name not in self.refused for n in (node, base))

    def _computes(self, judged: Judged, group: Sequence[Node]) -> bool:
        rows = judged.coverage.lowered
        return any(n.name in rows for n in group)

    def _faults(self, group: Sequence[Node]) -> dict[str, tuple[str, ...]]:
        """The reasons why nodes cannot stay in a group, lowered the way it will be, with unknown values as inputs."""
        names = {n.name for n in group}
        judged = self.judge.ask(self.edge, names)
        if judged.refused:
            return {name: tuple(f"in its group: {m}" for m in why) for name, why in judged.refused.items()}
        if not judged.program.inputs:
            return dict.fromkeys(names, ("it reads constants alone, and a graph has inputs",))
        return dict(_unfit_results(judged.program, group)) | dict(_unfit_inputs(judged.program, group))


Faults = Iterator[tuple[str, tuple[str, ...]]]


def _unfit_results(program: Program, group: Sequence[Node]) -> Faults:
    """The nodes of a group whose results cannot be outputs, with the reasons."""
    own, within = aten.nodes(program), set(group)
    origins: set[object] = set()
    for node in group:
        if within.issuperset(node.users) or not isinstance(node.meta.get("val"), torch.Tensor):
            continue
        key = program.origin(own[node.name])
        why = _unfit(node)
        if key in program.values:
            why = "its result is known before running, and others read it"
        elif key in program.inputs or key in origins:
            why = "it changes nothing and leaves its group"
        origins.add(key)
        if why:
            yield node.name, (why,)


def _unfit_inputs(program: Program, group: Sequence[Node]) -> Faults:
    """The nodes of a group that read a value that cannot be an input of a graph, with the reasons."""
    own = aten.nodes(program)
    for key in program.inputs:
        if why := _unfit(own[key[0]]) or _no_tensor(program, key):
            readers = (n.name for n in group if any(s.name == key[0] for s in n.all_input_nodes))
            yield from ((name, (f"it reads {key[0]}: {why}",)) for name in readers)


def _known(program: Program) -> set[str]:
    """The nodes that depend only on constants."""
    calls = [n for n in program.exported.graph.nodes if n.op == "call_function"]
    return {n.name for n in calls if program.origin(n) in program.values}


def _no_tensor(program: Program, key: tuple[str, int]) -> str:
    try:
        program.ref(key)
    except Rejection as reason:
        return str(reason)
    return ""


def _unfit(node: Node) -> str:
    """The reason why a tensor cannot be an input or output of a group; "" if it can."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return "it is no tensor"
    if value.dtype not in SCALAR_TYPES:
        return f"the delegate has no counterpart of {value.dtype}"
    if not value.is_contiguous():
        return (
            "it is not contiguous (channels last, or a permuted result); the delegate reads and writes "
            "row-major tensors: call .contiguous() there, or export with contiguous inputs"
        )
    return ""
