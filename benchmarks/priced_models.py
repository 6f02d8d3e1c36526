"""The models used to build the table of prices (docs/guides/cost.md): functions that return (module, inputs), in ``MODELS``.

    opdb cost build-table --models benchmarks/priced_models.txt --pairs build/pairs.jsonl -o opdb/lower/prices/table.json

Public networks whose finalization is fast, transformer blocks, and networks written to contain operators with several
candidates that no public network has: each between convolutions or linear layers, as in a real model.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as f

sys.path.insert(0, str(Path(__file__).parent))  # also where this file is imported by its path

from _blocks import BLOCKS
from _vision import declare_torchvision, normalized

Made = tuple[nn.Module, tuple[Any, ...]]
Step = Callable[[Tensor], Tensor]


class Chain(nn.Module):
    """Layers with one step after each."""

    def __init__(self, layers: Sequence[nn.Module], steps: Sequence[Step]) -> None:
        super().__init__()
        self.layers, self.steps = nn.ModuleList(layers), steps
        self.inner = nn.ModuleList(s for s in steps if isinstance(s, nn.Module))

    def forward(self, x: Tensor) -> Tensor:
        for layer, step in zip(self.layers, self.steps, strict=True):
            x = step(layer(x))
        return x


class Last(nn.Module):
    """A network followed by a layer, so that no step is the end of the graph."""

    def __init__(self, body: nn.Module, layer: nn.Module) -> None:
        super().__init__()
        self.body, self.layer = body, layer

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(self.body(x))
        return out


def images(steps: Sequence[Step], channels: int, size: int) -> Made:
    """Steps that keep the channels, each after a convolution."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(channels, channels, 3, padding=1) for _ in steps]
    net = Last(Chain(layers, steps), nn.Conv2d(channels, channels, 1))
    return net.eval(), (torch.rand(1, channels, size, size),)


def rows(steps: Sequence[Step], width: int, tokens: int) -> Made:
    """Steps that keep the width, each after a linear layer."""
    torch.manual_seed(0)
    net = Last(Chain([nn.Linear(width, width) for _ in steps], steps), nn.Linear(width, width))
    return net.eval(), (torch.rand(1, tokens, width),)


ACTIVATIONS: tuple[Step, ...] = (
    f.relu, f.relu6, f.gelu, lambda x: f.gelu(x, approximate="tanh"), f.silu, f.hardswish, f.hardsigmoid, torch.sigmoid, torch.tanh,
    f.elu, f.selu, f.leaky_relu, f.softsign, f.hardtanh, f.celu,
)  # fmt: skip
#: Steps without an 8-bit form, including logarithms.
FLOATS: tuple[Step, ...] = (
    f.mish, f.softplus, f.logsigmoid, lambda x: torch.log1p(x.abs()), lambda x: torch.log2(x.abs() + 1), lambda x: x.log_softmax(1),
    lambda x: x - x.logsumexp(1, keepdim=True), lambda x: torch.expm1(-x.abs()), torch.erf, torch.sin, lambda x: torch.exp(-x.abs()),
)  # fmt: skip
ARITHMETIC: tuple[Step, ...] = (
    lambda x: x * x + x, lambda x: torch.rsqrt(x.abs() + 1), lambda x: 1 / (x.abs() + 1), lambda x: x.clamp(-1, 1), lambda x: x.pow(2),
    lambda x: torch.sqrt(x.abs() + 1), lambda x: torch.where(x > 0, x, x * 0.5), lambda x: torch.maximum(x, x * 0.5),
    lambda x: torch.exp2(-x.abs()), lambda x: x / (x.abs() + 1), lambda x: torch.addcmul(x, x, x), lambda x: torch.lerp(x, x * 2, 0.3),
    lambda x: torch.exp(-x.abs()),
)  # fmt: skip
OF_ROWS: tuple[Step, ...] = (
    lambda x: x.softmax(-1), lambda x: f.normalize(x, dim=-1), lambda x: f.layer_norm(x, x.shape[-1:]),
    lambda x: x - x.mean(-1, keepdim=True), lambda x: x - x.amax(-1, keepdim=True), lambda x: x - x.var(-1, keepdim=True),
    lambda x: x - x.std(-1, keepdim=True), lambda x: x - x.sum(1, keepdim=True),
    lambda x: x.cumsum(1), lambda x: x - x.norm(dim=-1, keepdim=True), lambda x: x.softmax(1),
)  # fmt: skip
MOVES: tuple[Step, ...] = (
    lambda x: x.roll(1, 1), lambda x: x.flip(1), lambda x: torch.cat(x.chunk(2, -1)[::-1], -1),
    lambda x: torch.stack(x.unbind(1)[:8], 1).repeat_interleave(x.shape[1] // 8, 1), lambda x: x * x[:, :1],
    lambda x: x * x.select(1, 0).unsqueeze(1), lambda x: f.pad(x, (0, 0, 1, 0))[:, 1:],
    lambda x: x.reshape(1, -1, 4, 64).transpose(1, 2).reshape(x.shape),
    lambda x: f.glu(torch.cat([x, x], -1)), lambda x: x * x[:, torch.arange(x.shape[1] - 1, -1, -1)],
    lambda x: x.repeat(1, 1, 2)[..., : x.shape[-1]],
)  # fmt: skip


class Normal(nn.Module):
    """Norms of images, each after a convolution."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        norms = [nn.GroupNorm(8, channels), nn.InstanceNorm2d(channels, affine=True), nn.BatchNorm2d(channels), nn.PReLU(channels),
                 nn.LocalResponseNorm(5), nn.Softmax(1), nn.GroupNorm(1, channels)]  # fmt: skip
        self.body = nn.Sequential(*(m for norm in norms for m in (nn.Conv2d(channels, channels, 3, padding=1), norm)),
                                  nn.Conv2d(channels, channels, 1))  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.body(x)
        return out


def resized(channels: int, size: int) -> Made:
    """Pools, resizes and other changes of size, each between convolutions of one width."""
    steps: list[Step] = [
        nn.AvgPool2d(3, 1, 1), nn.AvgPool2d(3, 1, 1, count_include_pad=False), nn.AvgPool2d(5, 1, 2),
        nn.MaxPool2d(3, 2, ceil_mode=True), nn.Upsample(scale_factor=2, mode="nearest"), nn.MaxPool2d(2),
        nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.AvgPool2d(3, 2, ceil_mode=True), nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), nn.AvgPool2d(2),
        nn.AdaptiveAvgPool2d(size // 4), nn.AdaptiveMaxPool2d(size // 8), nn.PixelShuffle(1), nn.AdaptiveAvgPool2d((5, 6)),
        nn.AdaptiveAvgPool2d(1),
    ]  # fmt: skip
    return images(steps, channels, size)


class Filters(nn.Module):
    """Filters of all sorts: depthwise, grouped, dilated, transposed, one-dimensional."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1, groups=c), nn.Conv2d(c, c, 1),
            nn.Conv2d(c, c, 7, padding=3, groups=c),
            nn.Conv2d(c, c, 1), nn.Conv2d(c, c, 3, padding=1, groups=4), nn.Conv2d(c, c, 3, padding=2, dilation=2),
            nn.Conv2d(c, c, 5, padding=2, groups=c), nn.ConvTranspose2d(c, c, 2, 2), nn.Conv2d(c, c, 3, 2, 1), nn.ReLU(),
            nn.ConvTranspose2d(c, c, 4, 2, 1, groups=c), nn.Conv2d(c, c, 3, 2, 1, groups=c), nn.Conv2d(c, c, 1),
        )  # fmt: skip
        self.line = nn.Sequential(nn.Conv1d(c, c, 3, padding=1), nn.ReLU(), nn.Conv1d(c, c, 3, padding=1, groups=c), nn.Conv1d(c, c, 1),
                                  nn.AvgPool1d(2), nn.MaxPool1d(2), nn.Conv1d(c, c, 1))  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.line(self.body(x).flatten(2))
        return out


