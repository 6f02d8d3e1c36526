"""The graph sink: lowered nodes of a program -> one QnnGraph.

Static tensors are permuted, reshaped and filled here; tensors that are only known when the graph runs get
Transpose and Reshape ops.  A tensor that an op wrote in another layout is read in that layout if the
reader needs the same one, so that neighbors with one layout exchange it without Transposes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.lower.constant_encodings import stored
from opdb.runtime.forms import Lowered, LoweredOp, Rejected, layout_ops
from opdb.runtime.static import made_values, transformed
from opdb.runtime.tensors import Rejection, TensorRef, Transform

if TYPE_CHECKING:
    import numpy as np

    from opdb.programs.torch.encodings import Key
    from opdb.programs.torch.nodes import TorchNode
    from opdb.programs.torch.program import Program

Layout = tuple[Transform, ...]
CPU_RESHAPES = ("f32", "u32", "i32", "bool8", "u8")


@dataclass(frozen=True)
class Part:
    """A graph of some nodes.  ``inputs``, ``outputs``: the tensor at each end, by its origin.

    ``layout_ops``: the names of the Transposes and Reshapes that only change the layout of a tensor.
    """

    graph: QnnGraph
    inputs: Mapping[Any, str]
    outputs: Mapping[Any, str]
    layout_ops: tuple[str, ...] = ()


def build_graph(program: Program, lowered: Mapping[str, Lowered | Rejected], name: str = "graph") -> QnnGraph:
    """The QnnGraph of the whole program.  ``lowered``: the outcome of each node, by its name.

    Inputs and outputs have the program's order.  Raises OpdbError if a node has no lowering.
    """
    return build_part(program, lowered, name, program.nodes, program.inputs, program.outputs).graph


def build_part(
    program: Program,
    lowered: Mapping[str, Lowered | Rejected],
    name: str,
    nodes: Sequence[TorchNode],
    inputs: Sequence[Key],
    outputs: Sequence[Key],
) -> Part:
    """The QnnGraph of ``nodes``, which read ``inputs`` besides constants; the ends have the program's layout.

    An input without elements is left out of the graph.
    """
    sink = _Sink(program, QnnGraph(name))
    held = {}
    for key in inputs:
        ref = _end(program, key)
        if 0 in ref.shape:  # no op reads it, e.g. Concat leaves it out; HTP would ask for its memory
            continue
        tensor = GraphTensor(_spelled(key), ref.dtype, ref.shape, "APP_WRITE", quant=ref.quant)
        held[key] = sink.add(tensor, (key, ()))
    for node in nodes:
        outcome = lowered.get(node.name)
        if not isinstance(outcome, Lowered):
            why = (
                "; ".join(r.message for r in outcome.reasons) if outcome is not None else "it was not lowered"
            )
            raise OpdbError(f"the node {node.name} ({node.target}) cannot be a QNN op: {why}")
        for op in outcome.ops:
            sink.write(op, node.name)
    made = sink.finish(outputs)
    return Part(sink.graph, held, made, tuple(sink.layout_ops))


def supported_part(program: Program, lowered: Mapping[str, Lowered | Rejected], name: str) -> QnnGraph | None:
    """The QnnGraph of the nodes that are lowered, None if there are none.

    A tensor that they read from other nodes is an input, a tensor that other nodes read from them is an output.
    """
    nodes = [n for n in program.nodes if isinstance(lowered[n.name], Lowered)]
    if not nodes:
        return None
    own = {n.name for n in nodes}
    read = {
        key: None for n in nodes for key in n.sources() if key[0] not in own and key not in program.values
    }
    left = [key for n in program.nodes if n.name not in own for key in n.sources()]
    made = {key: None for key in (*left, *program.outputs) if key[0] in own}
    return build_part(program, lowered, name, nodes, list(read), list(made)).graph


class _Sink:
    def __init__(self, program: Program, graph: QnnGraph) -> None:
        self.program, self.graph = program, graph
        #: (origin, layout) -> the tensor that holds it; the origin of an intermediate is (node, its name).
        self.held: dict[tuple[Any, Layout], str] = {}
        #: origins that exist only in another layout: origin -> ref as the op wrote it
        self.written: dict[Any, TensorRef] = {}
        self.layout_ops: list[str] = []

    def add(self, tensor: GraphTensor, place: tuple[Any, Layout] | None = None) -> str:
        """Adds ``tensor`` under its name, or that name with a number."""
        name, n = tensor.name, 1
        while name in self.graph.tensors:
            n += 1
            name = f"{tensor.name}_{n}"
        self.graph.tensors[name] = replace(tensor, name=name)
        if place is not None:
            self.held[place] = name
        return name

    # -- ops

    def write(self, op: LoweredOp, origin: str) -> None:
        inputs = tuple(None if t is None else self.read(t, origin) for t in op.inputs)
        outputs = tuple(self.output(t, origin) for t in op.outputs)
        self.op(op, inputs, outputs, origin)

    def op(
        self, op: LoweredOp, inputs: tuple[str | None, ...], outputs: tuple[str, ...], origin: str
    ) -> None:
        self.graph.ops.append(
            GraphOp(f"{origin}_{len(self.graph.ops)}", op.op, inputs, op.params, outputs, op.package, origin)
        )

    def output(self, t: TensorRef, origin: str) -> str:
        source = self.source(t, origin)
        name = f"{_spelled(source)}_raw" if t.transforms else _spelled(source)
        if t.transforms:
            self.written[source] = t
        return self.add(GraphTensor(name, t.dtype, t.shape, "NATIVE", quant=t.quant), (source, t.transforms))

    def source(self, t: TensorRef, origin: str) -> Any:
        return (origin, t.local) if t.local is not None else t.key

    # -- tensors

    def read(self, t: TensorRef, origin: str) -> str:
        """The name of the tensor that holds ``t``, which is made if there is none yet."""
        if t.made:
            return self._made(t, origin)
        source = self.source(t, origin)
        if (source, t.transforms) in self.held:
            return self.held[source, t.transforms]
        if t.static:
            array = transformed(self.program.array(source), t.transforms, self._values)
            tensor = GraphTensor(_spelled(source), t.dtype, t.shape, "STATIC", array, t.quant)
            return self.add(tensor, (source, t.transforms))
        last = self._origin_layout(source)
        for i, (change, step) in enumerate(zip(layout_ops(t), t.transforms, strict=True)):
            held = t.transforms[: i + 1]
            if (source, held) not in self.held:
                last = self._change(change, last, f"{_spelled(source)}_{step.kind}d", origin, (source, held))
            last = self.held[source, held]
        return last

    def _origin_layout(self, source: Any) -> str:
        """The tensor in the layout of the program, undoing the layout in which an op wrote it."""
        if (source, ()) not in self.held:
            wrote = self.written[source]
            last = self.held[source, wrote.transforms]
            changes = layout_ops(wrote, inverse=True)
            for i, change in enumerate(changes):
                place = (source, ()) if i == len(changes) - 1 else None
                last = self._change(change, last, _spelled(source), source[0], place)
        return self.held[source, ()]

    def _change(
        self, op: LoweredOp, read: str, name: str, origin: str, place: tuple[Any, Layout] | None
    ) -> str:
        made = op.outputs[0]
        out = self.add(GraphTensor(name, made.dtype, made.shape, "NATIVE", quant=made.quant), place)
        more = tuple(self._made(x, origin) for x in op.inputs[1:] if x is not None)
        self.op(op, (read, *more), (out,), origin)
        if op.op in ("Transpose", "Reshape"):
            self.layout_ops.append(self.graph.ops[-1].name)
        return out

    def _made(self, t: TensorRef, origin: str) -> str:
        """A static tensor that a builder made; readers of the same values share one."""
        place = (("made", t.dtype, t.base_shape, t.fill, t.ramp, t.data, t.quant), t.transforms)
        if place not in self.held:
            name = f"{origin}_{'fill' if t.data is None else 'data'}"
            if BY_SHORT[t.dtype].quantized and t.quant is None:
                t = stored(t)
            values = transformed(made_values(t), t.transforms, self._values)
            self.add(GraphTensor(name, t.dtype, t.shape, "STATIC", values, t.quant), place)
        return self.held[place]

    def _values(self, t: TensorRef) -> np.ndarray[Any, Any]:
        """The values of a static tensor before its transforms."""
        key: Any = t.key
        return made_values(t) if t.made else self.program.array(key)

    def finish(self, outputs: Sequence[Key]) -> dict[Any, str]:
        """Marks the outputs, in their order at the end of the tensors."""
        graph, made = self.graph, {}
        for key in dict.fromkeys(outputs):
            ref = _end(self.program, key)
            name = self.read(ref, key[0]) if ref.static else self._origin_layout(key)
            if graph.tensors[name].type in (
                "APP_WRITE",
                "STATIC",
            ):  # an input that is passed through, or a constant
                copy = LoweredOp("Reshape", (ref,), (), (ref,))
                name = self._change(copy, name, f"{key[0]}_out", key[0], None)
            tensor = graph.tensors.pop(name)
            graph.tensors[name] = replace(tensor, type="APP_READ")
            made[key] = name
        self._read_all()
        return made

    def _read_all(self) -> None:
        """Adds a Reshape that reads an input that no op reads (CPU-0328)."""
        read = {name for op in self.graph.ops for name in op.inputs}
        for t in self.graph.inputs:
            if t.name not in read and t.dtype in CPU_RESHAPES:
                ref = TensorRef(t.shape, t.dtype, base_shape=t.shape)
                op = LoweredOp("Reshape", (ref,), (), (ref,))
                self._change(op, t.name, f"{t.name}_unread", t.name, None)


def _end(program: Program, key: Key) -> TensorRef:
    """The tensor at an end of the graph; perhaps no node reads it."""
    try:
        return program.ref(key)
    except Rejection as reason:
        raise OpdbError(f"{key[0]} cannot be a tensor of a QNN graph: {reason}") from None


def _spelled(source: Any) -> str:
    """The name of an origin, e.g. ("split", 1) -> split_1, ("relu", 0) -> relu, ("layer_norm", "flat") -> layer_norm_flat."""
    name, part = source
    return str(name) if part == 0 else f"{name}_{part}"
