"""Writes the graph of the chosen layouts: tensors in their layouts, and the Transposes and Reshapes between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.lower.passes.edit import Edit, transpose
from opdb.lower.passes.layouts import Layout, compose, identity, inverse, order, stored_shape
from opdb.lower.passes.tensor_layouts import stored, with_rows

#: (sizes of more than one element in their order, shape): tensors with equal keys are the same bytes in the same shape.
Key = tuple[Layout, tuple[int, ...]]


class Writer:
    """Collects ops in the order of execution; ``finish`` replaces the old graph by the new one.

    ``transposes``: the removed ones, by the tensors that they made, whose names are reused; ``alias``: the base tensor of a
    tensor, and its layout relative to that.
    """

    def __init__(
        self, edit: Edit, transposes: Mapping[str, GraphOp], alias: Callable[[str], tuple[str, Layout]]
    ) -> None:
        self.edit, self.alias, self.transposes = edit, alias, transposes
        self.ops: list[GraphOp] = []
        self.tensors: dict[str, GraphTensor] = {}
        self.held: dict[tuple[str, Key], str] = {}
        self.made: dict[str, Layout] = {}
        self.spare: dict[tuple[str, Key], list[str]] = {}
        self.names = {*edit.tensors, *(op.name for op in edit.ops)}
        for t in edit.tensors.values():
            if t.type == "STATIC":
                continue
            base, way = alias(t.name)
            if t.type == "APP_WRITE":
                self.tensors[t.name] = t
                self.made[t.name] = way
                self.held[base, self._key(base, way)] = t.name
            else:
                waiting = self.spare.setdefault((base, self._key(base, way)), [])
                waiting.insert(0 if t.type == "APP_READ" else len(waiting), t.name)

    def _key(self, base: str, layout: Layout) -> Key:
        shape = self.edit.tensors[base].shape
        return order(shape, layout), stored_shape(shape, layout)

    def _fresh(self, name: str) -> str:
        made, n = name, 1
        while made in self.names:
            n += 1
            made = f"{name}_{n}"
        self.names.add(made)
        return made

    # -- tensors

    def read(self, tensor: str, layout: Layout, reader: GraphOp) -> str:
        """The name of the tensor that holds ``tensor`` in ``layout``; adds a Transpose or Reshape if there is none."""
        base, way = self.alias(tensor)
        if self.edit.tensors[base].type == "STATIC":
            missing = len(layout) - len(way)
            way = (*range(missing), *(i + missing for i in way))
            return self._constant(base, compose(way, layout))
        wanted = compose(way, layout)
        found = self.held.get((base, self._key(base, wanted)))
        return found or self._changed(base, wanted, reader.origin or reader.name)

    def make(self, tensor: str, layout: Layout) -> str:
        """The name under which an op makes ``tensor`` in ``layout``."""
        self.made[tensor] = layout
        return self._new(tensor, layout)

    def _new(self, base: str, layout: Layout) -> str:
        key = self._key(base, layout)
        waiting = self.spare.get((base, key), [])
        if waiting:
            name = waiting.pop(0)
            kind = self.edit.tensors[name].type
        else:
            name, kind = self._fresh(f"{base}_permuted"), "NATIVE"
        return self._put(base, layout, name, kind)

    def _put(self, base: str, layout: Layout, name: str, kind: str) -> str:
        t = stored(replace(self.edit.tensors[base], type=kind), layout)
        assert t is not None  # otherwise the layout would not have been chosen
        self.tensors[name] = replace(t, name=name)
        self.held.setdefault((base, self._key(base, layout)), name)
        return name

    def _constant(self, base: str, layout: Layout) -> str:
        if layout == identity(len(self.edit.tensors[base].shape)):
            self.tensors[base] = self.edit.tensors[base]
            return base
        place = base, (layout, ())
        if place not in self.held:
            made = stored(self.edit.tensors[base], layout)
            assert made is not None
            self.held[place] = self.constant(made)
        return self.held[place]

    def constant(self, made: GraphTensor) -> str:
        """Adds a constant; returns its name."""
        name = self._fresh(f"{made.name}_permuted")
        self.tensors[name] = replace(made, name=name)
        return name

    # -- changes of layout

    def _changed(self, base: str, wanted: Layout, origin: str, end: str | None = None) -> str:
        """A tensor in another layout than the one in which it is made; ``end``: the output of the graph that it is, if any."""
        moved = order(self.edit.tensors[base].shape, wanted)
        same = next((n for (b, key), n in self.held.items() if b == base and key[0] == moved), None)
        source = same or self.held[base, self._key(base, self.made[base])]
        name = end or self._new(base, wanted)
        if end is not None:
            self._put(base, wanted, end, "APP_READ")
        old = self.transposes.get(name)
        called = old.name if old is not None else self._fresh(f"{origin}_layout")
        origin = old.origin if old is not None else origin
        if same is not None:
            self.ops.append(GraphOp(called, "Reshape", (source,), (), (name,), origin=origin))
        else:
            perm = compose(inverse(self.made[base]), wanted)
            self.ops.append(transpose(called, source, perm, name, origin))
        return name

    # -- ops

    def add(self, op: GraphOp) -> None:
        self.ops.append(op)

    def with_rows(self, op: GraphOp, sizes: Sequence[int], rows: Layout) -> GraphOp:
        """The product ``op`` with its weights in the order in which its input is now flattened."""
        weights = self.tensors[str(op.inputs[1])]
        name = self.constant(with_rows(op, weights, sizes, rows))
        return replace(op, inputs=(op.inputs[0], name, *op.inputs[2:]))

    def finish(self) -> None:
        """Makes the remaining outputs of the graph, and replaces the edited graph by this one."""
        for t in self.edit.tensors.values():
            if t.type == "APP_READ" and t.name not in self.tensors:
                base, way = self.alias(t.name)
                self._changed(base, way, base, t.name)
        read = {t for op in self.ops for t in op.inputs}
        for name in [t.name for t in self.tensors.values() if t.type == "STATIC" and t.name not in read]:
            del self.tensors[name]
        first = {n: self.tensors.pop(n) for n in self.edit.tensors if n in self.tensors}
        self.edit.reset(QnnGraph(self.edit.name, {**first, **self.tensors}, self.ops))
