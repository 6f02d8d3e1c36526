"""Modules for which ExecuTorch's own builders and passes are wrong or fail, exported with opdb's builders.

Measured with executorch 1.4.1, QNN 2.47, SM8650 on the emulation.  ``outcome`` is the result of one: the error relative to
the largest value of the reference, and the nodes that fall back to the CPU, with their reasons.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from plugged_cases import Calls
from torch import nn
from torch.nn import functional as f

import opdb.plugins.executorch
from opdb.plugins.executorch import flow

SOC = "SM8650"


def norm(module: Any, mean: float = 0.5, var: float = 0.1) -> nn.Module:
    if getattr(module, "running_mean", None) is not None:
        module.running_mean.fill_(mean)
        module.running_var.fill_(var)
    return nn.Module.eval(module)


def image(*shape: int) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(shape or (1, 4, 8, 6))


Case = tuple[Callable[[], nn.Module], tuple[torch.Tensor, ...]]
ROWS = torch.tensor([2, 0, 1])
COLUMNS = torch.tensor([3, 1, 0, 2])


def call(function: Callable[..., Any], *inputs: torch.Tensor) -> Case:
    return (lambda: Calls(function)), inputs or (image(),)


class ConstantsApart(nn.Module):
    """The only part HTP supports reads just a parameter; the rest has a type without QNN ops."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(image(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.double() * 2, torch.sigmoid(self.weight)


class Attention(nn.Module):
    """Self-attention of a batch: its input projection is viewed in five dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layer(x, x, x, need_weights=False)[0]
        return y


class SplitColumns(nn.Module):
    """A layer for each pair of columns of a row."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.layer(x.unflatten(-1, (-1, 2))).flatten(-2))


