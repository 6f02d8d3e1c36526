"""A torch.export program as node views: what generated builders read.

One ``Program`` holds the call nodes in order, the tensors by origin ``(node name, result index)``, and the
values of what is known before running: parameters, buffers, constants, and whatever is computed from them
alone.  QNN has no 64-bit indices and no tensors of rank 0: int64 becomes i32, rank 0 becomes [1].
"""

from __future__ import annotations

import operator
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from opdb.core.errors import OpdbError
from opdb.programs.torch import operands
from opdb.programs.torch.composites import plain
from opdb.programs.torch.encodings import Encodings, is_dequantize, is_quantize, real
from opdb.programs.torch.narrowing import keeps_numbers
from opdb.programs.torch.view_encodings import along_moves, moved
from opdb.programs.torch.views import between_views, read_in_ranks, shown
from opdb.runtime.forms import Lowered
from opdb.runtime.tensors import Rejection, TensorRef, sized

Key = tuple[str, int]
DTYPES: Mapping[torch.dtype, str] = {
    torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.float64: "f64",
    torch.bool: "bool8", torch.uint8: "u8", torch.uint16: "u16", torch.uint32: "u32", torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32", torch.int64: "i32",
}  # fmt: skip
#: Quantized types -> their stored integers.
INTEGERS: Mapping[str, torch.dtype] = {
    "uq8": torch.uint8, "sq8": torch.int8, "uq16": torch.uint16, "sq16": torch.int16, "sq32": torch.int32,
}  # fmt: skip
#: Targets whose result is their first argument.
SAME_VALUE = frozenset({
    "aten.alias.default", "aten.alias_copy.default", "aten.clone.default", "aten.contiguous.default",
    "aten.detach.default", "aten.detach_copy.default", "aten.lift_fresh.default",
    "aten.lift_fresh_copy.default",
})  # fmt: skip
#: Targets whose result is their first argument where it has its data type.
CONVERSIONS = frozenset({
    "aten._to_copy.default", "aten.to.device", "aten.to.dtype", "aten.to.dtype_layout", "aten.to.other",
    "aten.type_as.default",
})  # fmt: skip
#: Targets that read the shape and the data type of their first argument and no element.
SHAPE_ONLY = frozenset({
    "aten.copy.default", "aten.empty_like.default", "aten.fill.Scalar", "aten.fill.Tensor",
    "aten.full_like.default", "aten.new_empty.default", "aten.new_empty_strided.default",
    "aten.new_full.default", "aten.new_ones.default", "aten.new_zeros.default", "aten.ones_like.default",
    "aten.zero.default", "aten.zeros_like.default",
})  # fmt: skip
#: Targets whose elements may be anything.
EMPTY = re.compile(r"aten\.(new_)?empty(_|\.)")
#: Views of what is contiguous in the program; the constant before them may have other strides, since it is not copied.
OF_ANY_STRIDES = {
    "aten.view.default": torch.ops.aten.reshape.default, "aten.view_copy.default": torch.ops.aten.reshape.default,
    "aten._unsafe_view.default": torch.ops.aten.reshape.default,
}  # fmt: skip
#: Targets that check something and compute nothing.
NO_VALUE = frozenset({
    "aten._assert_async.msg", "aten._assert_scalar.default", "aten._assert_tensor_metadata.default",
    "aten.sym_constrain_range.default", "aten.sym_constrain_range_for_size.default",
})  # fmt: skip
#: Composites of PyTorch that a program reads as they are.
READ_WITHOUT_SPEC = SAME_VALUE | CONVERSIONS | SHAPE_ONLY | NO_VALUE | {
    "aten.dropout.default", "opdb.dequantize_blocks.default",
}  # fmt: skip
MAX_FOLDED = 64 * 1024 * 1024  # bytes of one constant that is computed ahead


