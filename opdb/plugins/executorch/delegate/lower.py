"""Lowers the program of one delegate to its graph and the ends of ``execute``, with the lowering of ``opdb compile``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, OutputKind, OutputSpec
from torch.fx import Node

from opdb.checks.graph import Part, build_part
from opdb.core.errors import OpdbError
from opdb.core.graph import QnnGraph
from opdb.core.names import counted, plural
from opdb.core.version import __version__
from opdb.execute.dispatch.kernel import Kernels
from opdb.generated.constants.socs import SOCS
from opdb.lower.passes import optimize
from opdb.plugins.executorch.delegate import aten
from opdb.plugins.executorch.delegate.decide import Judge, Judged
from opdb.plugins.executorch.delegate.module import Arg, Identity, Module, State
from opdb.plugins.executorch.delegate.shapes import SCALAR_TYPES
from opdb.plugins.executorch.delegate.specs import KERNELS, Options
from opdb.programs.torch.encodings import Key
from opdb.programs.torch.program import Program


def lower(edge: ExportedProgram, options: Options, name: str) -> Module:
    """The content of a blob for ``edge``, with a graph called ``name`` and no context yet.

    Raises OpdbError with every node that the target refuses, and the reasons.
    """
    judged = Judge(options).of(aten.read(edge, values=True))
    program, coverage = judged.program, judged.coverage
    _complete(judged, options)
    ends = _Ends(edge, program)
    outputs = list(dict.fromkeys(key for key in ends.outputs if key not in program.values))
    part = build_part(program, coverage.lowered, name, program.nodes, program.inputs, outputs)
    graph = _optimized(part.graph, options)
    if options.results == "all":
        graph = graph.with_intermediates()
    handles = {n.name: n.meta["debug_handle"] for n in edge.graph.nodes if n.meta.get("debug_handle")}
    return Module(
        graph,
        ends.args(part),
        ends.states(part),
        identity(options),
        {op: _of(handles, names) for op, names in origins(part.graph, graph).items()},
    )


def identity(options: Options) -> Identity:
    """The target of the payload; the caller adds the library that prepares a context."""
    if options.backend == KERNELS:
        return Identity(sdk=options.sdk or "", opdb=__version__)
    graph, target = options.graph_options, options.target.spelled()
    return Identity(
        backend=options.backend,
        soc=target.soc or "",
        sdk=options.sdk or "",
        execution=options.execution,
        opdb=__version__,
        precision=graph.precision or "",
        soc_model=SOCS[target.soc].soc_model if target.soc else None,
        optimization=graph.optimization or 0,
        vtcm_mb=graph.vtcm_mb or 0,
        hvx_threads=graph.hvx_threads or 0,
    )


def _complete(judged: Judged, options: Options) -> None:
    """Raises OpdbError unless every node is accepted."""
    told = [
        f"{row.node} ({row.target}): {'; '.join(dict.fromkeys(judged.refused[row.node]))}"
        for row in judged.coverage.rows
        if row.node in judged.refused
    ]
    if told:
        raise OpdbError(
            f"{options.backend}: {counted(len(told), 'node')} of a delegate {plural(len(told), 'has', 'have')} no form; "
            f"OpdbPartitioner with the same options leaves them out: {' | '.join(told)}"
        )


def _optimized(graph: QnnGraph, options: Options) -> QnnGraph:
    """The graph after the passes; unchanged if a pass made an op without a C kernel."""
    made = optimize(graph, options.target, options.without).graph
    if options.backend != KERNELS:
        return made
    kernels = Kernels()
    if kernels.missing(made.op_config(op) for op in made.ops) is None:
        return made
    if missing := kernels.missing(graph.op_config(op) for op in graph.ops):
        raise OpdbError(f"{KERNELS}: no C kernel: {missing}")
    return graph


def _of(handles: Mapping[str, int], names: Iterable[str]) -> tuple[int, ...]:
    return tuple(sorted({handles[n] for n in names if n in handles}))


def origins(before: QnnGraph, after: QnnGraph) -> dict[str, list[str]]:
    """The edge nodes behind each op of an optimized graph, including those of vanished ops between its outputs and its inputs."""
    maker = {name: op for op in before.ops for name in op.outputs}
    written = {name for op in after.ops for name in op.outputs}
    left = {op.name for op in after.ops}
    found: dict[str, list[str]] = {}
    for op in after.ops:
        names, stack = dict.fromkeys([op.origin] if op.origin else []), list(op.outputs)
        seen = set(stack)
        while stack:
            made = maker.get(stack.pop())
            if made is None or (made.name in left and made.name != op.name):
                continue
            names[made.origin] = None
            more = [n for n in made.inputs if n is not None and n not in written and n not in seen]
            seen.update(more)
            stack += more
        found[op.name] = list(names)
    return found


@dataclass(frozen=True)
class _Ends:
    """The inputs and outputs of a delegate's program."""

    edge: ExportedProgram
    program: Program

    @property
    def _nodes(self) -> dict[str, Node]:
        return {n.name: n for n in self.edge.graph.nodes}

    def _key(self, spec: InputSpec | OutputSpec) -> Key:
        node = aten.nodes(self.program).get(spec.arg.name)
        if node is None:
            raise OpdbError(
                f"the output {spec.arg.name} of a delegate is not computed in it; report this to opdb"
            )
        return self.program.origin(node)

    @property
    def outputs(self) -> list[Key]:
        return [self._key(s) for s in self.edge.graph_signature.output_specs]

    def args(self, part: Part) -> tuple[Arg, ...]:
        signature, nodes, made = self.edge.graph_signature, self._nodes, []
        read = set(aten.nodes(self.program))
        for spec in signature.input_specs:
            if spec.kind == InputKind.USER_INPUT:
                tensor = part.inputs.get((spec.arg.name, 0)) if spec.arg.name in read else None
                made.append(_arg("input", nodes[spec.arg.name], tensor))
        for spec in signature.output_specs:
            if spec.kind == OutputKind.USER_OUTPUT:
                key = self._key(spec)
                arg = _arg("output", nodes[spec.arg.name], part.outputs.get(key))
                if arg.tensor is None:
                    constant = _bytes(self.program.values[key])
                    arg = Arg("output", None, arg.scalar_type, arg.shape, constant)
                made.append(arg)
        return tuple(made)

    def states(self, part: Part) -> tuple[State, ...]:
        signature = self.edge.graph_signature
        writers = {str(s.target): s for s in signature.output_specs if s.kind == OutputKind.BUFFER_MUTATION}
        made = []
        held = {**self.edge.constants, **self.edge.state_dict}
        for placeholder, buffer in aten.changed_buffers(self.edge).items():
            source = part.inputs[(placeholder, 0)]
            output = part.outputs[self._key(writers[buffer])]
            initial = _narrowed(held[buffer], buffer)
            made.append(State(buffer, source, output, initial))
        return tuple(made)


def _arg(kind: str, node: Node, tensor: str | None) -> Arg:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.dtype not in SCALAR_TYPES:
        raise OpdbError(
            f"the {kind} {node.name} of a delegate is not a tensor of a type that it takes; report this to opdb"
        )
    return Arg(kind, tensor, SCALAR_TYPES[value.dtype], tuple(int(d) for d in value.shape))


def _bytes(value: torch.Tensor) -> bytes:
    value = value.detach().cpu().contiguous()
    return bytes(value.reshape(-1).view(torch.uint8).numpy())


def _narrowed(value: torch.Tensor, name: str) -> bytes:
    """The bytes of a buffer in the graph's type: int64 becomes int32."""
    if value.dtype == torch.int64:
        limits = torch.iinfo(torch.int32)
        if value.numel() and not limits.min <= int(value.min()) <= int(value.max()) <= limits.max:
            raise OpdbError(f"the buffer {name} has values that do not fit int32, which QNN takes for int64")
        value = value.to(torch.int32)
    return _bytes(value)
