"""Quantized modules whose nodes once fell back to the CPU with opdb's builders, or gave wrong results, on SM8650's emulation."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from plugged_cases import Calls
from torch import nn
from torch.nn import functional as f

import opdb.plugins.executorch
from opdb.core.errors import OpdbError
from opdb.plugins.executorch import flow, quantize
from opdb.plugins.executorch.builder import blocks

SOC, PRECISION = "SM8650", "quantized"


class PartWithoutGradients(nn.Module):
    """The part would be a separate graph if exported with gradients; ExecuTorch's passes do not enter it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y = torch.cos(x) * 0.5
        return self.linear(x) + y


def convolutions() -> nn.Module:
    """HTP does not finalize the first one in 16 bits between Transposes."""
    return nn.Sequential(
        nn.Conv2d(8, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 16, 3, 1, 1)
    )


def by_recipe() -> dict[str, tuple[nn.Module, tuple[torch.Tensor, ...], str]]:
    torch.manual_seed(1)
    rows, image = torch.randn(1, 6, 64), torch.randn(1, 8, 16, 16)
    return {
        **{
            f"Linear {r}": (nn.Linear(64, 32), (rows,), r)
            for r in ("8a8w", "16a8w", "16a4w", "16a4w_block", "16a16w")
        },
        **{f"Conv2d {r}": (convolutions(), (image,), r) for r in ("8a8w", "16a8w", "16a4w")},
        **{f"Conv3d {r}": (nn.Conv3d(4, 8, 3), (torch.randn(1, 4, 6, 8, 8),), r) for r in ("16a8w", "16a4w")},
        "ConvTranspose3d 16a4w": (nn.ConvTranspose3d(4, 8, 3, 2), (torch.randn(1, 4, 5, 6, 6),), "16a4w"),
        "Conv2d in blocks": (nn.Conv2d(96, 8, 1), (torch.randn(1, 96, 8, 8),), "16a4w_block"),
        "TransformerDecoderLayer": (
            nn.TransformerDecoderLayer(16, 2, 32),
            (torch.randn(5, 1, 16), torch.randn(4, 1, 16)),
            "8a8w",
        ),
        "part without gradients": (PartWithoutGradients(), (torch.randn(3, 8),), "16a8w"),
        **{f"{name} 16a8w": (*case, "16a8w") for name, case in sixteen_bits().items()},
        **{
            f"{name} {r}": (*case, r) for name, case in (sums() | others()).items() for r in ("8a8w", "16a8w")
        },
    }


def sums() -> dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]]:
    """Constants that HTP drops from sums."""
    image, row, channels = torch.randn(1, 4, 6, 6) * 3, torch.rand(6) + 0.1, torch.randn(4, 1, 1)
    return {
        "number behind a product": (Calls(lambda x: torch.relu(x * 1.25) + 0.5), (image,)),
        "row behind a product": (Calls(lambda x: torch.relu(x * row) + row), (image,)),
        "row behind a product of a row": (Calls(lambda x: torch.relu(x[0, 0, 0] * row) + row), (image,)),
        "channels behind ConvTranspose2d": (
            nn.Sequential(nn.ConvTranspose2d(4, 4, (1, 3)), nn.ReLU(), Calls(lambda x: x + channels)),
            (image,),
        ),
        "number behind GroupNorm": (
            nn.Sequential(nn.GroupNorm(2, 4), Calls(lambda x: x + 0.5)),
            (image,),
        ),
        "number made behind Linear": (
            nn.Sequential(nn.Linear(6, 6), Calls(lambda x: x + torch.ones(1) * 1.5)),
            (image,),
        ),
    }


