"""Assigns each node to QNN graphs, the C kernels or PyTorch, with the reason.

plan = partition(export(module, inputs), Target("HTP", "SM8650"), unsupported="host", host="torch")
print(plan.table())
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from opdb.catalog.targets.target import Target, execution_here
from opdb.checks.graph import Part
from opdb.checks.partition import groups, in_order
from opdb.core.errors import OpdbError
from opdb.core.graph import QnnGraph
from opdb.core.names import counted
from opdb.execute.dispatch.kernel import Kernels
from opdb.execute.dispatch.source import GraphSource, Judged, Key, Node, Source
from opdb.lower.passes import check_names

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from opdb.programs.torch.program import Program

QNN, KERNELS, TORCH, NOWHERE = "qnn", "kernels", "torch", "nowhere"
#: The op definition alone, which the C kernels are checked against.
DEFINITION = Target()


class PlanError(OpdbError):
    """Raised for nodes that run nowhere; ``problems`` holds a line for each."""

    def __init__(self, target: Target, nodes: int, problems: Sequence[str], cure: str) -> None:
        self.problems = tuple(problems)
        head = f"{len(problems)} of {counted(nodes, 'node')} cannot run as asked with {target}"
        super().__init__("\n".join([f"{head}; {cure}:", *(f"  {p}" for p in problems)]))


@dataclass(frozen=True)
class Placement:
    """The place of one node, and the reason.  ``segment`` is None for a node that computes nothing."""

    node: str
    target: str  # the ATen target or the QNN op
    runs_on: str  # qnn, kernels, torch or nowhere
    why: str
    ops: tuple[str, ...] = ()  # the QNN ops that it is lowered to
    segment: int | None = None
    module: str = ""
    line: str = ""


@dataclass(frozen=True)
class Segment:
    """Nodes that run together.  ``reads`` and ``makes``: its input and output tensors; ``part`` is None in PyTorch."""

    index: int
    name: str  # e.g. qnn_0
    runs_on: str
    nodes: tuple[str, ...]
    reads: tuple[Key, ...]
    makes: tuple[Key, ...]
    part: Part | None


@dataclass(frozen=True)
class Plan:
    """``segments`` are in an order of execution."""

    target: Target
    placements: tuple[Placement, ...]
    segments: tuple[Segment, ...]
    source: Source = field(repr=False)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs, in the program's order."""
        return tuple(self.name(k) for k in self.source.inputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs, in the program's order, each once."""
        return tuple(self.name(k) for k in self.source.outputs)

    @property
    def graphs(self) -> tuple[QnnGraph, ...]:
        """The graphs that run on QNN."""
        return tuple(s.part.graph for s in self.segments if s.runs_on == QNN and s.part is not None)

    def count(self, runs_on: str) -> int:
        """The number of nodes that run there: qnn, kernels, torch or nowhere."""
        return sum(p.runs_on == runs_on for p in self.placements)

    def placement(self, node: str) -> Placement:
        """The placement of a node.  Raises OpdbError for a node that the program does not have."""
        found = next((p for p in self.placements if p.node == node), None)
        if found is None:
            raise OpdbError(f"the plan has no node '{node}'")
        return found

    def name(self, key: Key) -> str:
        """The name of a tensor."""
        return spelled(key)

    def table(self) -> str:
        """One line for each node: where it runs, in which segment, its QNN ops, and the reason."""
        segments = {s.index: s.name for s in self.segments}
        rows = [
            (segments.get(p.segment, "-") if p.segment is not None else "-", p.node, p.target,
             " -> ".join(p.ops), p.why)
            for p in self.placements
        ]  # fmt: skip
        widths = [max((len(r[c]) for r in rows), default=0) for c in range(4)]
        lines = [
            "  ".join([*(v.ljust(w) for v, w in zip(row, widths, strict=False)), row[4]]) for row in rows
        ]
        counts = ", ".join(
            f"{n} on {where}" for where, n in Counter(p.runs_on for p in self.placements).items()
        )
        graphs = len(self.graphs)
        return "\n".join([*lines, f"{counted(len(rows), 'node')}: {counts}; {counted(graphs, 'QNN graph')}"])

    def to_json(self) -> dict[str, Any]:
        """The plan as data: target, segments, and the place and reason of each node; stable keys."""
        return {
            "backend": self.target.backend,
            "soc": self.target.soc,
            "sdk": self.target.sdk,
            "placements": [asdict(p) for p in self.placements],
            "segments": [
                {
                    "index": s.index,
                    "name": s.name,
                    "runs_on": s.runs_on,
                    "nodes": list(s.nodes),
                    "reads": [self.name(k) for k in s.reads],
                    "makes": [self.name(k) for k in s.makes],
                }
                for s in self.segments
            ],
        }


def spelled(key: Key) -> str:
    """The name of a tensor key, e.g. ("split", 1) -> split_1, ("relu", 0) -> relu, "x" -> x."""
    if not isinstance(key, tuple):
        return str(key)
    return str(key[0]) if key[1] == 0 else f"{key[0]}_{key[1]}"


def partition(
    program: ExportedProgram | Program | QnnGraph,
    target: Target,
    *,
    unsupported: str = "error",
    host: str = "kernels",
    host_ops: Iterable[str] = (),
    host_modules: Iterable[str] = (),
    qnn_modules: Iterable[str] = (),
    float_dtype: str = "f32",
    decompose: bool = False,
    without_passes: Iterable[str] = (),
) -> Plan:
    """Assigns the nodes of ``program`` to QNN and the host, and makes the graphs.

    ``unsupported``: the fate of a node without an entry in the generated table, or that the validators of
    ``target`` refuse: "error" raises PlanError with all of them, "host" sends it to the host.
    ``host``: "kernels" means the C kernels alone; with "torch", PyTorch eager runs nodes without a C kernel.
    ``host_ops``: QNN ops (Softmax) or ATen operators (aten.softmax.int, aten.softmax) that run on the host.
    ``host_modules``, ``qnn_modules``: paths in the model whose nodes run on the host, or must run on QNN;
    the longer path decides, "" is the whole model.  ``host_ops`` takes precedence over both.
    ``float_dtype``, ``decompose``: see opdb.checks.verdicts.check_program; for programs only.
    ``without_passes``: names of passes to skip (opdb.lower.passes).  Graphs of op configs are taken as they are.

    A plan runs in this process: the execution of ``target`` is that of this machine.
    Raises OpdbError for an invalid choice and an unknown name.
    """
    target = replace(target.spelled(), execution=execution_here())
    if target.backend is None:
        raise OpdbError("a plan needs a backend; e.g. Target('CPU'), Target('HTP', 'SM8650')")
    target.context()
    for what, value, known in (
        ("unsupported", unsupported, ("error", "host")),
        ("host", host, (KERNELS, TORCH)),
        ("float_dtype", float_dtype, ("f32", "f16")),
    ):
        if value not in known:
            raise OpdbError(f"{what}={value!r}: one of {', '.join(known)}")
    without = _names("without_passes", without_passes)
    check_names(without)
    source = _source(program, float_dtype, decompose, without, target)
    if host == TORCH and not source.eager:
        raise OpdbError("host='torch': a graph of op configs has no PyTorch nodes; the C kernels can run it")
    wishes = _Wishes(source, host_ops, host_modules, qnn_modules)
    while True:
        plan = _Planner(source, target, unsupported == "host", host == TORCH, wishes).plan()
        on_host = {row.node for row in plan.placements if row.runs_on not in (QNN, NOWHERE)}
        if (floats := source.with_floats(on_host)) is None:
            return plan
        source = floats


def _source(
    program: Any, float_dtype: str, decompose: bool, without: tuple[str, ...], target: Target
) -> Source:
    if isinstance(program, QnnGraph):
        return GraphSource(program)
    from opdb.execute.dispatch.program import ProgramSource
    from opdb.lower.candidates import mapped
    from opdb.programs.torch.program import Program

    read = program if isinstance(program, Program) else Program(program, float_dtype)
    for buffer in read.states:
        raise OpdbError(
            f"the program changes the buffer '{buffer}', which a plan does not keep from run to run: give it in and return the new "
            "value (opdb compile and ExecuTorch's programs keep it)"
        )
    if decompose and not all(mapped(n.target) for n in read.nodes):
        read = Program(read.exported.run_decompositions(), read.float_dtype)
    return ProgramSource(read, without)


class _Wishes:
    """The caller's requests for single ops and modules."""

    def __init__(
        self, source: Source, ops: Iterable[str], host_modules: Iterable[str], qnn_modules: Iterable[str]
    ) -> None:
        self.ops = _names("host_ops", ops)
        for op in self.ops:
            if not any(_is_target(op, n.target) for n in source.nodes) and not source.known(op):
                raise OpdbError(f"host_ops: {op!r} is neither a QNN op nor an ATen operator")
        self.modules: dict[str, str] = {}
        for option, paths, side in (
            ("host_modules", host_modules, "host"), ("qnn_modules", qnn_modules, QNN)
        ):  # fmt: skip
            for path in _names(option, paths):
                if self.modules.setdefault(path, side) != side:
                    raise OpdbError(f"the module {path!r} is in host_modules and in qnn_modules; choose one")
                if not any(_inside(n.module, path) for n in source.nodes):
                    known = ", ".join(sorted({n.module for n in source.nodes if n.module})) or "none"
                    raise OpdbError(f"{option}: no node comes from a module {path!r}; modules: {known}")

    def host_op(self, node: Node, ops: Iterable[str]) -> str | None:
        """The name in host_ops that matches this node, or an op that it is lowered to."""
        made = set(ops)
        return next((o for o in self.ops if o in made or _is_target(o, node.target)), None)

    def module(self, node: Node) -> tuple[str, str] | None:
        """The longest requested path that contains the node, and its side."""
        above = [path for path in self.modules if _inside(node.module, path)]
        path = max(above, key=len, default=None)
        return None if path is None else (path, self.modules[path])


def _names(option: str, names: Iterable[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise OpdbError(f"{option}={names!r}: a list of names, e.g. [{names!r}]")
    return tuple(dict.fromkeys(names))


def _is_target(name: str, target: str) -> bool:
    """True if an operator, with or without overload, means the target; aten.softmax and aten.softmax.int mean aten.softmax.int."""
    return name == target or (name.count(".") == 1 and name == target.rpartition(".")[0])


def _inside(module: str, path: str) -> bool:
    return path in ("", module) or module.startswith(path + ".")


class _Planner:
    def __init__(self, source: Source, target: Target, to_host: bool, eager: bool, wishes: _Wishes) -> None:
        self.source, self.target, self.wishes = source, target, wishes
        self.to_host, self.eager = to_host, eager
        #: For each node on QNN or the C kernels: the form that it takes there.
        self.judged: dict[str, Judged] = {}
        self.problems: list[str] = []
        self.kernels = Kernels()

    def plan(self) -> Plan:
        nodes = self._live()
        placed = {n.name: self._place(n) for n in nodes}
        if self.problems:
            cures = [] if self.to_host else ["unsupported='host' sends what is refused to the host"]
            if not self.eager and self.source.eager:
                cures.append("host='torch' lets PyTorch run what has no C kernel")
            cure = " and ".join(cures) or "change the model or what is asked"
            raise PlanError(self.target, len(self.source.nodes), self.problems, cure)
        segments = self._segments(nodes, {name: side for name, (side, _) in placed.items()})
        where = {name: s.index for s in segments for name in s.nodes}
        rows = []
        for n in self.source.nodes:
            side, why = placed.get(n.name, (NOWHERE, "nothing reads its results"))
            judged = self.judged.get(n.name)
            ops = tuple(c.op for c in judged.configs) if judged is not None else ()
            rows.append(Placement(n.name, n.target, side, why, ops, where.get(n.name), n.module, n.line))
        rows += [Placement(name, "", NOWHERE, why) for name, why in self.source.skipped.items()]
        return Plan(self.target, tuple(rows), tuple(segments), self.source)

    def _live(self) -> list[Node]:
        """The nodes that an output needs."""
        needed = set(self.source.outputs)
        live = []
        for node in reversed(self.source.nodes):
            if needed.intersection(node.makes):
                needed.update(node.reads)
                live.append(node)
        return live[::-1]

    # -- where

    def _place(self, node: Node) -> tuple[str, str]:
        """The place of a node, and the reason; records a problem if it runs nowhere."""
        judged = self.source.judge(node, self.target)
        module = self.wishes.module(node)
        asked = self.wishes.host_op(node, [c.op for c in judged.configs])
        if asked is None and self.wishes.ops and not judged.accepted:
            # refused here, but perhaps an op of that name by its definition
            definition = self.source.judge(node, DEFINITION)
            asked = self.wishes.host_op(node, [c.op for c in definition.configs])
        if asked is not None:
            return self._host(node, f"asked: host_ops {asked}")
        if module is not None and module[1] == "host":
            return self._host(node, f"asked: host_modules {module[0] or 'all'}")
        if judged.accepted:
            self.judged[node.name] = judged
            why = f"{self.target} takes it as {judged.form}"
            return QNN, why + (f"; asked: qnn_modules {module[0] or 'all'}" if module else "")
        why = _reasons(judged)
        if module is not None:
            self._problem(node, f"qnn_modules asks for QNN: {why}")
        elif self.to_host:
            return self._host(node, why)
        else:
            self._problem(node, why)
        return NOWHERE, why

    def _host(self, node: Node, why: str) -> tuple[str, str]:
        judged = self.source.judge(node, DEFINITION)
        missing = self.kernels.missing(judged.configs) if judged.accepted else _reasons(judged)
        if missing is None:
            self.judged[node.name] = judged
            return KERNELS, why
        if self.eager:
            unmet = self._unmet(node)
            if unmet is None:
                return TORCH, why if missing == why else f"{why}; no C kernel: {missing}"
            missing = unmet
        self._problem(node, why if missing == why else f"{why}; no C kernel: {missing}")
        return NOWHERE, why

    def _unmet(self, node: Node) -> str | None:
        """Why PyTorch cannot run the node inside a plan."""
        known = {*self.source.inputs, *(k for n in self.source.nodes for k in n.makes)}
        unknown = next((k for k in node.reads if k not in known), None)
        if unknown is not None:
            return f"{spelled(unknown)} is only known when the program runs; export it with static shapes"
        try:
            for key in (*node.reads, *node.makes):
                self.source.user(key)
        except OpdbError as reason:
            return str(reason)
        return None

    def _problem(self, node: Node, why: str) -> None:
        place = " ".join(p for p in (node.module, node.line) if p)
        self.problems.append(f"{node.name} ({node.target}): {why}" + (f" [at {place}]" if place else ""))

    # -- together

    def _segments(self, nodes: Sequence[Node], side: Mapping[str, str]) -> list[Segment]:
        maker = {k: i for i, n in enumerate(nodes) for k in n.makes}
        reads = [sorted({maker[k] for k in n.reads if k in maker}) for n in nodes]
        sides = [side[n.name] for n in nodes]
        group = groups(reads, [s == QNN for s in sides])
        together: list[list[int]] = []
        for members in in_order(reads, group, sides):
            # neighbors on the host run one after the other anyway
            if together and sides[members[0]] == sides[together[-1][0]] != QNN:
                together[-1] += members
            else:
                together.append(members)
        readers: Counter[Key] = Counter(dict.fromkeys(self.source.outputs, 1))
        for n in nodes:
            readers.update(list(dict.fromkeys(n.reads)))
        return [
            self._segment(i, sides[members[0]], [nodes[m] for m in members], readers)
            for i, members in enumerate(together)
        ]

    def _segment(self, index: int, side: str, nodes: Sequence[Node], readers: Counter[Key]) -> Segment:
        inside: Counter[Key] = Counter()
        for n in nodes:
            inside.update(list(dict.fromkeys(n.reads)))
        made = [k for n in nodes for k in n.makes]
        reads = [k for k in inside if k not in set(made)]
        makes = [k for k in made if readers[k] > inside[k]]
        name = f"{side}_{index}"
        target = self.target if side == QNN else DEFINITION
        part = None if side == TORCH else self.source.part(name, nodes, self.judged, reads, makes, target)
        return Segment(index, name, side, tuple(n.name for n in nodes), tuple(reads), tuple(makes), part)


def _reasons(judged: Judged) -> str:
    found = [r for r in judged.reasons if not r.warning]
    return "; ".join(f"{r.rule}: {r.message}" if r.rule else r.message for r in found)
