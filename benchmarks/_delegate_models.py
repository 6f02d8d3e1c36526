"""Models for delegates.py, with random weights: name -> methods, each a module with inputs.

An image network of inverted residuals as in MobileNetV2, an encoder as in BERT, and a decoder as in Llama with a key and value
cache in buffers, which has a method for the prompt and one for a token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

Methods = Mapping[str, tuple[nn.Module, tuple[Tensor, ...]]]


class Inverted(nn.Module):
    def __init__(self, before: int, after: int, stride: int, expand: int = 6) -> None:
        super().__init__()
        inner, self.adds = before * expand, before == after and stride == 1
        self.layers = nn.Sequential(
            nn.Conv2d(before, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU6(),
            nn.Conv2d(inner, inner, 3, stride, 1, groups=inner, bias=False), nn.BatchNorm2d(inner), nn.ReLU6(),
            nn.Conv2d(inner, after, 1, bias=False), nn.BatchNorm2d(after),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.adds else self.layers(x)


class MobileNet(nn.Module):
    def __init__(self, widths: tuple[int, ...] = (16, 24, 32, 64, 96, 160), classes: int = 100) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, widths[0], 3, 2, 1, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU6()
        )
        blocks: list[nn.Module] = []
        for before, after in pairwise(widths):
            blocks += [
                Inverted(before, after, 2 if after in (24, 32, 64, 160) else 1),
                Inverted(after, after, 1),
            ]
        self.blocks, self.classes = nn.Sequential(*blocks), nn.Linear(widths[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.classes(self.blocks(self.stem(x)).mean((2, 3)))


class BertLayer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out, self.up, self.down = (
            nn.Linear(width, width),
            nn.Linear(width, 4 * width),
            nn.Linear(4 * width, width),
        )
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        def split(t: Tensor) -> Tensor:
            return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        made = functional.scaled_dot_product_attention(
            split(self.query(x)), split(self.key(x)), split(self.value(x)), mask
        )
        x = self.first(x + self.out(made.transpose(1, 2).flatten(2)))
        return self.second(x + self.down(functional.gelu(self.up(x))))


class Bert(nn.Module):
    """A BERT encoder.  ``mask``: 1 where a token counts."""

    def __init__(
        self, width: int = 256, heads: int = 4, layers: int = 4, words: int = 2000, length: int = 64
    ) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(BertLayer(width, heads) for _ in range(layers))
        self.pool = nn.Linear(width, width)

    def forward(self, tokens: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        places = torch.arange(tokens.shape[1])
        x = self.norm(self.words(tokens) + self.places(places))
        added = (1.0 - mask[:, None, None, :]) * -1e4
        for layer in self.layers:
            x = layer(x, added)
        return x, torch.tanh(self.pool(x[:, 0]))


class DecoderLayer(nn.Module):
    def __init__(self, width: int, heads: int, shared: int, length: int) -> None:
        super().__init__()
        size = width // heads
        self.heads, self.shared, self.size = heads, shared, size
        self.first, self.second = nn.RMSNorm(width), nn.RMSNorm(width)
        self.query, self.out = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.key, self.value = (nn.Linear(width, shared * size, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, 2 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * width, width, bias=False)
        self.register_buffer("keys", torch.zeros(1, shared, length, size))
        self.register_buffer("values", torch.zeros(1, shared, length, size))

    def forward(self, x: Tensor, at: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        def split(t: Tensor, heads: int) -> Tensor:
            return t.unflatten(-1, (heads, self.size)).transpose(1, 2)

        def turned(t: Tensor) -> Tensor:
            a, b = t.chunk(2, -1)
            return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

        y = self.first(x)
        query = turned(split(self.query(y), self.heads))
        self.keys.index_copy_(2, at, turned(split(self.key(y), self.shared)))
        self.values.index_copy_(2, at, split(self.value(y), self.shared))
        times = self.heads // self.shared
        keys, values = (t.repeat_interleave(times, 1) for t in (self.keys, self.values))
        made = functional.scaled_dot_product_attention(query, keys, values, mask)
        x = x + self.out(made.transpose(1, 2).flatten(2))
        y = self.second(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """A Llama decoder.  ``at``: the positions of the tokens.  Returns the logits of the last token."""

    def __init__(
        self,
        width: int = 256,
        heads: int = 8,
        shared: int = 4,
        layers: int = 4,
        words: int = 2000,
        length: int = 64,
    ) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(words, width), nn.Linear(width, words, bias=False)
        self.layers = nn.ModuleList(DecoderLayer(width, heads, shared, length) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        half = width // heads // 2
        angles = torch.outer(torch.arange(length).float(), 10000.0 ** (-torch.arange(half).float() / half))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        ahead = torch.arange(length)[None, :] > torch.arange(length)[:, None]
        self.register_buffer("mask", ahead.float() * -1e4, persistent=False)

    def forward(self, tokens: Tensor, at: Tensor) -> Tensor:
        x = self.words(tokens)
        cos, sin, mask = (t.index_select(0, at) for t in (self.cos, self.sin, self.mask))
        for layer in self.layers:
            x = layer(x, at, cos, sin, mask)
        return self.head(self.norm(x[:, -1:]))


def settled(module: nn.Module) -> nn.Module:
    """The module in eval mode, with random batch norm statistics."""
    for each in module.modules():
        if isinstance(each, nn.BatchNorm2d):
            nn.init.uniform_(each.running_mean, -0.2, 0.2)
            nn.init.uniform_(each.running_var, 0.5, 1.5)
    return module.eval()


def mobilenet() -> Methods:
    torch.manual_seed(0)
    return {"forward": (settled(MobileNet()), (torch.randn(1, 3, 128, 128),))}


def bert() -> Methods:
    torch.manual_seed(0)
    mask = torch.ones(1, 64)
    mask[:, 50:] = 0
    return {"forward": (settled(Bert()), (torch.randint(0, 2000, (1, 64)), mask))}


def decoder(prompt: int = 16) -> Methods:
    """``prefill`` takes the prompt, ``decode`` one token at the next position; both share their weights."""
    torch.manual_seed(0)
    model = settled(Decoder())
    tokens = torch.randint(0, 2000, (1, prompt))
    return {
        "prefill": (model, (tokens, torch.arange(prompt))),
        "decode": (model, (tokens[:, :1], torch.tensor([prompt]))),
    }


MODELS: Mapping[str, Callable[[], Methods]] = {"mobilenet": mobilenet, "bert": bert, "decoder": decoder}
