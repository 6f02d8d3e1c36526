"""Reductions over rows and columns of every length around the lanes and tiles, with NaN and infinities."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from case import SPECIAL

from opdb.core.op_config import OpConfig, ParamConfig, TensorConfig
from opdb.runtime import native

pytestmark = pytest.mark.native
#: The PyTorch equivalent of each; integers wrap in both.
REDUCTIONS = {
    "ReduceMax": torch.amax, "ReduceMean": torch.mean, "ReduceMin": torch.amin, "ReduceSum": torch.sum,
    "ReduceProd": torch.prod, "ReduceSumSquare": lambda x, d: torch.sum(x * x, d),
}  # fmt: skip
LENGTHS = (1, 2, 7, 15, 16, 17, 33, 511, 512, 513, 1030)


def reduced(op: str, x: np.ndarray, axis: int, dtype: str) -> np.ndarray:
    rest = x.shape[1 - axis]
    config = OpConfig(
        op,
        (TensorConfig("x", dtype, x.shape),),
        (ParamConfig("axes", "u32", (axis,), (1,)),),
        (TensorConfig("y", dtype, (rest,)),),
    )
    return native.run(config, [x])[0]


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("op", REDUCTIONS)
def test_float_reductions_match_pytorch(op: str, axis: int) -> None:
    rng = np.random.default_rng(5)
    for n in LENGTHS:
        x = rng.uniform(0.5, 1.5, (n, 3) if axis == 0 else (3, n)).astype(np.float32)
        lines = x.T if axis == 0 else x
        lines[1, rng.integers(n)] = -np.inf
        lines[2, rng.integers(n)] = np.nan
        with np.errstate(all="ignore"):
            want = REDUCTIONS[op](torch.from_numpy(x).double(), axis).numpy().astype(np.float32)
        np.testing.assert_allclose(reduced(op, x, axis, "f32"), want, rtol=1e-6, err_msg=f"{op} of {n}")


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("op", [o for o in REDUCTIONS if o != "ReduceMean"])
def test_integer_reductions_match_pytorch(op: str, axis: int) -> None:
    rng = np.random.default_rng(5)
    for n in LENGTHS:
        x = rng.integers(-(2**31), 2**31, (n, 3) if axis == 0 else (3, n)).astype(np.int32)
        want = REDUCTIONS[op](torch.from_numpy(x.astype(np.int64)), axis).numpy().astype(np.int32)
        assert (reduced(op, x, axis, "i32") == want).all(), f"{op} of {n}"


@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin"])
def test_pairs_of_special_numbers_match_pytorch(op: str) -> None:
    pairs = np.stack([np.repeat(SPECIAL, len(SPECIAL)), np.tile(SPECIAL, len(SPECIAL))], 1)
    for axis, x in ((1, pairs), (0, np.ascontiguousarray(pairs.T))):
        got, want = reduced(op, x, axis, "f32"), REDUCTIONS[op](torch.from_numpy(x), axis).numpy()
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("op", ["Argmax", "Argmin"])
def test_argmax_takes_the_first_of_ties_and_nan(op: str) -> None:
    x = np.array(
        [[1, 3, 3, 0, 0], [2, np.nan, 9, np.nan, -1], [-np.inf, np.inf, np.inf, -np.inf, 0]], np.float32
    )
    function = np.argmax if op == "Argmax" else np.argmin
    for axis, given in ((1, x), (0, np.ascontiguousarray(x.T))):
        config = OpConfig(
            op,
            (TensorConfig("x", "f32", given.shape),),
            (ParamConfig("axis", "u32", axis),),
            (TensorConfig("y", "i32", (3,)),),
        )
        assert (native.run(config, [given])[0] == function(x, 1)).all()
