"""Patches for encodings that ExecuTorch's passes lose or corrupt between the quantizer and the builders."""

from __future__ import annotations

from typing import Any

from opdb.plugins.executorch.patches.graphs import edge, edge_op, exported, nodes, through
from opdb.plugins.executorch.patches.registry import Context, patch
from opdb.plugins.executorch.patches.undo import Undo, all_of, replaced


def _zero_points_become_int32() -> bool:
    import torch
    from executorch.backends.qualcomm._passes.i64_to_i32 import I64toI32

    class ByChannel(torch.nn.Module):  # type: ignore[misc]  # untyped base
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("weight", torch.ones(2, 3, dtype=torch.int8))
            self.register_buffer("scales", torch.ones(2))
            self.register_buffer("zeros", torch.zeros(2, dtype=torch.int64))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            dequantize = torch.ops.quantized_decomposed.dequantize_per_channel.default
            return x + dequantize(self.weight, self.scales, self.zeros, 0, -127, 127, torch.int8)

    program = edge(ByChannel(), torch.ones(2, 3))
    changed = I64toI32(program)(program.graph_module).graph_module
    return any(zeros.meta["val"].dtype != torch.int64 for zeros in _zero_points(changed.graph))


@patch(
    "int64-zero-points",
    "bug",
    "zero points by channel become int32, which the CPU's kernel reads as int64 where the reader is not delegated",
    "_passes.qnn_pass_manager:QnnPassManager.transform_for_export_pipeline",
    "_passes.i64_to_i32:I64toI32.call",
    needed=_zero_points_become_int32,
)
def int64_zero_points(context: Context) -> Undo:
    """Makes per-channel zero points of weights and biases int64 before and after ExecuTorch turns the rest into int32.

    If the reader of a weight falls back to the CPU, ExecuTorch's kernel reads them as int64 in any case, and
    int32 would give wrong numbers from whatever is next in memory.
    """
    from executorch.backends.qualcomm._passes.i64_to_i32 import I64toI32
    from executorch.backends.qualcomm._passes.qnn_pass_manager import QnnPassManager

    exports, narrows = QnnPassManager.transform_for_export_pipeline, I64toI32.call

    def transform_for_export_pipeline(self: Any, exported_program: Any, *more: Any, **named: Any) -> Any:
        program = exports(self, exported_program, *more, **named)
        for zeros in _zero_points(program.graph):
            _widen(zeros, program)
        return program

    def call(self: Any, graph_module: Any) -> Any:
        result = narrows(self, graph_module)
        for zeros in _zero_points(result.graph_module.graph):
            if zeros.target is self.copy_op:
                zeros.replace_all_uses_with(zeros.args[0])
        result.graph_module.recompile()
        return result

    return all_of(
        (
            replaced(QnnPassManager, "transform_for_export_pipeline", transform_for_export_pipeline),
            replaced(I64toI32, "call", call),
        )
    )


def _zero_points(graph: Any) -> list[Any]:
    of = [
        n for n in graph.nodes if getattr(n.target, "__name__", "").endswith("dequantize_per_channel.default")
    ]
    return [n.args[2] for n in of if n.args[2] is not None]


def _widen(placeholder: Any, program: Any) -> None:
    """Converts an int32 buffer to int64."""
    import torch

    name = program.graph_signature.inputs_to_buffers.get(placeholder.name)
    for tensors in (program.state_dict, program.constants):
        if name in tensors and tensors[name].dtype == torch.int32:
            tensors[name] = tensors[name].to(torch.int64)
            placeholder.meta["val"] = placeholder.meta["val"].to(torch.int64)


#: Operators that overwrite part of their first argument, which therefore has the result's encoding.
_WRITTEN_INTO = ("aten.index_put.default", "aten.index_copy.default", "aten.slice_scatter.default",
                 "aten.select_scatter.default")  # fmt: skip


def _has_no_encoding(function: Any, target: str, *inputs: Any, at: Any) -> bool:
    """True if AnnotateQuantAttrs leaves the node ``at(node)`` of the operator ``target`` without an encoding."""
    from executorch.backends.qualcomm._passes.annotate_quant_attrs import AnnotateQuantAttrs
    from executorch.backends.qualcomm.utils.constants import QCOM_QUANT_ATTRS

    program = edge(function, *inputs)
    changed = AnnotateQuantAttrs(program)(program.graph_module).graph_module
    return any(QCOM_QUANT_ATTRS not in at(n).meta for n in nodes(changed, edge_op(target)))


