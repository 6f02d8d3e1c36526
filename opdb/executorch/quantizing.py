"""The places of ExecuTorch 1.4.1's quantization that a registration changes; each function returns what undoes it.

=================================  ====================================================================
``htp_rules``, ``lpai_rules``      ``_RULES``: operator -> how the quantizer annotates it
``qconfig``                        ``_derived_bias_quant_spec``: scales of biases
``AnnotateQuantAttrs``             ``call``: encodings of what index_put writes into, and where the rank changes
``CanonicalizeConv``               ``call``, ``dilate``: what is put between the values of a filter
``QnnPassManager``                 ``transform_for_export_pipeline``: zero points are int64
``I64toI32``                       ``call``: zero points stay int64
=================================  ====================================================================
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from opdb.executorch.operators import overload
from opdb.executorch.undo import Undo, all_of, replaced


def biases_of_groups() -> Undo:
    """The bias of a transposed convolution with groups has the product of the scales that its channel has.

    The filter has out / groups scales.  Channel c of the output has that at c % (out / groups); ExecuTorch gives
    its bias that at c // groups, which HTP does not.
    """
    import torch
    from executorch.backends.qualcomm.quantizer import qconfig

    stock = qconfig._derived_bias_quant_spec
    transposed = (torch.ops.aten.conv_transpose2d.input, torch.ops.aten.conv_transpose3d.input)

    def derived(node: Any) -> Any:
        spec = stock(node)
        groups = node.args[6] if node.target in transposed and len(node.args) > 6 else 1
        if groups == 1:
            return spec

        def of_channels(observers: Any) -> Any:
            scale, zero = spec.derive_qparams_fn(observers)
            return scale.view(-1, groups).t().reshape(-1), zero

        return replace(spec, derive_qparams_fn=of_channels)

    return replaced(qconfig, "_derived_bias_quant_spec", derived)


def zeros_of_dilated_filters() -> Undo:
    """The gaps of a transposed convolution's filter hold what its encoding stores for zero.

    ExecuTorch spreads such filters before anything is lowered, and fills in 0, which is another number where the
    zero point is another one: filters of 8 bits per tensor beside 16-bit activations.
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


#: Operators whose first argument, some of which the result replaces, has the result's encoding.
_WRITTEN_INTO = ("aten.index_put.default", "aten.index_copy.default", "aten.slice_scatter.default",
                 "aten.select_scatter.default")  # fmt: skip


def encodings_of_what_is_written_into() -> Undo:
    """An input or constant that index_put and its like write into has the encoding of the result.

    ExecuTorch's quantizer observes the values and the result only.  What other nodes read keeps its numbers, and so
    does what is added to.  The memory of a buffer that the program changes holds numbers of floating point, which
    InsertIOQDQ quantizes first and dequantizes last.
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


#: What PyTorch puts around an operator that it turns into one of another rank; ex) of an image without a batch.
_RANKS = (
    "aten.unsqueeze_copy.default",
    "aten.squeeze_copy.dims",
    "aten.squeeze_copy.dim",
    "aten.view_copy.default",
)


def encodings_within_ranks() -> Undo:
    """Between what is quantized and what is quantized, an operator of another rank has the encodings of its ends.

    An image without a batch is convolved, and a line pooled, with a dimension more, after the quantizer has gone:
    what comes in has the encoding of what it is made from, the result that of what is made of it.
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


def int64_zero_points() -> Undo:
    """Zero points of weights and biases by channel are int64, before and after ExecuTorch turns the rest into int32.

    Where the reader of a weight is left to the CPU, ExecuTorch's kernel reads them as int64 whatever they are, and
    the numbers would be off by what lies in memory.
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
    """Makes a buffer of int32 one of int64."""
    import torch

    name = program.graph_signature.inputs_to_buffers.get(placeholder.name)
    for tensors in (program.state_dict, program.constants):
        if name in tensors and tensors[name].dtype == torch.int32:
            tensors[name] = tensors[name].to(torch.int64)
            placeholder.meta["val"] = placeholder.meta["val"].to(torch.int64)


def quantizer_rules(targets: Iterable[str]) -> Undo:
    """Rules for operators that ExecuTorch's quantizer knows none of, for HTP and LPAI."""
    from executorch.backends.qualcomm.quantizer.annotators import htp_rules, lpai_rules
    from executorch.backends.qualcomm.quantizer.rules import GeneralOpDef, OpQuantRule

    from opdb.executorch.annotate import annotate
    from opdb.lowering.candidates import forms

    wanted = {overload(t): forms(t)[0].name for t in targets if forms(t)}

    def added(rules: dict[Any, Any]) -> Undo:
        new = [op for op in wanted if op not in rules]
        for op in new:
            rules[op] = OpQuantRule(op, wanted[op], annotate, GeneralOpDef.validate)

        def undo() -> None:
            for op in new:
                del rules[op]

        return undo

    return all_of(added(module.get_rules()) for module in (htp_rules, lpai_rules))