class Heads(nn.Module):
    """A vision transformer's attention, which selects its three parts from five dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.parts, self.out = nn.Linear(24, 72), nn.Linear(24, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.parts(x).reshape(*x.shape[:2], 3, 2, 12).permute(2, 0, 3, 1, 4).unbind(0)
        y: torch.Tensor = self.out(f.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return y


def others() -> dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]]:
    """Selections of rows and elements, clamps and argmax that HTP computes wrongly in other forms."""
    numbers, rows = torch.randn(2, 8, 16), torch.randn(4, 40, 16)
    back = torch.arange(39, -1, -1)
    return {
        **{f"attention of a batch of {n}": (Heads(), (torch.randn(n, 9, 24),)) for n in (1, 2, 3)},
        "rows of 16": (Calls(lambda x: (x * 1.25).index_select(1, back) + x), (rows,)),
        "rows of a matrix of 16": (Calls(lambda x: (x * 1.25).index_select(0, back) + x), (rows[0],)),
        "rows at indices in two dimensions": (
            Calls(lambda x: (x * 1.25)[:, back.reshape(2, 20)] + 1.0),
            (rows,),
        ),
        "300 of 153 elements": (
            Calls(lambda x: (x * 1.25)[:, torch.arange(300) % 153] + 1.0),
            (torch.randn(2, 153),),
        ),
        "Embedding of 16": (nn.Embedding(40, 16), (back.repeat(2, 1),)),
        "clamp above 0": (Calls(lambda x: (x * 1.25).clamp(0.5, 0.75)), (numbers,)),
        "clamp below 0": (Calls(lambda x: (x + x.flip(0)).clamp(-0.75, -0.5)), (numbers,)),
        "clamp by two nodes": (Calls(lambda x: (x * 1.25).clamp(max=0.75).clamp(min=0.5)), (numbers,)),
        "maximum of a minimum": (
            Calls(lambda x: (x * 1.25).minimum(torch.tensor(0.75)).maximum(torch.tensor(0.5))),
            (numbers,),
        ),
        "log_softmax of 65": (Calls(lambda x: f.log_softmax(x * 1.25, -1) + 1.0), (torch.randn(2, 8, 65),)),
        "log_softmax of 129": (Calls(lambda x: f.log_softmax(x * 1.25, -1) + 1.0), (torch.randn(2, 8, 129),)),
    }


def sixteen_bits() -> dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]]:
    """Modules that were wrong, refused or not finalized in 16 bits."""
    image = torch.randn(2, 3, 4, 5)
    return {
        "clamp_max": (Calls(lambda x: x.clamp_max(1.0)), (image * 2,)),
        "average of 4 by 4": (nn.AvgPool2d(4), (torch.randn(2, 8, 20, 20),)),
        "mean of rows": (Calls(lambda x: x.mean(-1)), (torch.randn(4, 9, 7),)),
        "log": (Calls(torch.log), (image.abs() + 0.1,)),
        "LayerNorm without parameters": (nn.LayerNorm(5, elementwise_affine=False), (image,)),
        "InstanceNorm2d without parameters": (nn.InstanceNorm2d(3), (image,)),
        "ConvTranspose2d of groups": (nn.ConvTranspose2d(4, 6, 2, groups=2), (torch.randn(1, 4, 5, 5),)),
        "ConvTranspose1d with gaps": (nn.ConvTranspose1d(4, 6, 2, dilation=2), (torch.randn(1, 4, 8),)),
        "AvgPool2d over the edge": (nn.AvgPool2d(2, 2, 1, ceil_mode=True), (image,)),
        "grid_sample bilinear": (
            sampled("bilinear", "zeros", False),
            (image[:1], torch.randn(1, 3, 4, 2).clamp(-0.9, 0.9)),
        ),
        "grid_sample nearest at the edge": (
            sampled("nearest", "zeros", False),
            (
                image[:1],
                torch.tensor([-1.0, 1.0, 0.0])
                .repeat(4)
                .reshape(1, 12, 1, 1)
                .expand(1, 12, 2, 2)
                .contiguous(),
            ),
        ),
        "bicubic of corners": (
            Calls(lambda x: f.interpolate(x, scale_factor=2, mode="bicubic", align_corners=True)),
            (image[:1],),
        ),
    }


class Cache(nn.Module):
    """Mutates its buffer, whose memory holds floating-point numbers; it is large enough not to be zero by chance."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.full((1, 512, 12, 64), 0.5))

    def forward(self, place: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        self.rows.index_copy_(1, place, row)
        return self.rows + 0


def batch_norm() -> nn.Module:
    """A batch norm with its own statistics and factors, some of them encoded."""
    norm = nn.BatchNorm2d(2)
    norm.running_mean = torch.tensor([0.5, -1.0])
    norm.running_var = torch.tensor([0.5, 2.0])
    norm.weight = nn.Parameter(torch.tensor([1.5, -0.5]))
    return norm


def unlike_channels(norm: nn.Module) -> nn.Module:
    """Scales one channel by 30, one by almost zero and one by zero."""
    norm.running_mean = torch.tensor([0.5, -1.0, 0.25, 0.0])
    norm.running_var = torch.tensor([0.004, 2.0, 0.5, 1.0])
    norm.weight = nn.Parameter(torch.tensor([2.0, -0.01, 0.7, 0.0]))
    norm.bias = nn.Parameter(torch.tensor([0.1, -1.0, 1.5, 2.0]))
    return norm


def sampled(mode: str, padding: str, corners: bool) -> nn.Module:
    return Calls(lambda x, grid: f.grid_sample(x, grid, mode, padding, corners))


def hard_cases() -> dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]]:
    """Modules that HTP computes wrongly in some form of the op."""
    torch.manual_seed(2)
    image, volume, positive = torch.randn(1, 2, 3, 4), torch.randn(1, 2, 4, 4, 4), torch.rand(10, 10) + 0.1
    grid = torch.randn(1, 3, 4, 2).clamp(-0.9, 0.9)  # at 1 two points are equally near
    return {
        "LayerNorm of 65535": (nn.LayerNorm(65535, elementwise_affine=False), (torch.randn(1, 65535),)),
        "LayerNorm of 65536": (
            nn.LayerNorm([256, 256], elementwise_affine=False),
            (torch.randn(1, 256, 256),),
        ),
        "LayerNorm of three dimensions": (nn.LayerNorm([3, 4, 5]), (torch.randn(2, 3, 4, 5),)),
        "avg_pool3d": (nn.AvgPool3d(2), (volume,)),
        "AvgPool2d of padding that counts": (nn.AvgPool2d(2, 1, 1), (image,)),
        "AvgPool2d of padding that does not count": (
            nn.AvgPool2d(3, 2, 1, count_include_pad=False),
            (image,),
        ),
        "AvgPool2d over the edge": (nn.AvgPool2d(2, 2, ceil_mode=True), (image,)),
        "AvgPool2d two apart": (nn.AvgPool2d(2, 2, 1), (torch.randn(1, 3, 6, 6),)),
        "ConvTranspose2d of groups": (
            nn.ConvTranspose2d(6, 8, 2, groups=2, dilation=2),
            (torch.randn(1, 6, 4, 4),),
        ),
        "ConvTranspose2d by channel": (nn.ConvTranspose2d(6, 6, 2, 2, groups=6), (torch.randn(1, 6, 4, 4),)),
        "grid_sample of a volume": (
            sampled("bilinear", "zeros", False),
            (volume, torch.randn(1, 2, 3, 3, 3).clamp(-0.9, 0.9)),
        ),
        "unfold of a column": (Calls(lambda x: f.unfold(x, 2)), (torch.randn(2, 1, 17, 9),)),
        "MaxPool2d one wide over the edge": (
            nn.MaxPool2d((3, 1), ceil_mode=True),
            (torch.randn(1, 4, 8, 5),),
        ),
        "unfold of 2 by 3": (Calls(lambda x: f.unfold(x, (2, 3), padding=1)), (image,)),
        "fold of 3 by 3": (Calls(lambda x: f.fold(x * 1.25, (6, 7), 3)), (torch.randn(2, 36, 20),)),
        "fold with zeros and gaps": (
            Calls(lambda x: f.fold(x, (7, 9), (2, 3), (2, 1), 1, (1, 2)) + 0.5),
            (torch.randn(1, 24, 35),),
        ),
        "five dimensions by a matrix": (Calls(torch.matmul), (torch.randn(2, 2, 4, 6, 4), torch.randn(4, 3))),
        "five dimensions by those of one": (
            Calls(torch.matmul),
            (torch.randn(2, 2, 4, 6, 4), torch.randn(1, 2, 4, 4, 3)),
        ),
        "pow of a number": (Calls(lambda x: torch.pow(2.0, x)), (positive,)),
        "pow of a row": (Calls(torch.pow), (torch.rand(1, 10) + 1, positive)),
        "pow of a number to what is not below 0": (Calls(lambda x: 2.0 ** x.relu()), (image,)),
        "pow of a row to what is not below 0": (
            Calls(lambda x, y: (x * 1.5) ** y.relu() + 1),
            (torch.rand(1, 10) + 0.5, torch.randn(10, 10)),
        ),
        "pow to a number": (Calls(lambda x: x**3), (image,)),
        "cumsum of the first of four": (Calls(lambda x: x.cumsum(0)), (torch.randn(2, 3, 4, 5),)),
        "cumsum of the second of three": (Calls(lambda x: x.cumsum(1)), (torch.randn(2, 3, 4),)),
        "grid_sample bilinear": (sampled("bilinear", "zeros", False), (image, grid)),
        "grid_sample nearest": (sampled("nearest", "zeros", False), (image, grid)),
        "grid_sample nearest of corners": (sampled("nearest", "zeros", True), (image, grid)),
        "grid_sample at the border": (sampled("bilinear", "border", False), (image, grid)),
        "mean of rows": (Calls(lambda x: x.mean(-1)), (torch.randn(36, 64),)),
        "sum of rows": (Calls(lambda x: x.sum(-1)), (torch.randn(33, 7),)),
        "sum of images": (Calls(lambda x: x.sum((2, 3))), (torch.randn(3, 33, 4, 5),)),
        "average of 4 by 4": (nn.AvgPool2d(4), (torch.randn(2, 8, 20, 20),)),
        "average of 6 by 4": (nn.AdaptiveAvgPool2d((4, 5)), (torch.randn(1, 8, 24, 20),)),
        "a number of a line": (Calls(lambda x: x[2] * 2), (torch.randn(5),)),
        "Conv1d without a batch": (nn.Conv1d(4, 6, 3, padding=1), (torch.randn(4, 11),)),
        "Conv2d without a batch": (nn.Conv2d(2, 3, 3, padding=1), (image[0],)),
        "BatchNorm2d": (batch_norm(), (image,)),
        "BatchNorm1d of rows": (unlike_channels(nn.BatchNorm1d(4)), (torch.randn(5, 4),)),
        "BatchNorm3d of unlike channels": (
            unlike_channels(nn.BatchNorm3d(4)),
            (torch.randn(1, 4, 2, 3, 3),),
        ),
        "reciprocal near zero": (Calls(torch.reciprocal), (torch.tensor([[0.001, 0.01, 0.5, 1.0, 100.0]]),)),
        "Conv2d one wide by steps of 2": (nn.Conv2d(4, 5, (3, 1), 2, (0, 1)), (torch.randn(1, 4, 9, 7),)),
        "Conv3d one wide by steps of 2": (
            nn.Conv3d(4, 5, (1, 3, 1), (1, 2, 2), (0, 0, 1)),
            (torch.randn(1, 4, 3, 9, 7),),
        ),
    }


