"""Operators of ONNX Runtime (com.microsoft) that exports and its optimizer write for transformers.

They are documented in ONNX Runtime's ContribOperators.md; tests compare with its CPU provider.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from opdb.core.names import counted
from opdb.programs.onnx.node import Node, Operator, Unreadable, Value


def _fused_matmul(node: Node, a: Tensor, b: Tensor) -> Tensor:
    def laid_out(x: Tensor, side: str) -> Tensor:
        if node.get(f"transBatch{side}", 0):
            x = x.movedim(0, -2)
        return x.transpose(-1, -2) if node.get(f"trans{side}", 0) and x.dim() > 1 else x

    product = torch.matmul(laid_out(a, "A"), laid_out(b, "B"))
    alpha = node.get("alpha", 1.0)
    return product if alpha == 1 else product * alpha


# -- normalizations


def _rms(node: Node, x: Tensor, scale: Tensor) -> Any:
    """Also returns 1 / RMS if it is read."""
    eps, over = node.get("epsilon", 1e-5), list(x.shape[node.get("axis", -1) :])
    if list(scale.shape) != over:
        raise Unreadable(f"its scale has the shape {list(scale.shape)}, and {over} is normalized")
    y = functional.rms_norm(x, over, scale, eps)
    if node.outputs == 1:
        return y
    dims = list(range(x.dim() - len(over), x.dim()))
    return y, torch.rsqrt(x.square().mean(dims, keepdim=True) + eps)


def _skip_rms(node: Node, x: Tensor, skip: Tensor, scale: Tensor, bias: Tensor | None = None) -> Any:
    total = x + skip if bias is None else x + skip + bias
    eps = node.get("epsilon", 1e-12)
    y = functional.rms_norm(total, list(scale.shape), scale, eps)
    return y if node.outputs == 1 else (y, None, _inverse(total, eps), total)


def _inverse(x: Tensor, eps: float) -> Tensor:
    return torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


def _skip_layer_norm(
    node: Node,
    x: Tensor,
    skip: Tensor,
    scale: Tensor,
    shift: Tensor | None = None,
    bias: Tensor | None = None,
) -> Any:
    total = x + skip if bias is None else x + skip + bias
    eps = node.get("epsilon", 1e-12)
    y = functional.layer_norm(total, list(scale.shape), scale, shift, eps)
    if node.outputs == 1:
        return y
    mean = total.mean(-1, keepdim=True)
    return y, mean, _inverse(total - mean, eps), total


def _embed(
    node: Node,
    ids: Tensor,
    segments: Tensor | None,
    words: Tensor,
    places: Tensor,
    kinds: Tensor | None,
    scale: Tensor,
    shift: Tensor,
    mask: Tensor | None = None,
    at: Tensor | None = None,
) -> Any:
    position = functional.embedding(at, places) if at is not None else places[: ids.shape[1]].unsqueeze(0)
    total = functional.embedding(ids, words) + position
    if segments is not None and kinds is not None:
        total = total + functional.embedding(segments, kinds)
    y = functional.layer_norm(total, list(scale.shape), scale, shift, node.get("epsilon", 1e-12))
    if node.outputs == 1:
        return y
    counted = torch.zeros(ids.shape[0], dtype=torch.int32) if mask is None else mask.sum(1).to(torch.int32)
    return y, counted, total


# -- activations


def _gelu(node: Node, x: Tensor, bias: Tensor | None = None) -> Tensor:
    return functional.gelu(x if bias is None else x + bias)


def _fast_gelu(node: Node, x: Tensor, bias: Tensor | None = None) -> Tensor:
    return functional.gelu(x if bias is None else x + bias, approximate="tanh")


def _quick_gelu(node: Node, x: Tensor) -> Tensor:
    return x * torch.sigmoid(x * node.get("alpha", 1.702))


# -- attention


def _heads(x: Tensor, count: int) -> Tensor:
    """Reshapes [batch, sequence, heads * size] to [batch, heads, sequence, size]."""
    return x.reshape(x.shape[0], x.shape[1], count, -1).transpose(1, 2)


def _joined(x: Tensor) -> Tensor:
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)


def _rotary(node: Node, x: Tensor, places: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """``x`` is [batch, heads, sequence, size], or has the heads in the last dimension."""
    if node.get("is_packed_batching", 0):
        raise Unreadable("its batches are packed")
    heads, turned = node.get("num_heads", 0), 2 * cos.shape[1]
    if node.get("rotary_embedding_dim", 0) and not heads:
        raise Unreadable("it turns a part of each head, and 'num_heads' is not given")
    split = x.dim() == 3
    if split:
        x = _heads(x, heads or x.shape[-1] // turned)
    if places.numel() == 1 and x.shape[2] != 1:  # the first place
        places = places.reshape(1, 1) + torch.arange(x.shape[2]).unsqueeze(0)
    y = _turned(x, places, cos, sin, bool(node.get("interleaved", 0)))
    scale = node.get("scale", 1.0)
    y = y if scale == 1 else y * scale
    return _joined(y) if split else y


def _turned(x: Tensor, places: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    """Rotates the first 2 * (columns of ``cos``) elements of each head of ``x`` [batch, heads, sequence, size]."""
    half = cos.shape[1]
    c, s = (functional.embedding(places, t).unsqueeze(1) for t in (cos, sin))
    whole = x.shape[-1] == 2 * half
    first = x if whole else x[..., : 2 * half]
    if interleaved:
        a, b = first[..., 0::2], first[..., 1::2]
        y = torch.stack((a * c - b * s, b * c + a * s), -1).flatten(-2)
    else:
        a, b = first[..., :half], first[..., half:]
        y = torch.cat((a * c - b * s, b * c + a * s), -1)
    return y if whole else torch.cat((y, x[..., 2 * half :]), -1)


def _attend(node: Node, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """Attention on separate heads; in a causal model the queries belong to the last keys."""
    if causal and (mask is not None or q.shape[2] != k.shape[2]):
        seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
        added = torch.zeros(seen.shape, dtype=q.dtype).masked_fill(~seen, float("-inf"))
        mask, causal = added if mask is None else mask + added, False
    scale = node.get("scale", 0.0) or None
    return functional.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, scale=scale)


def _padding(node: Node, mask: Tensor | None, keys: int) -> Tensor | None:
    """The term that a mask (1 for a key, 0 for padding) adds to the scores."""
    if mask is None:
        return None
    if mask.dim() not in (2, 3) or mask.shape[-1] != keys:
        raise Unreadable(f"its mask has the shape {list(mask.shape)}; opdb reads one of [batch, {keys}]")
    added = (1 - mask.to(torch.float32)) * node.get("mask_filter_value", -10000.0)
    return added[:, None, None, :] if mask.dim() == 2 else added[:, None]


def _multi_head(
    node: Node,
    q: Tensor,
    k: Tensor | None = None,
    v: Tensor | None = None,
    bias: Tensor | None = None,
    padding: Tensor | None = None,
    added: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    *more: Tensor | None,
) -> Any:
    if k is None or v is None or q.dim() != 3:
        raise Unreadable("its queries, keys, and values are packed in one tensor")
    if any(m is not None for m in more):
        raise Unreadable("it has a cache that is shared between inputs and outputs")
    if node.outputs > 3:
        raise Unreadable("its scores are an output")
    heads = node["num_heads"]
    if bias is not None:
        size = q.shape[-1]
        q = q + bias[:size]
        k = k + bias[size : 2 * size] if k.dim() == 3 else k
        v = v + bias[2 * size :] if v.dim() == 3 else v
    q = _heads(q, heads)
    k, v = (t if t.dim() == 4 else _heads(t, heads) for t in (k, v))
    if past_key is not None and past_value is not None:
        k, v = torch.cat((past_key, k), 2), torch.cat((past_value, v), 2)
    mask = _padding(node, padding, k.shape[2])
    if added is not None:
        mask = added if mask is None else mask + added
    y = _joined(_attend(node, q, k, v, mask, bool(node.get("unidirectional", 0))))
    return y if node.outputs == 1 else (y, k, v)


def _attention(
    node: Node,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    past: Tensor | None = None,
    added: Tensor | None = None,
    *more: Tensor | None,
) -> Any:
    """Makes queries, keys and values of x in one product."""
    if any(m is not None for m in (past, *more)) or node.outputs > 1:
        raise Unreadable("it has a cache")
    if node.get("do_rotary", 0) or node.get("rotary_embedding_dim", 0):
        raise Unreadable("it turns queries and keys")
    heads = node["num_heads"]
    sizes = node.ints("qkv_hidden_sizes") or [weight.shape[1] // 3] * 3
    product = torch.matmul(x, weight)
    q, k, v = (_heads(t, heads) for t in torch.split(product if bias is None else product + bias, sizes, -1))
    padding = _padding(node, mask, k.shape[2])
    if added is not None:
        padding = added if padding is None else padding + added
    return _joined(_attend(node, q, k, v, padding, bool(node.get("unidirectional", 0))))


def _grouped(
    node: Node,
    q: Tensor,
    k: Tensor | None,
    v: Tensor | None,
    past_key: Tensor | None,
    past_value: Tensor | None,
    lengths: Value,
    total: Value,
    cos: Tensor | None = None,
    sin: Tensor | None = None,
    places: Tensor | None = None,
    added: Tensor | None = None,
    sink: Tensor | None = None,
    *more: Tensor | None,
) -> Any:
    """All batches have the same length; the keys end at ``total``, and the queries are the last of them."""
    if node.get("softcap", 0.0) or node.get("smooth_softmax", 0) or sink is not None or more:
        raise Unreadable("its softmax is capped, or has a sink")
    heads, groups = node["num_heads"], node["kv_num_heads"]
    if k is None or v is None:
        size = q.shape[-1] // (heads + 2 * groups)
        q, k, v = torch.split(q, [heads * size, groups * size, groups * size], -1)
    q, k, v = _heads(q, heads), _heads(k, groups), _heads(v, groups)
    end, count = _end(node, lengths, total, q.shape[0]), q.shape[2]
    start = end - count
    if node.get("do_rotary", 0):
        if cos is None or sin is None:
            raise Unreadable("it turns queries and keys, and has no table of angles")
        at = places if places is not None else torch.arange(start, end).unsqueeze(0)
        turn = bool(node.get("rotary_interleaved", 0))
        q, k = _turned(q, at, cos, sin, turn), _turned(k, at, cos, sin, turn)
    present_key, present_value = _cached(past_key, k, start), _cached(past_value, v, start)
    k, v = (t if t.shape[2] == end else t[:, :, :end] for t in (present_key, present_value))
    if heads != groups:
        k, v = (t.repeat_interleave(heads // groups, 1) for t in (k, v))
    window = node.get("local_window_size", -1)
    if 0 < window < end:
        far = torch.ones(count, end, dtype=torch.bool).tril(start - window)
        near = torch.zeros(far.shape, dtype=q.dtype).masked_fill(far, float("-inf"))
        added = near if added is None else added + near
    y = _joined(_attend(node, q, k, v, added, True))
    return y if node.outputs == 1 else (y, present_key, present_value)


def _end(node: Node, lengths: Value, total: Value, batch: int) -> int:
    """The number of keys, which the file must give; for one batch either input gives it."""
    if isinstance(total, np.ndarray) and (batch == 1 or isinstance(lengths, np.ndarray)):
        end = int(total.reshape(-1)[0])
    elif isinstance(lengths, np.ndarray):
        end = int(lengths.max()) + 1
    else:
        raise Unreadable("how much of its cache is used is only known when the model runs")
    if isinstance(lengths, np.ndarray) and np.any(lengths + 1 != end):
        raise Unreadable("its batches are of different lengths")
    return end


def _cached(past: Tensor | None, new: Tensor, start: int) -> Tensor:
    """The old keys or values followed by the new ones; a longer buffer keeps its length."""
    if past is None or past.shape[2] == 0:
        if start:
            raise Unreadable(f"{start} keys come before the first that it is given")
        return new
    if past.shape[2] < start:
        raise Unreadable(f"its cache has {counted(past.shape[2], 'place')}, and {start} are used")
    end, size = start + new.shape[2], past.shape[2]
    before = [past if start == size else past[:, :, :start]] if start else []
    return torch.cat([*before, new, *([past[:, :, end:]] if end < size else [])], 2)


OWN = {"SimplifiedLayerNormalization": Operator(_rms)}
OPERATORS = {
    "Attention": Operator(_attention),
    "BiasGelu": Operator(_gelu),
    "EmbedLayerNormalization": Operator(_embed),
    "FastGelu": Operator(_fast_gelu),
    "FusedMatMul": Operator(_fused_matmul),
    "Gelu": Operator(_gelu),
    "GroupQueryAttention": Operator(_grouped, known=(5, 6)),
    "MultiHeadAttention": Operator(_multi_head),
    "QuickGelu": Operator(_quick_gelu),
    "RotaryEmbedding": Operator(_rotary),
    "SkipLayerNormalization": Operator(_skip_layer_norm),
    "SkipSimplifiedLayerNormalization": Operator(_skip_rms),
    "SimplifiedLayerNormalization": Operator(_rms),
}