class Attention(nn.Module):
    """Attention by PyTorch's own operator and by hand, on tokens with heads, with the products of views of one projection."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.first, self.second = nn.LayerNorm(width), nn.RMSNorm(width, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        b, t, w = x.shape
        for norm in (self.first, self.second):
            q, k, v = (
                self.qkv(norm(x))
                .reshape(b, t, 3, self.heads, w // self.heads)
                .permute(2, 0, 3, 1, 4)
                .unbind(0)
            )
            found = f.scaled_dot_product_attention(q, k, v)
            x = x + self.out(found.transpose(1, 2).reshape(b, t, w))
            more = torch.baddbmm(x, (x @ x.transpose(1, 2)).softmax(-1), x)
            x = torch.addmm(self.out.bias, more[0], self.out.weight).unsqueeze(0)
        return x


def vit_part() -> Made:
    declare_torchvision()
    from torchvision.models import VisionTransformer

    torch.manual_seed(0)
    net = VisionTransformer(
        image_size=224, patch_size=16, num_layers=2, num_heads=6, hidden_dim=384, mlp_dim=1536
    )
    return net.eval(), (torch.rand(1, 3, 224, 224),)


def convnext_part() -> Made:
    declare_torchvision()
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    torch.manual_seed(0)
    net = ConvNeXt([CNBlockConfig(64, 128, 1), CNBlockConfig(128, 256, 1), CNBlockConfig(256, None, 1)])
    return net.eval(), (torch.rand(1, 3, 224, 224),)


def _made(module: nn.Module, *shape: int) -> Made:
    torch.manual_seed(0)
    return module.eval(), (torch.rand(*shape),)


MODELS: dict[str, Callable[[], Made]] = {
    **{
        name: (lambda name=name: normalized(name))
        for name in ("squeezenet1_1", "mobilenet_v2", "mobilenet_v3_small", "shufflenet_v2_x0_5", "resnet18", "googlenet")
    },
    **{name: BLOCKS[name] for name in ("bert_block", "decoder_t1")},
    "vit_part": vit_part,
    "convnext_part": convnext_part,
    "activations": lambda: images(ACTIVATIONS, 64, 28),
    "activations_rows": lambda: rows(ACTIVATIONS, 512, 128),
    "arithmetic": lambda: images(ARITHMETIC, 48, 28),
    "floats": lambda: images(FLOATS, 48, 28),
    "floats_rows": lambda: rows(FLOATS, 256, 64),
    "arithmetic_rows": lambda: rows(ARITHMETIC, 256, 64),
    "of_rows": lambda: rows(OF_ROWS, 256, 128),
    "moves": lambda: rows(MOVES, 256, 64),
    "pools": lambda: resized(64, 32),
    "pools_large": lambda: resized(32, 64),
    "norms": lambda: _made(Normal(64), 1, 64, 32, 32),
    "filters": lambda: _made(Filters(64), 1, 64, 32, 32),
    "attention": lambda: _made(Attention(256, 4), 1, 128, 256),
}  # fmt: skip


def __getattr__(name: str) -> Callable[[], Made]:
    """The functions of ``MODELS`` as attributes, which is how the command line names them."""
    try:
        return MODELS[name]
    except KeyError:
        raise AttributeError(name) from None
