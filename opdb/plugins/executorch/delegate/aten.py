"""Turns an edge program, or some of its nodes, into the ATen program that opdb's lowering reads.

Nodes keep their names and metadata.  Anything that is not one of the nodes becomes an input: a node that runs elsewhere,
another backend's call, a buffer that the program changes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, cast

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, OutputKind, OutputSpec, TensorArgument
from torch.fx import Graph, Node

from opdb.lower.candidates import mapped
from opdb.programs.torch.encodings import CONVERSIONS
from opdb.programs.torch.program import Program
from opdb.programs.torch.targets import READ_WITHOUT_SPEC

CONSTANTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
#: Operators of the edge dialect that equal ATen's except for the memory order.
ORDERED = {
    "dim_order_ops._to_dim_order_copy.default": "aten._to_copy.default",
    "dim_order_ops._clone_dim_order.default": "aten.clone.default",
}
GETITEM = "getitem"
#: The device of tensors that only have a shape and a data type.
NO_NUMBERS = torch.device("meta")


@dataclass(frozen=True)
class Signature:
    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]


@dataclass(frozen=True)
class Aten:
    """The parts of an exported program that opdb.programs.torch.program.Program reads."""

    graph: Graph
    graph_signature: Signature
    state_dict: Mapping[str, torch.Tensor]
    constants: Mapping[str, Any]

    def with_graph(self, graph: Graph) -> Aten:
        """The same program with a copy of its graph."""
        return replace(self, graph=graph)


def target_of(node: Node) -> str:
    """The ATen name of a call, e.g. aten.relu.default for the edge dialect's; "" if it is not an operator."""
    target = node.target
    name = str(target) if isinstance(target, torch._ops.OpOverload) else getattr(target, "__name__", "")
    if name.count(".") != 2:
        return GETITEM if name == GETITEM else ""
    name = ORDERED.get(name, name)
    base, _, overload = name.rpartition(".")
    plain = f"{base.removesuffix('_copy')}.{overload}"
    return plain if not mapped(name) and (mapped(plain) or plain in READ_WITHOUT_SPEC) else name


@cache
def operator(name: str) -> torch._ops.OpOverload | None:
    """The operator of an ATen name; None if this PyTorch does not have it."""
    space, packet, overload = name.split(".")
    try:
        return cast(torch._ops.OpOverload, getattr(getattr(getattr(torch.ops, space), packet), overload))
    except AttributeError:
        return None


def readable(node: Node) -> str:
    """The reason why ``node`` cannot be in a program of opdb's; "" if it can, whether or not a spec maps it."""
    if node.op != "call_function":
        return f"it is of the kind {node.op}"
    name = target_of(node)
    if name == GETITEM:
        return ""
    found = operator(name) if name else None
    if found is None:
        return f"{getattr(node.target, '__name__', node.target)} is no operator of PyTorch's"
    if found._schema.is_mutable:
        return f"{name} changes its argument"
    composite = found.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd)
    if composite and not mapped(name) and name not in READ_WITHOUT_SPEC:
        return f"no spec maps {name}"
    return ""


def nodes(program: Program) -> dict[str, Node]:
    """The nodes of a program by name."""
    return {n.name: n for n in program.exported.graph.nodes}


def changed_buffers(edge: ExportedProgram) -> dict[str, str]:
    """Maps the placeholders of buffers that the program changes to the buffers' names."""
    signature = edge.graph_signature
    changed = {s.target for s in signature.output_specs if s.kind == OutputKind.BUFFER_MUTATION}
    return {
        s.arg.name: str(s.target)
        for s in signature.input_specs
        if s.kind == InputKind.BUFFER and s.target in changed
    }


def constants(edge: ExportedProgram) -> dict[str, torch.Tensor]:
    """Maps the placeholders of values that never change to the values, which a partitioner gets as fake tensors."""
    changed = changed_buffers(edge)
    held: dict[str, Any] = {**edge.constants, **edge.state_dict}
    found = {}
    for spec in edge.graph_signature.input_specs:
        value = held.get(str(spec.target)) if spec.kind in CONSTANTS else None
        if isinstance(value, torch.Tensor) and spec.arg.name not in changed:
            found[spec.arg.name] = value
    return found


