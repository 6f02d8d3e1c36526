"""Modules quantized by PT2E, through OpdbPartitioner: one delegate, with the numbers of PyTorch's quantized module."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)
from executorch.exir import to_edge_transform_and_lower
from torch import nn
from torch.nn import functional
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from opdb.plugins.executorch.delegate.partitioner import BACKEND, OpdbPartitioner
from opdb.plugins.executorch.delegate.run import Runner
from opdb.plugins.executorch.delegate.specs import KERNELS, Options

from .modules import calls

pytestmark = [pytest.mark.vendor, pytest.mark.slow, pytest.mark.executorch]
IMAGE = torch.arange(768.0).reshape(1, 3, 16, 16).sin()
PLACES = (Options(KERNELS), Options("CPU"), Options("HTP", soc="SM8650"))


class Image(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.deep = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.out = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.conv(x))
        z = functional.hardtanh(self.deep(y), 0, 6) + y
        return self.out(functional.adaptive_avg_pool2d(z, 1).flatten(1))


@pytest.fixture(scope="module")
def quantized() -> Any:
    quantizer = XNNPACKQuantizer()
    quantizer.set_global(get_symmetric_quantization_config(is_per_channel=True))
    prepared = prepare_pt2e(torch.export.export(Image().eval(), (IMAGE,), strict=True).module(), quantizer)
    for scale in (1.0, 0.5, -1.0):
        prepared(IMAGE * scale)
    return convert_pt2e(prepared)


@pytest.mark.parametrize("options", PLACES, ids=lambda o: o.backend)
def test_one_delegate_matches_the_quantized_module(quantized: Any, options: Options) -> None:
    partitioner = OpdbPartitioner(options)
    exported = torch.export.export(quantized, (IMAGE,))
    made = to_edge_transform_and_lower(exported, partitioner=[partitioner])
    assert calls(made) == [BACKEND] and not partitioner.reasons
    with Runner(made) as runner:
        (got,) = runner.execute("forward", IMAGE)
    want = exported.module()(IMAGE)
    step = 1.01 * float((want.max() - want.min()) / 20)  # at least a step of the last encoding
    torch.testing.assert_close(got, want, rtol=0, atol=step)
    assert float((got - want).abs().mean()) < step / 4
