"""The passes of ExecuTorch 1.4.1 that a registration changes, since they change values; ``mended`` returns what undoes it.

=================================  ====================================================================
``FuseConsecutiveCast``            ``_fuse``: only what keeps values is fused
``DecomposeMaxPool3d``             ``call``: not where opdb maps the pools
``DecomposeHyperbolicVariants``    ``__init__``: not where opdb maps the function
``Remove0DTensor``                 ``call``: not where opdb maps ``select``
``CanonicalizeConv``               ``call``: lines get a batch
``I64toI32``                       ``_preserve_output_dtype``: nodes of several results
``QnnPassManager``                 ``transform_for_export_pipeline``: powers keep their exponents
=================================  ====================================================================
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from opdb.executorch.operators import edge_operators
from opdb.executorch.undo import Undo, all_of, replaced


def mended(targets: Iterable[str]) -> Undo:
    """Passes of ExecuTorch that change values.

    FuseConsecutiveCast drops the first of two casts whatever it does to the numbers: ``x.long().float()`` becomes
    ``x``.  DecomposeMaxPool3d forgets the dilation, and takes adaptive pools for its own; where opdb maps the pools
    they stay as they are.  So do asinh and its like (DecomposeHyperbolicVariants: log(x + sqrt(x * x + 1)), which is
    -7.6 for -200 in fp16), and the exponents of powers of floats (a tensor hides which of them HTP computes rightly).
    CanonicalizeConv turns lines without a batch into images of another shape, which have other convolutions.
    I64toI32 ends where a node of several results has one of int64; each result that leaves keeps its type by itself.
    Remove0DTensor takes the whole line for the number that ``select`` picks of it; where opdb maps it, it stays.
    """
    from executorch.backends.qualcomm._passes.decompose_maxpool3d import DecomposeMaxPool3d
    from executorch.backends.qualcomm._passes.fuse_consecutive_cast import FuseConsecutiveCast
    from executorch.backends.qualcomm._passes.remove_0d_tensor import Remove0DTensor
    from executorch.exir.pass_base import PassResult

    def fuse(self: Any, graph_module: Any) -> None:
        for node in graph_module.graph.nodes:
            before = node.args[0] if node.target in self.op_map else None
            if before is None or before.target not in self.op_map:
                continue
            if keeps_values(before.args[0].meta["val"].dtype, before.meta["val"].dtype):
                node.replace_input_with(before, before.args[0])

    undos = [replaced(FuseConsecutiveCast, "_fuse", fuse)]
    if "aten.max_pool3d_with_indices.default" in set(targets):
        undos.append(replaced(DecomposeMaxPool3d, "call", lambda self, module: PassResult(module, False)))
    if "aten.select.int" in set(targets):
        undos.append(replaced(Remove0DTensor, "call", lambda self, module: PassResult(module, False)))
    kept = (_hyperbolic_kept(targets), _exponents_kept(targets))
    return all_of((*undos, *kept, _lines_with_a_batch(), _types_of_several_results()))


def _hyperbolic_kept(targets: Iterable[str]) -> Undo:
    """The edge operators that DecomposeHyperbolicVariants knows stay where opdb maps them; a quantizer sees parts."""
    from executorch.backends.qualcomm._passes.decompose_hyperbolic_variants import DecomposeHyperbolicVariants

    kept = set(edge_operators(targets)) & DecomposeHyperbolicVariants._EDGE_OPS
    stock = DecomposeHyperbolicVariants.__init__

    def init(self: Any) -> None:
        stock(self)
        for op in kept:
            del self._dispatcher[op]

    return replaced(DecomposeHyperbolicVariants, "__init__", init)


def _exponents_kept(targets: Iterable[str]) -> Undo:
    """What a quantizer has seen has its exponents as tensors already; a pass of the export makes the others ones."""
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

    if "aten.pow.Tensor_Scalar" not in set(targets):
        return all_of(())
    return replaced(QnnPassManager, "transform_for_export_pipeline", transform_for_export_pipeline)


def _lines_with_a_batch() -> Undo:
    """CanonicalizeConv, which puts a dimension at 2, gets conv1d and conv_transpose1d of two dimensions with a batch."""
    import torch
    from executorch.backends.qualcomm._passes.canonicalize_conv import CanonicalizeConv
    from executorch.backends.qualcomm._passes.utils import append_qdq, copy_meta

    stock = CanonicalizeConv.call
    aten = torch.ops.aten

    def batched(value: Any) -> Any:
        return copy_meta(value.meta, lambda m: {**m, "val": m["val"].unsqueeze(0)})

    def call(self: Any, module: Any) -> Any:
        graph = module.graph
        for node in list(graph.nodes):
            if node.target not in self.conv1d_op_map or node.meta["val"].dim() != 2:
                continue
            source, users, meta = node.args[0], list(node.users), dict(node.meta)
            with graph.inserting_before(node):
                lines = graph.call_function(aten.unsqueeze_copy.default, (source, 0))
            lines.meta = batched(source)
            node.replace_input_with(source, append_qdq(module, lines, source))
            node.meta = batched(node)
            encoded = append_qdq(module, node, users[0])
            with graph.inserting_after(encoded):
                line = graph.call_function(aten.squeeze_copy.dims, (encoded, [0]))
            line.meta = meta
            for user in users:
                user.replace_input_with(node, line)
        return stock(self, module)

    return replaced(CanonicalizeConv, "call", call)


def _types_of_several_results() -> Undo:
    """I64toI32 is not told the types of a node of several results, but those of each result that leaves."""
    from executorch.backends.qualcomm._passes.i64_to_i32 import I64toI32
    from executorch.backends.qualcomm.utils.constants import QCOM_ORIG_DTYPE

    stock = I64toI32._preserve_output_dtype

    def preserve(self: Any, module: Any) -> None:
        for node in module.graph.nodes:
            if isinstance(node.meta.get(QCOM_ORIG_DTYPE), list):
                del node.meta[QCOM_ORIG_DTYPE]
        stock(self, module)

    return replaced(I64toI32, "_preserve_output_dtype", preserve)


def keeps_values(dtype: Any, through: Any) -> bool:
    """Whether each value of a torch dtype is itself after a cast to ``through``; int64 counts as int32, as in QNN."""
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
