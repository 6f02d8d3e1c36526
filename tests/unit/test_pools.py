"""Mean pools that HTP computes wrongly in their plain form: high and narrow results by single steps; on its library."""

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
