"""Patches that keep operators whole until opdb's builders see them."""

from __future__ import annotations

import threading
from functools import cache
from types import SimpleNamespace
from typing import Any

from opdb.plugins.executorch.builder import layout
from opdb.plugins.executorch.builder.operators import overload
from opdb.plugins.executorch.patches.crashes import of_other_windows
from opdb.plugins.executorch.patches.graphs import nodes, traced
from opdb.plugins.executorch.patches.registry import Context, patch
from opdb.plugins.executorch.patches.undo import Undo, all_of, replaced, sparing
from opdb.programs.torch.views import shorten


def _goes_by_permutations() -> bool:
    import torch
    from executorch.backends.qualcomm._passes.decompose_einsum import DecomposeEinsum

    module = traced(lambda x, y: torch.einsum("ij,kj->ik", x, y), torch.ones(2, 3), torch.ones(4, 3))
    changed = DecomposeEinsum()(module).graph_module
    return bool(nodes(changed, torch.ops.aten.permute.default))


@patch(
    "einsum-by-views",
    "policy",
    "what einsum becomes has permutations that move dimensions of size 1 alone, of which HTP makes wrong results (HTP-0354)",
    "_passes.decompose_einsum:DecomposeEinsum.call",
    "_passes.qnn_pass_manager:QnnPassManager.transform_for_export_pipeline",
    needed=_goes_by_permutations,
)
def einsum_by_views(context: Context) -> Undo:
    """Turns einsum's permutations that move no numbers into views, for the quantizer and before the edge program."""
    import torch
    from executorch.backends.qualcomm._passes.decompose_einsum import DecomposeEinsum
    from executorch.backends.qualcomm._passes.qnn_pass_manager import QnnPassManager

    einsum = torch.ops.aten.einsum.default
    decomposed, exports = DecomposeEinsum.call, QnnPassManager.transform_for_export_pipeline

    def has_einsum(graph: Any) -> bool:
        return any(node.target is einsum for node in graph.nodes)

    def call(self: Any, graph_module: Any) -> Any:
        found = has_einsum(graph_module.graph)
        done = decomposed(self, graph_module)
        if found:
            shorten(graph_module.graph)
            graph_module.recompile()
        return done

    def transform_for_export_pipeline(self: Any, exported_program: Any, *more: Any, **named: Any) -> Any:
        if has_einsum(exported_program.graph):
            known = {einsum: torch.export.default_decompositions()[einsum]}
            exported_program = exported_program.run_decompositions(known)
            shorten(exported_program.graph)
        return exports(self, exported_program, *more, **named)

    return all_of(
        (
            replaced(DecomposeEinsum, "call", call),
            replaced(QnnPassManager, "transform_for_export_pipeline", transform_for_export_pipeline),
        )
    )


def _takes_masks_apart() -> bool:
    import torch
    from executorch.backends.transforms.decompose_sdpa import DecomposeScaledDotProductAttention

    q = torch.ones(1, 1, 2, 4)
    module = traced(lambda q: torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True), q)
    attention = torch.ops.aten.scaled_dot_product_attention.default
    return not nodes(DecomposeScaledDotProductAttention()(module).graph_module, attention)


@patch(
    "masked-attention-whole",
    "policy",
    "attention that is causal or has a mask of booleans is taken apart into sums with -infinity",
    "executorch.backends.transforms.decompose_sdpa:DecomposeScaledDotProductAttention.call",
    "quantizer.quantizer:QnnQuantizer.transform_for_annotation",
    needed=_takes_masks_apart,
)
def masked_attention_kept(context: Context) -> Undo:
    """Keeps causal attention, and attention with a boolean mask, whole if opdb maps it.

    Decomposed, the mask adds -infinity, which HTP's fp16 does not distinguish from large numbers: a fully masked row
    would be the mean of all values, not zero.  Quantized, it adds -255 or -65535: a step of the scores is then 1, and the
    result off by a quarter of its range (SM8650, 16 bits).  A quantizer for v68, which has no fp16, gets the parts.
    """
    import torch
    from executorch.backends.qualcomm.quantizer.quantizer import QnnQuantizer
    from executorch.backends.transforms.decompose_sdpa import DecomposeScaledDotProductAttention

    target = torch.ops.aten.scaled_dot_product_attention.default
    stock = QnnQuantizer.transform_for_annotation
    v68 = threading.local()

    def masked(node: Any) -> bool:
        if node.target is not target or getattr(v68, "asks", False):
            return False
        given = dict(zip(("attn_mask", "dropout_p", "is_causal"), node.args[3:], strict=False)) | node.kwargs
        mask = given.get("attn_mask")
        return bool(given.get("is_causal")) or (mask is not None and mask.meta["val"].dtype == torch.bool)

    def transform_for_annotation(self: Any, model: Any) -> Any:
        v68.asks = self.soc_info.htp_info.htp_arch == 68
        try:
            return stock(self, model)
        finally:
            v68.asks = False

    if "aten.scaled_dot_product_attention.default" not in context.targets:
        return all_of(())
    return all_of(
        (
            sparing(DecomposeScaledDotProductAttention, masked),
            replaced(QnnQuantizer, "transform_for_annotation", transform_for_annotation),
        )
    )


