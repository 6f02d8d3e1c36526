"""The cost of a node on a CPU: FLOPs and bytes, from its schema and its fake tensors.

FLOPs of products (matrix products, convolutions, attention) are those of ``torch.utils.flop_counter``: a
multiplication and an addition are two.  Other operators have no formula: 1 for each element of the results if
the operator computes, 0 if it only moves, reads or makes data.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import prod
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from opdb.checks.host_work import Work, of_control_flow, of_model
from opdb.lower.candidates import ONNX_NODE

aten = torch.ops.aten
_MOVES = """
    _to_copy _to_dim_order_copy alias arange argwhere as_strided broadcast_tensors
    cat channel_shuffle chunk clone concat concatenate constant_pad_nd contiguous copy dropout embedding empty expand_as
    eye fill flip full full_like gather index index_put index_select lift_fresh lift_fresh_copy linspace masked_fill
    masked_scatter masked_select narrow native_channel_shuffle native_dropout new_empty new_full new_ones new_zeros
    nonzero one_hot ones ones_like pad pixel_shuffle pixel_unshuffle reflection_pad1d reflection_pad2d reflection_pad3d
    repeat repeat_interleave replication_pad1d replication_pad2d replication_pad3d roll rot90 scalar_tensor scatter
    select_scatter slice_scatter stack take take_along_dim tensor_split tile to tril triu type_as upsample_nearest1d
    upsample_nearest2d upsample_nearest3d where zeros zeros_like