def read(
    edge: ExportedProgram,
    inside: Collection[str] | None = None,
    *,
    values: bool,
    float_dtype: str = "f32",
    scales: Mapping[str, torch.Tensor] | None = None,
) -> Program:
    """The nodes in ``inside`` (None: all) as a program: values from outside become inputs, values that others read become outputs.

    ``values``: True keeps the numbers of constants, else only shapes and data types.  ``scales``: an earlier result of ``scales_of``,
    for a program without numbers.
    """
    known = constants(edge)
    state = {n: v.detach() if values else v.detach().to(NO_NUMBERS) for n, v in known.items()}
    if not values:
        state |= {n: _number(known[n], n, scales or {}) for n in _of_encodings(edge.graph) & known.keys()}
    graph, specs = Graph(), []
    made: dict[Node, Node] = {}

    def take(node: Node) -> Node:
        if node not in made:
            made[node] = graph.placeholder(node.name)
            made[node].name = node.name
            made[node].meta = dict(node.meta)
            constant = node.name in state
            kind = InputKind.PARAMETER if constant else InputKind.USER_INPUT
            specs.append(InputSpec(kind, TensorArgument(node.name), node.name if constant else None, None))
        return made[node]

    members = [
        n for n in edge.graph.nodes if n.op == "call_function" and (inside is None or n.name in inside)
    ]
    within = set(members)
    for source in _sources(edge.graph, within):
        take(source)
    for node in members:
        _copy(graph, node, made, values)
    ends = [n for n in members if any(u not in within for u in n.users)]
    graph.output(tuple(made[n] for n in ends))
    outputs = [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(n.name), None) for n in ends]
    aten = Aten(graph, Signature(specs, outputs), state, {})
    with nullcontext() if values else NO_NUMBERS:
        return Program(cast(ExportedProgram, aten), float_dtype)


def scales_of(program: ExportedProgram) -> dict[str, torch.Tensor]:
    """The per-channel scales and zero points in a program, by placeholder."""
    known = constants(program)
    return {n: known[n] for n in _of_encodings(program.graph) & known.keys()}


def _number(value: torch.Tensor, name: str, scales: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """A scale or zero point; if its value is unknown, a typical one, since few rules read it (the lowering knows the real one)."""
    if isinstance(value, FakeTensor):
        usual = torch.full(value.shape, 2.0**-7 if value.dtype.is_floating_point else 0, dtype=value.dtype)
        found = scales.get(name, usual)
        return found if found.shape == value.shape else usual
    return value.detach()


def _of_encodings(graph: Graph) -> set[str]:
    """The placeholders that hold only scales and zero points, whose numbers rules read."""
    return {
        n.name
        for n in graph.nodes
        if n.op == "placeholder"
        and n.users
        and all(target_of(u).startswith(CONVERSIONS) and u.args[0] is not n for u in n.users)
    }


def _sources(graph: Graph, within: Collection[Node]) -> Iterator[Node]:
    """The nodes from outside that the nodes read, in graph order."""
    return (n for n in graph.nodes if n not in within and any(u in within for u in n.users))


def _copy(graph: Graph, node: Node, made: dict[Node, Node], values: bool) -> None:
    """Copies ``node`` as a call of ATen's operator; without ``values``, one that creates a tensor creates only its shape."""
    copy: Callable[[Node], Node] = made.__getitem__
    new = graph.node_copy(node, copy)
    new.name, new.meta = node.name, dict(node.meta)
    name = target_of(node)
    if name != GETITEM:
        found = operator(name)
        assert found is not None
        new.target = found
        accepted = {a.name for a in found._schema.arguments}
        new.kwargs = {k: v for k, v in new.kwargs.items() if k in accepted}
        if not values and "device" in accepted:
            new.kwargs = {**new.kwargs, "device": NO_NUMBERS}
    made[node] = new
