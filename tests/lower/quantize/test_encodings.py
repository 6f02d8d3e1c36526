"""Ranges and data -> encodings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opdb.core.graph import GraphTensor
from opdb.core.op_config import Quant
from opdb.lower.quantize import Range
from opdb.lower.quantize.encodings import encoding, of_data, product
from opdb.runtime.qnn.real_numbers import limits, to_real, to_stored

TYPES = ("uq8", "sq8", "uq16", "sq16")
ends = st.floats(0, 2.0**20, width=32).filter(lambda v: v == 0 or v > 2.0**-20)


@given(ends, ends, st.sampled_from(TYPES), st.booleans())
def test_an_encoding_covers_its_range_and_stores_zero(
    low: float, high: float, dtype: str, symmetric: bool
) -> None:
    quant = encoding(Range(-low, high), dtype, symmetric)
    tensor = GraphTensor("x", dtype, (3,), quant=quant)
    values = np.array([-low, 0.0, high])
    real = to_real(tensor, to_stored(tensor, values))
    assert real[1] == 0
    assert np.abs(real - values).max() <= 0.51 * quant.scale[0]
    if symmetric:
        assert quant.symmetric(dtype)
    least, most = limits(dtype)
    assert least <= -quant.offset[0] <= most
    if low + high:  # no step is wasted: the range is as wide as the stored values
        width = 2 * max(low, high) if symmetric else low + high
        assert quant.scale[0] == pytest.approx(width / (most - least - symmetric), rel=1e-6)


def test_scales_are_float32_as_in_qnn() -> None:
    scale = encoding(Range(0, 1), "uq8", False).scale[0]
    assert scale == float(np.float32(1 / 255)) != 1 / 255


def test_each_slice_gets_a_scale() -> None:
    data = np.array([[1.0, -2.0, 0.5], [0.0, 0.0, 0.0], [-100.0, 4.0, 1.0]])
    quant = of_data(data, "sq8", True, 0)
    assert (quant.encoding, quant.axis, quant.offset) == ("AXIS_SCALE_OFFSET", 0, (0, 0, 0))
    assert quant.scale == tuple(float(np.float32(v)) for v in (2 / 127, 2**-16, 100 / 127))
    tensor = GraphTensor("w", "sq8", (3, 3), quant=quant)
    assert (
        np.abs(to_real(tensor, to_stored(tensor, data)) - data) <= np.reshape(quant.scale, (3, 1)) / 2
    ).all()


def test_a_bias_scale_is_the_product_of_scales() -> None:
    x, one = Quant("SCALE_OFFSET", (0.5,), (-3,)), Quant("SCALE_OFFSET", (0.25,), (0,))
    many = Quant("AXIS_SCALE_OFFSET", (0.25, 2.0), (0, 0), 3)
    assert product([x, one], 0) == Quant("SCALE_OFFSET", (0.125,), (0,))
    assert product([x, many], 0) == Quant("AXIS_SCALE_OFFSET", (0.125, 1.0), (0, 0), 0)