def cases() -> dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]]:
    torch.manual_seed(0)
    image, positive = torch.randn(1, 2, 4, 4), torch.rand(1, 2, 4, 4) + 0.1
    return {
        "clamp": (Calls(lambda x: x.clamp(-1, 1)), (image,)),
        "clamp_min below zero": (Calls(lambda x: x.clamp_min(-1)), (image,)),
        "div": (Calls(torch.div), (image, positive)),
        "floor_divide": (Calls(torch.floor_divide), (image, positive)),
        "where": (Calls(lambda x: torch.where(x > 0, x, -x)), (image,)),
        "leaky_relu": (nn.LeakyReLU(0.05), (image,)),
        "PReLU of channels": (nn.PReLU(2, 0.2), (image,)),
        "log_softmax of channels": (nn.LogSoftmax(1), (image,)),
        "AdaptiveMaxPool2d": (nn.AdaptiveMaxPool2d(2), (image,)),
        "AdaptiveMaxPool2d 4 to 3": (nn.AdaptiveMaxPool2d(3), (image,)),
        "pad beyond the range of the input": (Calls(lambda x: f.pad(x, (1, 1), value=4.5)), (image[0, 0],)),
        "RMSNorm": (nn.RMSNorm(4, eps=1e-4), (image,)),
        "RMSNorm of two dimensions": (nn.RMSNorm((4, 4)), (image,)),
        "index_put into an input": (
            Calls(lambda x, y: x.index_put((torch.tensor([0, 2]),), y)),
            (image[0, 0] * 0.5, image[0, 1, :2]),
        ),
        "index_copy into a buffer": (Cache(), (torch.tensor([2]), torch.randn(1, 1, 12, 64).clamp(-1, 1))),
        "MaxPool3d": (nn.MaxPool3d(2), (torch.randn(1, 3, 4, 4, 4),)),
        "five dimensions to four": (Calls(lambda x: x.reshape(2, 3, 4, 30)), (torch.randn(2, 3, 4, 5, 6),)),
        "three dimensions to five": (Calls(lambda x: x[None, None] + 1), (image[0],)),
        "pad at the end": (Calls(lambda x: f.pad(x, (0, 2), value=0.5)), (image[0, 0],)),
    }


