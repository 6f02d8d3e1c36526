"""The search for the layouts of a graph's ops that cost the least.

The choice is made op by op, forward and backward, by the layouts of its neighbors: forward an op takes the layout of its input
if that costs no more, backward the layout in which its result is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from opdb.core.graph import GraphTensor
from opdb.lower.passes.layout_state import LayoutGraph, State
from opdb.lower.passes.layouts import (
    ELEMENTWISE,
    RULES,
    Layout,
    OpLayouts,
    compose,
    identity,
    in_layout,
    inverse,
    of_output,
    unchanged,
)
from opdb.lower.passes.tensor_layouts import reads_rows, stored

SWEEPS = 4
#: For each op, the base tensors whose cost a choice for the op is judged by.
Tensors = Sequence[tuple[str, ...]]


class LayoutSearch:
    """A local search; ``state``: the layouts chosen so far, the cheapest found after ``run``."""

    def __init__(self, graph: LayoutGraph) -> None:
        self.graph = graph
        self.state = graph.original()
        self.options: dict[tuple[int, Layout], OpLayouts | None] = {}
        self.neighbors = [graph.neighbors(i) for i in range(len(graph.ops))]
        #: (op, tensors, backward) -> the layouts of the op's neighbors when the op last stayed as it was
        self.settled: dict[tuple[int, tuple[str, ...], bool], list[OpLayouts]] = {}

    def run(self) -> int:
        """Leaves the cheapest state found in ``state``, and returns its cost."""
        graph = self.graph
        inputs = [graph.tensors_read(i) for i in range(len(graph.ops))]
        outputs = [op.outputs for op in graph.ops]
        both = [(*i, *o) for i, o in zip(inputs, outputs, strict=True)]
        self._sweep(both)
        best = list(self.state)
        for backward, tensors in ((False, inputs), (True, outputs)):
            self._pass(
                tensors, backward
            )  # pushes layouts through all ops that can take them, whatever it costs later
            self._sweep(both)
            best = self._merged(best, self.state, both)
            self.state = list(best)
        return graph.cost({*graph.readers, *graph.results}, self.state)

    def _sweep(self, tensors: Tensors) -> None:
        """Passes forward and backward until nothing gets cheaper, at most SWEEPS times."""
        for _ in range(SWEEPS):
            if not self._pass(tensors, False) + self._pass(tensors, True):
                break

    def _pass(self, tensors: Tensors, backward: bool) -> int:
        """Makes one choice for each op, in order or backward; returns the change in cost (0 or less)."""
        places = range(len(self.graph.ops))[:: -1 if backward else 1]
        return sum(self._choose(i, tensors[i], backward) for i in places)

    def _merged(self, a: State, b: State, tensors: Tensors) -> list[OpLayouts]:
        """The cheaper of two states, for each group of ops that differ and share tensors."""
        merged = list(a)
        for group in _groups({i for i in range(len(a)) if a[i] != b[i]}, tensors):
            shared = {t for i in group for t in tensors[i]}
            if self.graph.cost(shared, b) < self.graph.cost(shared, a):
                for i in group:
                    merged[i] = b[i]
        return merged

    def _choose(self, i: int, tensors: tuple[str, ...], backward: bool) -> int:
        """Takes the layout of an op that is cheapest for ``tensors``; returns the change in their cost."""
        if self.graph.ops[i].op not in RULES:
            return 0
        around = [self.state[j] for j in self.neighbors[i]]
        if self.settled.get((i, tensors, backward)) == around:
            return 0
        from_inputs, from_readers = dict.fromkeys(self._from_inputs(i)), dict.fromkeys(self._from_readers(i))
        other, preferred = (from_inputs, from_readers) if backward else (from_readers, from_inputs)
        best = had = self.state[i]
        before = least = self.graph.cost(tensors, self.state)
        for layout in (*other, *preferred):
            option = self._option(i, layout)
            if option is None or option == best:
                continue
            self.state[i] = option
            cost = self.graph.cost(tensors, self.state)
            if cost < least or (cost == least and layout in preferred):
                best, least = option, cost
        self.state[i] = best
        if best is had:
            self.settled[i, tensors, backward] = around
        return least - before

    # -- the layouts that an op could take

    def _rank(self, i: int) -> int:
        """The rank of an op's layouts."""
        inputs, outputs = self.graph.tensors[i]
        first = inputs[0] if inputs else None
        if self.graph.ops[i].op in ELEMENTWISE or first is None:
            return len(outputs[0].shape) if outputs else 0
        return len(first.shape)

    def _from_inputs(self, i: int) -> Iterator[Layout]:
        """Yields the layouts in which an op reads an input as it is made."""
        for name in self.graph.ops[i].inputs:
            if name is None:
                continue
            base, way = self.graph.base(name)
            if base in self.graph.readers and len(way) == self._rank(i):
                yield compose(inverse(way), self.graph.written_in(base, self.state))

    def _from_readers(self, i: int) -> Iterator[Layout]:
        """Yields the layouts in which an op makes an output as it is read."""
        inputs, outputs = self.graph.tensors[i]
        if not inputs or inputs[0] is None:
            return
        for t in outputs:
            for layout in dict.fromkeys(self.graph.read_in(t.name, self.state)):
                found = of_output(self.graph.ops[i], inputs, outputs, layout)
                if found is not None and len(found) == self._rank(i):
                    yield found

    def _option(self, i: int, layout: Layout) -> OpLayouts | None:
        """An op in a layout; None if that is impossible, or the target refuses it."""
        if (i, layout) not in self.options:
            self.options[i, layout] = self._accepted(i, layout)
        return self.options[i, layout]

    def _accepted(self, i: int, layout: Layout) -> OpLayouts | None:
        op, (inputs, outputs) = self.graph.ops[i], self.graph.tensors[i]
        if layout == identity(len(layout)):
            return unchanged(op, inputs, outputs)
        found = in_layout(op, inputs, outputs, layout)
        if found is None or (found.rows is not None and not self._rows_wanted(op.outputs[0])):
            return None
        held: dict[str, GraphTensor] = {}
        names: list[str | None] = []
        ways = (*found.inputs, *found.outputs)
        for n, (t, way) in enumerate(zip((*inputs, *outputs), ways, strict=True)):
            made = None if t is None or way is None else stored(t, way)
            if t is not None and made is None:
                return None  # an encoding that cannot be transposed
            names.append(None if made is None else f"{n}")
            if made is not None:
                held[f"{n}"] = replace(made, name=f"{n}")
        made_in, made_out = tuple(names[: len(inputs)]), tuple(str(n) for n in names[len(inputs) :])
        tried = replace(found.op, inputs=made_in, outputs=made_out)
        return found if self.graph.edit.legal(tried, held) else None

    def _rows_wanted(self, tensor: str) -> bool:
        """True if all readers of a tensor can read its last dimension in another order."""
        readers = self.graph.readers.get(tensor, [])
        return tensor not in self.graph.results and all(
            way == identity(len(way)) and reads_rows(self.graph.edit, self.graph.ops[i], k)
            for i, k, way in readers
        )


def _groups(ops: set[int], tensors: Tensors) -> Iterator[set[int]]:
    """Yields the ops in groups that share tensors."""
    left = set(ops)
    users: dict[str, set[int]] = {}
    for i in ops:
        for t in tensors[i]:
            users.setdefault(t, set()).add(i)
    while left:
        group, waiting = set(), [left.pop()]
        while waiting:
            group.add(i := waiting.pop())
            found = left & {j for t in tensors[i] for j in users[t]}
            left -= found
            waiting += found
        yield group