#: Lowered whole and computed wrong numbers, or a wrong shape.
WRONG: dict[str, Case] = {
    "AvgPool2d (3, 1) by steps of 1": (lambda: nn.AvgPool2d((3, 1), 1), (image(1, 4, 16, 8),)),
    "Conv2d one wide by steps of 2": (lambda: nn.Conv2d(4, 5, (3, 1), 2, (0, 1)), (image(1, 4, 9, 7),)),
    "Conv2d one high by steps of 2, each channel": (
        lambda: nn.Conv2d(4, 4, (1, 4), 2, 1, groups=4), (image(1, 4, 9, 7),),
    ),
    "pad behind rows": call(lambda x: f.pad(x * 2, (0, 3))),
    "pad behind rows and before columns": call(lambda x: f.pad(x * 2, (0, 3, 1, 0)) + 0.5),
    "SELU": (nn.SELU, (image(),)),
    "BatchNorm2d eps 1e-3, small variance": (lambda: norm(nn.BatchNorm2d(4, eps=1e-3), var=0.01), (image(),)),
    "BatchNorm2d eps 0.1": (lambda: norm(nn.BatchNorm2d(4, eps=0.1)), (image(),)),
    "BatchNorm2d without affine": (lambda: norm(nn.BatchNorm2d(4, affine=False)), (image(),)),
    "BatchNorm2d of the batch": (lambda: nn.BatchNorm2d(4, track_running_stats=False), (image(),)),
    "InstanceNorm2d eps 0.1": (lambda: nn.InstanceNorm2d(4, eps=0.1), (image(),)),
    "InstanceNorm2d with running statistics": (
        lambda: norm(nn.InstanceNorm2d(4, affine=True, track_running_stats=True)), (image(),),
    ),
    "AdaptiveMaxPool2d 8 to 3": (lambda: nn.AdaptiveMaxPool2d(3), (image(1, 4, 8, 8),)),
    "AvgPool3d with padding": (lambda: nn.AvgPool3d(3, 2, 1), (image(1, 4, 6, 8, 6),)),
    "AvgPool3d with a divisor": (lambda: nn.AvgPool3d(2, divisor_override=1), (image(1, 4, 6, 8, 6),)),
    "AvgPool2d ceil": (lambda: nn.AvgPool2d(3, 2, ceil_mode=True), (image(),)),
    "AvgPool2d ceil, padding": (lambda: nn.AvgPool2d(3, 2, 1, ceil_mode=True), (image(),)),
    "AvgPool2d ceil, padding not counted": (
        lambda: nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False), (image(),),
    ),
    "interpolate nearest down": call(lambda x: f.interpolate(x, size=(4, 3), mode="nearest")),
    "interpolate nearest 1.5": call(lambda x: f.interpolate(x, scale_factor=1.5, mode="nearest")),
    "index by two tensors": call(lambda x: x[ROWS[:, None], COLUMNS], image(3, 4)),
    "pad negative": call(lambda x: f.pad(x, (-1, -1, -1, 0))),
    "einsum of two matrices": call(lambda x, y: torch.einsum("ij,kj->ik", x, y), image(4, 3), image(5, 3)),
    "linear of split columns": (SplitColumns, (image(4, 4, 8),)),
    "tensordot seen as rows": call(lambda x, y: torch.tensordot(x, y, 2)[:, None], image(4, 3, 2), image(3, 2, 5)),
    "matrices of one for a batch": call(
        lambda x, y: x.view(2, 1, 4, 8) @ y.transpose(-1, -2), image(2, 4, 8), image(1, 1, 2, 8)
    ),
    "Conv2d of zeros before an image": (lambda: nn.Conv2d(4, 3, 2, padding=2), (image(),)),
    "Conv2d by channel of zeros before an image": (lambda: nn.Conv2d(4, 4, 3, padding=3, groups=4), (image(),)),
    "Conv1d of a short row": (lambda: nn.Conv1d(4, 6, 7, padding=3), (image(2, 4, 16),)),
    "Conv2d of a column to one channel": (lambda: nn.Conv2d(4, 1, (3, 1), padding=(1, 0)), (image(2, 4, 7, 1),)),
    "sum over the last dimensions, backwards": call(lambda x: x.sum((2, 1)), image(2, 3, 4)),
    "PReLU of 6": (lambda: nn.PReLU(6), (image(1, 6, 8, 6),)),
    "PReLU of 4": (lambda: nn.PReLU(4), (image(),)),
    "floats to bool": call(lambda x: x.to(torch.bool), image() * 0.3),
    "long and back": call(lambda x: x.long().float(), image() * 4),
    "bool and back": call(lambda x: x.bool().float()),
    "MaxPool3d dilated": (lambda: nn.MaxPool3d(2, dilation=2), (image(1, 4, 4, 6, 8),)),
    "AdaptiveMaxPool3d": (lambda: nn.AdaptiveMaxPool3d((2, 3, 4)), (image(1, 4, 4, 6, 8),)),
}  # fmt: skip
#: Ended the export.
CRASHED: dict[str, Case] = {
    **{
        name: call(getattr(torch, name), image().abs().clamp(0.1, 0.9))
        for name in ("erf", "exp2", "expm1", "sinc", "logit")
    },
    **{name: call(getattr(f, name)) for name in ("softplus", "mish", "celu", "softshrink", "logsigmoid")},
    "unfold of 3 by 3": call(lambda x: f.unfold(x, 3)),
    "unfold with zeros and gaps, without a batch": call(lambda x: f.unfold(x[0], (2, 3), 2, 1)),
    "a product, seen in five dimensions": call(lambda x: (x * 1.25).reshape(2, 2, 2, 6, 4) + 0.5),
    "a product and a sum of five dimensions": call(lambda x: x * 1.25 + 0.5, image(2, 2, 4, 6, 4)),
    "five dimensions by a matrix": call(torch.matmul, image(2, 2, 4, 6, 4), image(4, 3)),
    "five dimensions by three": call(torch.matmul, image(2, 2, 4, 6, 4), image(4, 4, 3)),
    "fold of 3 by 3": call(lambda x: f.fold(x, (6, 6), 3), image(1, 36, 16)),
    "fold with zeros and gaps, without a batch": call(lambda x: f.fold(x, (7, 9), (2, 3), (2, 1), 1, (1, 2)), image(24, 35)),
    "softplus of many rows": call(lambda x: f.softplus(x * 2), image(1, 16, 8, 8)),
    **{name: call(getattr(torch, name), image(), image().abs() + 0.5) for name in ("fmod", "hypot", "fmax", "copysign", "xlogy")},
    **{name: call(getattr(torch, name), image() > 0, image() > 1) for name in ("logical_or", "logical_xor")},
    "bitwise_not": call(torch.bitwise_not, image() > 0),
    "logsumexp": call(lambda x: torch.logsumexp(x, 1)),
    "affine_grid": call(lambda t: f.affine_grid(t, [1, 2, 4, 5], align_corners=False), image(1, 2, 3)),
    "prod": call(lambda x: torch.prod(x, 1)),
    "cumprod": call(lambda x: torch.cumprod(x, 1)),
    "sort": call(lambda x: torch.sort(x, 1)[0]),
    "max of all": call(torch.max),
    "mean of all": call(torch.mean),
    "scatter_add": call(lambda x: torch.zeros(3, 4).scatter_add(0, torch.tensor([[0, 1, 2, 0]]), x), image(1, 4)),
    "one_hot": call(lambda i: f.one_hot(i, 5), torch.tensor([0, 2, 4])),
    "bilinear": (lambda: nn.Bilinear(4, 3, 2), (image(5, 4), image(5, 3))),
    "stft": call(lambda x: torch.view_as_real(torch.stft(x, 8, return_complex=True, window=torch.ones(8))), image(1, 32)),
    "circular pad": call(lambda x: f.pad(x, (1, 1, 1, 1), mode="circular")),
    "clamp by tensors": call(lambda x: torch.clamp(x, torch.full((4, 1, 1), -0.5), torch.full((4, 1, 1), 0.5))),
    "max_pool2d without stride": call(lambda x: f.max_pool2d(x, 2)),
    "avg_pool3d without stride": call(lambda x: f.avg_pool3d(x, 2), image(1, 4, 4, 6, 8)),
    "ReplicationPad2d": (lambda: nn.ReplicationPad2d(1), (image(),)),
    "ReflectionPad3d": (lambda: nn.ReflectionPad3d(1), (image(1, 2, 4, 4, 4),)),
    "AdaptiveAvgPool2d 8 to 3": (lambda: nn.AdaptiveAvgPool2d(3), (image(1, 4, 8, 8),)),
    "RMSNorm over two dims": (lambda: nn.RMSNorm([6, 6]), (image(2, 6, 6),)),
    "Conv3d depthwise": (lambda: nn.Conv3d(4, 4, 3, groups=4), (image(1, 4, 5, 6, 6),)),
    "conv2d by an input": call(lambda x, w: f.conv2d(x, w), image(), image(3, 4, 3, 3)),
    "narrow from behind after a convolution": (
        lambda: nn.Sequential(nn.Conv2d(4, 4, 1), Calls(lambda x: torch.narrow(x, -1, 1, 3))), (image(),),
    ),
    "amin after a convolution": (lambda: nn.Sequential(nn.Conv2d(4, 4, 1), Calls(lambda x: torch.amin(x, 1))), (image(),)),
    "isinf": call(torch.isinf, torch.tensor([[1.0, float("inf"), -2.0, float("-inf")]])),
    "index_put with gaps": call(
        lambda x, v: torch.ops.aten.index_put(x, [ROWS, None, torch.tensor([1, 0, 1])], v), image(3, 4, 2), image(3, 4),
    ),
    "TransformerEncoderLayer": (lambda: nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), (image(1, 5, 16),)),
    **{f"MultiheadAttention of a batch of {n}": (Attention, (image(n, 5, 16),)) for n in (1, 2, 3)},
    "tril": call(torch.tril, image(5, 5)),
    "a graph of constants": (ConstantsApart, (image(3),)),
}  # fmt: skip
#: Fell back to the CPU without a readable reason.
REJECTED: dict[str, Case] = {
    "sum of all": call(torch.sum),
    "softmax over dim 2": call(lambda x: torch.softmax(x, 2)),
    "softmax over dim 0": call(lambda x: torch.softmax(x, 0), image(5, 4)),
    "topk over dim 1": call(lambda x: torch.topk(x, 2, 1)[0]),
    "index by two tensors of one shape": call(lambda x: x[ROWS, torch.tensor([0, 1, 1])], image(3, 4)),
    "repeat to a higher rank": call(lambda x: x.repeat(2, 1, 1), image(3, 4)),
    "bitwise_and of integers": call(torch.bitwise_and, torch.tensor([5, 3]), torch.tensor([4, 6])),
    "asin": call(torch.asin, image().clamp(-1, 1)),
    "BatchNorm3d": (lambda: norm(nn.BatchNorm3d(4)), (image(1, 4, 4, 6, 6),)),
    "grid_sample of volumes": call(
        lambda x, g: f.grid_sample(x, g, align_corners=False), image(1, 2, 4, 4, 4), image(1, 3, 3, 3, 3).clamp(-1, 1),
    ),
    "grid_sample bicubic": call(
        lambda x, g: f.grid_sample(x, g, mode="bicubic", align_corners=False), image(), image(1, 5, 5, 2).clamp(-1, 1),
    ),
    "LayerNorm over two dims": (lambda: nn.LayerNorm([8, 6]), (image(),)),
    "max_pool2d with places": call(lambda x: f.max_pool2d(x, 2, return_indices=True)),
}  # fmt: skip
CASES = {**WRONG, **CRASHED, **REJECTED}