def several_results() -> Any:
    """topk, whose values become floats in an op after the one that converts its indices to int64."""
    torch.manual_seed(3)
    x = torch.randn(4, 9)
    module = Calls(lambda x: tuple(torch.topk(x, 3)))
    opdb.plugins.executorch.register(execution="emulator")
    try:
        quantized = quantize.quantize(module.eval(), (x,), SOC, "8a8w")
        compiled = flow.compile_module(quantized, (x,), SOC, PRECISION)
        return SimpleNamespace(
            left=compiled.not_delegated,
            got=[t.tolist() for t in flow.run_pte(compiled.pte, (x,))],
            wanted=[t.tolist() for t in quantized(x)],
        )
    finally:
        opdb.plugins.executorch.unregister()


def steps_of_unlike_channels(soc: str, recipe: str) -> float:
    """The error, in steps of the result, of a batch norm of an image with very different factors."""
    torch.manual_seed(6)
    given = (torch.randn(1, 4, 6, 5),)
    module = nn.Sequential(nn.ReLU(), unlike_channels(nn.BatchNorm2d(4))).eval()
    opdb.plugins.executorch.register(execution="emulator")
    try:
        quantized = quantize.quantize(module, given, soc, recipe)
        compiled = flow.compile_module(quantized, given, soc, PRECISION)
        assert not compiled.not_delegated
        (got,) = flow.run_pte(compiled.pte, given)
        scales = [n.args[1] for n in quantized.graph.nodes if "quantize_per_tensor" in str(n.target)]
        return float((got - quantized(*given)).abs().max() / scales[-1])
    finally:
        opdb.plugins.executorch.unregister()


