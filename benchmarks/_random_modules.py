"""Random small modules of KINDS, with random sizes, odd and even, and random arguments; each has a number."""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as f

Shape = tuple[int, ...]
SIZES = (1, 2, 3, 5, 7, 8, 9, 12, 16, 17, 24, 32, 33)
FUNCTIONS = {
    name: getattr(f, name)
    for name in (
        "celu", "elu", "gelu", "hardsigmoid", "hardswish", "leaky_relu", "logsigmoid", "mish", "relu6", "selu", "sigmoid", "silu",
        "softplus", "tanh",
    )
} | {"exp": lambda x: (x * 0.5).exp()}  # fmt: skip
ARITHMETIC: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "maximum": torch.maximum,
    "div": lambda x, y: x / (y.abs() + 1),
}  # fmt: skip


class Choice(random.Random):
    """Records its choices, for the line of a module that fails."""

    def __init__(self, seed: str) -> None:
        super().__init__(seed)
        self.made: list[Any] = []

    def of(self, *options: Any) -> Any:
        self.made.append(self.choice(options))
        return self.made[-1]

    def two(self, *options: int) -> tuple[int, int]:
        return self.of(*options), self.of(*options)


class Module(nn.Module):
    """A function of tensors with these shapes, and the module whose parameters it uses."""

    def __init__(
        self, function: Callable[..., Tensor], *shapes: Shape, parts: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.function, self.shapes, self.parts = function, shapes, parts

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.function(*inputs)


def between(module: Module) -> Module:
    """The module after a product and, if its result is floats, before a sum."""

    def function(*inputs: Tensor) -> Tensor:
        y = module(*(x * 1.25 for x in inputs))
        return y + 0.5 if y.is_floating_point() else y

    return Module(function, *module.shapes, parts=module)


def of(part: nn.Module, *shapes: Shape) -> Module:
    part.eval()
    return Module(lambda *inputs: part(*inputs), *shapes, parts=part)


def convolution(c: Choice, x: Shape, *, depthwise: bool = False, groups: int = 1) -> Module:
    if groups > 1:
        x = (x[0], c.of(4, 8), *x[2:])
    channels = x[1] * c.of(1, 1, 2) if depthwise else c.of(1, 2, 3, 5, 8, 16) * groups
    taps, gaps, steps = c.two(1, 2, 3, 5, 7), c.two(1, 1, 1, 2), c.two(1, 1, 2, 3)
    zeros = (c.of(0, 1, gaps[0] * (taps[0] // 2)), c.of(0, 1, gaps[1] * (taps[1] // 2)))
    bias = c.of(True, False)
    return of(nn.Conv2d(x[1], channels, taps, steps, zeros, gaps, x[1] if depthwise else groups, bias), x)


def transposed(c: Choice, x: Shape) -> Module:
    taps, steps = c.two(1, 2, 3, 5), c.two(1, 1, 2, 3)
    zeros = (c.of(0, taps[0] // 2), c.of(0, taps[1] // 2))
    return of(nn.ConvTranspose2d(x[1], c.of(1, 2, 3, 8), taps, steps, zeros, bias=c.of(True, False)), x)


def transposed_1d(c: Choice, x: Shape) -> Module:
    taps = c.of(2, 3, 4, 5, 8)
    return of(
        nn.ConvTranspose1d(x[1], c.of(1, 3, 8), taps, c.of(1, 2, 3, 4), c.of(0, 1, taps // 2)), (*x[:2], x[3])
    )


def convolution_1d(c: Choice, x: Shape) -> Module:
    taps = c.of(1, 2, 3, 5, 7, 9)
    return of(nn.Conv1d(x[1], c.of(1, 3, 8), taps, c.of(1, 1, 2), c.of(0, 1, taps // 2)), (*x[:2], x[3]))


def convolution_3d(c: Choice, x: Shape) -> Module:
    shape = (*x[:2], c.of(3, 4), min(x[2], 9), min(x[3], 9))
    return of(nn.Conv3d(x[1], c.of(1, 4), c.of(1, 3), 1, c.of(0, 1)), shape)


def pool(c: Choice, x: Shape) -> Module:
    taps, steps, ceil = c.two(1, 2, 3, 5), c.two(1, 2, 3), c.of(True, False)
    zeros = (c.of(0, taps[0] // 2), c.of(0, taps[1] // 2))
    if c.of("max", "average") == "max":
        return Module(lambda v: f.max_pool2d(v, taps, steps, zeros, ceil_mode=ceil), x)
    counted = c.of(True, False)
    return Module(lambda v: f.avg_pool2d(v, taps, steps, zeros, ceil, counted), x)


def pool_1d(c: Choice, x: Shape) -> Module:
    taps, step = c.of(2, 3, 5, 8), c.of(1, 2, 4)
    function, zeros = c.of(f.max_pool1d, f.avg_pool1d), c.of(0, taps // 2)
    return Module(lambda v: function(v, taps, step, zeros), (*x[:2], x[3]))


def adaptive_pool(c: Choice, x: Shape) -> Module:
    function, size = c.of(f.adaptive_avg_pool2d, f.adaptive_max_pool2d), c.two(1, 2, 3, 7)
    return Module(lambda v: function(v, size), x)


def interpolate(c: Choice, x: Shape) -> Module:
    mode, (high, wide) = c.of("nearest", "bilinear", "bicubic", "nearest-exact"), x[2:]
    corners = c.of(True, False) if mode in ("bilinear", "bicubic") else None
    halves = (max(1, high // 2), max(1, wide // 2))
    size = c.of((2 * high, 2 * wide), (3 * high, wide), halves, (high + 3, wide + 1))
    return Module(lambda v: f.interpolate(v, size=size, mode=mode, align_corners=corners), x)


def norm(c: Choice, x: Shape) -> Module:
    groups = c.of(*(g for g in (1, 2, 4, x[1]) if x[1] % g == 0))
    last = c.of(1, 2, 3)
    kinds = {
        "batch": lambda: nn.BatchNorm2d(x[1]),
        "group": lambda: nn.GroupNorm(groups, x[1]),
        "instance": lambda: nn.InstanceNorm2d(x[1], affine=True),
        "layer": lambda: nn.LayerNorm(x[-last:]),
    }
    return of(kinds[c.of(*kinds)](), x)


def reduction(c: Choice, x: Shape) -> Module:
    dims, keep = c.of((1,), (2,), (3,), (2, 3), (1, 2), (1, 3), (1, 2, 3), (0,), (0, 2, 3)), c.of(True, False)
    function = c.of(torch.mean, torch.sum, torch.amax, torch.amin)
    if c.of("plain", "plain", "variance") == "variance":
        function = c.of(torch.var, torch.std)
        return Module(lambda v: function(v, dims, unbiased=False, keepdim=keep), x)
    return Module(lambda v: function(v, dims, keepdim=keep), x)


def along(c: Choice, x: Shape) -> Module:
    """Functions along one dimension."""
    dim, step, start = c.of(1, 2, 3), c.of(1, 1, 2, 3), c.randrange(100)
    chosen = torch.tensor([c.randrange(x[dim]) for _ in range(c.of(1, 3, 8))])
    many = c.randrange(1, x[dim] + 1)
    functions: dict[str, Callable[[Tensor], Tensor]] = {
        "softmax": lambda v: v.softmax(dim),
        "log_softmax": lambda v: v.log_softmax(dim),
        "argmax": lambda v: v.argmax(dim),
        "cumsum": lambda v: v.cumsum(dim),
        "roll": lambda v: torch.roll(v, 1, dim),
        "flip": lambda v: v.flip(dim),
        "sort": lambda v: v.sort(dim)[0],
        "topk": lambda v: v.topk(many, dim)[0],
        "index_select": lambda v: v.index_select(dim, chosen),
        "slice": lambda v: v[(slice(None),) * dim + (slice(start % x[dim], None, step),)] + 0,
        "cat": lambda v: torch.cat([v, v * 2, v], dim),
    }
    return Module(functions[c.of(*functions)], x)


def pad(c: Choice, x: Shape) -> Module:
    amounts, mode = (*c.two(0, 1, 2, 3), *c.two(0, 1, 2, 3)), c.of("constant", "reflect", "replicate")
    return Module(lambda v: f.pad(v, amounts, mode=mode), x)


def arithmetic(c: Choice, x: Shape) -> Module:
    b, ch, high, wide = x
    other = c.of(x, (ch, 1, 1), (wide,), (high, 1), (b, 1, 1, wide), (1, ch, 1, wide), (1, 1, 1, 1))
    return Module(ARITHMETIC[c.of(*ARITHMETIC)], x, other)


def where(c: Choice, x: Shape) -> Module:
    other = c.of(x, (1, x[1], 1, 1), (x[3],), (x[0], 1, *x[2:]))
    return Module(lambda v, w: torch.where(v > w, v, w * 2), x, other)


def power(c: Choice, x: Shape) -> Module:
    exponent = c.of(2, 3, 0.5, -1)
    return Module(lambda v: (v.abs() + 0.5) ** exponent, x)


def linear(c: Choice, x: Shape) -> Module:
    return of(nn.Linear(x[3], c.of(1, 3, 8, 16)), c.of(x, (x[0], x[3]), (x[0], *x[2:])))


def prelu(c: Choice, x: Shape) -> Module:
    return of(nn.PReLU(c.of(1, x[1]), 0.3), x)


def pixel_shuffle(c: Choice, x: Shape) -> Module:
    step = c.of(2, 3)
    return Module(lambda v: f.pixel_shuffle(v, step), (x[0], step * step * c.of(1, 2, 3), *x[2:]))


def fold(c: Choice, x: Shape) -> Module:
    taps, gaps, steps = c.two(1, 2, 3, 4), c.two(1, 1, 2), c.two(1, 2, 3)
    spans = [1 + g * (k - 1) for g, k in zip(gaps, taps, strict=True)]
    zeros = tuple(c.of(0, s // 2) for s in spans)
    size = tuple(c.of(6, 7, 9, 12, 14, 17) for _ in spans)
    windows = [(n + 2 * z - s) // t + 1 for n, z, s, t in zip(size, zeros, spans, steps, strict=True)]
    columns = (x[0], min(x[1], 8) * math.prod(taps), max(math.prod(windows), 1))
    return Module(lambda v: f.fold(v, size, taps, gaps, zeros, steps), columns)


KINDS: dict[str, Callable[[Choice, Shape], Module]] = {
    "conv2d": convolution,
    "depthwise": lambda c, x: convolution(c, x, depthwise=True),
    "grouped": lambda c, x: convolution(c, x, groups=c.of(2, 4)),
    "conv_transpose2d": transposed,
    "conv_transpose1d": transposed_1d,
    "conv1d": convolution_1d,
    "conv3d": convolution_3d,
    "pool2d": pool,
    "pool1d": pool_1d,
    "adaptive_pool": adaptive_pool,
    "interpolate": interpolate,
    "norm": norm,
    "reduction": reduction,
    "along": along,
    "pad": pad,
    "arithmetic": arithmetic,
    "where": where,
    "power": power,
    "linear": linear,
    "prelu": prelu,
    "pixel_shuffle": pixel_shuffle,
    "function": lambda c, x: Module(FUNCTIONS[c.of(*FUNCTIONS)], x),
    "glu": lambda c, x: Module(lambda v: f.glu(v, 1), (x[0], 2 * x[1], *x[2:])),
    "fold": fold,
    "unfold": lambda c, x: Module(lambda v: f.unfold(v, 2), (*x[:2], max(2, x[2]), max(2, x[3]))),
}  # fmt: skip


def inputs_of(module: Module) -> tuple[Tensor, ...] | None:
    """Random inputs; None if PyTorch refuses them or returns an empty result."""
    inputs = tuple(torch.randn(shape) * 3 for shape in module.shapes)
    try:
        return inputs if module(*inputs).numel() else None
    except (RuntimeError, ValueError):
        return None


def chosen(seed: int, number: int, kinds: Sequence[str]) -> tuple[str, Module, list[Any]]:
    """A module of one of ``kinds``, deterministic for these numbers: its kind, the module, and the choices made."""
    choice = Choice(f"{seed} {number}")
    torch.manual_seed(number)
    kind = choice.choice(kinds)
    shape = (
        choice.of(1, 1, 2, 3),
        choice.of(1, 2, 3, 4, 8, 16, 17),
        choice.of(*SIZES),
        choice.of(*SIZES),
    )
    return kind, KINDS[kind](choice, shape), choice.made


def kinds_of(parser: argparse.ArgumentParser, asked: Sequence[str]) -> list[str]:
    """The kinds requested on a command line, or all."""
    if unknown := set(asked) - set(KINDS):
        parser.error(f"no kind {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    return list(asked or KINDS)
