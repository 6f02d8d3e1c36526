"""sink-transposes: chooses one layout for every tensor of the graph, such that Transposes move as few bytes as possible.

Every Transpose is removed, which makes its result the same tensor in another layout; each op that can work in another
layout (opdb.lower.passes.layouts) chooses one; and if a reader wants another layout than the maker gives, a Transpose is
inserted, one for all readers that want the same, or a Reshape if only dimensions of size 1 move.  So chains merge, pairs
cancel, and Transposes move to where fewer bytes pass.

The choice is made op by op, forward and backward, by the layouts of its neighbors: forward an op takes the layout of its input
if that costs no more, backward the layout in which its result is read.  The cheapest state of all is kept, and the graph is
changed only if that is cheaper than the original graph.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from opdb.core.dtypes import BY_SHORT
from opdb.core.graph import GraphOp, GraphTensor
from opdb.lower.passes.edit import Edit, parameter, transpose
from opdb.lower.passes.layout_graph import Writer
from opdb.lower.passes.layouts import (
    ELEMENTWISE,
    RULES,
    Fit,
    Layout,
    compose,
    fit,
    identity,
    inverse,
    joined_sizes,
    of_output,
    order,
    stored_shape,
    unchanged,
)
from opdb.lower.passes.tensor_layouts import reads_rows, stored

#: Bytes come first; states with equal bytes are compared by the number of Transposes, then of Reshapes.  A Transpose of five
#: dimensions counts like four of them: chips have kernels for four.
BYTE, RESHAPE = 1 << 24, 1
FORBIDDEN = 1 << 80
TRANSPOSE = {False: 2, True: 8}
SWEEPS = 4


def settle(edit: Edit) -> int:
    """Chooses the layouts; returns the number of ops saved, at least 1 if the graph changed."""
    state = _Layouts(edit)
    if not state.transposes:
        return 0
    before = sum(state.price(op.outputs[0]) for op in state.transposes)
    if state.improve() >= before:
        return 0
    had = len(edit.ops)
    state.apply()
    return max(1, had - len(edit.ops))


class _Layouts:
    """``fits``: the current layouts of each op that is not an absorbed Transpose."""

    def __init__(self, edit: Edit) -> None:
        self.edit = edit
        #: tensor -> its base tensor and its layout of that; a tensor that no absorbed Transpose makes is its own base
        self.alias: dict[str, tuple[str, Layout]] = {}
        self.transposes: list[GraphOp] = []
        self.ops: list[GraphOp] = []
        for op in edit.ops:
            if self._absorbed(op):
                source, way = self._of(str(op.inputs[0]))
                self.alias[op.outputs[0]] = source, compose(way, tuple(parameter(op, "perm")))
                self.transposes.append(op)
            else:
                self.ops.append(op)
        self.tensors = [self._tensors(op) for op in self.ops]
        self.fits = [unchanged(op, *t) for op, t in zip(self.ops, self.tensors, strict=True)]
        self.options: dict[tuple[int, Layout], Fit | None] = {}
        self.maker: dict[str, tuple[int, int]] = {}
        #: the readers of each base tensor: (op, slot, the layout in which the slot sees it)
        self.readers: dict[str, list[tuple[int, int, Layout]]] = {}
        self._link()
        self.ends: dict[str, list[Layout]] = {}
        for t in edit.tensors.values():
            if t.type == "APP_READ":
                base, way = self._of(t.name)
                self.ends.setdefault(base, []).append(way)
        self.allowed: dict[tuple[str, Layout, Layout], bool] = {}
        self.costs: dict[tuple[str, Layout, frozenset[Layout]], int] = {}
        #: for each op: itself and the ops that make or read one of its tensors
        self.near = [self._near(op) for op in self.ops]
        #: (op, its tensors that count, back) -> the layouts of the nearby ops when it last kept its own
        self.kept: dict[tuple[int, tuple[str, ...], bool], list[Fit]] = {}

    def _absorbed(self, op: GraphOp) -> bool:
        """True if an op is a Transpose that only moves stored values."""
        if op.op != "Transpose":
            return False
        x, y = self.edit.tensors[str(op.inputs[0])], self.edit.tensors[op.outputs[0]]
        made = stored(x, tuple(parameter(op, "perm")))
        return made is not None and (made.dtype, made.quant, x.sparse) == (y.dtype, y.quant, None)

    def _of(self, tensor: str) -> tuple[str, Layout]:
        return self.alias.get(tensor) or (tensor, identity(len(self.edit.tensors[tensor].shape)))

    def _tensors(self, op: GraphOp) -> tuple[list[GraphTensor | None], list[GraphTensor]]:
        held = self.edit.tensors
        return [None if t is None else held[t] for t in op.inputs], [held[t] for t in op.outputs]

    def _link(self) -> None:
        for i, op in enumerate(self.ops):
            for k, name in enumerate(op.outputs):
                self.maker[name] = i, k
            for k, read in enumerate(op.inputs):
                if read is not None:
                    base, way = self._of(read)
                    if self.edit.tensors[base].type != "STATIC":
                        self.readers.setdefault(base, []).append((i, k, way))

    def _near(self, op: GraphOp) -> tuple[int, ...]:
        tensors = {*op.outputs, *(self._of(t)[0] for t in op.inputs if t is not None)}
        makers = (self.maker[t][0] for t in tensors if t in self.maker)
        return tuple({*makers, *(i for t in tensors for i, _, _ in self.readers.get(t, ()))})

    # -- the cost of a state

    def price(self, tensor: str) -> int:
        """The price of a Transpose that makes ``tensor``."""
        t = self.edit.tensors[tensor]
        size = -(-math.prod(t.shape) * BY_SHORT[t.dtype].bits // 8)
        return size * BYTE + TRANSPOSE[len(t.shape) > 4]

    def made(self, base: str) -> Layout:
        """The layout in which a tensor is made."""
        if base not in self.maker:
            return identity(len(self.edit.tensors[base].shape))
        i, k = self.maker[base]
        return self.fits[i].outputs[k]

    def wanted(self, base: str) -> Iterator[Layout]:
        """Yields the layouts in which ops and the graph's outputs read a tensor."""
        for i, k, way in self.readers.get(base, ()):
            if (layout := self.fits[i].inputs[k]) is not None:
                yield compose(way, layout)
        yield from self.ends.get(base, ())

    def cost(self, base: str) -> int:
        """The cost of all layout changes of one tensor."""
        made = self.made(base)
        wanted = frozenset(layout for layout in self.wanted(base) if layout != made)
        if not wanted:
            return 0
        key = base, made, wanted
        if key not in self.costs:
            self.costs[key] = self._cost(*key)
        return self.costs[key]

    def _cost(self, base: str, made: Layout, wanted: frozenset[Layout]) -> int:
        """The cost of the changes from the layout in which a tensor is made to others."""
        shape = self.edit.tensors[base].shape
        forms = {(order(shape, made), stored_shape(shape, made))}
        orders, price = {order(shape, made)}, 0
        for layout in sorted(wanted):
            moved, form = order(shape, layout), stored_shape(shape, layout)
            if moved not in orders:
                orders.add(moved)
                price += self.price(base)
                price += 0 if self._takes(base, made, layout) else FORBIDDEN
            elif (moved, form) not in forms:
                price += RESHAPE
            forms.add((moved, form))
        return price

    def _takes(self, base: str, made: Layout, wanted: Layout) -> bool:
        """True if the target accepts the Transpose between two layouts."""
        key = base, made, wanted
        if key not in self.allowed:
            t = replace(self.edit.tensors[base], type="NATIVE")
            x, y = stored(t, made), stored(t, wanted)
            perm = compose(inverse(made), wanted)
            op = transpose("t", "x", perm, "y", "")
            self.allowed[key] = (
                x is not None
                and y is not None
                and self.edit.legal(op, {"x": replace(x, name="x"), "y": replace(y, name="y")})
            )
        return self.allowed[key]

    # -- the choice

    def improve(self) -> int:
        """Leaves the cheapest state found, and returns its cost."""
        bases = {*self.readers, *self.ends}
        reads = [self._read_by(i) for i in range(len(self.ops))]
        around = [(*r, *op.outputs) for r, op in zip(reads, self.ops, strict=True)]
        makes = [op.outputs for op in self.ops]
        self._sweep(around)
        best = list(self.fits)
        for back, sides in ((False, reads), (True, makes)):
            self._go(sides, back)  # through all ops that can, whatever it costs later
            self._sweep(around)
            best = self._better(best, around)
            self.fits = list(best)
        return sum(map(self.cost, bases))

    def _read_by(self, i: int) -> tuple[str, ...]:
        """The tensors that an op reads."""
        read = (self._of(t)[0] for t in self.ops[i].inputs if t is not None)
        return tuple(b for b in dict.fromkeys(read) if b in self.readers)

    def _sweep(self, around: Sequence[tuple[str, ...]]) -> None:
        """Sweeps forward and backward until nothing gets cheaper, at most SWEEPS times."""
        for _ in range(SWEEPS):
            if not self._go(around, False) + self._go(around, True):
                break

    def _go(self, around: Sequence[tuple[str, ...]], back: bool) -> int:
        """Makes one choice for each op, in order or backward; returns the change in cost (0 or less)."""
        return sum(self._choose(i, around[i], back) for i in range(len(self.ops))[:: -1 if back else 1])

    def _better(self, best: list[Fit], around: Sequence[tuple[str, ...]]) -> list[Fit]:
        """Takes the cheaper of the current state and ``best``, for each group of ops that differ and share tensors."""
        other, made = self.fits, list(best)
        differ = {i for i, (a, b) in enumerate(zip(best, other, strict=True)) if a != b}
        at: dict[str, list[int]] = {}
        for i in differ:
            for t in around[i]:
                at.setdefault(t, []).append(i)
        while differ:
            group, waiting, tensors = set(), [differ.pop()], set()
            while waiting:
                group.add(i := waiting.pop())
                tensors |= {*around[i]}
                found = differ & {j for t in around[i] for j in at[t]}
                differ -= found
                waiting += found
            self.fits = best
            had = sum(map(self.cost, tensors))
            self.fits = other
            if sum(map(self.cost, tensors)) < had:
                for i in group:
                    made[i] = other[i]
        return made

    def _choose(self, i: int, around: tuple[str, ...], back: bool) -> int:
        """Takes the layout of an op that is cheapest for the tensors ``around``; returns the change in their cost."""
        if self.ops[i].op not in RULES:
            return 0
        stand = [self.fits[j] for j in self.near[i]]
        if self.kept.get((i, around, back)) == stand:
            return 0
        reading, read = dict.fromkeys(self._as_read(i)), dict.fromkeys(self._as_wanted(i))
        best = had = self.fits[i]
        preferred = read if back else reading
        before = least = sum(map(self.cost, around))
        for layout in (*(reading if back else read), *preferred):
            option = self._option(i, layout)
            if option is None or option == best:
                continue
            self.fits[i] = option
            price = sum(map(self.cost, around))
            if price < least or (price == least and layout in preferred):
                best, least = option, price
        self.fits[i] = best
        if best is had:
            self.kept[i, around, back] = stand
        return least - before

    def _rank(self, i: int) -> int:
        """The rank of an op's layouts."""
        inputs, outputs = self.tensors[i]
        first = inputs[0] if inputs else None
        if self.ops[i].op in ELEMENTWISE or first is None:
            return len(outputs[0].shape) if outputs else 0
        return len(first.shape)

    def _as_read(self, i: int) -> Iterator[Layout]:
        """Yields the layouts in which an op reads an input as it is made."""
        for name in self.ops[i].inputs:
            if name is None:
                continue
            base, way = self._of(name)
            if base in self.readers and len(way) == self._rank(i):
                yield compose(inverse(way), self.made(base))

    def _as_wanted(self, i: int) -> Iterator[Layout]:
        """Yields the layouts in which an op makes an output as it is read."""
        inputs, outputs = self.tensors[i]
        if not inputs or inputs[0] is None:
            return
        for t in outputs:
            for layout in dict.fromkeys(self.wanted(t.name)):
                found = of_output(self.ops[i], inputs, outputs, layout)
                if found is not None and len(found) == self._rank(i):
                    yield found

    def _option(self, i: int, layout: Layout) -> Fit | None:
        """An op in a layout; None if that is impossible, or the target refuses it."""
        if (i, layout) not in self.options:
            self.options[i, layout] = self._judged(i, layout)
        return self.options[i, layout]

    def _judged(self, i: int, layout: Layout) -> Fit | None:
        op, (inputs, outputs) = self.ops[i], self.tensors[i]
        if layout == identity(len(layout)):
            return unchanged(op, inputs, outputs)
        found = fit(op, inputs, outputs, layout)
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
        return found if self.edit.legal(tried, held) else None

    def _rows_wanted(self, tensor: str) -> bool:
        """True if all readers of a tensor can read its last dimension in another order."""
        readers = self.readers.get(tensor, [])
        return tensor not in self.ends and all(
            way == identity(len(way)) and reads_rows(self.edit, self.ops[i], k) for i, k, way in readers
        )

    # -- the chosen graph

    def apply(self) -> None:
        """Replaces the edited graph by the chosen one."""
        writer = Writer(self.edit, {t.outputs[0]: t for t in self.transposes}, self._of)
        for op, found in zip(self.ops, self.fits, strict=True):
            inputs = tuple(
                None if name is None or way is None else writer.read(name, way, op)
                for name, way in zip(op.inputs, found.inputs, strict=True)
            )
            outputs = tuple(
                writer.make(name, way) for name, way in zip(op.outputs, found.outputs, strict=True)
            )
            made = replace(found.op, inputs=inputs, outputs=outputs)
            rows = self._rows(op)
            writer.add(made if rows is None else writer.with_rows(made, *rows))
        writer.finish()

    def _rows(self, op: GraphOp) -> tuple[tuple[int, ...], Layout] | None:
        """The sizes and the order in which the first input of an op was flattened, if the order changed; else None."""
        source = self.maker.get(self._of(op.inputs[0])[0]) if op.inputs and op.inputs[0] else None
        if source is None or (rows := self.fits[source[0]].rows) is None:
            return None
        inputs, outputs = self.tensors[source[0]]
        assert inputs[0] is not None
        return joined_sizes(inputs[0].shape, outputs[0].shape), rows
