"""Quantized 1-D convolutions with per-channel scales: results on the emulator against PyTorch's quantized module."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # defines torch.ops.quantized_decomposed
from torch import Tensor, nn

from opdb.catalog.targets.target import Target
from opdb.execute.compile.model import lowered
from opdb.execute.libraries.client import VendorWorker
from opdb.programs.torch.export import export
from opdb.runtime.qnn.real_numbers import to_real, to_stored

pytestmark = [pytest.mark.torch, pytest.mark.vendor]
PT2E = torch.ops.quantized_decomposed
#: Width -> the scales of x and y, their zero, and the stored type.
WIDTHS: dict[int, Any] = {
    8: (0.01, 0.02, 120, (0, 255, torch.uint8)),
    16: (3e-5, 8e-5, 32000, (0, 65535, torch.uint16)),
}
SOCS = ("SM8650", "QCM6490")
#: Name -> (channels, filters, kernel), transposed, and the options of the operator.
CASES: dict[str, tuple[tuple[int, int, int], bool, dict[str, Any]]] = {
    "plain": ((4, 8, 3), False, {}),
    "one filter": ((4, 1, 3), False, {}),
    "padding": ((4, 8, 3), False, {"padding": 1}),
    "stride and dilation": ((4, 8, 3), False, {"stride": 2, "padding": 2, "dilation": 2}),
    "groups": ((4, 8, 3), False, {"groups": 2, "padding": 1}),
    "depthwise": ((6, 6, 3), False, {"groups": 6, "padding": 1}),
    "depthwise, stride and dilation": (
        (6, 6, 5),
        False,
        {"groups": 6, "stride": 2, "padding": 4, "dilation": 2},
    ),
    "depthwise, two filters each": ((6, 12, 3), False, {"groups": 6, "padding": 1}),
    "same": ((4, 8, 3), False, {"padding": "same"}),
    "transposed": ((4, 8, 4), True, {"stride": 2, "padding": 1}),
    "transposed, longer": ((4, 8, 3), True, {"stride": 2, "output_padding": 1}),
    "transposed, one filter": ((4, 1, 4), True, {"stride": 2}),
    "transposed, groups": ((4, 3, 4), True, {"stride": 2, "groups": 2}),
    "transposed, dilation": ((4, 8, 3), True, {"dilation": 2}),
}


class Line(nn.Module):
    """x and y have one scale, the weight a scale per filter, the bias floats."""

    def __init__(self, name: str, width: int, bias: bool) -> None:
        super().__init__()
        (channels, filters, kernel), self.transposed, self.options = CASES[name]
        self.x_scale, self.y_scale, self.zero, self.kind = WIDTHS[width]
        per_group = channels // self.options.get("groups", 1)
        shape = (channels, filters, kernel) if self.transposed else (filters, per_group, kernel)
        generator = torch.Generator().manual_seed(kernel)
        stored = torch.randint(-127, 128, shape, generator=generator).to(torch.int8)
        self.axis = 1 if self.transposed else 0
        self.register_buffer("stored", stored)
        self.register_buffer("scales", torch.linspace(0.006, 0.002, filters))
        self.register_buffer("zeros", torch.zeros(filters, dtype=torch.int64))
        outputs = filters * self.options.get("groups", 1) if self.transposed else filters
        self.bias = nn.Parameter(torch.linspace(-0.5, 0.5, outputs)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        weight = PT2E.dequantize_per_channel.default(
            self.stored, self.scales, self.zeros, self.axis, -127, 127, torch.int8
        )
        call = nn.functional.conv_transpose1d if self.transposed else nn.functional.conv1d
        return self.seen(call(self.seen(x, self.x_scale), weight, self.bias, **self.options), self.y_scale)

    def seen(self, x: Tensor, scale: float) -> Tensor:
        q = PT2E.quantize_per_tensor.default(x, scale, self.zero, *self.kind)
        result: Tensor = PT2E.dequantize_per_tensor.default(q, scale, self.zero, *self.kind)
        return result


@pytest.fixture(scope="module", params=SOCS)
def worker(request: pytest.FixtureRequest) -> Any:
    with VendorWorker("HTP", request.param) as made:
        yield Target("HTP", request.param, execution="emulator"), made


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", CASES)
def test_values_match_the_quantized_module(
    worker: Any, name: str, width: int, batch: int, bias: bool
) -> None:
    """Results are within one step of y (the library sums integers, PyTorch floats), and no node computes in floats.

    Sums of 16 bits are less exact on v68, also for images: up to 19 of 65,536 steps.
    """
    target, vendor = worker
    module = Line(name, width, bias)
    x = torch.rand(batch, CASES[name][0][0], 20, generator=torch.Generator().manual_seed(batch)) * 2 - 1
    coverage, graph = lowered(export(module, (x,)), target, "line")
    assert graph is not None, [r.reasons for r in coverage.rows if r.verdict != "supported"]
    assert {t.dtype for t in graph.tensors.values() if t.type in ("NATIVE", "STATIC")} <= {
        "uq8", "uq16", "sq8", "sq32", "i32",
    }, [r.said for r in coverage.rows]  # fmt: skip
    result = vendor.run(graph, {graph.inputs[0].name: to_stored(graph.inputs[0], x.numpy())})
    assert result.stage == "done", (result.node, result.log[-5:])
    want = module(x).detach().numpy()
    got = to_real(graph.outputs[0], result.outputs[graph.outputs[0].name]).reshape(want.shape)
    assert np.ptp(want) > 40 * module.y_scale
    steps = 19.1 if width == 16 and target.soc == "QCM6490" else 1.01
    np.testing.assert_allclose(got, want, atol=steps * module.y_scale)
