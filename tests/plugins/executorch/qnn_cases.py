"""Operators of opdb.programs.torch_ops in ExecuTorch's flow on SM8650's emulation, against PyTorch's own operators."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from plugged_cases import Calls
from torch import nn
from torch.nn import functional as f

import opdb.plugins.executorch
from opdb.plugins.executorch import flow

SOC = "SM8650"
qnn = torch.ops.qnn


class Gru(nn.Module):
    """torch.nn.GRU's parameters in QNN's format: one tensor for each gate."""

    def __init__(self) -> None:
        super().__init__()
        self.torch = nn.GRU(6, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        own = self.torch
        # torch: reset, update, new; QNN: update (z), reset (r), new (n)
        (xr, xz, xn), (hr, hz, hn) = own.weight_ih_l0.chunk(3), own.weight_hh_l0.chunk(3)
        (br, bz, bn), (cr, cz, cn) = own.bias_ih_l0.chunk(3), own.bias_hh_l0.chunk(3)
        state = torch.zeros(1, x.shape[1], 8)
        return qnn.Gru(x, xz, xr, xn, hz, hr, hn, bz, br, bn, cz, cr, cn, state, linear_before_reset=1)  # type: ignore[no-any-return]

    def wanted(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.torch(x)  # type: ignore[no-any-return]


class Lstm(nn.Module):
    """HTP 2.47 finalizes it only with states and a projection: here an identity projection."""

    def __init__(self) -> None:
        super().__init__()
        self.torch = nn.LSTMCell(6, 8)
        self.register_buffer("same", torch.eye(8))
        self.register_buffer("none", torch.zeros(8))

    def forward(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        own = self.torch
        (xi, xf, xc, xo), (hi, hf, hc, ho) = own.weight_ih.chunk(4), own.weight_hh.chunk(4)
        bi, bf, bc, bo = (own.bias_ih + own.bias_hh).chunk(4)
        out = qnn.Lstm(
            x,
            xf,
            xc,
            xo,
            hf,
            hc,
            ho,
            bf,
            bc,
            bo,
            h,
            c,
            w_xi=xi,
            w_hi=hi,
            b_i=bi,
            w_proj=self.same,
            b_proj=self.none,
        )
        return out[2], out[1]

    def wanted(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.torch(x, (h, c))  # type: ignore[no-any-return]


def shuffles(x: torch.Tensor, y: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """x: [1, 6, 4, 3], NHWC; y: [4, 3, 5, 1]; i: i32[3, 1]."""
    return (
        qnn.SpaceToBatch(x, block_size=[2, 2], pad_amount=[0, 0, 0, 0]),
        qnn.BatchToSpace(y, block_size=[2, 2], crops=[0, 0, 0, 0]),
        qnn.GatherNd(x[0, :, :, 0], i),
        qnn.OneHot(i[:, 0], depth=6, axis=1),  # HTP 2.47 does not finalize it without axis
        qnn.ExtractPatches(x, size=[2, 2], stride=[1, 1], rate=[1, 1], padding="VALID"),
    )


def shuffled(x: torch.Tensor, y: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (
        x.reshape(1, 3, 2, 2, 2, 3).permute(2, 4, 0, 1, 3, 5).reshape(4, 3, 2, 3),
        y.reshape(2, 2, 1, 3, 5, 1).permute(2, 3, 0, 4, 1, 5).reshape(1, 6, 10, 1),
        x[0, :, :, 0][i[:, 0]],
        f.one_hot(i[:, 0].long(), 6).float(),
        f.unfold(x.permute(0, 3, 1, 2), 2).reshape(1, 3, 4, 5, 3).permute(0, 3, 4, 2, 1).reshape(1, 5, 3, 12),
    )


def arithmetic(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """x, y: [1, 6, 4, 3]; w: [2, 2, 1, 3]."""
    return (
        qnn.L2Norm(x, axis=3),
        qnn.ElementWiseSquaredDifference(x, y),
        qnn.Relu1(x),
        qnn.Lrn(x, radius=1, alpha=0.5, beta=0.75, bias=1.0),
        qnn.DepthWiseConv2d(x, w, stride=[1, 1], pad_amount=[0, 0, 0, 0]),
        qnn.Batchnorm(x, w[0, 0, 0], w[1, 0, 0]),
    )


def computed(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    channels = x.permute(0, 3, 1, 2)
    return (
        f.normalize(x, dim=3),
        (x - y) ** 2,
        x.clamp(-1, 1),
        f.local_response_norm(channels, 3, alpha=1.5, beta=0.75, k=1.0).permute(0, 2, 3, 1),
        f.conv2d(channels, w.permute(3, 2, 0, 1), groups=3).permute(0, 2, 3, 1),
        x * w[0, 0, 0] + w[1, 0, 0],
    )


class Weighted(Calls):
    """The last operand is a parameter."""

    def __init__(self, function: Any, weight: torch.Tensor) -> None:
        super().__init__(function)
        self.weight = nn.Parameter(weight)

    def forward(self, *given: torch.Tensor) -> Any:
        return self.function(*given, self.weight)


def cases() -> dict[str, tuple[nn.Module, Any, tuple[torch.Tensor, ...]]]:
    """name -> module, the equivalent in PyTorch, inputs."""
    torch.manual_seed(0)
    x, y, weight = torch.randn(1, 6, 4, 3), torch.randn(1, 6, 4, 3), torch.randn(2, 2, 1, 3)
    gru, lstm = Gru(), Lstm()
    moved = (x, torch.randn(4, 3, 5, 1), torch.tensor([[1], [5], [0]], dtype=torch.int32))
    return {
        "shuffles": (Calls(shuffles), shuffled, moved),
        "arithmetic": (Weighted(arithmetic, weight), lambda *a: computed(*a, weight), (x, y)),
        "Gru": (gru, gru.wanted, (torch.randn(1, 2, 6),)),
        "Lstm": (lstm, lstm.wanted, (torch.randn(2, 6), torch.randn(2, 8), torch.randn(2, 8))),
    }


def outcomes() -> dict[str, Any]:
    """``errors``: of each result relative to its largest value; ``left``: nodes on the CPU, with reasons."""
    opdb.plugins.executorch.register(execution="emulator")
    try:
        return {
            name: _outcome(module.eval(), wanted, inputs)
            for name, (module, wanted, inputs) in cases().items()
        }
    finally:
        opdb.plugins.executorch.unregister()


def _outcome(module: nn.Module, wanted: Any, inputs: tuple[torch.Tensor, ...]) -> Any:
    compiled = flow.compile_module(module, inputs, SOC)
    left = {n: "; ".join(r.message for r in compiled.reasons.get(n, ())) for n in compiled.not_delegated}
    with torch.no_grad():
        pairs = list(zip(flow.run_pte(compiled.pte, inputs), wanted(*inputs), strict=True))
    errors = [float((a - b).abs().max() / b.abs().max()) if a.shape == b.shape else 9.0 for a, b in pairs]
    return SimpleNamespace(errors=errors, left=left, forms=sorted(set(compiled.forms.values())))
