"""One real module for each way in which a mapped ATen target is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

aten = torch.ops.aten
Call = Callable[..., Any]


class Function(nn.Module):
    def __init__(self, call: Call) -> None:
        super().__init__()
        self.call = call

    def forward(self, *args: Any) -> Any:
        return self.call(*args)


@dataclass(frozen=True)
class Case:
    """``shapes``: of the inputs; tensors are used as they are.  ``backends``: those that accept the whole module.

    ``off``: allowed error on a backend's library, relative to 1 and the value, if it exceeds BOUNDS.
    ``apart``: allowed mathematical difference of the ops from PyTorch, without rounding.
    """

    id: str
    module: Callable[[], nn.Module]
    shapes: tuple[Any, ...]
    backends: tuple[str, ...] = ("CPU", "HTP")
    off: Mapping[str, float] = field(default_factory=dict)
    apart: float = 1e-5

    def inputs(self) -> tuple[Tensor, ...]:
        generator = torch.Generator().manual_seed(len(self.id))
        return tuple(s if isinstance(s, Tensor) else torch.randn(s, generator=generator) for s in self.shapes)

    def build(self) -> nn.Module:
        torch.manual_seed(7)
        made: nn.Module = self.module()
        for name, p in made.named_parameters():
            nn.init.uniform_(p, 0.5, 1.5) if "norm" in name or p.ndim == 1 else nn.init.normal_(p, std=0.2)
        return made.eval()


def f(call: Call) -> Callable[[], nn.Module]:
    return lambda: Function(call)


X, IMAGE = (2, 3, 4), (2, 4, 9, 7)
TRUTH = (torch.tensor([[True, False], [True, True]]), torch.tensor([[False, False], [True, True]]))
POSITIVE = (torch.rand(X) + 0.5, torch.randn(X))
INTS = (torch.tensor([[7, -7, 3]]), torch.tensor([[2, 2, -2]]))
SIGNS = torch.tensor([[-2.0, 0.0, 3.5, -0.25]])
HALVES = torch.tensor([[-2.5, -1.5, -0.5, 0.5], [1.5, 2.5, 2.4, -2.6]])
ODD = torch.tensor([[1.0, torch.inf], [torch.nan, -torch.inf]]).half()
PICKS = torch.tensor([[0, 3], [2, 2], [1, 0]])
CHOICE = torch.tensor([[True], [False], [True]])
#: Allowed error of the libraries' results, relative to 1 and the value: HTP computes in half precision.
BOUNDS = {"CPU": 1e-5, "HTP": 5e-3}


class Shared(nn.Module):
    """Two convolutions with a residual: layouts meet, and one tensor is read in two layouts."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(4, 4, 3, padding=1)
        self.second = nn.Conv2d(4, 6, 3, padding=(0, 1), stride=(2, 1), bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.first(x)
        return self.second(y), torch.relu(y) + x


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = torch.split(self.qkv(self.norm(x)), 16, dim=-1)
        heads = [t.reshape(5, 4, 4).transpose(0, 1) for t in (q, k, v)]
        weights = torch.softmax(heads[0] @ heads[1].transpose(-2, -1) * 0.5, -1)
        return x + self.out((weights @ heads[2]).transpose(0, 1).reshape(5, 16))


NORM = (2, 4, 8, 6)
CASES = (
    Case(
        "demo",
        lambda: nn.Sequential(nn.LayerNorm([768], eps=1e-6), nn.Linear(768, 100)),
        ((200, 768),),
        off={"CPU": 1e-4, "HTP": 2e-2},  # a sum of 768 products
    ),
    Case("attention", Attention, ((5, 16),)),
    Case("convolutions", Shared, (IMAGE,)),
    # LayerNorm
    Case("layer_norm_two_axes", lambda: nn.LayerNorm((8, 6)), (NORM,)),
    Case("layer_norm_plain", lambda: nn.LayerNorm(6, elementwise_affine=False, eps=0.1), (NORM,)),
    Case("layer_norm_plain_two_axes", lambda: nn.LayerNorm((8, 6), elementwise_affine=False), (NORM,)),
    Case("layer_norm_no_bias", lambda: nn.LayerNorm(6, bias=False), (NORM,)),
    Case(
        "native_layer_norm",
        f(lambda x, g: aten.native_layer_norm.default(x, [4], g, None, 1e-3)[0]),
        (X, (4,)),
    ),
    Case(
        "native_layer_norm_two",
        f(lambda x, g, b: aten.native_layer_norm.default(x, [3, 4], g, b, 1e-3)[0]),
        (X, (3, 4), (3, 4)),
    ),
    # FullyConnected, MatMul
    Case("linear_rank_3", lambda: nn.Linear(4, 5), (X,)),
    Case("linear_no_bias", lambda: nn.Linear(4, 5, bias=False), ((3, 4),)),
    Case("addmm", f(lambda b, x, w: aten.addmm.default(b, x, w)), ((5,), (3, 4), (4, 5))),
    Case("matmul", f(torch.matmul), ((2, 3, 4), (2, 4, 5))),
    Case("matmul_broadcast", f(torch.matmul), ((2, 3, 4), (4, 5))),
    Case("mm", f(torch.mm), ((3, 4), (4, 5))),
    Case("bmm", f(torch.bmm), ((2, 3, 4), (2, 4, 5))),
    # Conv2d
    Case(
        "conv2d_grouped", lambda: nn.Conv2d(4, 6, (3, 2), groups=2, dilation=(1, 2), padding=(2, 1)), (IMAGE,)
    ),
    Case("conv2d_depthwise", lambda: nn.Conv2d(4, 4, 3, groups=4, stride=(2, 3)), (IMAGE,)),
    Case(
        "convolution",
        f(lambda x, w: aten.convolution.default(x, w, None, [2], [1], [1], False, [0], 1)),
        (IMAGE, (6, 4, 3, 3)),
    ),
    Case("conv3d", lambda: nn.Conv3d(3, 4, (3, 2, 1), (1, 2, 1), padding=(1, 0, 0)), ((2, 3, 5, 6, 4),)),
    Case(
        "im2col",
        f(lambda x: nn.functional.unfold(x, (3, 2), dilation=(1, 2), padding=(2, 1), stride=(2, 1))),
        (IMAGE,),
    ),
    # RmsNorm
    Case("rms_norm", lambda: nn.RMSNorm(6, eps=1e-5), (NORM,), off={"CPU": 3e-5}),
    Case("rms_norm_plain", lambda: nn.RMSNorm(6, eps=1e-6, elementwise_affine=False), (NORM,)),
    Case("rms_norm_two_axes", lambda: nn.RMSNorm((8, 6), eps=1e-6), (NORM,)),
    Case("rms_norm_big_epsilon", lambda: nn.RMSNorm(6, eps=0.1), (NORM,)),
    # Softmax
    Case("softmax", lambda: nn.Softmax(-1), (X,)),
    Case("softmax_inner", lambda: nn.Softmax(1), (NORM,)),
    Case("_softmax", f(lambda x: aten._softmax.default(x, 2, False)), (X,)),
    Case("_softmax_inner", f(lambda x: aten._softmax.default(x, -2, False)), (X,)),
    Case("log_softmax", lambda: nn.LogSoftmax(-1), (NORM,)),
    Case("_log_softmax", f(lambda x: aten._log_softmax.default(x, -1, False)), (X,)),
    # Concat, Split, Pack, UnPack
    Case("cat", f(lambda a, b, c: torch.cat([a, b, c], -2)), ((2, 1, 3), (2, 4, 3), (2, 2, 3))),
    Case("split", f(lambda x: torch.split(x, 2, dim=-1)), ((3, 7),)),
    Case("split_one_read", f(lambda x: torch.split(x, 3, dim=0)[1] * 2.0), ((7, 3),)),
    Case("split_with_sizes", f(lambda x: torch.split(x, [1, 2, 4], dim=-1)), ((3, 7),)),
    Case("split_with_sizes_copy", f(lambda x: aten.split_with_sizes_copy.default(x, [3, 4], 1)), ((3, 7),)),
    Case("stack", f(lambda a, b: torch.stack([a, b], -1)), (X, X)),
    Case("stack_first", f(lambda a, b, c: torch.stack([a, b, c])), ((3, 4), (3, 4), (3, 4))),
    Case("unbind", f(lambda x: torch.unbind(x, -2)), (X,)),
    Case("unbind_one_read", f(lambda x: torch.unbind(x, 0)[1] * 2.0), (X,)),
    # GatherElements, ScatterElements
    Case("gather", f(lambda x, i: torch.gather(x, 1, i)), ((3, 4), PICKS)),
    Case("gather_of_some_rows", f(lambda x, i: torch.gather(x, -1, i)), ((3, 4), PICKS[:2])),
    Case("scatter", f(lambda x, i, s: x.scatter(0, i, s)), ((3, 4), PICKS[:2].repeat(1, 2) % 3, (2, 4))),
    Case("scatter_columns", f(lambda x, i, s: x.scatter(-1, i, s)), ((3, 4), PICKS, (3, 2))),
    # CumulativeSum
    Case("cumsum", f(lambda x: torch.cumsum(x, -2)), (NORM,)),
    Case("cumsum_ints", f(lambda x: torch.cumsum(x, -1)), (INTS[0],)),
    # Reshape, Transpose, ExpandDims
    Case("view", f(lambda x: x.view(6, 4)), (X,)),
    Case("view_copy", f(lambda x: aten.view_copy.default(x, [4, 6])), (X,)),
    Case("reshape", f(lambda x: x.reshape(-1, 2)), (X,)),
    Case("_unsafe_view", f(lambda x: aten._unsafe_view.default(x, [24])), (X,)),
    Case("unsqueeze", f(lambda x: x.unsqueeze(1)), (X,)),
    Case("unsqueeze_ints", f(lambda x: x.unsqueeze(-1)), (INTS[0],)),
    Case("unsqueeze_copy", f(lambda x: aten.unsqueeze_copy.default(x, -1)), (X,)),
    Case("squeeze", f(lambda x: x.squeeze(1)), ((3, 1, 4),)),
    Case("squeeze_dims", f(lambda x: x.squeeze((0, 2))), ((1, 3, 1, 4),)),
    Case("squeeze_copy", f(lambda x: aten.squeeze_copy.dims(x, [1])), ((3, 1, 4),)),
    Case("flatten", lambda: nn.Flatten(), (NORM,)),
    Case("permute", f(lambda x: x.permute(-1, 0, 1)), (X,)),
    Case("permute_copy", f(lambda x: aten.permute_copy.default(x, [2, 0, 1])), (X,)),
    Case("transpose", f(lambda x: x.transpose(-1, 0)), (X,)),
    Case("transpose_copy", f(lambda x: aten.transpose_copy.int(x, 0, 1)), (X,)),
    Case("t", f(lambda x: x.t()), ((3, 4),)),
    # Reductions
    Case("amax", f(lambda x: torch.amax(x, (0, -1))), (NORM,)),
    Case("amax_all", f(lambda x: aten.amax.default(x)), (X,)),
    Case("amin", f(lambda x: torch.amin(x, 1, keepdim=True)), (NORM,)),
    Case("amin_all", f(lambda x: aten.amin.default(x, [], True)), (X,)),
    *(
        Case(f"{name}_all_of_five", f(getattr(aten, name).default), ((2, 2, 3, 4, 5),))
        for name in ("amax", "amin", "max", "min")
    ),
    Case("sum", f(lambda x: x.sum((0, -1))), (NORM,)),
    Case("sum_all", f(lambda x: aten.sum.dim_IntList(x, None)), (X,)),
    Case("prod", f(lambda x: x.prod(-2)), (NORM,), ("CPU",)),
    Case("prod_keepdim", f(lambda x: x.prod(1, keepdim=True)), (X,), ("CPU",)),
    Case("mean", f(lambda x: x.mean(-2)), (NORM,)),
    Case("mean_keepdim", f(lambda x: x.mean((1, -1), keepdim=True)), (NORM,)),
    Case("mean_all", f(lambda x: x.mean((0, 1, 2))), (X,)),
    Case("mean_no_axes", f(lambda x: aten.mean.dim(x, [])), (X,)),
    # ElementWise
    Case("relu", nn.ReLU, (X,)),
    Case("relu_in_place", lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True)), (X,)),
    Case("add", f(torch.add), (X, (4,))),
    Case("add_scalar", f(lambda x: x + 2.5), (X,)),
    Case("add_constant", f(lambda x: x + torch.tensor([1.0, 2.0, 3.0, 4.0])), (X,)),
    Case("sub_tensor", f(torch.sub), (X, (3, 1))),
    Case("mul", f(torch.mul), (X, X)),
    Case("div", f(torch.div), (X, X)),
    Case("div_floor", f(lambda a, b: torch.div(a, b, rounding_mode="floor")), (X, X)),
    Case("floor_divide", f(torch.floor_divide), (X, X)),
    Case("fmod", f(torch.fmod), (X, X), ("CPU",)),
    Case("remainder", f(torch.remainder), (X, X), ("CPU",)),
    Case("remainder_ints", f(torch.remainder), INTS),
    Case("maximum", f(torch.maximum), (X, X)),
    Case("minimum", f(torch.minimum), (X, X)),
    Case("pow", f(torch.pow), POSITIVE),
    Case("pow_zero", f(lambda x: x**0), (SIGNS,)),
    *(
        Case(name, f(getattr(torch, name)), (torch.tensor([1.0, 2.0, 3.0]), torch.tensor([3.0, 2.0, 1.0])))
        for name in ("eq", "ne", "lt", "le", "gt", "ge")
    ),
    *(Case(name, f(getattr(torch, name)), TRUTH) for name in ("logical_and", "logical_or", "logical_xor")),
    Case("logical_not", f(torch.logical_not), TRUTH[:1]),
    *(Case(name, f(getattr(torch, name)), (X,)) for name in ("abs", "atan", "ceil", "floor", "neg", "round")),
    *(Case(name, f(getattr(torch, name)), (X,)) for name in ("sin", "cos", "exp")),
    *(Case(name, f(getattr(torch, name)), POSITIVE[:1]) for name in ("log", "rsqrt", "sqrt")),
    Case("asin", f(torch.asin), (torch.linspace(-1, 1, 9),)),
    Case("round_halves", f(torch.round), (HALVES,)),
    Case("sign", f(torch.sign), (SIGNS,)),
    Case("isinf", f(torch.isinf), (ODD,), ("HTP",)),
    Case("isnan", f(torch.isnan), (ODD,), ("HTP",)),
    Case("isinf_single", f(torch.isinf), (ODD.float(),), ("CPU",)),
    Case("isnan_single", f(torch.isnan), (ODD.float(),), ("CPU",)),
    Case("where", f(torch.where), (CHOICE, X, (4,))),
    # ElementWiseNeuron
    Case("gelu", nn.GELU, (X,), off={"CPU": 1e-3}),
    Case("hardsigmoid", nn.Hardsigmoid, ((9, 9),)),
    Case("hardswish", nn.Hardswish, ((9, 9),)),
    Case("sigmoid", nn.Sigmoid, (X,)),
    Case("tanh", nn.Tanh, (X,)),
    Case("elu", lambda: nn.ELU(alpha=0.7), (X,)),
    Case("softplus", lambda: nn.Softplus(beta=2.0, threshold=1.5), (X,)),
    Case("hardtanh", lambda: nn.Hardtanh(-0.3, 0.8), (X,)),
    Case("relu6", nn.ReLU6, ((9, 9),)),
    Case("relu6_target", f(aten.relu6.default), ((9, 9),)),
    Case("clamp", f(lambda x: x.clamp(-0.4, 0.9)), (X,)),
)