def mask_of_infinities() -> str:
    """The result of exporting an attention whose mask was calibrated with infinities."""
    torch.manual_seed(4)
    rows = torch.randn(1, 2, 6, 8)
    mask = torch.full((6, 6), float("-inf")).triu(1)
    module = Calls(lambda x, m: f.scaled_dot_product_attention(x, x, x, attn_mask=m))
    opdb.plugins.executorch.register(execution="emulator")
    try:
        flow.compile_module(
            quantize.quantize(module.eval(), (rows, mask), SOC, "8a8w"), (rows, mask), SOC, PRECISION
        )
    except OpdbError as e:
        return str(e)
    finally:
        opdb.plugins.executorch.unregister()
    return ""


def calls_of_a_cache(soc: str, recipe: str) -> list[float]:
    """The largest errors of three calls, each of which writes another row of the buffer."""
    torch.manual_seed(5)
    inputs = (torch.tensor([2]), torch.randn(1, 1, 12, 64).clamp(-1, 1))
    opdb.plugins.executorch.register(execution="emulator")
    try:
        module = quantize.quantize(Cache().eval(), inputs, soc, recipe)
        pte = flow.compile_module(module, inputs, soc, PRECISION).pte
        program = flow.load(pte)
        cache, errors = Cache(), []
        for place in (2, 7, 300):
            given = (torch.tensor([place]), inputs[1] * (1 - place / 1000))
            (got,) = program.run_method("forward", given)
            errors.append(float((got - cache(*given)).abs().max()))
        return errors
    finally:
        opdb.plugins.executorch.unregister()


