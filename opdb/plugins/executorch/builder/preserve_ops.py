"""Decides before PyTorch decomposes an operator whether it can stay whole, by asking its builder in advance.

At that point a quantized module still has quantize and dequantize nodes around its operators; ExecuTorch
folds them into encodings later.  Here, a node is judged with the encodings that it will have then.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from opdb.core.op_config import Blocks, Quant
from opdb.plugins.executorch.builder.blocks import STEPS, channel_axis, errata, stepped
from opdb.programs.torch.encodings import Encoded, Unknown, arguments, encoding, stored_type
from opdb.programs.torch.nodes import TorchNode
from opdb.programs.torch.tensors import DTYPES
from opdb.runtime.forms import Lowered, NodeView, Rejected
from opdb.runtime.tensors import Rejection, TensorRef, sized

Key = tuple[str, int]


class PreservedOps:
    """The nodes of one program before it is decomposed."""

    def __init__(
        self,
        exported: ExportedProgram,
        lower: Callable[[NodeView], Lowered | Rejected],
        avoids: Callable[[str], bool],
    ) -> None:
        """``avoids``: True for the id of an erratum to avoid."""
        self._lower = lower
        self._tensors = Tensors.of_program(exported, avoids)
        self._answers: dict[torch.fx.Node, bool | None] = {}

    def accepts(self, node: torch.fx.Node) -> bool | None:
        """True if a form of ``node`` is accepted; None if its encodings are not known in advance."""
        if node not in self._answers:
            self._answers[node] = self._ask(node)
        return self._answers[node]

    def _ask(self, node: torch.fx.Node) -> bool | None:
        try:
            lowered = self._lower(View(self._tensors, node))
        except Unknown:
            return None
        except Exception:  # a fault in a builder: it is reported when the node is built
            return False
        if not isinstance(lowered, Lowered):
            return False
        made = {t.key for op in lowered.ops for t in op.outputs if t.key is not None}
        value = node.meta.get("val")
        count = len(value) if isinstance(value, (list, tuple)) else 1
        view = View(self._tensors, node)
        return all((node.name, i) in made for i in range(count) if view.result_used(i))


class View(TorchNode):
    """A node whose tensors have the encodings of the quantize and dequantize nodes around it."""

    def __init__(self, tensors: Tensors, node: torch.fx.Node) -> None:
        super().__init__(tensors, node)  # type: ignore[arg-type]  # what a view asks of a program

    def _operand(self, node: torch.fx.Node, argument: str) -> TensorRef:
        return self.program.ref(self.program.origin(node), node)

    def in_8_bits(self) -> None:
        """Does nothing: ``Tensors`` knows which weights are read in 8 bits."""


class Tensors:
    """The part of a program that a TorchNode uses, with encodings."""

    def __init__(
        self,
        graph: torch.fx.Graph,
        constants: Mapping[str, str],
        data: Mapping[str, torch.Tensor],
        avoids: Callable[[str], bool] = lambda erratum: True,
    ) -> None:
        """``constants``: node -> name of a value known before running; ``data``: the value by that name.

        ``avoids``: True for the id of an erratum to avoid.
        """
        self._avoids = avoids
        self.values: dict[Key, torch.Tensor] = {}
        self._nodes = {n.name: n for n in graph.nodes}
        self._constants, self._data = constants, data

    @classmethod
    def of_program(cls, exported: ExportedProgram, avoids: Callable[[str], bool]) -> Tensors:
        signature = exported.graph_signature
        changed = set(signature.buffers_to_mutate.values())
        kinds = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
        known = [s for s in signature.input_specs if s.kind in kinds and s.target not in changed]
        constants = {s.arg.name: str(s.target) for s in known}
        return cls(exported.graph, constants, exported.constants | exported.state_dict, avoids)

    @classmethod
    def of_graph(cls, graph: torch.fx.Graph) -> Tensors:
        """The tensors of a graph whose parameters are attributes of its module."""
        attributes = {n.name: str(n.target) for n in graph.nodes if n.op == "get_attr"}
        return cls(graph, attributes, {})

    def node(self, ref: TensorRef) -> torch.fx.Node | None:
        """The node that a tensor comes from; None for a tensor that the builder makes."""
        return self._nodes[ref.key[0]] if isinstance(ref.key, tuple) else None

    def origin(self, node: torch.fx.Node) -> Key:
        if node.target is operator.getitem:
            base, index = node.args
            assert isinstance(base, torch.fx.Node) and isinstance(index, int)
            return base.name, index
        return node.name, 0

    def dtype(self, dtype: torch.dtype) -> str:
        if dtype not in DTYPES:
            raise Rejection(f"QNN has no counterpart of {dtype}")
        return DTYPES[dtype]

    def ref(self, key: Key, node: torch.fx.Node | None = None) -> TensorRef:
        found = self._nodes[key[0]]
        value = found.meta.get("val")
        if isinstance(value, (list, tuple)):
            value = value[key[1]]
        if not isinstance(value, torch.Tensor):
            raise Rejection(f"result {key[1]} of {key[0]} is no tensor")
        shape = tuple(value.shape) or (1,)
        if any(not isinstance(d, int) for d in shape):
            raise Rejection(f"the shape of {key[0]} is only known when the program runs")
        shape = sized(key[0], shape)
        encoded = self._encoding(found, key)
        source = found.args[0] if _is(found, "dequantize") else found
        static = isinstance(source, torch.fx.Node) and source.name in self._constants
        dtype, quant = encoded if encoded is not None else (self.dtype(value.dtype), None)
        values = partial(self._stored, source) if isinstance(source, torch.fx.Node) and static else None
        return TensorRef(shape, dtype, static, key, quant=quant, base_shape=shape, values=values)

    def _stored(self, source: torch.fx.Node) -> Any:
        """A constant as an array; None if its data is not available."""
        found = self._data.get(self._constants[source.name])
        return None if found is None else found.detach().numpy()

    def _encoding(self, node: torch.fx.Node, key: Key) -> Encoded | None:
        """The encoding that a dequantize node reads, or that the quantize node after a result writes."""
        if _is(node, "dequantize"):
            return self._from(node)
        readers: list[torch.fx.Node] = list(node.users)
        if any(u.target is operator.getitem for u in readers):
            readers = [r for u in readers if u.args[1] == key[1] for r in u.users]
        quantizers = [u for u in readers if _is(u, "quantize")]
        return self._from(quantizers[0]) if quantizers else None

    def _from(self, node: torch.fx.Node) -> Encoded:
        given = arguments(node)
        if given.get("block_size") is None:
            return encoding(node, self._numbers)
        held, (reader, *_) = self._blocks(given, node.meta["val"].shape), node.users
        found = errata(str(reader.target), node.meta["val"].shape)
        if any(map(self._avoids, found)):  # see OpdbVisitor.get_quant_encoding_conf
            return "sq8", replace(held, encoding="AXIS_SCALE_OFFSET", blocks=None)
        return stored_type(given)[0], held

    def _blocks(self, given: Mapping[str, Any], shape: Sequence[int]) -> Quant:
        """Converts torchao's scales of each block to QNN's."""
        axis = channel_axis(given["block_size"])
        largest, steps = stepped(self._tensor(given["scale"]), axis, shape[axis])
        integers = tuple(int(s) for s in steps.flatten().tolist())
        blocks = Blocks(steps.shape[1], STEPS.bit_length() - 1, integers)
        zeros = (0,) * len(largest)
        return Quant("BLOCKWISE_EXPANSION", tuple(largest.tolist()), zeros, axis, blocks=blocks)

    def _numbers(self, value: Any) -> tuple[float, ...]:
        if isinstance(value, (int, float)):
            return (float(value),)
        return tuple(float(v) for v in self._tensor(value).flatten().tolist())

    def _tensor(self, value: Any) -> torch.Tensor:
        if isinstance(value, torch.fx.Node) and value.name in self._constants:
            return self._data[self._constants[value.name]]
        raise Unknown("an encoding that is computed")


def _is(node: torch.fx.Node, kind: str) -> bool:
    """True for the ``kind`` quantize or dequantize."""
    return str(node.target).startswith((f"quantized_decomposed.{kind}_", f"torchao.{kind}_affine"))