def beyond_int32(tensor: torch.Tensor) -> int | None:
    """A value of an int64 that int32 does not have."""
    if tensor.dtype != torch.int64 or tensor.is_meta or not tensor.numel():
        return None
    least, most = (int(v) for v in torch.aminmax(tensor))
    return least if least < -(2**31) else most if most >= 2**31 else None


def _is_graph(node: torch.fx.Node) -> bool:
    """Whether a node is a graph that a call runs."""
    held = getattr(node.graph.owning_module, str(node.target), None)
    return node.op == "get_attr" and isinstance(held, torch.fx.GraphModule)


@cache
def _arguments(operator: torch._ops.OpOverload) -> Mapping[str, tuple[str, bool, Any]]:
    """Each argument of an operator: its type as torch spells it, whether it has a default, the default."""
    arguments = operator._schema.arguments
    return {a.name: (str(a.type), a.has_default_value(), a.default_value) for a in arguments}


class TorchNode:
    """One call of an ATen operator (the ``NodeView`` of opdb.runtime.forms)."""

    def __init__(self, program: Program, node: torch.fx.Node) -> None:
        self.program, self.node = program, node
        self.target, self.name = str(node.target), node.name
        self._schemas = _arguments(node.target)
        self._given = {**dict(zip(self._schemas, node.args, strict=False)), **node.kwargs}
        self._read: dict[str, Any] = {}

    def arg(self, name: str) -> Any:
        if name not in self._read:
            self._read[name] = self._arg(name)
        return self._read[name]

    def _arg(self, name: str) -> Any:
        if name not in self._schemas:
            raise Rejection(f"{self.target} has no argument '{name}' in this version of PyTorch")
        type_, has_default, default = self._schemas[name]
        if name in self._given:
            value = self._given[name]
        elif has_default:
            value = default
        else:
            raise Rejection(f"the argument '{name}' is missing")
        return self._converted(name, type_, value)

    def _converted(self, name: str, type_: str, value: Any) -> Any:
        """``value`` as the rule language has it.  ``type_`` as torch spells it; e.g. Optional[Tensor]."""
        if value is None:
            return None
        if "Tensor" in type_:
            if isinstance(value, (list, tuple)):
                return [None if v is None else self._tensor(name, v) for v in value]
            return self._tensor(name, value)
        if isinstance(value, torch.dtype):
            return DTYPES.get(value, str(value))
        if isinstance(value, (torch.device, torch.layout, torch.memory_format)):
            return str(value)
        if isinstance(value, (list, tuple)):
            return [self._number(name, v) for v in value]
        value = self._number(name, value)
        if "List[int]" in type_ and isinstance(value, int):
            return [value]
        return float(value) if type_ in ("number", "float", "Optional[number]", "Optional[float]") else value

    def _number(self, name: str, value: Any) -> Any:
        if isinstance(value, (torch.fx.Node, torch.SymInt, torch.SymFloat, torch.SymBool)):
            raise Rejection(
                f"{name} = {value} is only known when the program runs; export it with static shapes"
            )
        if not isinstance(value, (bool, int, float, str)):
            raise Rejection(f"{name} = {value!r} is of a type that mappings cannot read")
        return value

    def _tensor(self, name: str, value: Any) -> TensorRef:
        if isinstance(value, torch.fx.Node):
            return self._operand(value, name)
        # A Python number in the place of a tensor takes part as PyTorch promotes it.
        number = self._number(name, value)
        like = next(
            (v for v in self.node.all_input_nodes if isinstance(v.meta.get("val"), torch.Tensor)), self.node
        )
        dtype = like.meta["val"].dtype
        if isinstance(number, float) and not dtype.is_floating_point:
            dtype = torch.get_default_dtype()
        return TensorRef((1,), self.program.dtype(dtype), static=True, fill=number, base_shape=(1,))

    def _operand(self, node: torch.fx.Node, argument: str) -> TensorRef:
        return self.program.operand(node, self.node, argument)

    def sources(self) -> list[Key]:
        """The tensors that it reads, constants too."""
        return list(dict.fromkeys(self.program.read_by(n, self.node) for n in self.node.all_input_nodes))

    def result(self, index: int) -> TensorRef:
        return self.program.ref((self.name, index), self.node)

    def results(self) -> Sequence[TensorRef]:
        value = self.node.meta.get("val")
        return [self.result(i) for i in range(len(value) if isinstance(value, (list, tuple)) else 1)]

    def result_used(self, index: int) -> bool:
        value = self.node.meta.get("val")
        if not isinstance(value, (list, tuple)):
            return bool(self.node.users)
        return any(u.users for u in self.node.users if u.target is operator.getitem and u.args[1] == index)

    def between_views(self) -> bool:
        return between_views(self.node)

    def read_in_ranks(self) -> set[int]:
        return read_in_ranks(self.node)

    def shown(self) -> set[tuple[int, ...]]:
        return shown(self.node)

    def constant_source(self, t: TensorRef) -> TensorRef | None:
        return t if t.static else None

    def in_8_bits(self) -> InEightBits | None:
        """The same node reading weights of 8 bits; None if it reads none of fewer, or in blocks."""
        return InEightBits(self.program, self.node) if operands.narrow(self.program, self.node) else None

    def tensors(self) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """The fake tensors it reads and makes."""

        def some(value: Any) -> list[torch.Tensor]:
            if isinstance(value, torch.Tensor):
                return [value]
            return [t for v in value for t in some(v)] if isinstance(value, (list, tuple)) else []

        return [t for n in self.node.all_input_nodes for t in some(n.meta.get("val"))], some(
            self.node.meta.get("val")
        )