"""
#: Operators without arithmetic that are neither views nor copies of views.
MOVES = frozenset(_MOVES.split())

#: Convolution -> True if it is transposed.
CONVOLUTIONS = {
    aten.conv1d: False, aten.conv2d: False, aten.conv3d: False,
    aten.conv_transpose1d: True, aten.conv_transpose2d: True, aten.conv_transpose3d: True,
}  # fmt: skip
KNOWN = 10_000  # cached calls: models repeat them
_known: dict[Hashable, int] = {}
#: Composites in which PyTorch's counter finds no products.  Common ones are listed because asking it imports TorchDynamo.
_without_products: set[Any] = {
    aten.batch_norm, aten.instance_norm, aten.group_norm, aten.layer_norm, aten.rms_norm, aten.max_pool1d, aten.max_pool2d,
    aten.max_pool3d, aten.adaptive_avg_pool1d, aten.adaptive_avg_pool2d, aten.adaptive_avg_pool3d, aten.avg_pool1d, aten.softmax,
    aten.log_softmax, aten.upsample_nearest2d, aten.upsample_bilinear2d, aten.relu6, aten.std, aten.var, aten.square, aten.where,
}  # fmt: skip


def flops(
    target: Any, args: Sequence[Any], kwargs: dict[str, Any], results: Sequence[torch.Tensor]
) -> int | None:
    """FLOPs of one call; None if a shape is symbolic.

    ``target``: torch._ops.OpOverload.  ``args``, ``kwargs``: as called, with fake tensors for tensors.
    """
    sizes = [*_shapes((args, kwargs)), *_shapes(results)]
    if any(not isinstance(d, int) for size in sizes for d in size):
        return None
    key = (
        target,
        tuple(sizes),
        repr([a for a in _leaves((args, kwargs)) if not isinstance(a, torch.Tensor)]),
    )
    if key not in _known:
        if len(_known) >= KNOWN:
            _known.clear()
        _known[key] = _product(target, args, kwargs, results) or _per_element(target, results)
    return _known[key]


def nbytes(tensors: Sequence[torch.Tensor]) -> int | None:
    """The size of these tensors in PyTorch, in bytes; None if a shape is symbolic."""
    if any(not isinstance(d, int) for t in tensors for d in t.shape):
        return None
    sizes: list[int] = [prod(t.shape) * t.element_size() for t in tensors]
    return sum(sizes)


def moves(target: Any) -> bool:
    """True if an operator only moves, reads or makes data."""
    name = target._schema.name.rpartition("::")[2]
    return bool(
        target.is_view
        or torch.Tag.view_copy in target.tags
        or name.removesuffix("_copy") in MOVES
        or name in MOVES
    )


def _product(
    target: Any, args: Sequence[Any], kwargs: dict[str, Any], results: Sequence[torch.Tensor]
) -> int:
    """FLOPs by PyTorch's formulas: the operator's own, or those of the operators that it is composed of; 0 if there are none."""
    packet = target.overloadpacket
    if packet in flop_registry:
        return int(
            flop_registry[packet](*args, **kwargs, out_val=results[0] if len(results) == 1 else results)
        )
    if packet is aten.scaled_dot_product_attention:
        return _attention(*args[:3])
    if packet in (aten.linear, aten.matmul):  # as many inner products as there are results
        width = args[0].shape[-1]
        return int(flop_registry[aten.mm]((prod(results[0].shape), width), (width, 1)))
    if packet in CONVOLUTIONS:
        x, weight = args[:2]
        # one image may come without a batch
        given, made = ((1, *t.shape)[-weight.dim() :] for t in (x, results[0]))
        formula = flop_registry[aten.convolution]
        return int(formula(given, weight, *(None,) * 4, CONVOLUTIONS[packet], out_val=made))
    if (
        packet in _without_products
        or moves(target)
        or not torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), "CompositeImplicitAutograd")
    ):
        return 0
    counter = FlopCounterMode(display=False)
    try:
        with torch.no_grad(), counter:
            target(*args, **kwargs)
    except Exception:  # one that fake tensors cannot run (it reads values): no formula
        return 0
    if counter.get_total_flops() == 0 and packet is not aten.einsum:  # its products depend on its equation
        _without_products.add(packet)
    return int(counter.get_total_flops())


def _attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> int:
    """FLOPs of its two products: on a CPU it is one operator that has no formula."""
    batch, (length, width) = prod(query.shape[:-2]), query.shape[-2:]
    keys, out = key.shape[-2], value.shape[-1]
    formula = flop_registry[aten.bmm]
    return int(
        formula((batch, length, width), (batch, width, keys))
        + formula((batch, length, keys), (batch, keys, out))
    )


def _per_element(target: Any, results: Sequence[torch.Tensor]) -> int:
    return 0 if moves(target) else sum(prod(t.shape) for t in results)


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for k in sorted(value) for leaf in (k, *_leaves(value[k]))]
    return [leaf for v in value for leaf in _leaves(v)] if isinstance(value, (list, tuple)) else [value]


def _shapes(value: Any) -> list[tuple[Any, ...]]:
    return [tuple(t.shape) for t in _leaves(value) if isinstance(t, torch.Tensor)]


def node_cost(node: torch.fx.Node) -> tuple[int | None, int | None]:
    """(FLOPs, bytes read and written) of a call node; see ``node_work``."""
    work, moved = node_work(node)
    return None if work is None else work.flops, moved


def node_work(node: torch.fx.Node) -> tuple[Work | None, int | None]:
    """(work, bytes read and written) of a call node; see ``flops``, ``nbytes`` and opdb.checks.host_work."""
    reads = [t for n in node.all_input_nodes for t in _tensors(n.meta.get("val"))]
    makes = _tensors(node.meta.get("val"))
    moved = nbytes((*reads, *makes))
    target = node.target
    if isinstance(target, torch._ops.HigherOrderOperator):
        return of_control_flow(node, _of_graph), moved
    if not isinstance(target, torch._ops.OpOverload):
        target = getattr(target, "_op", None)  # the ATen operator of ExecuTorch's edge operator
    if str(target) == ONNX_NODE:
        from opdb.programs.onnx.host_node import read

        return of_model(read(str(node.args[1])), [tuple(t.shape) for t in makes]), moved
    if moved is None or not isinstance(target, torch._ops.OpOverload):
        return None, moved
    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta.get("val"))
    found = flops(target, args, kwargs, makes)
    return None if found is None else Work(found), moved


def _of_graph(module: torch.fx.GraphModule) -> Work:
    """The work of a branch or a body; nodes of unknown cost make it a lower bound."""
    works = [node_work(n)[0] for n in module.graph.nodes if n.op == "call_function"]
    return sum((Work(0, True) if w is None else w for w in works), Work(0))


def _tensors(value: Any) -> list[torch.Tensor]:
    return [t for t in _leaves(value) if isinstance(t, torch.Tensor)]
