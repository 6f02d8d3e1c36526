"""HTP-0483: Conv3d with a stride along the depth and a result of depth one, in floats on HTP's library against PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch


@pytest.mark.vendor
@pytest.mark.parametrize(
    ("depth", "taps", "step", "padding", "sliced"),
    [(3, 2, 2, 0, True), (6, 5, 2, 0, True), (4, 4, 4, 0, False), (2, 3, 2, 1, False), (2, 1, 3, 0, True)],
)
def test_a_convolution_of_depth_one_reads_only_its_slice(
    depth: int, taps: int, step: int, padding: int, sliced: bool, htp: Any
) -> None:
    torch.manual_seed(0)
    weight = torch.randn(3, 2, taps, 3, 3) / 4

    def made(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.conv3d(x, weight, stride=(step, 1, 1), padding=(padding, 0, 0))

    x = torch.randn(1, 2, depth, 6, 5)
    ran = htp.run(made, (x,))
    assert made(x).shape[2] == 1 and ran.error < 4e-3
    assert ("StridedSlice" in [op.op for op in ran.graph.ops]) == sliced
