"""Pools on which HTP gives wrong results or crashes in their plain form: tall and narrow means, maxima one wide, or of
negative numbers among zeros; on its library.
"""

from __future__ import annotations

import pytest
import torch
from htp_module import Htp
from torch.nn import functional as f

pytestmark = pytest.mark.vendor
#: name -> window, steps, padding, the shape of the input, the op that it becomes
CASES = {
    "narrow": ((3, 1), 1, 0, (1, 3, 16, 8), "DepthWiseConv2d"),
    "narrow, of one channel": (3, 1, 0, (2, 1, 20, 9), "DepthWiseConv2d"),
    "narrow, of many channels": (2, 1, 0, (1, 32, 33, 5), "DepthWiseConv2d"),
    "wide": ((3, 1), 1, 0, (1, 3, 16, 9), "PoolAvg2d"),
    "low": ((3, 1), 1, 0, (1, 3, 14, 8), "PoolAvg2d"),
    "by steps of 2": (2, 2, 0, (1, 3, 33, 8), "PoolAvg2d"),
    "among zeros": (3, 1, 1, (1, 3, 16, 8), "MatMul"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_mean_pool_is_right(name: str, htp: Htp) -> None:
    window, steps, padding, shape, op = CASES[name]
    torch.manual_seed(0)
    ran = htp.run(lambda x: f.avg_pool2d(x, window, steps, padding), (torch.randn(shape),))
    assert op in [o.op for o in ran.graph.ops]
    assert ran.error <= 1e-3


@pytest.mark.parametrize(
    ("window", "shape", "ops"),
    [
        ((3, 1), (1, 4, 9, 9), ["StridedSlice", "PoolMax2d"]),
        ((2, 1), (2, 17, 8, 12), ["StridedSlice", "PoolMax2d"]),
        ((1, 3), (1, 4, 9, 9), ["PoolMax2d"]),
    ],
)
def test_a_max_pool_one_wide_with_stride_2_runs(
    window: tuple[int, int], shape: tuple[int, ...], ops: list[str], htp: Htp
) -> None:
    torch.manual_seed(0)
    ran = htp.run(lambda x: f.max_pool2d(x, window, 2), (torch.randn(shape),))
    assert [o.op for o in ran.graph.ops if o.op != "Transpose"] == ops
    assert ran.error <= 1e-3


@pytest.mark.parametrize(
    ("window", "steps", "zeros"),
    [(3, 1, 1), (3, 2, 1), (2, 1, 1), ((2, 3), 1, (1, 0)), ((3, 5), (2, 1), (0, 2))],
)
def test_a_padded_max_pool_of_negatives_is_right_on_v68(
    window: int | tuple[int, int], steps: int | tuple[int, int], zeros: int | tuple[int, int], v68: Htp
) -> None:
    torch.manual_seed(0)
    ran = v68.run(lambda x: f.max_pool2d(x, window, steps, zeros), (torch.randn(2, 3, 9, 9) - 4,))
    assert [o.op for o in ran.graph.ops if o.op != "Transpose"] == ["Pad", "PoolMax2d"]
    assert ran.error <= 1e-6


def test_an_unpadded_max_pool_is_unchanged_on_v68(v68: Htp) -> None:
    ran = v68.run(lambda x: f.max_pool2d(x, 2), (torch.randn(2, 3, 8, 8) - 4,))
    assert [o.op for o in ran.graph.ops if o.op != "Transpose"] == ["PoolMax2d"]
    assert ran.error <= 1e-6
