"""The axis of an encoding after transforms: stored values represent the same numbers as before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from opdb.core.op_config import Blocks, Quant
from opdb.runtime.axes import reshaped
from opdb.runtime.static import transformed
from opdb.runtime.tensors import Rejection, TensorRef, block_diagonal, permute, reshape, spaced, tiled

Change = Callable[[TensorRef], TensorRef]


def weight(shape: tuple[int, ...], axis: int) -> TensorRef:
    """Stored 1, 2, ...; each slice along ``axis`` has its own scale."""
    n = shape[axis]
    quant = Quant("AXIS_SCALE_OFFSET", tuple(0.5 + i for i in range(n)), (0,) * n, axis)
    return TensorRef(shape, "sq8", static=True, key="w", quant=quant, base_shape=shape)


def stored(t: TensorRef) -> Any:
    array = np.arange(1, 1 + int(np.prod(t.base_shape))).reshape(t.base_shape)
    return transformed(array, t.transforms)


def real(t: TensorRef, array: Any) -> Any:
    """The real values of ``array`` in the encoding of ``t``."""
    assert t.quant is not None
    if t.quant.axis is None:
        return array * t.quant.scale[0]
    assert len(t.quant.scale) == array.shape[t.quant.axis]
    return array * np.array(t.quant.scale).reshape(
        [-1 if i == t.quant.axis else 1 for i in range(array.ndim)]
    )


CHANGES: dict[str, tuple[tuple[int, ...], int, Change, int | None]] = {
    "a row in front": ((3, 4, 5), 2, lambda t: reshape(t, [1, 3, 4, 5]), 3),
    "a row between": ((3, 4, 5), 0, lambda t: reshape(t, [3, 1, 4, 5]), 0),
    "a row is gone": ((3, 1, 4), 2, lambda t: reshape(t, [3, 4]), 1),
    "merged beside it": ((3, 4, 5), 0, lambda t: reshape(t, [3, 20]), 0),
    "merged before it": ((3, 4, 5), 2, lambda t: reshape(t, [12, 5]), 1),
    "split beside it": ((6, 4), 1, lambda t: reshape(t, [2, 3, 4]), 2),
    "one channel": ((5, 4, 1), 2, lambda t: reshape(t, [1, 5, 4, 1]), 3),
    "one of all": ((1, 1, 1), 2, lambda t: reshape(t, [1, 1, 1, 1]), 3),
    "the only channel is gone": ((1, 4, 5), 0, lambda t: reshape(t, [4, 5]), None),
    "a convolution along a line": (
        (6, 4, 3), 0, lambda t: reshape(permute(t, [2, 1, 0]), [1, 3, 4, 6]), 3,
    ),
    "repeated along it": ((2, 3), 1, lambda t: tiled(t, [2, 3]), 1),
    "repeated beside it": ((1, 3), 1, lambda t: tiled(t, [4, 3]), 1),
    "the only channel is repeated": ((1, 3), 0, lambda t: tiled(t, [4, 3]), 0),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_the_axis_follows_each_transform(name: str) -> None:
    shape, axis, change, place = CHANGES[name]
    before = weight(shape, axis)
    after = change(before)
    assert after.quant is not None and after.quant.axis == place
    want = transformed(real(before, stored(before)), after.transforms)
    np.testing.assert_array_equal(real(after, stored(after)), want)


REFUSED: dict[str, tuple[tuple[int, ...], int, Change]] = {
    "split": ((6, 4), 0, lambda t: reshape(t, [2, 3, 4])),
    "merged with what is before it": ((3, 4, 5), 1, lambda t: reshape(t, [12, 5])),
    "merged with what is behind it": ((3, 4, 5), 1, lambda t: reshape(t, [3, 20])),
    "moved by a reshape": ((3, 4), 0, lambda t: reshape(t, [4, 3])),
    "zeros along it": ((3, 4, 5), 2, lambda t: spaced(t, [2])),
}


@pytest.mark.parametrize("name", REFUSED)
def test_transforms_that_mix_scales_are_refused(name: str) -> None:
    shape, axis, change = REFUSED[name]
    with pytest.raises(Rejection, match=f"dimension {axis}"):
        change(weight(shape, axis))


def test_groups_of_a_filter_repeat_their_scales() -> None:
    made = block_diagonal(weight((4, 3, 2), 1), 2)
    assert made.quant is not None and made.quant.scale == (0.5, 1.5, 2.5) * 2
    assert made.shape == (4, 6, 2)


def test_blocks_follow_only_dimensions_of_size_1() -> None:
    blocks = Quant("BLOCKWISE_EXPANSION", (1.0,) * 6, (0,) * 6, 1, blocks=Blocks(2, 4, (1,) * 12))
    found = reshaped(blocks, (8, 6), (1, 1, 8, 6))
    assert found is not None and found.axis == 3
    assert reshaped(blocks, (8, 6), (2, 4, 6)) is None
    of_dims = Quant("BLOCK", (1.0,) * 4, (0,) * 4, block_size=(4, 3))
    found = reshaped(of_dims, (8, 6), (8, 1, 6))
    assert found is not None and found.block_size == (4, 1, 3)