def _written_has_none() -> bool:
    import torch

    places = torch.tensor([1, 0])

    def function(x: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return through(torch.ops.aten.index_put(x, [places], through(values)))

    inputs = (torch.ones(3, 2), torch.ones(2, 2))
    return _has_no_encoding(function, "aten.index_put.default", *inputs, at=lambda n: n.args[0])


@patch(
    "encodings-written-into",
    "bug",
    "what index_put and its like write into stays a tensor of floats beside quantized values and a quantized result, which "
    "QNN refuses",
    "_passes.annotate_quant_attrs:AnnotateQuantAttrs.call",
    needed=_written_has_none,
)
def encodings_of_what_is_written_into(context: Context) -> Undo:
    """Gives an input or constant that index_put and similar operators write into the encoding of the result.

    ExecuTorch's quantizer only observes the values and the result.  A tensor that other nodes also read keeps its
    numbers, and so does one that values are added to.  The memory of a buffer that the program changes holds
    floating-point numbers, which InsertIOQDQ quantizes first and dequantizes last.
    """
    from executorch.backends.qualcomm._passes.annotate_quant_attrs import AnnotateQuantAttrs
    from executorch.backends.qualcomm.utils.constants import QCOM_QUANT_ATTRS

    stock = AnnotateQuantAttrs.call

    def call(self: Any, graph_module: Any) -> Any:
        result = stock(self, graph_module)
        for node in result.graph_module.graph.nodes:
            attrs = node.meta.get(QCOM_QUANT_ATTRS)
            if attrs is None or getattr(node.target, "__name__", "") not in _WRITTEN_INTO:
                continue
            written = node.args[0]
            added = getattr(node.target, "__name__", "") == "aten.index_put.default" and node.args[3:] == (
                True,
            )
            if added or written.op != "placeholder" or len(written.users) > 1:
                continue
            if QCOM_QUANT_ATTRS not in written.meta:
                written.meta[QCOM_QUANT_ATTRS] = dict(attrs)
        return result

    return replaced(AnnotateQuantAttrs, "call", call)


#: PyTorch's operators around one that it replaces by one of another rank; e.g. for an image without a batch.
_RANKS = (
    "aten.unsqueeze_copy.default",
    "aten.squeeze_copy.dims",
    "aten.squeeze_copy.dim",
    "aten.view_copy.default",
)


def _inside_has_none() -> bool:
    import torch

    layer = torch.nn.AvgPool1d(2)
    return _has_no_encoding(
        lambda x: through(layer(through(x))),
        "aten.squeeze_copy.dims",
        torch.ones(1, 2, 6),
        at=lambda n: n.args[0],
    )


@patch(
    "encodings-within-ranks",
    "bug",
    "an operator that PyTorch computes with a dimension more (a line pooled, an image without a batch convolved) has no "
    "encoding, and falls to floats between quantized neighbors",
    "_passes.annotate_quant_attrs:AnnotateQuantAttrs.call",
    needed=_inside_has_none,
)
def encodings_within_ranks(context: Context) -> Undo:
    """Gives an operator of another rank between quantized tensors the encodings of its ends.

    An image without a batch is convolved, and a line pooled, with an extra dimension that comes after the
    quantizer: the input gets the encoding of its source, the result that of its reader.
    """
    from executorch.backends.qualcomm._passes.annotate_quant_attrs import AnnotateQuantAttrs
    from executorch.backends.qualcomm._passes.utils import get_quant_attrs
    from executorch.backends.qualcomm.builders.node_visitor import dq_ops
    from executorch.backends.qualcomm.utils.constants import QCOM_QUANT_ATTRS

    stock = AnnotateQuantAttrs.call

    def changes_rank(node: Any) -> bool:
        return getattr(node.target, "__name__", "") in _RANKS

    def call(self: Any, graph_module: Any) -> Any:
        result = stock(self, graph_module)
        for last in result.graph_module.graph.nodes:
            if not (changes_rank(last) and QCOM_QUANT_ATTRS in last.meta):
                continue
            inside = last.args[0]
            if inside.op != "call_function" or QCOM_QUANT_ATTRS in inside.meta or len(inside.users) > 1:
                continue
            first = [n for n in inside.all_input_nodes if changes_rank(n)]
            whole = all(n in first or n.target in dq_ops for n in inside.all_input_nodes)
            if not (first and whole and all(n.args[0].target in dq_ops for n in first)):
                continue
            inside.meta[QCOM_QUANT_ATTRS] = dict(last.meta[QCOM_QUANT_ATTRS])
            for node in first:
                node.meta[QCOM_QUANT_ATTRS] = get_quant_attrs(self.edge_program, node.args[0])
        return result

    return replaced(AnnotateQuantAttrs, "call", call)


def _gaps_are_zero(dialect: Any) -> bool:
    """True if the gaps of a spread filter are 0.  ``dialect``: makes the graph in which CanonicalizeConv spreads filters."""
    import torch
    from executorch.backends.qualcomm._passes.canonicalize_conv import CanonicalizeConv
    from executorch.backends.qualcomm.builders.utils import get_parameter

    class Spread(torch.nn.Module):  # type: ignore[misc]  # untyped base
        """A transposed convolution with a per-tensor 8-bit filter whose zero is stored as 7."""

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("filter", torch.full((1, 1, 2, 2), 9, dtype=torch.uint8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            dequantize = torch.ops.quantized_decomposed.dequantize_per_tensor.default
            filter_ = dequantize(self.filter, 0.5, 7, 0, 255, torch.uint8)
            return torch.nn.functional.conv_transpose2d(x, filter_, dilation=2)

    program = dialect(Spread(), torch.ones(1, 1, 3, 3))
    changed = CanonicalizeConv(program)(program.graph_module).graph_module
    held = [n.args[0] for n in changed.graph.nodes if "dequantize" in str(n.target)]
    return any(int(get_parameter(n, program)[0, 0, 0, 1]) != 7 for n in held)


@patch(
    "zeros-of-dilated-filters-1.4",
    "bug",
    "the gaps of a spread filter of a transposed convolution are 0, not what its encoding stores for zero",
    "_passes.canonicalize_conv:CanonicalizeConv.call",
    "_passes.canonicalize_conv:CanonicalizeConv.dilate",
    needed=lambda: _gaps_are_zero(exported),
    until="1.5",
)
def zeros_of_dilated_filters(context: Context) -> Undo:
    """Fills the gaps of a transposed convolution's filter with the zero point of its encoding.

    ExecuTorch spreads such filters before lowering and fills in 0, which is wrong if the
    zero point differs: 8-bit per-tensor filters next to 16-bit activations.
    """
    from executorch.backends.qualcomm._passes.canonicalize_conv import CanonicalizeConv
    from executorch.backends.qualcomm.builders.utils import get_parameter

    stock_call, stock_dilate = CanonicalizeConv.call, CanonicalizeConv.dilate

    def call(self: Any, graph_module: Any) -> Any:
        self.zero_points = [
            (get_parameter(source.args[0], self.edge_program), source.args[2])
            for node in graph_module.graph.nodes
            if node.target in self.transpose_conv_set and len(node.args) > 7
            for source in [node.args[1]]
            if "dequantize_per_tensor" in str(source.target)
        ]
        return stock_call(self, graph_module)

    def dilate(self: Any, tensor: Any, dilation: Any) -> Any:
        zero = next((int(z) for t, z in self.zero_points if t.data_ptr() == tensor.data_ptr()), 0)
        if zero == 0:
            return stock_dilate(self, tensor, dilation)
        return stock_dilate(self, tensor - zero, dilation) + zero

    return all_of((replaced(CanonicalizeConv, "call", call), replaced(CanonicalizeConv, "dilate", dilate)))


@patch(
    "zeros-of-dilated-filters",
    "bug",
    "the gaps of a spread filter of a transposed convolution are 0, not what its encoding stores for zero",
    "_passes.canonicalize_conv:CanonicalizeConv.call",
    "_passes.canonicalize_conv:CanonicalizeConv._dilate",
    needed=lambda: _gaps_are_zero(edge),
    since="1.5",
)
def zeros_of_dilated_filters_of_edge(context: Context) -> Undo:
    """Does the same for 1.5, whose pass runs on the edge program and spreads filters in the graph's order."""
    from executorch.backends.qualcomm._passes.canonicalize_conv import CanonicalizeConv as owner  # noqa: N813
    from executorch.exir.dialects._ops import ops as exir_ops

    convolution = exir_ops.edge.aten.convolution.default
    stock_call, stock_dilate = owner.call, owner._dilate

    def call(self: Any, graph_module: Any) -> Any:
        self.zero_points = [
            int(filter_.args[2]) if "dequantize_per_tensor" in str(filter_.target) else 0
            for node in graph_module.graph.nodes
            if node.target is convolution and node.args[6] and any(d != 1 for d in node.args[5])
            for filter_ in [node.args[1]]
        ]
        return stock_call(self, graph_module)

    def dilate(self: Any, tensor: Any, dilation: Any) -> Any:
        zero = self.zero_points.pop(0)
        return (
            stock_dilate(self, tensor - zero, dilation) + zero
            if zero
            else stock_dilate(self, tensor, dilation)
        )

    return all_of((replaced(owner, "call", call), replaced(owner, "_dilate", dilate)))
