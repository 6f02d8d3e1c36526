"""One node of ExecuTorch's edge graph as a ``NodeView`` for generated builders.

A view uses PyTorch's order of dimensions, except for a node that ExecuTorch has laid out and whose
operator commutes with permutations (opdb.plugins.executorch.builder.layout): there it uses the stored order with
renumbered ``dim`` arguments, so that the rules are checked on what the backend really gets.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cache, partial
from typing import Any

import executorch.backends.qualcomm.python.PyQnnManagerAdaptor as PyQnn
import numpy as np
import torch
from executorch.backends.qualcomm.builders.node_visitor import NodeVisitor
from executorch.backends.qualcomm.builders.utils import get_parameter, is_graph_output
from executorch.backends.qualcomm.utils.constants import (
    QCOM_AXIS,
    QCOM_AXIS_ORDER,
    QCOM_BITWIDTH,
    QCOM_BLOCK_SCALE_BITWIDTH,
    QCOM_BLOCK_SCALE_OFFSET,
    QCOM_BLOCK_SCALES,
    QCOM_NUM_BLOCKS_PER_AXIS,
    QCOM_OFFSET,
    QCOM_QUANT_ATTRS,
    QCOM_SCALE,
    QCOM_SCALE_OFFSET,
)
from torch._subclasses.fake_tensor import FakeTensor

from opdb.core.dtypes import lookup
from opdb.core.op_config import Blocks, Quant
from opdb.plugins.executorch.builder import layout
from opdb.plugins.executorch.builder.partition_reasons import ENDLESS_SCALE
from opdb.programs.torch.tensors import DTYPES
from opdb.programs.torch.views import between_views, of_constants, read_in_ranks, seen, shown
from opdb.runtime.tensors import Rejection, TensorRef, reshape, sized

INT32 = torch.empty(0, dtype=torch.int32)
#: ATen's names of arguments with indices.
INDICES = ("index", "indices")

PER_TENSOR = PyQnn.Qnn_QuantizationEncoding_t.QNN_QUANTIZATION_ENCODING_SCALE_OFFSET
PER_CHANNEL = PyQnn.Qnn_QuantizationEncoding_t.QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET


@cache
def _arguments(operator: Any) -> dict[str, tuple[int, str, bool, Any]]:
    """Each argument of an operator: position, torch's spelling of its type, True if it has a default, the default."""
    arguments = operator._schema.arguments
    return {a.name: (i, str(a.type), a.has_default_value(), a.default_value) for i, a in enumerate(arguments)}