class InEightBits(TorchNode):
    """A node whose target has no form for weights of fewer bits, or in blocks: it reads the same numbers in 8 bits."""

    def in_8_bits(self) -> None:
        return None

    def _operand(self, node: torch.fx.Node, argument: str) -> TensorRef:
        return self.program.operand(node, self.node, argument, wide=True)

    def around(self, lowered: Lowered) -> Lowered:
        """``lowered`` as it is: no op makes up the difference."""
        return lowered


class Conversion(TorchNode):
    """A quantize or dequantize node that stays an op: QNN's, whose ``x`` is the node's first argument."""

    def __init__(self, program: Program, node: torch.fx.Node, op: str) -> None:
        super().__init__(program, node)
        self.target = f"qnn.{op}.default"

    def arg(self, name: str) -> Any:
        assert name == "x", name
        return self.program.ref(self.sources()[0])

    def sources(self) -> list[Key]:
        source = self.node.args[0]
        assert isinstance(source, torch.fx.Node)
        if is_quantize(self.node):
            return [self.program.origin(source)]
        return [self.program.encodings.operands[self.node]]


class Narrowing(TorchNode):
    """A conversion to integers of fewer bits that have all its numbers: QNN's Cast, whose ``x`` is what is converted."""

    def __init__(self, program: Program, node: torch.fx.Node) -> None:
        super().__init__(program, node)
        self.target = "qnn.Cast.default"

    def arg(self, name: str) -> Any:
        source = self.node.args[0]
        assert isinstance(source, torch.fx.Node)
        return self.program.operand(source, self.node, name) if name == "x" else self.result(0).dtype


class Branches(TorchNode):
    """A call of graphs (torch.cond, torch.while_loop), which no op is."""

    def __init__(self, program: Program, node: torch.fx.Node) -> None:
        self.program, self.node = program, node
        self.target, self.name = str(node.target), node.name

    def arg(self, name: str) -> Any:
        raise Rejection(f"{self.target} has no argument '{name}'")

    def sources(self) -> list[Key]:
        read = (n for n in self.node.all_input_nodes if n.op != "get_attr")
        return list(dict.fromkeys(self.program.origin(n) for n in read))


