"""The layouts chosen for the ops of a graph without its Transposes, and the cost of the changes between them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from opdb.core.dtypes import BY_SHORT
from opdb.core.graph import GraphOp, GraphTensor
from opdb.lower.passes.edit import Edit, parameter, transpose
from opdb.lower.passes.layouts import (
    Layout,
    OpLayouts,
    compose,
    identity,
    inverse,
    order,
    stored_shape,
    unchanged,
)
from opdb.lower.passes.tensor_layouts import stored

#: Bytes come first; states with equal bytes are compared by the number of Transposes, then of Reshapes.  A Transpose of five
#: dimensions counts like four of them: chips have kernels for four.
BYTE, RESHAPE = 1 << 24, 1
FORBIDDEN = 1 << 80
TRANSPOSE = {False: 2, True: 8}
#: The layouts of each op, at the op's place in ``LayoutGraph.ops``.
State = Sequence[OpLayouts]


class LayoutGraph:
    """A graph whose Transposes are absorbed: their results are other layouts of the tensors that they read."""

    def __init__(self, edit: Edit) -> None:
        self.edit = edit
        #: tensor -> its base tensor and its layout of that; a tensor that no absorbed Transpose makes is its own base
        self.alias: dict[str, tuple[str, Layout]] = {}
        self.transposes: list[GraphOp] = []
        self.ops: list[GraphOp] = []
        for op in edit.ops:
            if self._absorbed(op):
                source, way = self.base(str(op.inputs[0]))
                self.alias[op.outputs[0]] = source, compose(way, tuple(parameter(op, "perm")))
                self.transposes.append(op)
            else:
                self.ops.append(op)
        self.tensors = [self._tensors(op) for op in self.ops]
        self.maker: dict[str, tuple[int, int]] = {}
        #: the readers of each base tensor: (op, slot, the layout in which the slot sees it)
        self.readers: dict[str, list[tuple[int, int, Layout]]] = {}
        self._link()
        self.results: dict[str, list[Layout]] = {}
        for t in edit.tensors.values():
            if t.type == "APP_READ":
                base, way = self.base(t.name)
                self.results.setdefault(base, []).append(way)
        self.allowed: dict[tuple[str, Layout, Layout], bool] = {}
        self.costs: dict[tuple[str, Layout, frozenset[Layout]], int] = {}

    def _absorbed(self, op: GraphOp) -> bool:
        """True if an op is a Transpose that only moves stored values."""
        if op.op != "Transpose":
            return False
        x, y = self.edit.tensors[str(op.inputs[0])], self.edit.tensors[op.outputs[0]]
        made = stored(x, tuple(parameter(op, "perm")))
        return made is not None and (made.dtype, made.quant, x.sparse) == (y.dtype, y.quant, None)

    def base(self, tensor: str) -> tuple[str, Layout]:
        """The base tensor of a tensor, and the tensor's layout relative to it."""
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
                    base, way = self.base(read)
                    if self.edit.tensors[base].type != "STATIC":
                        self.readers.setdefault(base, []).append((i, k, way))

    def original(self) -> list[OpLayouts]:
        """The layouts of the ops as the graph has them."""
        return [unchanged(op, *t) for op, t in zip(self.ops, self.tensors, strict=True)]

    def neighbors(self, i: int) -> tuple[int, ...]:
        """An op itself, and the ops that make or read one of its tensors."""
        op = self.ops[i]
        tensors = {*op.outputs, *(self.base(t)[0] for t in op.inputs if t is not None)}
        makers = (self.maker[t][0] for t in tensors if t in self.maker)
        return tuple({*makers, *(i for t in tensors for i, _, _ in self.readers.get(t, ()))})

    def tensors_read(self, i: int) -> tuple[str, ...]:
        """The base tensors that an op reads, without constants."""
        read = (self.base(t)[0] for t in self.ops[i].inputs if t is not None)
        return tuple(b for b in dict.fromkeys(read) if b in self.readers)

    # -- the cost of a state

    def price(self, tensor: str) -> int:
        """The price of a Transpose that makes ``tensor``."""
        t = self.edit.tensors[tensor]
        size = -(-math.prod(t.shape) * BY_SHORT[t.dtype].bits // 8)
        return size * BYTE + TRANSPOSE[len(t.shape) > 4]

    def written_in(self, base: str, state: State) -> Layout:
        """The layout in which a tensor is made."""
        if base not in self.maker:
            return identity(len(self.edit.tensors[base].shape))
        i, k = self.maker[base]
        return state[i].outputs[k]

    def read_in(self, base: str, state: State) -> Iterator[Layout]:
        """Yields the layouts in which ops and the graph's outputs read a tensor."""
        for i, k, way in self.readers.get(base, ()):
            if (layout := state[i].inputs[k]) is not None:
                yield compose(way, layout)
        yield from self.results.get(base, ())

    def cost(self, tensors: Iterable[str], state: State) -> int:
        """The cost of all layout changes of some base tensors."""
        return sum(self._cost_of(base, state) for base in tensors)

    def _cost_of(self, base: str, state: State) -> int:
        made = self.written_in(base, state)
        wanted = frozenset(layout for layout in self.read_in(base, state) if layout != made)
        if not wanted:
            return 0
        key = base, made, wanted
        if key not in self.costs:
            self.costs[key] = self._changes(*key)
        return self.costs[key]

    def _changes(self, base: str, made: Layout, wanted: frozenset[Layout]) -> int:
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
