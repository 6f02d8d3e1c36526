"""Post-training quantization of a float graph for one target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from opdb.dtypes import BY_SHORT, lookup
from opdb.errors import OpdbError
from opdb.graph import GraphOp, GraphTensor, QnnGraph
from opdb.op_config import Quant
from opdb.quantize.choose import Form, NoForm, Wishes, choose, fits, known
from opdb.quantize.clamps import by_limits
from opdb.quantize.encodings import Range, encoding, of_data
from opdb.quantize.in_floats import REAL, WHOLE
from opdb.quantize.masks import Clipped, clipped, finite
from opdb.quantize.neighbors import among_neighbors
from opdb.quantize.observe import Kept, Run, observe
from opdb.quantize.propagate import Groups, derive, fixed_range
from opdb.quantize.slots import Place, places
from opdb.quantize.taps import with_zeros
from opdb.runtime.kernels import run_graph
from opdb.runtime.qnn.ends import quantized
from opdb.targets.target import Target
from opdb.validate import check

#: (tensor, type, whether zero is in the middle): what a Convert makes, once for all that read it.
Converted = tuple[str, str, bool]
#: The word for a quantization -> types of activations and of weights.
SCHEMES = {"8a8w": ("uq8", "sq8"), "16a8w": ("uq16", "sq8")}
#: Nodes that a line names.
SHOWN = 3
#: Refused nodes that an error names.
MOST = 8


def quantize(
    graph: QnnGraph,
    calibration: Iterable[Mapping[str, Any]],
    *,
    target: Target,
    activations: str = "uq8",
    weights: str = "sq8",
    overrides: Mapping[str, str] | None = None,
    margin: float = 0.0,
    run: Run = run_graph,
    states: Iterable[Kept] = (),
    observed: dict[str, Range] | None = None,
    told: list[str] | None = None,
) -> QnnGraph:
    """``graph`` with every real tensor quantized, as ``target`` takes it.

    ``calibration``: real arrays by the name of the input, of the kind that the graph will see; ranges are the
    least and the largest values seen.  ``activations`` and ``weights`` are short names (uq8, uq16; sq8, uq8, ...);
    ``overrides`` gives single tensors, and those that share their encoding, another type.  ``margin`` is the share
    by which observed ranges are widened for values that calibration did not show.  Where a row of the
    target asks for another type than its neighbor has, a Convert is put between.  ``run`` computes the float
    graph, by default on the C kernels.  ``states``: what goes from each run to the next, e.g. a cache; ``calibration`` are
    then runs one after the other, and a state's input and output have one encoding.  ``observed`` gets the range that each
    tensor was seen to have by itself (opdb.quantize.ranges.crowded), ``told`` what a report has to say: nodes that stay in floats
    and masks that are cut off.  A node without a form in integers computes in floats where the target has them.

    Raises OpdbError for a node that no row of the target's tables fits (naming the nearest), for a node that the
    validator refuses in the end, for values that are not finite, and for an unknown type or tensor.
    """
    plan = _planned(
        graph, calibration, target, activations, weights, overrides or {}, margin, run, tuple(states)
    )
    if observed is not None:
        observed.update(plan.seen)
    if plan.refused:
        raise together(list(plan.refused.values()))
    graph, target = plan.graph, plan.target
    made = _Quantizer(graph, plan.groups, plan.wanted, plan.forms, plan.ranges).build()
    made = among_neighbors(made, target)
    if told is not None:
        told += map(str, plan.cut_off)
        told += in_floats_lines(graph, plan.forms)
        told += doubt_lines(graph, plan.forms)
    for op in made.ops:
        verdict = check(made.op_config(op), target)
        if verdict.verdict != "accept":
            reasons = "; ".join(f"{v.rule}: {v.message}" for v in verdict.violations if not v.warning)
            raise OpdbError(f"node {op.name} ({op.op}) cannot be quantized for {target}: {reasons}")
    return made


def forms_of(
    graph: QnnGraph,
    calibration: Iterable[Mapping[str, Any]],
    *,
    target: Target,
    activations: str,
    weights: str,
    run: Run = run_graph,
) -> tuple[QnnGraph, dict[str, Form], dict[str, NoForm]]:
    """What ``quantize`` makes of each op of the returned graph, by its name, and why those that have no form have none."""
    plan = _planned(graph, calibration, target, activations, weights, {}, 0.0, run, ())
    return plan.graph, plan.forms, plan.refused


@dataclass(frozen=True)
class _Plan:
    """What is known of a graph before it is written: see ``quantize``."""

    graph: QnnGraph
    target: Target
    groups: Groups
    wanted: Mapping[str, str]
    seen: Mapping[str, Range]
    ranges: Mapping[str, Range]
    cut_off: list[Clipped]
    forms: dict[str, Form]
    refused: dict[str, NoForm]


def _planned(
    graph: QnnGraph,
    calibration: Iterable[Mapping[str, Any]],
    target: Target,
    activations: str,
    weights: str,
    overrides: Mapping[str, str],
    margin: float,
    run: Run,
    states: Sequence[Kept],
) -> _Plan:
    """The ranges of the tensors and the form of each op."""
    target = target.spelled()
    graph = finite(graph)
    for dtype in (activations, weights, *overrides.values()):
        kind = lookup(dtype)
        if kind is None or kind.short != dtype or not kind.quantized or kind.numpy is None:
            raise OpdbError(f"'{dtype}' is not a type to quantize to; e.g. uq8, uq16, sq8")
    groups = _grouped(graph, states)
    wanted = _wanted(graph, groups, activations, overrides)
    for op in graph.ops:
        known(op)
    if not 0 <= margin < np.inf:
        raise OpdbError(f"margin: {margin} is not a share of a range; e.g. 0.1")
    floors: dict[str, float] = {}
    found = observe(graph, calibration, run, states, floors)
    seen, cut_off = clipped(graph, groups, {n: r.widened(margin) for n, r in found.items()}, floors)
    ranges = _shared_ranges(graph, groups, wanted, seen)
    wishes = Wishes(wanted, ranges, weights, target)
    whole, seen = by_limits(graph, seen, ranges, target, partial(fits, graph, wishes))
    whole, seen = with_zeros(whole, seen, target, partial(fits, graph, wishes))
    if len(whole.tensors) > len(graph.tensors):
        graph, groups = whole, _grouped(whole, states)
        wanted = _wanted(graph, groups, activations, overrides)
        ranges = _shared_ranges(graph, groups, wanted, seen)
        wishes = Wishes(wanted, ranges, weights, target)
    forms: dict[str, Form] = {}
    refused: dict[str, NoForm] = {}
    for op in graph.ops:
        try:
            forms[op.name] = choose(graph, op, wishes)
        except NoForm as refusal:
            refused[op.name] = refusal
    return _Plan(graph, target, groups, wanted, seen, ranges, cut_off, forms, refused)


def _grouped(graph: QnnGraph, states: Sequence[Kept]) -> Groups:
    """The real tensors that share an encoding."""
    groups = Groups(graph, lambda t: t.dtype in REAL)
    for kept in states:
        if graph.tensors[kept.input].dtype in REAL:
            groups.join(kept.input, kept.output)
    return groups


def _wanted(
    graph: QnnGraph, groups: Groups, activations: str, overrides: Mapping[str, str]
) -> dict[str, str]:
    """The type of every real tensor that is not a weight: those that run through, and those that share with them."""
    chosen: dict[str, tuple[str, str]] = {}
    for name, dtype in overrides.items():
        if name not in graph.tensors or graph.tensors[name].dtype not in REAL:
            raise OpdbError(
                f"{graph.name}: overrides names '{name}', which is not a floating-point tensor of the graph"
            )
        other, given = chosen.setdefault(groups.root(name), (name, dtype))
        if given != dtype:
            raise OpdbError(f"overrides: {other} is {given} and {name} {dtype}, but they share one encoding")
    return {
        name: chosen.get(groups.root(name), ("", activations))[1]
        for name, t in graph.tensors.items()
        if t.dtype in REAL and (t.type != "STATIC" or len(groups.members[groups.root(name)]) > 1)
    }


def _shared_ranges(
    graph: QnnGraph, groups: Groups, wanted: Mapping[str, str], seen: Mapping[str, Range]
) -> dict[str, Range]:
    """By real tensor: what it, and those that share its encoding, were seen to hold, or what the spec of their op says."""
    own = dict(seen)
    for op in graph.ops:
        for place in places(op):
            if place.output and place.rule.range and place.tensor in wanted:
                own[place.tensor] = fixed_range(place.rule)
    shared: dict[str, Range] = {}
    for name in wanted:
        root = groups.root(name)
        shared[root] = shared.get(root, Range()) | own.get(name, Range())
    return own | {name: shared[groups.root(name)] for name in wanted}


def together(refused: Sequence[NoForm]) -> OpdbError:
    """One error for all nodes without a form."""
    if len(refused) == 1:
        return refused[0]
    lines = "".join(f"\n  {refusal}" for refusal in refused[:MOST])
    more = f"\n  and {len(refused) - MOST} more" if len(refused) > MOST else ""
    return OpdbError(f"{len(refused)} nodes have no form in these types:{lines}{more}")


def in_floats_lines(graph: QnnGraph, forms: Mapping[str, Form]) -> Iterator[str]:
    """A line for the nodes that compute in floats for one reason."""
    nodes: dict[tuple[str, str], list[str]] = {}
    for op in graph.ops:
        if forms[op.name].floats:
            nodes.setdefault((op.op, forms[op.name].floats), []).append(op.origin or op.name)
    for (op_name, reason), names in nodes.items():
        some = ", ".join(dict.fromkeys(names[:SHOWN])) + (" ..." if len(names) > SHOWN else "")
        yield f"in floats: {len(names)} {op_name} ({some}): {reason}"


def doubt_lines(graph: QnnGraph, forms: Mapping[str, Form]) -> Iterator[str]:
    """A line for each node whose form has a fault of the library that nothing avoids."""
    for op in graph.ops:
        if forms[op.name].doubt:
            yield f"doubtful: {op.origin or op.name} ({op.op}): {forms[op.name].doubt}"


class _Quantizer:
    """Builds the quantized graph: encodings of what runs through first, then node by node."""

    def __init__(
        self,
        graph: QnnGraph,
        groups: Groups,
        wanted: Mapping[str, str],
        forms: Mapping[str, Form],
        ranges: Mapping[str, Range],
    ) -> None:
        self.graph, self.groups, self.wanted, self.forms = graph, groups, wanted, forms
        self.ranges = ranges
        self.quants = self._encodings()
        self.made = QnnGraph(graph.name)
        self.converts: dict[Converted, str] = {}
        self.floats: dict[str, str] = {}  # real tensors that exist in floats, too

    def _encodings(self) -> dict[str, Quant]:
        """By tensor, of everything in ``wanted``."""
        centred = {
            self.groups.root(place.tensor)
            for op in self.graph.ops
            for place in places(op)
            if place.tensor in self.wanted and self._type(op, place) == self.wanted[place.tensor]
            if place.slot in self.forms[op.name].symmetric
        }
        return {
            name: encoding(self.ranges[name], dtype, self.groups.root(name) in centred)
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
        else:
            self._in_integers(op)

    def _in_floats(self, op: GraphOp) -> None:
        """The node as it is in the float graph; what it reads is dequantized, and what others read of it quantized."""
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
        """The float tensor of a real one, dequantized once for all that read it."""
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
        """Whether something reads the quantized tensor: an end of the graph, or a node in integers."""
        ends = self.graph.tensors[name].type == "APP_READ"
        return ends or any(name in op.inputs and not self.forms[op.name].floats for op in self.graph.ops)

    def _whole(self, op: GraphOp, dtype: str) -> None:
        """The node writes whole numbers at scale 1; a Convert brings them to the encoding that its readers know."""
        name = op.outputs[0]
        tensor = replace(self.graph.tensors[name], name=f"{name}_whole", type="NATIVE")
        made = self._add(replace(tensor, dtype=dtype, quant=WHOLE))
        self.made.ops.append(replace(op, outputs=(made,)))
        self._op(f"{name}_convert", "Convert", made, name, op)

    def _op(self, name: str, op: str, source: str, result: str, of: GraphOp) -> None:
        self.made.ops.append(GraphOp(name, op, (source,), (), (result,), origin=of.origin))

    def _in_integers(self, op: GraphOp) -> None:
        inputs = list(op.inputs)
        of_node = places(op)
        # in the order of what depends on what: activations, weights, then derived encodings
        quants = {p.tensor: self.quants[p.tensor] for p in of_node if p.tensor in self.quants}
        for place in of_node:
            if place.tensor in self.wanted and self._type(op, place) != self.wanted[place.tensor]:
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
        self.made.ops.append(replace(op, inputs=tuple(inputs)))

    def _of_other(self, op: GraphOp, place: Place, dtype: str, of_node: Iterable[Place]) -> Quant | None:
        """Of a constant that is zero everywhere, or compared, the encoding of what it is computed with.

        Any would hold zeros, but HTP compares x with a zero of scale 1 in steps that are coarser than those of x.  A number in
        the encoding of x is equal to the elements of x that have its value; in another it lies beside them.
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
        seen = self.ranges[place.tensor]  # without what is cut off of masks
        data = np.clip(data, seen.low, seen.high)
        return of_data(data, dtype, place.slot in self.forms[op.name].symmetric, axis)

    def _convert(self, op: GraphOp, place: Place) -> str:
        """The tensor in the type that the node asks for, from a Convert."""
        dtype = self._type(op, place)
        key = (place.tensor, dtype, place.slot in self.forms[op.name].symmetric)
        if key not in self.converts:
            quant = encoding(self.ranges[place.tensor], dtype, key[2])
            source = self.graph.tensors[place.tensor]
            made = GraphTensor(f"{source.name}_{dtype}", dtype, source.shape, "NATIVE", None, quant)
            self.converts[key] = self._add(made)
            self._op(f"{self.converts[key]}_convert", "Convert", source.name, self.converts[key], op)
        return self.converts[key]

    def _add(self, tensor: GraphTensor) -> str:
        """Adds a tensor; the same one is added once, another of its name gets a number."""
        name, n = tensor.name, 1
        while name in self.made.tensors:
            held = self.made.tensors[name]
            if (held.dtype, held.quant, held.type) == (tensor.dtype, tensor.quant, tensor.type):
                return name
            n += 1
            name = f"{tensor.name}_{n}"
        self.made.tensors[name] = replace(tensor, name=name)
        return name

    @staticmethod
    def _typed(tensor: GraphTensor, dtype: str, quant: Quant) -> GraphTensor:
        data = tensor.data
        if tensor.type == "STATIC":
            real = np.asarray(data, np.float64).reshape(tensor.shape)
            data = quantized(real, BY_SHORT[dtype].short, quant, f"tensor {tensor.name}")
        return replace(tensor, dtype=dtype, quant=quant, data=data)