def _lifts_exponents() -> bool:
    import torch
    from executorch.backends.qualcomm._passes.lift_constant_scalar_operands import SKIP_LIFT_OPS

    return torch.ops.aten.pow.Tensor_Scalar not in SKIP_LIFT_OPS


@patch(
    "exponents-as-numbers",
    "policy",
    "a tensor hides the exponent of a power, of which opdb has better forms (HTP-0318)",
    "_passes.lift_constant_scalar_operands:SKIP_LIFT_OPS",
    "_passes.qnn_pass_manager:QnnPassManager.transform_for_export_pipeline",
    needed=_lifts_exponents,
)
def exponents_kept(context: Context) -> Undo:
    """Keeps exponents as numbers in the export's passes; after the quantizer they are already tensors."""
    import torch
    from executorch.backends.qualcomm._passes.lift_constant_scalar_operands import SKIP_LIFT_OPS
    from executorch.backends.qualcomm._passes.qnn_pass_manager import QnnPassManager

    power = torch.ops.aten.pow.Tensor_Scalar
    stock = QnnPassManager.transform_for_export_pipeline

    def transform_for_export_pipeline(self: Any, *program: Any, **named: Any) -> Any:
        SKIP_LIFT_OPS.add(power)
        try:
            return stock(self, *program, **named)
        finally:
            SKIP_LIFT_OPS.discard(power)

    if "aten.pow.Tensor_Scalar" not in context.targets:
        return all_of(())
    return replaced(QnnPassManager, "transform_for_export_pipeline", transform_for_export_pipeline)


def _decomposes_what_opdb_builds() -> bool:
    import torch
    from executorch.backends.qualcomm.partition.qnn_partitioner import QnnPartitioner

    return (
        torch.ops.aten.softplus.default not in QnnPartitioner.ops_to_not_decompose(SimpleNamespace(), None)[0]
    )


@patch(
    "kept-whole",
    "feature",
    "PyTorch decomposes operators that opdb's builders take whole, node by node",
    "partition.qnn_partitioner:QnnPartitioner.ops_to_not_decompose",
    "executorch.exir.program._program:_default_decomposition_table",
    needed=_decomposes_what_opdb_builds,
)
def kept_whole(context: Context) -> Undo:
    """Keeps operators whole that PyTorch would decompose if opdb's builder takes them.

    A node that is kept whole and then refused ends ExecuTorch's flow ("was not decomposed or delegated"),
    so each is judged in advance, with the encodings that it will have.  Others keep ExecuTorch's own policy, and so does
    an operator that ExecuTorch keeps whole for a pass (col2im), if the pass takes it.
    """
    from executorch.backends.qualcomm.partition.qnn_partitioner import QnnPartitioner
    from executorch.exir.dialects.edge._ops import EdgeOpOverload
    from executorch.exir.program._program import _default_decomposition_table

    from opdb.plugins.executorch.builder.preserve_ops import PreservedOps

    targets, decide, built = context.preserve_ops, context.decide, context.stock
    table = _default_decomposition_table()
    own = {op for op in map(overload, targets) if op in table and not layout.laid_out_as_another(str(op))}
    ours = {overload(t) for t in targets}
    stock = QnnPartitioner.ops_to_not_decompose

    def ops_to_not_decompose(self: Any, ep: Any) -> Any:
        ops, allows = stock(self, ep)
        decide.follow(self.compiler_specs_snapshot)
        preserved = PreservedOps(ep, decide, decide.avoids)

        def check(node: Any) -> bool:
            left = isinstance(node.target, EdgeOpOverload)  # called again, for nodes that no partition took
            operator = node.target._op if left else node.target
            if operator not in table or (left and operator in own and _runs_on_cpu(operator)):
                return False  # PyTorch does not decompose it, or ExecuTorch can run it on the CPU
            if not all(_as_written(v) for v in _values(node)):
                return False
            accepted = preserved.accepts(node) if node.target in ours else None
            if not accepted and operator in ops and str(operator) not in built:
                return bool(allows(node)) and not of_other_windows(node)
            return bool(allows(node)) and node.target not in own if accepted is None else accepted

        return [*ops, *sorted(own - set(ops), key=str)], check

    return replaced(QnnPartitioner, "ops_to_not_decompose", ops_to_not_decompose)


def _values(node: Any) -> list[Any]:
    value = node.meta.get("val")
    return [
        v for v in (value if isinstance(value, (tuple, list)) else [value]) if hasattr(v, "is_contiguous")
    ]


def _as_written(value: Any) -> bool:
    """True if a result is in QNN's memory order; e.g. False for rot90, whose result is a view of the turned tensor.

    The program would read it in the view's order.
    """
    import torch

    last = value.dim() == 4 and value.is_contiguous(memory_format=torch.channels_last)
    return bool(value.is_contiguous()) or last


def _runs_on_cpu(operator: Any) -> bool:
    """True if the runtime of the executorch wheel has a kernel for an operator."""
    return str(operator._schema.name) in _kernels()


@cache
def _kernels() -> frozenset[str]:
    from executorch.extension.pybindings import portable_lib

    return frozenset(name.partition(".")[0] for name in portable_lib._get_operator_names())
