"""The passes of ExecuTorch 1.4.1 that a registration changes, since they change values; ``mended`` returns what undoes it.

=================================  ====================================================================
``FuseConsecutiveCast``            ``_fuse``: only what keeps values is fused
``DecomposeEinsum``                ``call``: moves of dimensions of size 1 become views
``DecomposeMaxPool3d``             ``call``: not where opdb maps the pools
``DecomposeHyperbolicVariants``    ``__init__``: not where opdb maps the function
``RecomposePadMaxPool2d``          ``call``: not where opdb maps the pools
``DecomposeAny``                   ``call``: not where opdb maps ``any``
``DecomposeRoll``                  ``call``: dimensions counted from the end
``DecomposeRemainder`` and others  ``call``: whole numbers are not divided as floats
``DecomposeColIm``                 ``call``: not windows at which it ends
``DecomposeScaledDotProduct...``   ``call``: not where it hides by a mask
``QnnQuantizer``                   ``transform_for_annotation``: for which chip
``Remove0DTensor``                 ``call``: not where opdb maps ``select``
``CanonicalizeConv``               ``call``: lines get a batch
``I64toI32``                       ``_preserve_output_dtype``: nodes of several results
``InsertIOQDQ``                    ``call``: what a quantized node leaves in a buffer is known as that,
                                   and what comes in is quantized, whatever its encoding is taken from
``QnnPassManager``                 ``transform_for_export_pipeline``: powers keep their exponents, einsum as above
=================================  ====================================================================
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from opdb.coverage.moves import shorten
from opdb.executorch.operators import edge_operators
from opdb.executorch.undo import Undo, all_of, replaced, sparing

#: Passes that are off where opdb maps the target: module, class -> target.
_OFF = {
    ("decompose_any", "DecomposeAny"): "aten.any.dims",
    ("decompose_maxpool3d", "DecomposeMaxPool3d"): "aten.max_pool3d_with_indices.default",
    ("recompose_pad_maxpool2d", "RecomposePadMaxPool2d"): "aten.max_pool2d_with_indices.default",
    ("remove_0d_tensor", "Remove0DTensor"): "aten.select.int",
}
#: Passes that divide; of whole numbers opdb has quotients that are right beyond 2048, of which fp16 lacks some.
_DIVIDING = {
    ("decompose_remainder", "DecomposeRemainder"): "aten.remainder.Tensor",
    ("decompose_div_mode", "DecomposeDivMode"): "aten.div.Tensor_mode",
    ("decompose_floor_divide", "DecomposeFloorDivide"): "aten.floor_divide.default",
}


def mended(targets: Iterable[str]) -> Undo:
    """Passes of ExecuTorch that change values.

    FuseConsecutiveCast drops the first of two casts whatever it does to the numbers: ``x.long().float()`` becomes
    ``x``.  DecomposeMaxPool3d forgets the dilation, and takes adaptive pools for its own; RecomposePadMaxPool2d gives
    windows that hang over the edge (``ceil_mode``) more rows, DecomposeAny results of another shape; Remove0DTensor
    takes the whole line for the number that ``select`` picks of it.  DecomposeRoll takes dimension -1 for the first.
    asinh and its like stay (DecomposeHyperbolicVariants: log(x + sqrt(x * x + 1)), which is -7.6 for -200 in fp16), and
    so do the exponents of powers of floats (HTP-0318: a tensor hides them).
    CanonicalizeConv turns lines without a batch into images of another shape, which have other convolutions.
    I64toI32 ends where a node of several results has one of int64; each result that leaves keeps its type by itself.
    Attention that is causal or has a mask of booleans is not taken apart.
    What DecomposeEinsum makes of a product of two matrices is shortened (HTP-0354, opdb.coverage.moves).
    InsertIOQDQ dequantizes what a node writes into a buffer, but the program goes on to name the quantized node, so that
    the result is not taken for the buffer's.  An input whose encoding is that of a Dequantize, since a node on the CPU
    gives it, it would dequantize: the delegate would take floats for whole numbers.
    """
    known = set(targets)
    off = [_off(_class(*of)) for of, target in _OFF.items() if target in known]
    dividing = [
        sparing(_class(*of), _of_whole_numbers) for of, target in _DIVIDING.items() if target in known
    ]
    windows = sparing(_class("decompose_col_im", "DecomposeColIm"), of_other_windows)
    kept = (_hyperbolic_kept(known), _exponents_kept(known), _masked_attention_kept(known))
    own = (
        _casts(),
        _einsum_by_views(),
        _rolls_from_the_end(),
        _lines_with_a_batch(),
        _types_of_several_results(),
        _buffers_that_change(),
        _inputs_quantized(),
    )
    return all_of((*off, *dividing, windows, *kept, *own))


def _class(module: str, name: str) -> Any:
    return getattr(import_module(f"executorch.backends.qualcomm._passes.{module}"), name)


def _off(owner: Any) -> Undo:
    from executorch.exir.pass_base import PassResult

    return replaced(owner, "call", lambda self, module: PassResult(module, False))


def _of_whole_numbers(node: Any) -> bool:
    divides = node.op == "call_function" and any(word in str(node.target) for word in ("remainder", "div"))
    return divides and not node.meta["val"].dtype.is_floating_point


def of_other_windows(node: Any) -> bool:
    """Whether DecomposeColIm ends at a node: it takes square windows side by side, of batches, without zeros between or around."""
    name = getattr(node.target, "__name__", "").removesuffix(".default")
    if name not in ("aten.im2col", "im2col", "aten.col2im", "col2im"):
        return False
    column = name.endswith("im2col")
    window, gaps, zeros, steps = node.args[1 if column else 2 :]
    image = node.args[0].meta["val"] if column else node.meta["val"]
    plain = set(gaps) == {1} and set(zeros) == {0}
    return not (plain and list(steps) == list(window) and len(set(window)) == 1 and image.dim() == 4)


def _casts() -> Undo:
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


def _einsum_by_views() -> Undo:
    """In the quantizer's passes, and where the edge program would be made of it: the numbers are the same to PyTorch."""
    import torch
    from executorch.backends.qualcomm._passes.decompose_einsum import DecomposeEinsum
    from executorch.backends.qualcomm._passes.qnn_pass_manager import QnnPassManager

    einsum = torch.ops.aten.einsum.default
    decomposed, exports = DecomposeEinsum.call, QnnPassManager.transform_for_export_pipeline

    def has_einsum(graph: Any) -> bool:
        return any(node.target is einsum for node in graph.nodes)

    def call(self: Any, module: Any) -> Any:
        found = has_einsum(module.graph)
        done = decomposed(self, module)
        if found:
            shorten(module.graph)
            module.recompile()
        return done

    def transform_for_export_pipeline(self: Any, program: Any, *more: Any, **named: Any) -> Any:
        if has_einsum(program.graph):
            program = program.run_decompositions({einsum: torch.export.default_decompositions()[einsum]})
            shorten(program.graph)
        return exports(self, program, *more, **named)

    return all_of(
        (
            replaced(DecomposeEinsum, "call", call),
            replaced(QnnPassManager, "transform_for_export_pipeline", transform_for_export_pipeline),
        )
    )


