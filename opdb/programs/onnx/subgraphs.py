"""Replaces If by the branch that is taken, and writes out the bodies of Loop and Scan as often as they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper

from opdb.programs.onnx.modules import Graph
from opdb.programs.onnx.node import Unreadable

#: (nodes, values, names of inputs, names of outputs) -> the module; the values of the nodes are added to ``values``.
Build = Callable[[Sequence[onnx.NodeProto], dict[str, Any], Sequence[str], Sequence[str]], Graph]


def reads(proto: onnx.NodeProto) -> list[str]:
    """Names of the values that a node reads, including what its subgraphs read from outside."""
    inner = [n for g in _graphs(proto) for n in free(g)]
    return [n for n in (*proto.input, *inner) if n]


def free(graph: onnx.GraphProto) -> list[str]:
    """Names that a graph reads but does not make."""
    made = {w.name for w in graph.initializer} | {i.name for i in graph.input}
    made |= {o for n in graph.node for o in n.output}
    found = [r for n in graph.node for r in reads(n)] + [o.name for o in graph.output]
    return [n for n in dict.fromkeys(found) if n not in made]


def branch(build: Build, proto: onnx.NodeProto, values: Mapping[str, Any]) -> tuple[Graph, tuple[str, ...]]:
    """The graph of the branch that an If with a known condition takes, and the outer tensors it reads."""
    condition = values[proto.input[0]]
    if isinstance(condition, torch.Tensor):
        raise Unreadable("its condition is only known when the model runs")
    taken = _body(proto, "then_branch" if bool(condition) else "else_branch")
    inner = dict(values) | {w.name: numpy_helper.to_array(w) for w in taken.initializer}
    outer = [n for n in free(taken) if isinstance(values.get(n), torch.Tensor)]
    return build(taken.node, inner, outer, [o.name for o in taken.output]), tuple(outer)


@dataclass
class _Steps:
    """A body written out: the nodes of all steps, under a name per step, and the values known to them."""

    body: onnx.GraphProto
    version: int
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    known: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.known.update((f"{w.name}@body", numpy_helper.to_array(w)) for w in self.body.initializer)

    def add(self, step: int, inputs: Sequence[str]) -> list[str]:
        """Writes one step; returns the names of its outputs."""
        names = {w.name: f"{w.name}@body" for w in self.body.initializer}
        names |= {o: f"{o}@{step}" for n in self.body.node for o in n.output if o}
        names |= dict(zip((i.name for i in self.body.input), inputs, strict=True))
        self.nodes += [_renamed(n, names) for n in self.body.node]
        return [names.get(o.name, o.name) for o in self.body.output]

    def slice(self, name: str, step: int, axis: int) -> str:
        self.known[f"number@{step}"] = np.array(step, np.int64)
        made = f"{name}@{axis}@{step}"
        self.nodes.append(helper.make_node("Gather", [name, f"number@{step}"], [made], axis=axis))
        return made

    def stack(self, names: Sequence[str], axis: int) -> str:
        """Stacks the results of all steps along a new dimension; returns the name."""
        rows = []
        for name in names:
            rows.append(f"{name}@row")
            if self.version < 13:
                self.nodes.append(helper.make_node("Unsqueeze", [name], rows[-1:], axes=[axis]))
            else:
                self.known[f"axis@{axis}"] = np.array([axis], np.int64)
                self.nodes.append(helper.make_node("Unsqueeze", [name, f"axis@{axis}"], rows[-1:]))
        made = f"{names[0]}@all"
        self.nodes.append(helper.make_node("Concat", rows, [made], axis=axis))
        return made


def loop(
    build: Build, proto: onnx.NodeProto, values: Mapping[str, Any], version: int
) -> tuple[Graph, tuple[str, ...]]:
    """Writes out a Loop with a known number of steps, which a known condition may end earlier."""
    count = values[proto.input[0]] if proto.input[0] else None
    if count is None or isinstance(count, torch.Tensor):
        raise Unreadable("how often it runs is only known when the model runs")
    start = values[proto.input[1]] if len(proto.input) > 1 and proto.input[1] else np.array(True)
    steps = int(count.item()) if bool(start) else 0
    while True:
        graph, outer, conditions = _looped(build, proto, values, version, steps)
        if any(isinstance(c, torch.Tensor) for c in conditions):
            raise Unreadable("its condition is only known when the model runs")
        ended = next((i for i, c in enumerate(conditions[:-1]) if not bool(c)), None)
        if ended is None:
            return graph, outer
        steps = ended + 1


def _looped(
    build: Build, proto: onnx.NodeProto, values: Mapping[str, Any], version: int, steps: int
) -> tuple[Graph, tuple[str, ...], list[Any]]:
    written = _Steps(_body(proto, "body"), version)
    carried, scanned, conditions = list(proto.input[2:]), [], []
    written.known["condition@start"] = np.array(True)
    condition = "condition@start"
    for step in range(steps):
        written.known[f"number@{step}"] = np.array(step, np.int64)
        condition, *results = written.add(step, [f"number@{step}", condition, *carried])
        conditions.append(condition)
        carried, rows = results[: len(carried)], results[len(carried) :]
        scanned.append(rows)
    outputs = carried + _stacked(written, scanned, [0] * (len(proto.output) - len(carried)))
    return _built(build, proto, values, written, outputs, conditions)


def scan(
    build: Build, proto: onnx.NodeProto, values: Mapping[str, Any], version: int
) -> tuple[Graph, tuple[str, ...]]:
    """Writes out a Scan of opset 9 or newer; the shape of its scanned input gives the number of steps."""
    if version < 9:
        raise Unreadable("Scan before opset 9 had batches; convert the model to a newer opset")
    told = {a.name: helper.get_attribute_value(a) for a in proto.attribute}
    count = told["num_scan_inputs"]
    carried, inputs = list(proto.input[:-count]), proto.input[len(proto.input) - count :]
    axes = told.get("scan_input_axes") or [0] * count
    backwards = told.get("scan_input_directions") or [0] * count
    steps = values[inputs[0]].shape[axes[0]]
    written = _Steps(_body(proto, "body"), version)
    scanned = []
    for step in range(steps):
        rows = [
            written.slice(n, steps - 1 - step if back else step, axis)
            for n, axis, back in zip(inputs, axes, backwards, strict=True)
        ]
        results = written.add(step, [*carried, *rows])
        carried, rows = results[: len(carried)], results[len(carried) :]
        scanned.append(rows)
    more = len(proto.output) - len(carried)
    backwards = told.get("scan_output_directions") or [0] * more
    stacked = _stacked(written, scanned, told.get("scan_output_axes") or [0] * more, backwards)
    graph, outer, _ = _built(build, proto, values, written, carried + stacked, [])
    return graph, outer


def _stacked(
    written: _Steps, scanned: Sequence[Sequence[str]], axes: Sequence[int], backwards: Sequence[int] = ()
) -> list[str]:
    if axes and not scanned:
        raise Unreadable("it never runs, and its results would be empty")
    columns = [[rows[i] for rows in scanned] for i in range(len(axes))]
    return [
        written.stack(column[::-1] if backwards and backwards[i] else column, axes[i])
        for i, column in enumerate(columns)
    ]


def _built(
    build: Build, proto: onnx.NodeProto, values: Mapping[str, Any], written: _Steps, outputs: list[str],
    wanted: Sequence[str],
) -> tuple[Graph, tuple[str, ...], list[Any]]:  # fmt: skip
    inner = dict(values) | written.known
    outer = [n for n in dict.fromkeys(reads(proto)) if isinstance(values.get(n), torch.Tensor)]
    graph = build(written.nodes, inner, outer, outputs)
    return graph, tuple(outer), [inner[w] for w in wanted]


def _body(proto: onnx.NodeProto, name: str) -> onnx.GraphProto:
    return next(a.g for a in proto.attribute if a.name == name)


def _graphs(proto: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in proto.attribute:
        yield from (attribute.g, *attribute.graphs)


def _renamed(proto: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    made = onnx.NodeProto()
    made.CopyFrom(proto)
    for where in (made.input, made.output):
        where[:] = [names.get(n, n) for n in where]
    for graph in _graphs(made):
        own = {i.name for i in graph.input} | {w.name for w in graph.initializer}
        inner = {k: v for k, v in names.items() if k not in own}
        nodes = [_renamed(n, inner) for n in graph.node]
        del graph.node[:]
        graph.node.extend(nodes)
        for output in graph.output:
            output.name = inner.get(output.name, output.name)
    return made
