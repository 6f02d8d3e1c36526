"""Windows of convolutions and pools, and the pool operators."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, prod
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from opdb.programs.onnx.node import Node, Operator, Unreadable, Value

AVERAGES = {1: functional.avg_pool1d, 2: functional.avg_pool2d, 3: functional.avg_pool3d}
MAXIMA = {1: functional.max_pool1d, 2: functional.max_pool2d, 3: functional.max_pool3d}
MAXIMA_WITH_INDICES = {
    1: functional.max_pool1d_with_indices, 2: functional.max_pool2d_with_indices, 3: functional.max_pool3d_with_indices
}  # fmt: skip
SUMS = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}


@dataclass(frozen=True)
class Window:
    """Per spatial dimension: size, stride, dilation, pads before and after."""

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    before: list[int]
    after: list[int]

    @property
    def symmetric(self) -> bool:
        return self.before == self.after

    @property
    def flat(self) -> list[int]:
        """Pads in the order of torch.nn.functional.pad: last dimension first."""
        return [n for d in reversed(range(len(self.before))) for n in (self.before[d], self.after[d])]

    @property
    def reach(self) -> list[int]:
        return [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]


def window(node: Node, x: Tensor, kernel: list[int]) -> Window:
    """The window of a node on ``x`` [N, C, spatial...], with the pads of ``auto_pad``."""
    rank = x.dim() - 2
    strides, dilations = node.ints("strides") or [1] * rank, node.ints("dilations") or [1] * rank
    pads, auto = node.ints("pads") or [0] * 2 * rank, node.get("auto_pad", "NOTSET")
    if auto == "NOTSET":
        return Window(kernel, strides, dilations, pads[:rank], pads[rank:])
    if auto == "VALID":
        return Window(kernel, strides, dilations, [0] * rank, [0] * rank)
    totals = [
        max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
        for n, s, k, d in zip(x.shape[2:], strides, kernel, dilations, strict=True)
    ]
    small = [t // 2 for t in totals]
    large = [t - s for t, s in zip(totals, small, strict=True)]
    before, after = (small, large) if auto == "SAME_UPPER" else (large, small)
    return Window(kernel, strides, dilations, before, after)


def _pool_window(node: Node, x: Tensor) -> tuple[Window, list[int]]:
    """The window, and how far the last one reaches beyond the padded input with ``ceil_mode``."""
    at = window(node, x, node.needed("kernel_shape"))
    if len(at.kernel) not in AVERAGES:
        raise Unreadable(f"PyTorch has pools of 1 to 3 dimensions, not {len(at.kernel)}")
    beyond = [0] * len(at.kernel)
    if node.get("ceil_mode", 0):
        for d, (n, reach, stride) in enumerate(zip(x.shape[2:], at.reach, at.strides, strict=True)):
            room = n + at.before[d] + at.after[d] - reach
            count = -(-room // stride) + 1
            in_padding = n + at.before[d]
            if (count - 1) * stride >= in_padding:  # no window starts in the padding at the end
                count -= 1
            beyond[d] = max((count - 1) * stride - room, 0)
    return at, beyond


def _torch_pads(at: Window) -> bool:
    """True if PyTorch's pools can apply the pads themselves."""
    return at.symmetric and all(2 * p <= k for p, k in zip(at.before, at.kernel, strict=True))


def _padded(x: Tensor, at: Window, beyond: list[int], value: float = 0.0) -> Tensor:
    after = [a + b for a, b in zip(at.after, beyond, strict=True)]
    pads = [n for d in reversed(range(len(after))) for n in (at.before[d], after[d])]
    return functional.pad(x, pads, value=value) if any(pads) else x


def _sums(x: Tensor, at: Window) -> Tensor:
    """The sum of each window, from a convolution of each channel with ones."""
    flat = x.reshape(-1, 1, *x.shape[2:])
    ones = torch.ones([1, 1, *at.kernel], dtype=x.dtype)
    made = SUMS[len(at.kernel)](flat, ones, None, at.strides, 0, at.dilations)
    return made.reshape(*x.shape[:2], *made.shape[2:])


