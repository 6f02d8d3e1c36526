"""Calls of ATen that become one out variant of a kernel library, with the spec's tolerance against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

aten = torch.ops.aten
Call = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """``ulp`` of float32 results, or ``absolute`` near zero; both 0: exact."""

    op: str  # the out variant
    call: Call
    inputs: tuple[torch.Tensor, ...]
    ulp: float = 0
    absolute: float = 0
    keep: Any = None  # the operator that PyTorch would decompose


def _values(*shape: int, low: float = -3, high: float = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(len(shape) * 100 + sum(shape))
    return torch.rand(shape, generator=generator) * (high - low) + low


X, Y, POSITIVE = _values(2, 3, 5), _values(2, 3, 5, low=-2, high=4), _values(2, 3, 5, low=0.1, high=9)
ROW, IMAGE = _values(7), _values(1, 2, 4, 4)
WHOLE = torch.tensor([[3, -2, 7], [0, 5, -9]])
INDEX = torch.tensor([[[1, 0, 1, 0, 1]], [[0, 1, 2, 1, 0]]])

#: Operators that ExecuTorch 1.4.1's runtime has no kernel for.
LACKING = [
    Case("aten::clamp_max.out", lambda x: aten.clamp_max(x, 0.75), (X,), keep=aten.clamp_max.default),
    Case("aten::clamp_max.Tensor_out", aten.clamp_max.Tensor, (X, Y), keep=aten.clamp_max.Tensor),
    Case("aten::clamp_min.out", lambda x: aten.clamp_min(x, -0.5), (X,), keep=aten.clamp_min.default),
    Case("aten::clamp_min.Tensor_out", aten.clamp_min.Tensor, (X, Y), keep=aten.clamp_min.Tensor),
    Case("aten::hardsigmoid.out", aten.hardsigmoid, (X,), 16, 1e-6, aten.hardsigmoid.default),
    Case("aten::hardswish.out", aten.hardswish, (X,), 16, 1e-6, aten.hardswish.default),
    Case("aten::matmul.out", aten.matmul, (_values(2, 4, 3), _values(3, 5)), 16, 1e-5, aten.matmul.default),
    Case("aten::round.decimals_out", lambda x: aten.round.decimals(x, decimals=0), (X,), keep=aten.round.decimals),
    Case("aten::softplus.out", aten.softplus, (X,), 16, 1e-6, aten.softplus.default),
    Case("aten::rsub.Tensor_out", aten.rsub.Tensor, (X, Y), keep=aten.rsub.Tensor),
    Case("aten::softmax.int_out", lambda x: aten.softmax.int(x, 1), (X,), 16, 1e-7, aten.softmax.int),
    Case("aten::square.out", aten.square, (X,), keep=aten.square.default),
    Case("aten::sum.out", aten.sum.default, (X,), 16, 1e-5, aten.sum.default),
]  # fmt: skip

#: Operators whose kernel is replaced for the data types and dim orders of these calls.
REPLACED = [
    Case("aten::_softmax.out", lambda x: aten._softmax(x, -1, False), (X,), 16, 1e-7),
    Case("aten::abs.out", aten.abs, (X,)),
    Case("aten::add.out", aten.add.Tensor, (X, Y)),
    Case("aten::add.Scalar_out", lambda x: aten.add.Scalar(x, 1.5), (IMAGE,)),
    Case("aten::amax.out", lambda x: aten.amax(x, [1]), (X,)),
    Case("aten::argmax.out", lambda x: aten.argmax(x, 1, True), (X,)),
    Case("aten::bmm.out", aten.bmm, (_values(2, 3, 4), _values(2, 4, 5)), 16, 1e-5),
    Case("aten::elu.out", aten.elu, (X,), 16, 1e-6),
    Case("aten::eq.Tensor_out", aten.eq.Tensor, (X, X.round())),
    Case("aten::exp.out", aten.exp, (X,), 4, 1e-6),
    Case("aten::floor.out", aten.floor, (X,)),
    Case("aten::gelu.out", aten.gelu, (ROW,), 16, 1e-6),
    Case("aten::index_select.out", lambda x, i: aten.index_select(x, 1, i), (X, torch.tensor([2, 0]))),
    Case("aten::leaky_relu.out", lambda x: aten.leaky_relu(x, 0.1), (X,), 1),
    Case("aten::log.out", aten.log, (POSITIVE,), 4, 1e-6),
    Case("aten::logical_not.out", aten.logical_not, (X > 0,)),
    Case("aten::maximum.out", aten.maximum, (X, Y)),
    Case("aten::mean.out", lambda x: aten.mean.dim(x, [0, 2], True), (X,), 16, 1e-6),
    Case("aten::mul.out", aten.mul.Tensor, (WHOLE, WHOLE)),
    Case("aten::permute_copy.out", lambda x: aten.permute_copy(x, [2, 0, 1]), (X,)),
    Case("aten::relu.out", aten.relu, (X,)),
    Case("aten::rsqrt.out", aten.rsqrt, (POSITIVE,), 4, 1e-6),
    Case("aten::sigmoid.out", aten.sigmoid, (X,), 4, 1e-6),
    Case("aten::sub.out", aten.sub.Tensor, (X, _values(3, 1))),
    Case("aten::sum.IntList_out", lambda x: aten.sum.dim_IntList(x, [1]), (X,), 16, 1e-5),
    Case("aten::tanh.out", aten.tanh, (X,), 4, 1e-6),
]

#: Not supported by QNN (64-bit indices): the runtime's original kernel runs.
LEFT = [Case("aten::gather.out", lambda x, i: aten.gather(x, 1, i), (X, INDEX))]
