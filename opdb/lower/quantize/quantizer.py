"""Post-training quantization of a float graph for one target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from opdb.catalog.targets.target import Target
from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.core.op_config import Quant
from opdb.judge.validate import check
from opdb.lower.quantize import tables
from opdb.lower.quantize.departures import lines, together
from opdb.lower.quantize.draft import add
from opdb.lower.quantize.encodings import Range, encoding, in_16_bits
from opdb.lower.quantize.in_floats import REAL, WHOLE
from opdb.lower.quantize.neighbors import among_neighbors
from opdb.lower.quantize.observe import Kept, Run
from opdb.lower.quantize.plan import Plan, planned
from opdb.lower.quantize.propagate import derive
from opdb.lower.quantize.recipe import Recipe
from opdb.lower.quantize.recipe_types import Asked, Source
from opdb.lower.quantize.slots import Place, places
from opdb.lower.quantize.weights import WeightType, of_weight
from opdb.runtime.kernels import run_graph
from opdb.runtime.qnn.real_numbers import quantized

#: (tensor, type, zero in the middle): the result of a Convert, which all its readers share.
Converted = tuple[str, str, bool]


def quantize(
    graph: QnnGraph,
    calibration: Iterable[Mapping[str, Any]],
    *,
    target: Target,
    recipe: Recipe | Asked | str = "8a8w",
    sources: Mapping[str, Source] | None = None,
    overrides: Mapping[str, str] | None = None,
    margin: float = 0.0,
    run: Run = run_graph,
    states: Iterable[Kept] = (),
    observed: dict[str, Range] | None = None,
    told: list[str] | None = None,
) -> QnnGraph:
    """Quantizes every real tensor of ``graph``, as ``target`` accepts it.

    ``calibration``: real arrays by the name of the input, like those that the graph will get; ranges are the
    smallest and the largest observed values, or those that the recipe's observer derives.  ``recipe``: its name, a Recipe whose rules
    select nodes by their ``sources`` (by GraphOp.origin), or types by name (opdb.lower.quantize.Asked).
    ``overrides`` gives single tensors, and those that share their encoding, another type (short name).  ``margin`` is the share
    by which observed ranges are widened for values that calibration did not show.  If a row of the
    target needs another type than the neighbor has, a Convert is inserted.  ``run`` computes the float
    graph, by default on the C kernels.  ``states``: values carried from each run to the next, e.g. a cache; the samples of
    ``calibration`` are then successive runs, and a state's input and output have one encoding.  ``observed`` gets the range that each
    tensor was observed to have by itself (opdb.lower.quantize.ranges.crowded), ``told`` the lines of a report: nodes that stay in floats
    and masks that are clipped.  A node without a form in integers computes in floats if the target has them; otherwise it becomes a
    table if each element of its result depends on one element of one tensor.

    A recipe with ``rounding: adaround`` needs a graph whose weights opdb.execute.compile.rounding has rounded.

    Raises OpdbError for a node that no row of the target's tables fits (naming the nearest), for a node that the
    validator refuses in the end, for values that are not finite, and for an unknown type or tensor.
    """
    plan = planned(
        graph, calibration, target, recipe, sources or {}, overrides or {}, margin, run, tuple(states)
    )
    if observed is not None:
        observed.update(plan.seen)
    if plan.refused:
        raise together(list(plan.refused.values()))
    graph, target = plan.graph, plan.target
    made = _Quantizer(plan).build()
    made = among_neighbors(made, target)
    if told is not None:
        told += plan.asked.unfit
        told += map(str, plan.cut_off)
        told += lines(graph, plan.forms, plan.asked)
    for op in made.ops:
        verdict = check(made.op_config(op), target)
        if verdict.verdict != "accept":
            reasons = "; ".join(f"{v.rule}: {v.message}" for v in verdict.violations if not v.warning)
            raise OpdbError(f"node {op.name} ({op.op}) cannot be quantized for {target}: {reasons}")
    return made


class _Quantizer:
    """Builds the quantized graph: encodings of the activations first, then node by node."""

    def __init__(self, plan: Plan) -> None:
        self.graph, self.groups, self.wanted, self.forms = plan.graph, plan.groups, plan.wanted, plan.forms
        self.ranges, self.asked = plan.ranges, plan.asked
        self.quants = self._encodings()
        self.made = QnnGraph(plan.graph.name)
        self.converts: dict[Converted, str] = {}
        self.floats: dict[str, str] = {}  # real tensors that exist in floats, too
        self.indices: dict[str, str] = {}  # by quantized tensor: the places of its numbers in a table

    def _encodings(self) -> dict[str, Quant]:
        """The encoding of every tensor in ``wanted``."""
        centered = {self.groups.root(t) for t in self.asked.centered if t in self.wanted}
        if self.asked.symmetric:
            centered |= {self.groups.root(t) for t in self.wanted}
        centered |= {
            self.groups.root(place.tensor)
            for op in self.graph.ops
            for place in places(op)
            if place.tensor in self.wanted and self._type(op, place) == self.wanted[place.tensor]
            if place.slot in self.forms[op.name].symmetric
        }
        return {
            name: encoding(self.ranges[name], dtype, self.groups.root(name) in centered)
            for name, dtype in self.wanted.items()
        }

    def _type(self, op: GraphOp, place: Place) -> str:
        return self.forms[op.name].dtypes.get(place.slot, self.graph.tensors[place.tensor].dtype)

    def build(self) -> QnnGraph:
        for tensor in self.graph.tensors.values():
            if tensor.name in self.wanted:
                self._add(self._typed(tensor, self.wanted[tensor.name], self.quants[tensor.name]))
            elif tensor.dtype not in REAL:
                self._add(tensor)
        for op in self.graph.ops:
            self._node(op)
        return self.made

    def _node(self, op: GraphOp) -> None:
        form = self.forms[op.name]
        if form.floats:
            self._in_floats(op)
        elif form.whole:
            self._whole(op, form.whole)
        elif form.table:
            self._table(op)
        else:
            self._in_integers(op)

    def _in_floats(self, op: GraphOp) -> None:
        """Keeps the node as in the float graph; dequantizes its inputs, and quantizes the results that others read in integers."""
        inputs = tuple(None if name is None else self._float(name, op) for name in op.inputs)
        outputs = []
        for name in op.outputs:
            tensor = self.graph.tensors[name]
            if name in self.wanted:
                tensor = replace(tensor, name=f"{name}_float", type="NATIVE")
                self.floats[name] = self._add(tensor)
                outputs.append(self.floats[name])
            else:
                outputs.append(name)
        self.made.ops.append(replace(op, inputs=inputs, outputs=tuple(outputs)))
        for name in op.outputs:
            if name in self.wanted and self._read_in_integers(name):
                self._op(f"{name}_quantize", "Quantize", self.floats[name], name, op)

    def _float(self, name: str, op: GraphOp) -> str:
        """The float copy of a real tensor, dequantized once for all readers."""
        tensor = self.graph.tensors[name]
        if tensor.dtype not in REAL:
            return name
        if name not in self.floats:
            if tensor.type == "STATIC":
                own = f"{name}_float" if name in self.wanted else name
                self.floats[name] = self._add(replace(tensor, name=own))
            else:
                made = replace(tensor, name=f"{name}_float", type="NATIVE")
                self.floats[name] = self._add(made)
                self._op(f"{name}_dequantize", "Dequantize", name, self.floats[name], op)
        return self.floats[name]

    def _read_in_integers(self, name: str) -> bool:
        """True if the quantized tensor is an output of the graph, or a node in integers reads it."""
        ends = self.graph.tensors[name].type == "APP_READ"
        return ends or any(name in op.inputs and not self.forms[op.name].floats for op in self.graph.ops)

    def _whole(self, op: GraphOp, dtype: str) -> None:
        """Writes whole numbers at scale 1; a Convert brings them to the encoding that the readers know."""
        name = op.outputs[0]
        tensor = replace(self.graph.tensors[name], name=f"{name}_whole", type="NATIVE")
        made = self._add(replace(tensor, dtype=dtype, quant=WHOLE))
        self.made.ops.append(replace(op, outputs=(made,)))
        self._op(f"{name}_convert", "Convert", made, name, op)

    def _table(self, op: GraphOp) -> None:
        """Replaces the node by a table of its result for each stored number."""
        x, y = (self.made.tensors[n] for n in (tables.source(self.graph, op), op.outputs[0]))
        if x.name not in self.indices:
            self.indices[x.name] = tables.index(self.made, x, op.origin)
        data = tables.entries(self.graph, op, x, y)
        tables.look_up(self.made, self.indices[x.name], y, data, op.origin)

    def _op(self, name: str, op: str, source: str, result: str, of: GraphOp) -> None:
        self.made.ops.append(GraphOp(name, op, (source,), (), (result,), origin=of.origin))

    def _in_integers(self, op: GraphOp) -> None:
        inputs, outputs = list(op.inputs), list(op.outputs)
        of_node = places(op)
        # in dependency order: activations, weights, then derived encodings
        quants = {p.tensor: self.quants[p.tensor] for p in of_node if p.tensor in self.quants}
        for place in of_node:
            if place.tensor not in self.wanted or self._type(op, place) == self.wanted[place.tensor]:
                continue
            if place.output:
                outputs[place.index] = self._add(self._other_type(op, place))
            else:
                inputs[place.index] = self._convert(op, place)
                quants[place.tensor] = (
                    self.made.tensors[inputs[place.index] or ""].quant or quants[place.tensor]
                )
        static = [p for p in of_node if p.slot in self.forms[op.name].dtypes and p.tensor not in self.wanted]
        for place in sorted(static, key=lambda p: bool(p.rule.scale)):
            dtype = self._type(op, place)
            if place.rule.scale and dtype == place.rule.dtype:
                quants.pop(place.tensor, None)
                derive(of_node, quants)
            else:
                other = self._of_other(op, place, dtype, of_node)
                quants[place.tensor] = other or self._fitted(op, place, dtype)
            inputs[place.index] = self._add(
                self._typed(self.graph.tensors[place.tensor], dtype, quants[place.tensor])
            )
        self.made.ops.append(replace(op, inputs=tuple(inputs), outputs=tuple(outputs)))
        for wrote, name in zip(outputs, op.outputs, strict=True):
            if wrote != name:
                self._op(f"{name}_convert", "Convert", wrote, name, op)

    def _of_other(self, op: GraphOp, place: Place, dtype: str, of_node: Iterable[Place]) -> Quant | None:
        """Gives a constant that is all zeros, or compared, the encoding of the other operand.

        Any encoding would hold zeros, but HTP compares x with a zero of scale 1 in steps coarser than those of x.  A number in
        the encoding of x equals the elements of x that have its value; in another encoding it would be slightly off.
        """
        data = np.asarray(self.graph.tensors[place.tensor].data)
        compared = all(self.graph.tensors[name].dtype == "bool8" for name in op.outputs)
        for other in of_node:
            if other.tensor in self.wanted and not other.output and self.wanted[other.tensor] == dtype:
                held = self.ranges[other.tensor]
                inside = data.size and held.low <= data.min() and data.max() <= held.high
                return self.quants[other.tensor] if not np.any(data) or (compared and inside) else None
        return None

    def _fitted(self, op: GraphOp, place: Place, dtype: str) -> Quant:
        axis = place.rule.axis if place.slot in self.forms[op.name].per_slice else None
        data = np.asarray(self.graph.tensors[place.tensor].data, np.float64)
        seen = self.ranges[place.tensor]  # without the clipped part of masks
        data = np.clip(data, seen.low, seen.high)
        form = self.forms[op.name]
        with_channels = place.rule.axis is not None and dtype == "sq8"
        weight = form.weight if with_channels else WeightType()
        return of_weight(data, dtype, place.slot in form.symmetric, axis, weight)

    def _convert(self, op: GraphOp, place: Place) -> str:
        """The tensor in the type that the node needs, from a Convert."""
        dtype = self._type(op, place)
        key = (place.tensor, dtype, place.slot in self.forms[op.name].symmetric)
        if key not in self.converts:
            self.converts[key] = self._add(self._other_type(op, place))
            self._op(f"{self.converts[key]}_convert", "Convert", place.tensor, self.converts[key], op)
        return self.converts[key]

    def _other_type(self, op: GraphOp, place: Place) -> GraphTensor:
        """A copy of a node's tensor in the type that the node needs."""
        dtype, source, form = self._type(op, place), self.graph.tensors[place.tensor], self.forms[op.name]
        quant = encoding(self.ranges[place.tensor], dtype, place.slot in form.symmetric)
        if form.wider and place.slot not in form.symmetric:
            quant = in_16_bits(self.quants[place.tensor])
        return GraphTensor(f"{source.name}_{dtype}", dtype, source.shape, "NATIVE", None, quant)

    def _add(self, tensor: GraphTensor) -> str:
        return add(self.made, tensor)

    @staticmethod
    def _typed(tensor: GraphTensor, dtype: str, quant: Quant) -> GraphTensor:
        data = tensor.data
        if tensor.type == "STATIC":
            real = np.asarray(data, np.float64).reshape(tensor.shape)
            data = quantized(real, BY_SHORT[dtype].short, quant, f"tensor {tensor.name}")
        return replace(tensor, dtype=dtype, quant=quant, data=data)