@dataclass
class Program:
    """``float_dtype``: what float32 becomes; f16 for graphs whose tensors shall be half precision.

    ``states``: the buffers that the program changes -> the input that holds one before a run and the output after it; these follow
    the program's own ``inputs`` and ``outputs``.

    ``in_floats``: names of nodes that read and write floats whatever the quantize nodes around them say: those of the host
    (opdb.execute.dispatch).
    """

    exported: ExportedProgram
    float_dtype: str = "f32"
    in_floats: Collection[str] = ()
    nodes: list[TorchNode] = field(default_factory=list)
    inputs: list[Key] = field(default_factory=list)
    outputs: list[Key] = field(default_factory=list)
    states: dict[str, tuple[Key, Key]] = field(default_factory=dict)
    values: dict[Key, torch.Tensor] = field(default_factory=dict)  # of static tensors
    skipped: dict[str, str] = field(default_factory=dict)  # nodes that are no QNN op -> why
    _origin: dict[torch.fx.Node, Key] = field(default_factory=dict, repr=False)
    _by_name: dict[str, torch.fx.Node] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.exported = plain(self.exported, READ_WITHOUT_SPEC)
        self.encodings = Encodings(self.values, self.in_floats, SAME_VALUE)
        self._by_name = {n.name: n for n in self.exported.graph.nodes}
        self._placeholders()
        for node in self.exported.graph.nodes:
            if node.op == "call_function":
                self._call(node)
            elif node.op not in ("placeholder", "output") and not _is_graph(node):
                raise OpdbError(
                    f"the program has a node '{node.name}' of the kind '{node.op}'; "
                    "export it with torch.export.export"
                )
        along_moves(self.encodings, [n.node for n in self.nodes], self.origin)
        self.encodings.before_cutting((n.node for n in self.nodes), self.origin)
        self._results()

    def with_floats(self, names: Collection[str]) -> Program:
        """The same program with more nodes ``in_floats``."""
        return Program(self.exported, self.float_dtype, frozenset(self.in_floats).union(names))

    def _results(self) -> None:
        for spec in self.exported.graph_signature.output_specs:
            if spec.kind == OutputKind.USER_OUTPUT and getattr(spec.arg, "name", None) in self._by_name:
                node = self._by_name[spec.arg.name]
                if isinstance(node.meta.get("val"), torch.Tensor):
                    self.outputs.append(self.origin(node))
            elif spec.kind == OutputKind.BUFFER_MUTATION:
                before, _ = self.states[str(spec.target)]
                self.states[str(spec.target)] = before, self.origin(self._by_name[spec.arg.name])
            elif spec.kind != OutputKind.USER_OUTPUT:
                raise OpdbError(f"the program changes '{spec.target}' in place: return the new value instead")
        self.inputs += [before for before, _ in self.states.values()]
        self.outputs += [after for _, after in self.states.values()]

    def _placeholders(self) -> None:
        exported = self.exported
        specs = {s.arg.name: s for s in exported.graph_signature.input_specs}
        changed = {
            s.target for s in exported.graph_signature.output_specs if s.kind == OutputKind.BUFFER_MUTATION
        }
        for node in exported.graph.nodes:
            if node.op != "placeholder":
                continue
            key = (node.name, 0)
            self._origin[node] = key
            spec = specs[node.name]
            if spec.kind == InputKind.USER_INPUT:
                if isinstance(node.meta.get("val"), torch.Tensor):
                    self.inputs.append(key)
            elif spec.target in changed:
                self.states[str(spec.target)] = key, key
            elif spec.target in exported.state_dict:
                self.values[key] = exported.state_dict[spec.target].detach()
            elif isinstance(exported.constants.get(spec.target), torch.Tensor):
                self.values[key] = exported.constants[spec.target].detach()

    def _call(self, node: torch.fx.Node) -> None:
        target = str(node.target)
        if node.target is operator.getitem:
            base, index = node.args
            assert isinstance(base, torch.fx.Node) and isinstance(index, int)
            self._origin[node] = (self._origin.get(base, (base.name, 0))[0], index)
            return
        self._origin[node] = (node.name, 0)
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            self.nodes.append(Branches(self, node))
        elif is_quantize(node) or is_dequantize(node):
            self._conversion(node)
        elif target in NO_VALUE:
            self.skipped[node.name] = "it checks something and computes nothing"
        elif (
            target in SAME_VALUE
            or (target in CONVERSIONS and node.meta["val"].dtype == node.args[0].meta["val"].dtype)
            or (target == "aten.dropout.default" and node.args[2:3] != (True,))
        ):
            self._origin[node] = self.origin(node.args[0])
            self.encodings.alias(node, node.args[0])
            self.skipped[node.name] = "its result is its input"
        elif self._move(node) or self._fold(node):
            self.skipped[node.name] = "its result is known before running"
        elif isinstance(node.target, torch._ops.OpOverload):
            kind = Narrowing if target in CONVERSIONS and keeps_numbers(node) else TorchNode
            self.nodes.append(kind(self, node))
        else:
            self.skipped[node.name] = "it computes a Python number"

    def _conversion(self, node: torch.fx.Node) -> None:
        op = "Quantize" if is_quantize(node) else "Dequantize"
        needed = (
            self.encodings.quantize(node, self.origin)
            if op == "Quantize"
            else self.encodings.dequantize(node, self.origin)
        )
        if needed is None:
            if not self._fold(node):
                self.nodes.append(TorchNode(self, node))
        elif not needed and (op == "Dequantize" or node in self.encodings.operands):
            if op == "Quantize":
                self._origin[node] = self.encodings.operands[node]
            self.skipped[node.name] = "it says the encoding of a tensor"
        elif not self._fold(node):
            self.nodes.append(Conversion(self, node, op))

    def _move(self, node: torch.fx.Node) -> bool:
        """Moves the stored integers of a constant; whether it did."""
        source = node.args[0] if node.args else None
        key = self.encodings.operands.get(source) if is_dequantize(source) else None
        if key not in self.values:
            return False
        found = moved(node, self.encodings.of[key])
        if found is None:
            return False
        self.values[node.name, 0] = node.target(self.values[key], *node.args[1:], **node.kwargs)
        self.encodings.of[node.name, 0] = found
        return True

    def _fold(self, node: torch.fx.Node) -> bool:
        """Computes the node if everything it reads is known; whether it did."""
        if (
            not isinstance(node.target, torch._ops.OpOverload)
            or torch.Tag.nondeterministic_seeded in node.target.tags
        ):
            return False
        target, args = str(node.target), node.args
        read: list[torch.fx.Node] = []
        torch.fx.node.map_arg((args[1:] if target in SHAPE_ONLY else args, node.kwargs), read.append)
        if not all(self._known(n) for n in read):
            return False
        reads, made = TorchNode(self, node).tensors()
        if (
            any(not isinstance(d, int) for t in (*reads, *made) for d in t.shape)
            or sum(t.nbytes for t in made) > MAX_FOLDED
        ):
            return False
        values = {n: self._value(n) for n in read}
        if any(v.is_meta for v in values.values()):  # shapes and data types alone
            result: Any = [torch.empty_like(t, device="meta") for t in made]
        else:
            args, kwargs = torch.fx.node.map_arg((args, node.kwargs), self._value)
            with torch.no_grad():
                result = OF_ANY_STRIDES.get(target, node.target)(*args, **kwargs)
        for i, t in enumerate(result if isinstance(result, (list, tuple)) else [result]):
            self.values[(node.name, i)] = torch.zeros_like(t) if EMPTY.match(target) else t
        return True

    def _known(self, node: torch.fx.Node) -> bool:
        return self.origin(node) in self.values or self.encodings.operands.get(node) in self.values

    def _value(self, node: torch.fx.Node) -> torch.Tensor:
        """The value of a tensor; zeros where it is not known and only its shape and data type are read."""
        key, fake = self.origin(node), node.meta["val"]
        if key not in self.values and is_dequantize(node) and self._known(node):
            if self.values[self.encodings.operands[node]].is_meta:
                return torch.empty_like(fake, device="meta")
            args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), self._value)
            return cast(torch.Tensor, node.target(*args, **kwargs))
        if key not in self.values:
            return torch.zeros(fake.shape, dtype=fake.dtype)
        value = self.values[key]
        stored = key in self.encodings.of and not value.is_floating_point() and not value.is_meta
        return real(value, self.encodings.of[key][1]) if stored and fake.is_floating_point() else value

    def origin(self, node: torch.fx.Node) -> Key:
        """The tensor that a node's result is in PyTorch."""
        return self._origin[node]

    def read_by(self, node: torch.fx.Node, reader: torch.fx.Node) -> Key:
        """The tensor that ``reader`` reads of ``node``: behind a dequantize node the stored integers."""
        if reader.name in self.in_floats:
            return self.origin(node)
        return self.encodings.operands.get(node) or self.origin(node)

    def operand(
        self, node: torch.fx.Node, reader: torch.fx.Node, argument: str, wide: bool = False
    ) -> TensorRef:
        """What ``reader`` gets as an argument.  ``wide``: see opdb.programs.torch.operands.read."""
        return self.ref(operands.read(self, node, reader, argument, wide), node)

    def dtype(self, dtype: torch.dtype) -> str:
        if dtype not in DTYPES:
            raise Rejection(f"QNN has no counterpart of {dtype}")
        return self.float_dtype if dtype == torch.float32 else DTYPES[dtype]

    def ref(self, key: Key, node: torch.fx.Node | None = None) -> TensorRef:
        """The tensor of an origin.  Raises Rejection where its shape, dtype or values cannot be a QNN tensor's."""
        fake = self.fake(key, node)
        shape = tuple(fake.shape) or (1,)
        symbols = [str(d) for d in shape if not isinstance(d, int)]
        if symbols:
            raise Rejection(
                f"the shape of {key[0]} has the symbolic dimension {symbols[0]}; export it with static shapes"
            )
        static = key in self.values
        shape = sized(key[0], shape)
        if static and (wide := beyond_int32(fake)) is not None:
            raise Rejection(f"it reads a constant with the value {wide}, and QNN has int32 for int64")
        dtype, quant = self.encodings.of.get(key) or (self.dtype(fake.dtype), None)
        return TensorRef(shape, dtype, static=static, key=key, quant=quant, base_shape=shape)

    def fake(self, key: Key, node: torch.fx.Node | None = None) -> torch.Tensor:
        """The tensor's dtype and shape in PyTorch, of a quantized one those of its integers; a constant's value."""
        if key in self.values:
            return self.values[key]
        value = (node or self._by_name[key[0]]).meta.get("val")
        if isinstance(value, (list, tuple)):
            value = value[key[1]]
        if not isinstance(value, torch.Tensor):
            raise Rejection(f"result {key[1]} of {key[0]} is no tensor")
        return value.to(INTEGERS[self.encodings.of[key][0]]) if key in self.encodings.of else value

    def array(self, key: Key) -> np.ndarray[Any, Any]:
        """The value of a static tensor, in its ref's dtype."""
        tensor = self.values[key].cpu().contiguous()
        if tensor.dtype == torch.bfloat16:
            tensor = tensor.view(torch.uint16)
        array: np.ndarray[Any, Any] = tensor.numpy().reshape(tuple(tensor.shape) or (1,))
        if tensor.dtype == torch.int64:
            return array.astype(np.int32)
        if tensor.dtype == torch.float32 and self.float_dtype == "f16":
            return array.astype(np.float16)
        return array
