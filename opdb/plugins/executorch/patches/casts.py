"""Patches for casts and types that ExecuTorch's passes get wrong, and for tensors of buffers and of the CPU."""

from __future__ import annotations

from typing import Any

from opdb.plugins.executorch.patches.graphs import differs, edge, edge_op, nodes, per_tensor, raises
from opdb.plugins.executorch.patches.registry import Context, patch
from opdb.plugins.executorch.patches.undo import Undo, replaced


def _drops_a_cast() -> bool:
    import torch
    from executorch.backends.qualcomm._passes.fuse_consecutive_cast import FuseConsecutiveCast

    def function(x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.int32).to(torch.float32)

    x = torch.tensor([0.5, 1.5])
    return differs(FuseConsecutiveCast()(edge(function, x).graph_module).graph_module, function, x)


@patch(
    "casts-that-change-values",
    "bug",
    "the first of two casts is dropped whatever it does: x.long().float() becomes x",
    "_passes.fuse_consecutive_cast:FuseConsecutiveCast._fuse",
    needed=_drops_a_cast,
)
def casts(context: Context) -> Undo:
    from executorch.backends.qualcomm._passes.fuse_consecutive_cast import FuseConsecutiveCast
    from executorch.backends.qualcomm.utils.constants import QCOM_QUANT_ATTRS

    def fuse(self: Any, graph_module: Any) -> None:
        for node in graph_module.graph.nodes:
            before = node.args[0] if node.target in self.op_map else None
            if before is None or before.target not in self.op_map:
                continue
            source = before.args[0]
            encoded = any(QCOM_QUANT_ATTRS in n.meta or "quantize" in str(n.target) for n in (source, before))
            if not encoded and keeps_values(source.meta["val"].dtype, before.meta["val"].dtype):
                node.replace_input_with(before, source)

    return replaced(FuseConsecutiveCast, "_fuse", fuse)


def keeps_values(dtype: Any, through: Any) -> bool:
    """True if every value of a torch dtype survives a cast to ``through``; int64 counts as int32, as in QNN."""
    import torch

    if torch.bool in (dtype, through):
        return bool(dtype == torch.bool)
    if dtype == through:
        return True
    wide = {torch.int64: torch.int32}
    dtype, through = wide.get(dtype, dtype), wide.get(through, through)
    if dtype.is_floating_point != through.is_floating_point:
        bits = 0 if dtype.is_floating_point else torch.iinfo(dtype).bits
        return not dtype.is_floating_point and 2**bits <= 2 / torch.finfo(through).eps
    if dtype.is_floating_point:
        return bool(torch.finfo(dtype).bits <= torch.finfo(through).bits) and dtype != torch.bfloat16
    low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    return bool(torch.iinfo(through).min <= low and high <= torch.iinfo(through).max)


def _ends_at_several_results() -> bool:
    import torch
    from executorch.backends.qualcomm._passes.i64_to_i32 import I64toI32
    from executorch.backends.qualcomm.utils.constants import QCOM_ORIG_DTYPE

    program = edge(lambda x: tuple(torch.topk(x, 2)), torch.ones(1, 4))
    (node,) = nodes(program.graph_module, edge_op("aten.topk.default"))
    node.meta[QCOM_ORIG_DTYPE] = [torch.float32, torch.int64]
    node.meta["val"] = (node.meta["val"][0], node.meta["val"][1].to(torch.int32))
    return raises(I64toI32(program)._preserve_output_dtype, program.graph_module)


@patch(
    "types-of-several-results",
    "bug",
    "the export ends at a node of several results of which one is int64",
    "_passes.i64_to_i32:I64toI32._preserve_output_dtype",
    needed=_ends_at_several_results,
)
def types_of_several_results(context: Context) -> Undo:
    """Removes the types of a node with several results, so that I64toI32 uses the type of each result that leaves."""
    from executorch.backends.qualcomm._passes.i64_to_i32 import I64toI32
    from executorch.backends.qualcomm.utils.constants import QCOM_ORIG_DTYPE

    stock = I64toI32._preserve_output_dtype

    def preserve(self: Any, graph_module: Any) -> None:
        for node in graph_module.graph.nodes:
            if isinstance(node.meta.get(QCOM_ORIG_DTYPE), list):
                del node.meta[QCOM_ORIG_DTYPE]
        stock(self, graph_module)

    return replaced(I64toI32, "_preserve_output_dtype", preserve)