def _rolls_from_the_end() -> Undo:
    """DecomposeRoll gets dimensions that are counted from the front."""
    import torch
    from executorch.backends.qualcomm._passes.decompose_roll import DecomposeRoll

    stock = DecomposeRoll.call

    def call(self: Any, module: Any) -> Any:
        for node in module.graph.nodes:
            if node.target is torch.ops.aten.roll.default and len(node.args) > 2:
                tensor, shifts, dims = node.args
                node.args = (tensor, shifts, [d % tensor.meta["val"].dim() for d in dims] or [None])
        return stock(self, module)

    return replaced(DecomposeRoll, "call", call)


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


def _masked_attention_kept(targets: Iterable[str]) -> Undo:
    """Causal attention, and that with a mask of booleans, stays whole where opdb maps it.

    In parts the mask adds -infinity, which HTP's fp16 does not tell from large numbers: a row that is wholly masked
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

    if "aten.scaled_dot_product_attention.default" not in set(targets):
        return all_of(())
    return all_of(
        (
            sparing(DecomposeScaledDotProductAttention, masked),
            replaced(QnnQuantizer, "transform_for_annotation", transform_for_annotation),
        )
    )


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


def _buffers_that_change() -> Undo:
    """The program's signature names the Dequantize that InsertIOQDQ puts between a node and the buffer it changes."""
    from executorch.backends.qualcomm._passes.insert_io_qdq import InsertIOQDQ
    from torch.export.graph_signature import OutputKind

    stock = InsertIOQDQ.call

    def call(self: Any, module: Any) -> Any:
        done = stock(self, module)
        (results,) = next(n for n in module.graph.nodes if n.op == "output").args
        for spec, result in zip(self.edge_program.graph_signature.output_specs, results, strict=True):
            if spec.kind is OutputKind.BUFFER_MUTATION:
                spec.arg.name = result.name
        return done

    return replaced(InsertIOQDQ, "call", call)


def _inputs_quantized() -> Undo:
    """A delegate's input with the encoding of a Dequantize, ex) a view that the CPU computes, is quantized with it."""
    from executorch.backends.qualcomm._passes.insert_io_qdq import InsertIOQDQ
    from executorch.backends.qualcomm.builders.node_visitor import q_dq_map, q_ops
    from executorch.backends.qualcomm.utils.constants import QCOM_ENCODING, QCOM_QUANT_ATTRS

    stock = InsertIOQDQ.call
    quantizes = {dequantize: q for q, dequantize in q_dq_map.items() if q in q_ops}

    def call(self: Any, module: Any) -> Any:
        for node in module.graph.nodes:
            attrs = node.meta.get(QCOM_QUANT_ATTRS)
            if node.op == "placeholder" and attrs and attrs[QCOM_ENCODING] in quantizes:
                node.meta[QCOM_QUANT_ATTRS] = {**attrs, QCOM_ENCODING: quantizes[attrs[QCOM_ENCODING]]}
        return stock(self, module)

    return replaced(InsertIOQDQ, "call", call)


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