def buffers_after_calibration() -> tuple[list[float], list[float]]:
    """A buffer incremented by 1 per call, after five calibration calls: the module's and the quantized program's."""

    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.register_buffer("calls", torch.full((1, 4), 7.0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls.add_(x)
            result: torch.Tensor = self.linear(self.calls)
            return result

    module, x = Counts().eval(), torch.ones(1, 4)
    made = quantize.quantize(module, (x,), SOC, "8a8w", [(x,)] * 5)
    own, held = module.get_buffer("calls"), dict(made.named_buffers())["calls"]
    return own.flatten().tolist(), held.flatten().tolist()


def on_v68() -> dict[str, Any]:
    """Nodes that v68 computes in floats between conversions, though it finalizes few such chains."""
    torch.manual_seed(6)
    positive, image = torch.rand(2, 5, 1, 3) + 0.1, torch.randn(1, 2, 3, 4)
    put = (torch.rand(5, 2), torch.tensor([0, 2, 2]), torch.rand(3, 2) * 10)
    grid = torch.randn(1, 3, 4, 2).clamp(-0.9, 0.9)
    asked: dict[str, tuple[Any, tuple[torch.Tensor, ...], str]] = {
        "log1p": (Calls(torch.log1p), (positive,), "16a8w"),
        "index_put that adds": (
            Calls(lambda x, i, y: x.index_put((i,), y, accumulate=True)),
            put,
            "8a8w",
        ),
        "index_copy of rows of 65536": (
            Calls(lambda x, i, y: x.index_copy(2, i, y)),
            (torch.randn(1, 1024, 12, 64), torch.tensor([2, 5]), torch.randn(1, 1024, 2, 64)),
            "8a8w",
        ),
        **{
            f"grid_sample {mode}": (sampled(mode, "zeros", False), (image, grid), "8a8w")
            for mode in ("bilinear", "nearest")
        },
    }
    opdb.plugins.executorch.register(execution="emulator")
    try:
        return {n: _outcome(m.eval(), inputs, r, "SM8350") for n, (m, inputs, r) in asked.items()}
    finally:
        opdb.plugins.executorch.unregister()


def view_on_the_cpu() -> Any:
    """A product of five dimensions in 16 bits on v68, which leaves a view of one operand to the CPU."""
    torch.manual_seed(8)
    inputs = (torch.randn(2, 2, 3, 4, 5), torch.randn(2, 2, 3, 5, 6))
    opdb.plugins.executorch.register(execution="emulator")
    try:
        return _outcome(Calls(lambda x, y: x.relu() @ y.relu()), inputs, "16a8w", "SM8350")
    finally:
        opdb.plugins.executorch.unregister()


def linear_in_blocks() -> float:
    """The largest error, in 16-bit steps, of a linear layer whose weight has a scale for every 16 input channels."""
    torch.manual_seed(7)
    module, inputs = nn.Linear(64, 32).eval(), (torch.randn(1, 6, 64),)
    opdb.plugins.executorch.register(execution="emulator")
    stock = blocks.sizes
    blocks.sizes = lambda graph: {
        n.name: (1, 16) for n in graph.graph.nodes if n.target is torch.ops.aten.linear.default
    }
    try:
        found = _outcome(module, inputs, "16a4w_block", SOC)
        assert not found.left, found.left
        return float(found.steps)
    finally:
        blocks.sizes = stock
        opdb.plugins.executorch.unregister()


def outcomes() -> dict[str, Any]:
    opdb.plugins.executorch.register(execution="emulator")
    try:
        asked = {name: (*case, "8a8w") for name, case in (cases() | hard_cases()).items()} | by_recipe()
        return {
            name: _outcome(module.eval(), inputs, recipe) for name, (module, inputs, recipe) in asked.items()
        }
    finally:
        opdb.plugins.executorch.unregister()


def _outcome(module: Any, inputs: tuple[torch.Tensor, ...], recipe: str, soc: str = SOC) -> Any:
    """``steps``: the largest error in steps of the output's scale; ``left``: nodes on the CPU, with reasons."""
    quantized = quantize.quantize(module, inputs, soc, recipe)
    compiled = flow.compile_module(quantized, inputs, soc, PRECISION)
    left = {n: "; ".join(r.message for r in compiled.reasons.get(n, ())) for n in compiled.not_delegated}
    last = next(n for n in quantized.graph.nodes if n.op == "output").args[0]
    scale = (last[0] if isinstance(last, (list, tuple)) else last).args[1]
    (got,), wanted = flow.run_pte(compiled.pte, inputs), quantized(*inputs)
    return SimpleNamespace(steps=float((got - wanted).abs().max()) / scale, left=left)