class FxNodeView:
    """``visitor`` provides the helpers of ExecuTorch's builder interface; ``target`` is the ATen name.

    ``constants``: ``constant_names`` of the visitor's program; pass it when viewing many nodes.
    """

    def __init__(
        self, visitor: NodeVisitor, node: torch.fx.Node, target: str, constants: frozenset[str] | None = None
    ) -> None:
        self.target = target
        self.name = str(node.name)
        self.node = node
        self._visitor = visitor
        self.constants = constant_names(visitor.edge_program) if constants is None else constants
        self._sources: dict[tuple[str, int], torch.fx.Node] = {}
        self._encodings: dict[Quant, tuple[Any, dict[str, Any]]] = {}
        self._indices: set[torch.fx.Node] = set()  # constants used as indices
        order = node.meta.get(QCOM_AXIS_ORDER)
        identity = order is None or list(order) == list(range(len(order)))
        #: the storage order of this node's dynamic tensors, or None for PyTorch's
        self.order: tuple[int, ...] | None = None if identity else tuple(order)
        #: True: shapes and ``dim`` arguments are in the stored order
        self.in_stored_order = self.order is not None and self._commutes()

    # -- what builders ask ------------------------------------------------------------------------

    def arg(self, name: str) -> Any:
        """The argument of this ATen schema name; see ``opdb.runtime.forms.NodeView``."""
        found = _arguments(self.node.target).get(name)
        if found is None:
            raise Rejection(f"{self.target} has no argument {name} in this version of PyTorch")
        position, kind, has_default, default = found
        if name in self.node.kwargs:
            value = self.node.kwargs[name]
        elif position < len(self.node.args):
            value = self.node.args[position]
        elif has_default:
            value = default
        else:
            raise Rejection(f"the argument {name} of {self.target} is missing")
        return self._argument(name, kind, value)

    def result(self, index: int) -> TensorRef:
        return self.results()[index]

    def results(self) -> Sequence[TensorRef]:
        values = self.values()
        return [self._ref(self.node, i, v, static=False) for i, v in enumerate(values)]

    def result_used(self, index: int) -> bool:
        if not isinstance(self.node.meta["val"], (tuple, list)):
            return bool(self.node.users)
        return any(
            getattr(u.target, "__name__", "") == "getitem" and u.args[1] == index for u in self.node.users
        )

    def between_views(self) -> bool:
        return between_views(self.node)

    def read_in_ranks(self) -> set[int]:
        return read_in_ranks(self.node)

    def shown(self) -> set[tuple[int, ...]]:
        return shown(self.node)

    def constant_source(self, t: TensorRef) -> TensorRef | None:
        """ExecuTorch expands constants in a sum to its rank with views (ExpandBroadcastTensorShape); looks through them."""
        if t.static or t.key is None:
            return t if t.static else None
        base = seen(self.source(t))
        if sum(d > 1 for d in t.shape) > 1 or not of_constants(base, self.constants):
            return None
        if base.name not in self.constants:
            return t
        constant = self._ref(base, 0, base.meta["val"], static=True)
        return reshape(constant, t.shape) if constant.quant == t.quant else None

    # -- what the sink asks -----------------------------------------------------------------------

    def leaves(self, index: int) -> bool:
        """True if the graph returns this result."""
        if not isinstance(self.node.meta["val"], (tuple, list)):
            return bool(is_graph_output(self.node))
        return any(is_graph_output(u) for u in self.node.users if u.args[1:2] == (index,))

    def constant(self, source: torch.fx.Node) -> Any:
        """The tensor of a parameter, buffer, or constant; indices come as int32.

        ExecuTorch converts int64 constants to a float type (I64toI32), as if all were used in arithmetic.
        """
        tensor = get_parameter(source, self._visitor.edge_program)
        return tensor.to(torch.int32) if source in self._indices or tensor.dtype == torch.int64 else tensor

    def source(self, ref: TensorRef) -> torch.fx.Node:
        """The graph node behind a ref with a key."""
        return self._sources[ref.key]  # type: ignore[index]

    def index(self, ref: TensorRef) -> int:
        """The number of a ref's result within its node; the ref has a key."""
        assert isinstance(ref.key, tuple)
        return int(ref.key[1])

    def values(self) -> list[Any]:
        """The fake tensors of the node's results, in PyTorch's order."""
        val = self.node.meta["val"]
        return list(val) if isinstance(val, (tuple, list)) else [val]

    def stored(self, tensor: Any) -> Any:
        """``tensor`` in the storage order of this node's dynamic tensors."""
        layout.stored(tensor.shape, self.order)  # rank check
        return tensor if self.order is None or tensor.dim() <= 1 else tensor.permute(self.order).contiguous()

    def encoding(self, quant: Quant) -> tuple[Any, dict[str, Any]]:
        """ExecuTorch's encoding and config that ``quant`` was read from, or equivalent ones for an intermediate."""
        if quant not in self._encodings and quant.encoding == "SCALE_OFFSET":
            return PER_TENSOR, {QCOM_SCALE: quant.scale[0], QCOM_OFFSET: quant.offset[0]}
        if quant not in self._encodings and quant.encoding == "AXIS_SCALE_OFFSET":
            pairs = list(zip(quant.scale, quant.offset, strict=True))
            stored = np.array(pairs, [("scale", np.float32), ("offset", np.int32)])
            return PER_CHANNEL, {QCOM_SCALE_OFFSET: stored, QCOM_AXIS: quant.axis}
        if quant not in self._encodings:
            raise Rejection("an encoding that no tensor of this node has")
        encoding, config = self._encodings[quant]
        return encoding, dict(config)

    # -- how -------------------------------------------------------------------------------------

    def _commutes(self) -> bool:
        if not layout.commutes(self.target):
            return False
        ranks = {v.dim() for i, v in enumerate(self.values()) if self.result_used(i)}
        tensors = [n.meta["val"] for n in self.node.all_input_nodes]
        return ranks == {len(self.order or ())} and all(
            t.dim() == len(self.order or ()) or t.numel() == 1 for t in tensors
        )

    def _argument(self, name: str, kind: str, value: Any) -> Any:
        """``value`` in the form that mappings read.  ``kind``: torch's spelling; e.g. Optional[Tensor], List[int]."""
        if value is None:
            return None
        if "Tensor" in kind:
            if isinstance(value, (list, tuple)):
                return [None if v is None else self._operand(name, v) for v in value]
            return self._operand(name, value)
        if isinstance(value, torch.dtype):
            return DTYPES.get(value, str(value))
        if isinstance(value, (torch.layout, torch.device, torch.memory_format)):
            return str(value)
        if isinstance(value, (list, tuple)):
            return self._renumbered(name, [_number(name, v) for v in value])
        value = _number(name, value)
        if "List[int]" in kind and isinstance(value, int):
            return self._renumbered(name, [value])
        if kind in ("number", "float", "Optional[number]", "Optional[float]"):
            return float(value)
        return self._renumbered(name, value)

    def _renumbered(self, name: str, value: Any) -> Any:
        if self.in_stored_order and name in layout.DIMS:
            return layout.renumber(value, self.order or ())
        return value

    def _operand(self, name: str, value: Any) -> TensorRef:
        if not isinstance(value, torch.fx.Node):
            raise Rejection(f"{name} = {value} is a number where ExecuTorch's edge graph has a tensor")
        source = self._visitor.get_node(value)
        tensor = source.meta["val"]
        if isinstance(tensor, (tuple, list)):
            raise Rejection(f"{source.name} has several results and is read as one")
        static = source.name in self.constants
        if static and name in INDICES:
            self._indices.add(source)
        indices = static and name in INDICES
        return self._ref(source, 0, tensor, static, indices)

    def _ref(
        self, source: torch.fx.Node, index: int, value: Any, static: bool, indices: bool = False
    ) -> TensorRef:
        if any(isinstance(d, torch.SymInt) for d in value.shape):
            raise Rejection(f"{source.name} has a dimension that is not known before the program runs")
        if value.dtype == torch.float64 and not static:
            raise Rejection(f"{source.name} is of float64, which no op of QNN computes with")
        shape = sized(source.name, tuple(int(d) for d in value.shape)) or (1,)  # a scalar is [1] to QNN
        order = (
            self.order
            if self.in_stored_order and (not static or len(shape) == len(self.order or ()))
            else None
        )
        shape = layout.stored(shape, order)
        encoding, config = self._encoding(source, index, value)
        # QNN computes with int32; the sink adds a Cast where int64 enters or leaves
        typed = INT32 if indices or value.dtype == torch.int64 else value
        try:
            dtype = lookup(self._visitor.get_data_type(typed, config).name)
        except KeyError:  # ExecuTorch's table lacks it; e.g. torch.complex64
            dtype = None
        if dtype is None:
            raise Rejection(f"{source.name} has a data type that QNN has no tensor for ({value.dtype})")
        key = (str(source.name), index)
        self._sources[key] = source
        quant = quant_of(encoding.name, config) if config else None
        if quant is not None and quant.axis is not None:  # ExecuTorch's config already uses QNN's layout
            axis = self._axis(source) % len(shape)
            quant = replace(quant, axis=axis if order is None else order.index(axis))
        if quant is not None:
            self._encodings[quant] = (encoding, config)
        values = partial(self._stored_values, source) if static else None
        return TensorRef(shape, dtype.short, static, key, quant=quant, base_shape=shape, values=values)

    def _stored_values(self, source: torch.fx.Node) -> Any:
        """A constant's stored numbers as an array; None while partitioning."""
        tensor = self.constant(source).detach()
        if isinstance(tensor, FakeTensor):
            return None
        _, config = self._visitor.get_quant_encoding_conf(source, self.node)
        self._visitor.get_data_type(tensor, config)  # settles config's dtype
        if config:
            tensor = self._visitor.get_quant_tensor_value(tensor, source.meta[QCOM_QUANT_ATTRS], config)
        return tensor.contiguous().numpy()

    def _axis(self, source: torch.fx.Node) -> int:
        """The axis of a constant's encoding, in PyTorch's layout."""
        axis = source.meta[QCOM_QUANT_ATTRS].get(QCOM_AXIS)
        if axis is not None:
            return int(axis)
        # For blockwise weights, ExecuTorch observes the channels, the second dimension of a transposed convolution's filter.
        return int(self.target == "aten.convolution.default" and bool(self.arg("transposed")))

    def _encoding(self, source: torch.fx.Node, index: int, value: Any) -> tuple[Any, dict[str, Any]]:
        """ExecuTorch's encoding and config of a node's result; if it has several, only the floating-point ones have an encoding."""
        if source is self.node and not value.dtype.is_floating_point:  # e.g. the indices of topk
            return PyQnn.Qnn_QuantizationEncoding_t.QNN_QUANTIZATION_ENCODING_UNDEFINED, {}
        with self.encoded(index) if source is self.node else nullcontext():
            found: tuple[Any, dict[str, Any]] = self._visitor.get_quant_encoding_conf(source, self.node)
        return found

    @contextmanager
    def encoded(self, index: int) -> Iterator[None]:
        """Sets this result's encoding as the node's; each of several results has its own, in the meta of its getitem."""
        picks = [
            u
            for u in self.node.users
            if getattr(u.target, "__name__", "") == "getitem" and u.args[1] == index
        ]
        held = self.node.meta.get(QCOM_QUANT_ATTRS)
        own = picks[0].meta.get(QCOM_QUANT_ATTRS) if picks else held
        try:
            _put(self.node.meta, own)
            yield
        finally:
            _put(self.node.meta, held)