def outcome(name: str) -> SimpleNamespace:
    make, inputs = CASES[name]
    torch.manual_seed(0)
    module = nn.Module.eval(make())
    opdb.plugins.executorch.register(execution="emulator")
    try:
        compiled = flow.compile_module(module, inputs, SOC)
        got = flow.run_pte(compiled.pte, inputs)
    except Exception as e:
        return SimpleNamespace(raised=f"{type(e).__name__}: {e}"[:500], left={}, error=None)
    finally:
        opdb.plugins.executorch.unregister()
    with torch.no_grad():
        wanted = module(*inputs)
    pairs = list(zip(got, wanted if isinstance(wanted, (tuple, list)) else (wanted,), strict=True))
    wrong = [float((g.reshape(w.shape).double() - w.double()).abs().max()) for g, w in pairs]
    span = [max(float(w.double()[torch.isfinite(w.double())].abs().max()), 1e-3) for _, w in pairs]
    return SimpleNamespace(
        raised="",
        left={n: [f"{r.rule} {r.message}" for r in compiled.reasons[n]] for n in compiled.not_delegated},
        error=max(w / s for w, s in zip(wrong, span, strict=True)),
    )


def everything(cases: str) -> dict[str, SimpleNamespace]:
    """``cases``: WRONG, which ExecuTorch's own builders lower completely but wrongly, or OTHERS."""
    return {name: outcome(name) for name in CASES if (name in WRONG) == (cases == "WRONG")}
