"""Encodings of constants created by builders."""

from __future__ import annotations

import pytest

from opdb.lower.constant_encodings import encoded
from opdb.runtime.tensors import Rejection

pytestmark = [pytest.mark.slow, pytest.mark.executorch]


@pytest.mark.parametrize("dtype", ["uq8", "sq8", "uq16"])
@pytest.mark.parametrize(
    "values", [(0.25,), (0.0,), (-7.0,), (1.0, 1.5, 2.25), (1.0, 2.0, 4.0), (25 / 9, 1.0)]
)
def test_constants_are_stored_exactly(dtype: str, values: tuple[float, ...]) -> None:
    stored, scale, offset = encoded(dtype, values)
    low, high = (0, 2 ** int(dtype[2:]) - 1) if dtype[0] == "u" else (-128, 127)
    assert all(low <= s <= high for s in stored)
    exact = [(s + offset) * scale for s in stored]
    assert exact == pytest.approx(values, rel=5e-3 if values[0] == 25 / 9 else 1e-9)


def test_an_infinite_constant_is_rejected() -> None:
    with pytest.raises(Rejection, match="the constant inf of the type"):
        encoded("uq8", (1.0, float("inf")))
