"""The nodes of a program that generated builders read: the ``NodeView``s of opdb.runtime.forms."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import torch

from opdb.programs.torch import operands
from opdb.programs.torch.encodings import Key, is_quantize
from opdb.programs.torch.tensors import DTYPES, ProgramTensors
from opdb.programs.torch.views import between_views, read_in_ranks, shown
from opdb.runtime.forms import Lowered
from opdb.runtime.tensors import Rejection, TensorRef


@cache
def _arguments(operator: torch._ops.OpOverload) -> Mapping[str, tuple[str, bool, Any]]:
    """Each argument of an operator: its type as torch spells it, whether it has a default, the default."""
    arguments = operator._schema.arguments
    return {a.name: (str(a.type), a.has_default_value(), a.default_value) for a in arguments}


class TorchNode:
    """One call of an ATen operator (the ``NodeView`` of opdb.runtime.forms)."""

    def __init__(self, program: ProgramTensors, node: torch.fx.Node) -> None:
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
        """``value`` in the form of the rule language.  ``type_`` as torch spells it; e.g. Optional[Tensor]."""
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
        # A Python number instead of a tensor has the type to which PyTorch promotes it.
        number = self._number(name, value)
        like = next(
            (v for v in self.node.all_input_nodes if isinstance(v.meta.get("val"), torch.Tensor)), self.node
        )
        dtype = like.meta["val"].dtype
        if isinstance(number, float) and not dtype.is_floating_point:
            dtype = torch.get_default_dtype()
        return TensorRef((1,), self.program.dtype(dtype), static=True, fill=number, base_shape=(1,))

    def _operand(self, node: torch.fx.Node, argument: str) -> TensorRef:
        return self.program.ref(operands.read(self.program, node, self.node, argument), node)

    def sources(self) -> list[Key]:
        """The tensors that it reads, including constants."""
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
        """The same node reading its weights in 8 bits; None if it reads no weight of fewer bits or in blocks."""
        return InEightBits(self.program, self.node) if operands.narrow(self.program, self.node) else None


class InEightBits(TorchNode):
    """A node whose target has no form for weights of fewer bits, or in blocks: it reads the same values in 8 bits."""

    def in_8_bits(self) -> None:
        return None

    def _operand(self, node: torch.fx.Node, argument: str) -> TensorRef:
        return self.program.ref(operands.read(self.program, node, self.node, argument, wide=True), node)

    def around(self, lowered: Lowered) -> Lowered:
        """Returns ``lowered`` as it is: no other op is needed."""
        return lowered


class Conversion(TorchNode):
    """A quantize or dequantize node that stays an op, as QNN's op, whose ``x`` is the node's first argument."""

    def __init__(self, program: ProgramTensors, node: torch.fx.Node, op: str) -> None:
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
    """A conversion to integers of fewer bits that hold all its numbers: QNN's Cast, whose ``x`` is the converted tensor."""

    def __init__(self, program: ProgramTensors, node: torch.fx.Node) -> None:
        super().__init__(program, node)
        self.target = "qnn.Cast.default"

    def arg(self, name: str) -> Any:
        source = self.node.args[0]
        assert isinstance(source, torch.fx.Node)
        return self._operand(source, name) if name == "x" else self.result(0).dtype


class Branches(TorchNode):
    """A call of graphs (torch.cond, torch.while_loop), for which there is no op."""

    def __init__(self, program: ProgramTensors, node: torch.fx.Node) -> None:
        self.program, self.node = program, node
        self.target, self.name = str(node.target), node.name

    def arg(self, name: str) -> Any:
        raise Rejection(f"{self.target} has no argument '{name}'")

    def sources(self) -> list[Key]:
        read = (n for n in self.node.all_input_nodes if n.op != "get_attr")
        return list(dict.fromkeys(self.program.origin(n) for n in read))