def _put(meta: dict[str, Any], encoding: dict[str, Any] | None) -> None:
    meta.pop(QCOM_QUANT_ATTRS, None)
    if encoding is not None:
        meta[QCOM_QUANT_ATTRS] = encoding


def constant_names(program: torch.export.ExportedProgram) -> frozenset[str]:
    """The nodes whose values are known before the program runs: parameters, constants, and buffers that it does not change.

    They are placeholders, or get_attr nodes, which passes of ExecuTorch 1.5 create.
    """
    signature = program.graph_signature
    changed = set(signature.buffers_to_mutate.values())
    buffers = {name for name, buffer in signature.inputs_to_buffers.items() if buffer not in changed}
    attributes = {n.name for n in program.graph.nodes if n.op == "get_attr"}
    constants = signature.inputs_to_lifted_tensor_constants
    return frozenset({*signature.inputs_to_parameters, *constants, *buffers, *attributes})


def _number(name: str, value: Any) -> Any:
    if isinstance(value, (torch.fx.Node, torch.SymInt, torch.SymFloat, torch.SymBool)):
        raise Rejection(f"the argument {name} is not known before the program runs")
    return value


def quant_of(encoding: str, config: dict[str, Any]) -> Quant:
    """Builds ``Qnn_QuantizeParams_t`` from ExecuTorch's config, whose offsets already have QNN's sign."""
    name = encoding.removeprefix("QNN_QUANTIZATION_ENCODING_")
    bits = config.get(QCOM_BITWIDTH)
    if name in ("SCALE_OFFSET", "BW_SCALE_OFFSET"):
        if not math.isfinite(config[QCOM_SCALE]):
            raise Rejection(ENDLESS_SCALE.message)
        return Quant(name, (float(config[QCOM_SCALE]),), (int(config[QCOM_OFFSET]),), bits=bits)
    if name in ("AXIS_SCALE_OFFSET", "BW_AXIS_SCALE_OFFSET"):
        pairs = config[QCOM_SCALE_OFFSET]
        scales = tuple(float(s) for s in pairs["scale"])
        return Quant(name, scales, tuple(int(o) for o in pairs["offset"]), int(config[QCOM_AXIS]), bits)
    if name == "BLOCKWISE_EXPANSION":
        pairs = config[QCOM_BLOCK_SCALE_OFFSET]
        held = Blocks(
            int(config[QCOM_NUM_BLOCKS_PER_AXIS]),
            int(config[QCOM_BLOCK_SCALE_BITWIDTH]),
            tuple(int(s) for s in config[QCOM_BLOCK_SCALES]),
        )
        scales, offsets = tuple(float(s) for s in pairs["scale"]), tuple(int(o) for o in pairs["offset"])
        return Quant(name, scales, offsets, int(config[QCOM_AXIS]), blocks=held)
    raise Rejection(f"opdb's builders carry no encoding {name}")