def average(node: Node, x: Tensor) -> Tensor:
    at, beyond = _pool_window(node, x)
    rank, with_pads = len(at.kernel), bool(node.get("count_include_pad", 0))
    if max(at.dilations) == 1 and _torch_pads(at):
        return AVERAGES[rank](x, at.kernel, at.strides, at.before, bool(node.get("ceil_mode", 0)), with_pads)
    if max(at.dilations) == 1 and not any(beyond) and (with_pads or not any(at.flat)):
        return AVERAGES[rank](functional.pad(x, at.flat), at.kernel, at.strides)
    ones = torch.ones([1, 1, *x.shape[2:]], dtype=x.dtype)
    counted = functional.pad(ones, at.flat, value=1.0 if with_pads else 0.0)
    counts = _sums(functional.pad(counted, [n for b in reversed(beyond) for n in (0, b)]), at)
    return _sums(_padded(x, at, beyond), at) / counts


def _lp(node: Node, x: Tensor) -> Tensor:
    at, beyond = _pool_window(node, x)
    p = node.get("p", 2)
    powers = _sums(_padded(x.abs() if p == 1 else x.abs() ** p, at, beyond), at)
    return powers if p == 1 else powers ** (1 / p)


def _max(node: Node, x: Tensor) -> Any:
    at, beyond = _pool_window(node, x)
    rank, ceil = len(at.kernel), bool(node.get("ceil_mode", 0))
    if node.outputs > 1:
        return _max_with_indices(node, x, at, ceil)
    if _torch_pads(at):
        return MAXIMA[rank](x, at.kernel, at.strides, at.before, at.dilations, ceil)
    lowest = -inf if x.dtype.is_floating_point else torch.iinfo(x.dtype).min
    return MAXIMA[rank](_padded(x, at, beyond, lowest), at.kernel, at.strides, 0, at.dilations)


def _max_with_indices(node: Node, x: Tensor, at: Window, ceil: bool) -> tuple[Tensor, Tensor]:
    """Converts the indices: ONNX counts in the whole tensor, PyTorch in a channel."""
    if not _torch_pads(at):
        raise Unreadable("places of the maxima, and pads that PyTorch's pools do not take")
    rank = len(at.kernel)
    y, places = MAXIMA_WITH_INDICES[rank](x, at.kernel, at.strides, at.before, at.dilations, ceil)
    if node.get("storage_order", 0):
        if rank != 2:
            raise Unreadable("the storage order of columns is of images")
        height, width = x.shape[2:]
        places = places % width * height + torch.div(places, width, rounding_mode="trunc")
    size = prod(x.shape[2:])
    first = torch.arange(prod(x.shape[:2])).reshape(*x.shape[:2], *[1] * rank) * size
    return y, places + first


def _max_unpool(node: Node, x: Tensor, places: Tensor, shape: Value = None) -> Tensor:
    at = window(node, x, node.needed("kernel_shape"))
    sizes = [
        (n - 1) * s + k - b - a
        for n, s, k, b, a in zip(x.shape[2:], at.strides, at.kernel, at.before, at.after, strict=True)
    ]
    wanted = node.ints("output_shape", shape) or [*x.shape[:2], *sizes]
    size, channels = prod(sizes), prod(x.shape[:2])
    # The indices are those of a tensor without the rows and columns that output_shape adds.
    flat = torch.zeros(channels * size, dtype=x.dtype).scatter(0, places.reshape(-1), x.reshape(-1))
    whole = flat.reshape(*x.shape[:2], *sizes)
    more = [w - s for w, s in zip(wanted[2:], sizes, strict=True)]
    return functional.pad(whole, [n for m in reversed(more) for n in (0, m)]) if any(more) else whole


def _spatial(x: Tensor) -> list[int]:
    return list(range(2, x.dim()))


def _global_lp(node: Node, x: Tensor) -> Tensor:
    p = node.get("p", 2)
    return (x.abs() ** p).sum(_spatial(x), keepdim=True) ** (1 / p)


OPERATORS = {
    "AveragePool": Operator(average),
    "GlobalAveragePool": Operator(lambda node, x: x.mean(_spatial(x), keepdim=True)),
    "GlobalLpPool": Operator(_global_lp),
    "GlobalMaxPool": Operator(lambda node, x: x.amax(_spatial(x), keepdim=True)),
    "LpPool": Operator(_lp),
    "MaxPool": Operator(_max),
    "MaxUnpool": Operator(_max_unpool, known=(2,)),
}
