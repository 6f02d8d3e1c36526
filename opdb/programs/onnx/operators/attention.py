"""Attention as PyTorch's scaled_dot_product_attention; with a cache, a softcap or more outputs it is expanded to ONNX's function."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor
from torch.nn import functional

from opdb.programs.onnx.node import Node, Operator, Value

#: Newer opsets add windows.
ATTRIBUTES = {
    "is_causal", "kv_num_heads", "q_num_heads", "qk_matmul_output_mode", "scale", "softcap", "softmax_precision"
}  # fmt: skip


def _plain(node: Node, inputs: Sequence[Value]) -> bool:
    """True for queries, keys, values and a mask over all keys, and nothing else."""
    mask = inputs[3] if len(inputs) > 3 else None
    keys = inputs[1]
    assert keys is not None
    return (
        node.outputs == 1
        and set(node.attributes) <= ATTRIBUTES
        and not node.get("softcap", 0.0)
        and not node.get("softmax_precision", 0)
        and all(cache is None for cache in inputs[4:])
        and (mask is None or (not node.get("is_causal", 0) and mask.shape[-1] == keys.shape[-2]))
    )


def _heads(x: Tensor, count: int) -> Tensor:
    """Reshapes [batch, sequence, heads * size] to [batch, heads, sequence, size]."""
    return x.reshape(x.shape[0], x.shape[1], count, -1).transpose(1, 2)


def _attention(node: Node, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, *_: None) -> Tensor:
    split = q.dim() == 3
    if split:
        heads, groups = node["q_num_heads"], node["kv_num_heads"]
        q, k, v = _heads(q, heads), _heads(k, groups), _heads(v, groups)
    if k.shape[1] != q.shape[1]:
        repeats = q.shape[1] // k.shape[1]
        k, v = (t.repeat_interleave(repeats, 1) for t in (k, v))
    causal = bool(node.get("is_causal", 0))
    y = functional.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, scale=node.get("scale"))
    return y.transpose(1, 2).reshape(y.shape[0], y.shape[2], -1) if split else y


OPERATORS = {"Attention": Operator(_attention, takes=_plain)}
