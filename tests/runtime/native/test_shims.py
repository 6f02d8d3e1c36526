"""The work of generated shims around a kernel: scratch, data types, indices out of range."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from opdb.core.op_config import OpConfig, ParamConfig, Quant, TensorConfig
from opdb.runtime import native
from opdb.runtime.native import KernelError, Prepared

pytestmark = pytest.mark.native


def softmax(dtype: str, quant: Quant | None = None) -> OpConfig:
    x = TensorConfig("x", dtype, (3, 4), quant=quant)
    return OpConfig("Softmax", (x,), (), (replace(x, name="y"),))


def scratch(config: OpConfig, *arrays: np.ndarray) -> int:
    made = [np.empty(t.shape, arrays[0].dtype) for t in config.outputs]
    return int(Prepared(config, list(arrays), made)._struct.scratch_size)


def test_only_types_other_than_f32_need_scratch_copies() -> None:
    """48 bytes for twelve numbers, twice."""
    assert scratch(softmax("f32"), np.zeros((3, 4), np.float32)) == 0
    assert scratch(softmax("f16"), np.zeros((3, 4), np.float16)) == 96


def test_scratch_size_follows_the_spec() -> None:
    x = TensorConfig("x", "f32", (2, 9))
    k = ParamConfig("k", "u32", 5)
    outputs = (TensorConfig("values", "f32", (2, 5)), TensorConfig("indices", "u32", (2, 5)))
    config = OpConfig("TopK", (x,), (k,), outputs)
    results = [np.empty((2, 5), np.float32), np.empty((2, 5), np.uint32)]
    prepared = Prepared(config, [np.zeros((2, 9), np.float32)], results)
    assert prepared._struct.scratch_size == 24 * 5
    prepared._struct.scratch_size -= 1
    with pytest.raises(KernelError, match="too small"):
        prepared.run()


def test_insufficient_scratch_leaves_the_output_unchanged() -> None:
    y = np.full((3, 4), 7, np.float16)
    prepared = Prepared(softmax("f16"), [np.zeros((3, 4), np.float16)], [y])
    prepared._struct.scratch_size = 95
    with pytest.raises(KernelError, match="too small"):
        prepared.run()
    assert (y == 7).all()


def test_an_axis_with_too_few_scales_is_unsupported() -> None:
    """Nothing is read beyond the scales."""
    few = Quant("AXIS_SCALE_OFFSET", (0.1, 0.1), (0, 0), axis=0)
    with pytest.raises(KernelError, match="unsupported"):
        native.run(softmax("uq8", few), [np.zeros((3, 4), np.uint8)])


@pytest.mark.parametrize("index", [-6, 5, 2**31 - 1, -(2**31)])
def test_an_index_out_of_range_is_rejected_without_a_read(index: int) -> None:
    """Gather counts negative indices from the end: -5 is the first of five."""
    config = OpConfig(
        "Gather",
        (TensorConfig("table", "f32", (5, 2)), TensorConfig("indices", "i32", (2,))),
        (ParamConfig("axis", "i32", 0),),
        (TensorConfig("y", "f32", (2, 2)),),
    )
    table = np.arange(10, dtype=np.float32).reshape(5, 2)
    (y,) = native.run(config, [table, np.array([-5, 4], np.int32)])
    assert (y == [[0, 1], [8, 9]]).all()
    with pytest.raises(KernelError, match="an index lies outside of its tensor"):
        native.run(config, [table, np.array([0, index], np.int32)])


def test_different_encodings_keep_the_real_values() -> None:
    """(stored + offset) * scale: 4 steps of 0.5 are 8 of 0.25 with another zero."""
    x = TensorConfig("x", "uq8", (2, 2), quant=Quant("SCALE_OFFSET", (0.5,), (-3,)))
    y = TensorConfig("y", "uq8", (2, 2), quant=Quant("SCALE_OFFSET", (0.25,), (-10,)))
    config = OpConfig("Transpose", (x,), (ParamConfig("perm", "u32", (1, 0), (2,)),), (y,))
    (got,) = native.run(config, [np.array([[3, 7], [0, 255]], np.uint8)])
    assert got.tolist() == [[10, 4], [18, 255]]  # 0, -1.5; 2, 126 held at 61.25


def test_an_invalid_op_needs_no_scratch_and_is_not_read() -> None:
    """The scratch of Stft depends on the signal's second dimension, which is missing here."""
    signal = TensorConfig("signal", "f32", (6,))
    y = TensorConfig("y", "f32", (1, 1, 4, 2))
    config = OpConfig("Stft", (signal,), (ParamConfig("frame_step", "u32", 1),), (y,))
    prepared = Prepared(config, [np.zeros(6, np.float32)], [np.empty(y.shape, np.float32)])
    assert prepared._struct.scratch_size == 0
    with pytest.raises(KernelError, match="invalid"):
        prepared.run()
