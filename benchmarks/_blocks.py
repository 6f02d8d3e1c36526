"""Transformer blocks and a small U-Net in plain PyTorch with random weights: name -> a function that makes (module, inputs)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn


class Encoder(nn.Module):
    """One layer of BERT's size: 768 wide, 12 heads, 128 tokens."""

    def __init__(self, width: int = 768, heads: int = 12) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        b, t, w = x.shape
        q, k, v = (
            layer(x).view(b, t, self.heads, w // self.heads).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        scores = torch.softmax(q @ k.transpose(2, 3) * (w // self.heads) ** -0.5, -1)
        x = self.first(x + self.out((scores @ v).transpose(1, 2).reshape(b, t, w)))
        return self.second(x + self.narrow(nn.functional.gelu(self.wide(x))))


class Decoder(nn.Module):
    """One block of a Llama: 1,024 wide, 8 heads, new tokens appended to a cache, SwiGLU of 2,816."""

    def __init__(self, width: int = 1024, heads: int = 8, inner: int = 2816) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)
        self.first, self.second = nn.RMSNorm(width, eps=1e-6), nn.RMSNorm(width, eps=1e-6)

    def rotated(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        half = x.shape[-1] // 2
        return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin

    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, keys: Tensor, values: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        b, t, w = x.shape
        normed = self.first(x)
        q, k, v = (
            layer(normed).view(b, t, self.heads, w // self.heads).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        q, k = self.rotated(q, cos, sin), self.rotated(k, cos, sin)
        all_keys, all_values = torch.cat((keys, k), 2), torch.cat((values, v), 2)
        scores = torch.softmax(q @ all_keys.transpose(2, 3) * (w // self.heads) ** -0.5 + mask, -1)
        x = x + self.out((scores @ all_values).transpose(1, 2).reshape(b, t, w))
        normed = self.second(x)
        return x + self.down(nn.functional.silu(self.gate(normed)) * self.up(normed)), k, v


class UNet(nn.Module):
    """Three levels of 32, 64 and 128 channels, each two convolutions with batch norm; upsampling by transposed convolutions."""

    def __init__(self, channels: tuple[int, ...] = (32, 64, 128)) -> None:
        super().__init__()
        self.down = nn.ModuleList(_twice(a, b) for a, b in zip((3, *channels), channels, strict=False))
        higher = list(reversed(channels))
        self.wider = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, 2) for a, b in pairwise(higher))
        self.up = nn.ModuleList(_twice(2 * b, b) for b in higher[1:])
        self.end = nn.Conv2d(channels[0], 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for level in self.down:
            if kept:
                x = nn.functional.max_pool2d(x, 2)
            x = level(x)
            kept.append(x)
        kept.pop()
        for wider, level in zip(self.wider, self.up, strict=True):
            x = level(torch.cat((kept.pop(), wider(x)), 1))
        return torch.sigmoid(self.end(x))


class DenseLayer(nn.Module):
    """A DenseNet layer: the batch norm comes before its convolution and after a Concat, so it cannot be folded."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(16, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(32)
        self.norm.running_mean.uniform_(-1, 1)
        self.norm.running_var.uniform_(0.5, 2)
        self.then = nn.Conv2d(32, 16, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.then(torch.relu(self.norm(torch.cat([x, self.first(x)], 1))))


def _twice(a: int, b: int) -> nn.Sequential:
    parts = [(nn.Conv2d(c, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU()) for c in (a, b)]
    return nn.Sequential(*parts[0], *parts[1])


def _two_encoders() -> Any:
    return nn.Sequential(Encoder(), Encoder()).eval(), (torch.randn(1, 128, 768),)


def _unet() -> Any:
    return UNet().eval(), (torch.rand(1, 3, 256, 256),)


def _encoder() -> Any:
    return Encoder().eval(), (torch.randn(1, 128, 768),)


def _decoder(tokens: int, cached: int) -> Callable[[], Any]:
    def make() -> Any:
        cache = [torch.randn(1, 8, cached, 128) for _ in range(2)]
        angles = [torch.randn(1, 1, tokens, 128) for _ in range(2)]
        return Decoder().eval(), (
            torch.randn(1, tokens, 1024),
            *angles,
            *cache,
            torch.zeros(1, 1, tokens, cached + tokens),
        )

    return make


BLOCKS: dict[str, Callable[[], Any]] = {
    "bert_block": _encoder,
    "bert_layers": _two_encoders,
    "decoder_t1": _decoder(1, 511),
    "decoder_t128": _decoder(128, 384),
    "dense_layer": lambda: (DenseLayer().eval(), (torch.randn(1, 16, 56, 56),)),
    "unet": _unet,
}
