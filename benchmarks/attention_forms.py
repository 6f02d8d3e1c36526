"""Attention to a cache of 1,024 tokens, in the sizes of Llama-3.2-1B, as it can be written: 32 heads over 8 of keys and values.

    opdb cost benchmarks/attention_forms.py:decode_grouped --soc SA8255
    python tools/figures.py --simulated          # writes the table of docs/guides/deploy-an-llm.md

Each function returns (module, inputs); ``decode`` is for one token, ``prompt`` for 128.  The inputs are queries [1, 32, tokens, 64], keys
and values [1, 8, 1024, 64], and a mask [1, 1, tokens, 1024].
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

HEADS, SHARED, SIZE, CACHE = 32, 8, 64, 1024
GROUP = HEADS // SHARED
Made = tuple[nn.Module, tuple[Tensor, ...]]


def joined(x: Tensor) -> Tensor:
    """[1, heads, tokens, SIZE] as [1, tokens, heads * SIZE]."""
    return x.transpose(1, 2).reshape(1, x.shape[2], -1)


def repeated(x: Tensor) -> Tensor:
    """A copy of keys or values for each head."""
    return x[:, :, None].expand(1, SHARED, GROUP, CACHE, SIZE).reshape(1, HEADS, CACHE, SIZE)


class Attention(nn.Module):
    """scaled_dot_product_attention on repeated keys and values, as transformers calls it."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return joined(functional.scaled_dot_product_attention(q, repeated(k), repeated(v), attn_mask=mask))


class Products(nn.Module):
    """The same with its two products written out."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        scores = q @ repeated(k).transpose(2, 3) * SIZE**-0.5 + mask
        return joined(scores.softmax(-1) @ repeated(v))


class Grouped(nn.Module):
    """The heads that share keys are rows of one product: nothing is repeated."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        tokens = q.shape[2]
        scores = (q * SIZE**-0.5).reshape(1, SHARED, GROUP * tokens, SIZE) @ k.transpose(2, 3)
        if tokens > 1:  # a mask for each token
            scores = scores.reshape(1, HEADS, tokens, CACHE)
        shares = (scores + mask).softmax(-1)
        mixed = shares.reshape(1, SHARED, GROUP * tokens, CACHE) @ v
        return joined(mixed.reshape(1, HEADS, tokens, SIZE))


class HeadByHead(nn.Module):
    """Each head alone with its keys."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        heads = []
        for head in range(HEADS):
            keys, values = k[:, head // GROUP], v[:, head // GROUP]
            scores = (q[:, head] * SIZE**-0.5) @ keys.transpose(1, 2) + mask[:, 0]
            heads.append(scores.softmax(-1) @ values)
        return torch.cat(heads, -1)


def made(module: nn.Module, tokens: int) -> Made:
    torch.manual_seed(0)
    keys, values = torch.randn(2, 1, SHARED, CACHE, SIZE)
    return module.eval(), (
        torch.randn(1, HEADS, tokens, SIZE),
        keys,
        values,
        torch.zeros(1, 1, tokens, CACHE),
    )


def decode_attention() -> Made:
    return made(Attention(), 1)


def decode_products() -> Made:
    return made(Products(), 1)


def decode_grouped() -> Made:
    return made(Grouped(), 1)


def decode_heads() -> Made:
    return made(HeadByHead(), 1)


def prompt_attention() -> Made:
    return made(Attention(), 128)


def prompt_products() -> Made:
    return made(Products(), 128)


def prompt_grouped() -> Made:
    return made(Grouped(), 128)


def prompt_heads() -> Made:
    return made(HeadByHead(), 128)
