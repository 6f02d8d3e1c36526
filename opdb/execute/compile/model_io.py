"""Gives a compiled graph the inputs and outputs of the model's file: its names, and int64 where the file has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from opdb.catalog.targets.target import Target
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.judge.validate import check

if TYPE_CHECKING:
    from opdb.checks.graph import Part
    from opdb.programs.torch.program import Program


@dataclass(frozen=True)
class Ends:
    """The names of a file's inputs and outputs, in the program's order, and the names among them that are int64."""

    inputs: Sequence[str]
    outputs: Sequence[str]
    wide: frozenset[str] = field(default_factory=frozenset)


def with_ends(graph: QnnGraph, part: Part, program: Program, ends: Ends, target: Target) -> QnnGraph:
    """Gives the graph these inputs and outputs.

    A tensor that is an output twice is copied.  An output with the name of an input gets the suffix "_out": QNN's
    tensors have unique names.  int64 stays int32 if ``target`` has no Cast for the tensor.
    """
    names: dict[str, str] = {}
    for key, name in zip(program.inputs, ends.inputs, strict=True):
        if key in part.inputs:  # an input without elements is not in the graph
            names[part.inputs[key]] = name
    copies: list[tuple[str, str]] = []
    for key, own in zip(program.outputs, _own_names(ends), strict=True):
        if part.outputs[key] in names:
            copies.append((names[part.outputs[key]], own))
        else:
            names[part.outputs[key]] = own
    graph = graph.renamed(names)
    for source, name in copies:
        tensor = graph.tensors[source]
        graph.tensors[name] = replace(tensor, name=name)
        graph.ops.append(GraphOp(f"{name}_copy", "Reshape", (source,), (), (name,), origin=name))
    order = [names[part.outputs[key]] for key in dict.fromkeys(program.outputs)] + [n for _, n in copies]
    given = {name: place for place, name in enumerate(ends.outputs)}
    for name in sorted(order, key=lambda n: given.get(n, given.get(n.removesuffix("_out"), 0))):
        graph.tensors[name] = graph.tensors.pop(name)
    wide = [n for n in (*ends.inputs, *order) if n.removesuffix("_out") in ends.wide and n in graph.tensors]
    return _widened(graph, wide, target)


def scalars_of(program: Program, part: Part, ends: Ends | None) -> tuple[str, ...]:
    """The names of the inputs and outputs without dimensions in the program; QNN's tensors for them have the shape [1]."""
    values = {n.name: n.meta.get("val") for n in program.exported.graph.nodes}
    inputs = [part.inputs.get(key) for key in program.inputs] if ends is None else ends.inputs
    outputs = [part.outputs[key] for key in program.outputs] if ends is None else _own_names(ends)
    named = [*zip(program.inputs, inputs, strict=True), *zip(program.outputs, outputs, strict=True)]
    return tuple(
        name for key, name in named if name is not None and getattr(values[key[0]], "shape", None) == ()
    )


def _own_names(ends: Ends) -> list[str]:
    """The names of the outputs in the graph: an output with the name of an input gets ``_out``."""
    return [f"{name}_out" if name in ends.inputs else name for name in ends.outputs]


def recorded_scalars(metadata: Mapping[str, Any], graph: str) -> frozenset[str]:
    """Reads the result of ``scalars_of`` for ``graph`` from the metadata of its context; empty if the file has none."""
    held = metadata.get("scalars")
    names = held.get(graph) if isinstance(held, dict) else None
    return frozenset(n for n in names if isinstance(n, str)) if isinstance(names, list) else frozenset()


def _widened(graph: QnnGraph, names: Sequence[str], target: Target) -> QnnGraph:
    """The graph with int64 instead of int32 at these inputs and outputs, if the target accepts the Cast."""
    inner: dict[str, str] = {}
    before: list[GraphOp] = []
    after: list[GraphOp] = []
    tensors: dict[str, GraphTensor] = {}
    for name, tensor in graph.tensors.items():
        tensors[name] = tensor
        if name not in names or tensor.dtype != "i32":
            continue
        given = tensor.type == "APP_WRITE"
        narrow = replace(tensor, name=f"{name}_int32", type="NATIVE")
        wide = replace(tensor, dtype="i64")
        read, made = (wide, narrow) if given else (narrow, wide)
        cast = GraphOp(f"{name}_cast", "Cast", (read.name,), (), (made.name,), origin=name)
        config = QnnGraph("", {t.name: t for t in (read, made)}, [cast]).op_config(cast)
        if check(config, target).verdict != "accept" or narrow.name in graph.tensors:
            continue
        inner[name] = narrow.name
        tensors |= {narrow.name: narrow, name: wide}
        (before if given else after).append(cast)
    return QnnGraph(graph.name, tensors, [*before, *(_reading(op, inner) for op in graph.ops), *after])


def _reading(op: GraphOp, names: Mapping[str, str]) -> GraphOp:
    inputs = tuple(n if n is None else names.get(n, n) for n in op.inputs)
    return replace(op, inputs=inputs, outputs=tuple(names.get(n, n) for n in op.outputs))