def _names_another_node() -> bool:
    import torch
    from executorch.backends.qualcomm._passes.insert_io_qdq import InsertIOQDQ
    from executorch.backends.qualcomm.utils.constants import QCOM_QUANT_ATTRS
    from torch.export.graph_signature import OutputKind

    class Counts(torch.nn.Module):  # type: ignore[misc]  # untyped base
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count.add_(x)
            return x * 2

    program = edge(Counts(), torch.ones(2))
    for node in nodes(program.graph_module, edge_op("aten.add.Tensor")):
        node.meta[QCOM_QUANT_ATTRS] = per_tensor()
    changed = InsertIOQDQ(program)(program.graph_module).graph_module
    specs = program.graph_signature.output_specs
    (results,) = changed.graph.output_node().args
    return any(
        s.arg.name != r.name
        for s, r in zip(specs, results, strict=True)
        if s.kind is OutputKind.BUFFER_MUTATION
    )


@patch(
    "buffers-that-change",
    "bug",
    "what a quantized node leaves in a buffer is not known as that",
    "_passes.insert_io_qdq:InsertIOQDQ.call",
    needed=_names_another_node,
)
def buffers_that_change(context: Context) -> Undo:
    """Makes the program's signature name the Dequantize that InsertIOQDQ puts between a node and the buffer it changes."""
    from executorch.backends.qualcomm._passes.insert_io_qdq import InsertIOQDQ
    from torch.export.graph_signature import OutputKind

    stock = InsertIOQDQ.call

    def call(self: Any, graph_module: Any) -> Any:
        done = stock(self, graph_module)
        (results,) = next(n for n in graph_module.graph.nodes if n.op == "output").args
        for spec, result in zip(self.edge_program.graph_signature.output_specs, results, strict=True):
            if spec.kind is OutputKind.BUFFER_MUTATION:
                spec.arg.name = result.name
        return done

    return replaced(InsertIOQDQ, "call", call)


def _dequantizes_inputs() -> bool:
    import torch
    from executorch.backends.qualcomm._passes.insert_io_qdq import InsertIOQDQ
    from executorch.backends.qualcomm.utils.constants import QCOM_QUANT_ATTRS

    program = edge(torch.relu, torch.ones(2))
    (x,) = (n for n in program.graph.nodes if n.op == "placeholder")
    x.meta[QCOM_QUANT_ATTRS] = per_tensor(dequantize=True)
    try:
        changed = InsertIOQDQ(program)(program.graph_module).graph_module
    except Exception:  # 1.5 asserts that it inserts a quantize node
        return True
    return not nodes(changed, per_tensor()["encoding"])


@patch(
    "inputs-of-the-cpu",
    "bug",
    "an input with the encoding of a Dequantize, e.g. of a view that the CPU computes, is dequantized, not quantized",
    "_passes.insert_io_qdq:InsertIOQDQ.call",
    needed=_dequantizes_inputs,
)
def inputs_quantized(context: Context) -> Undo:
    """Quantizes a delegate's input that has the encoding of a Dequantize, e.g. a view that the CPU computes."""
    from executorch.backends.qualcomm._passes.insert_io_qdq import InsertIOQDQ
    from executorch.backends.qualcomm.builders.node_visitor import q_dq_map, q_ops
    from executorch.backends.qualcomm.utils.constants import QCOM_ENCODING, QCOM_QUANT_ATTRS

    stock = InsertIOQDQ.call
    quantizes = {dequantize: q for q, dequantize in q_dq_map.items() if q in q_ops}

    def call(self: Any, graph_module: Any) -> Any:
        for node in graph_module.graph.nodes:
            attrs = node.meta.get(QCOM_QUANT_ATTRS)
            if node.op == "placeholder" and attrs and attrs[QCOM_ENCODING] in quantizes:
                node.meta[QCOM_QUANT_ATTRS] = {**attrs, QCOM_ENCODING: quantizes[attrs[QCOM_ENCODING]]}
        return stock(self, graph_module)

    return replaced(InsertIOQDQ, "call", call)
