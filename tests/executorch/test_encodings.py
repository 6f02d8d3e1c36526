"""Encodings of what lies between the ops of one node, and of constants."""

from __future__ import annotations

import pytest

from opdb.executorch.encodings import encoded, unranged
from opdb.op_config import Quant
from opdb.runtime.lowering import Lowered, lowered_op
from opdb.runtime.tensors import Rejection, TensorRef, intermediate, widened

X = TensorRef((2,), "uq8", key=("x", 0), quant=Quant("SCALE_OFFSET", (0.5,), (-3,)), base_shape=(2,))


@pytest.mark.parametrize("dtype", ["uq8", "sq8", "uq16"])
@pytest.mark.parametrize(
    "values", [(0.25,), (0.0,), (-7.0,), (1.0, 1.5, 2.25), (1.0, 2.0, 4.0), (25 / 9, 1.0)]
)
def test_constants_are_what_is_stored(dtype: str, values: tuple[float, ...]) -> None:
    stored, scale, offset = encoded(dtype, values)
    low, high = (0, 2 ** int(dtype[2:]) - 1) if dtype[0] == "u" else (-128, 127)
    assert all(low <= s <= high for s in stored)
    exact = [(s + offset) * scale for s in stored]
    assert exact == pytest.approx(values, rel=5e-3 if values[0] == 25 / 9 else 1e-9)


def test_a_constant_that_is_no_number() -> None:
    with pytest.raises(Rejection, match="the constant inf of the type"):
        encoded("uq8", (1.0, float("inf")))


def product(factors: tuple[float, ...]) -> Lowered:
    between, result = intermediate("between", [2], X), TensorRef((2,), "uq8", key=("y", 0), quant=X.quant)
    constant = TensorRef((2,), "uq8", static=True, data=factors, base_shape=(2,))
    ops = (
        lowered_op("Relu", inputs={"x": X}, outputs={"y": between}),
        lowered_op("ElementWiseMultiply", inputs={"a": between, "b": constant}, outputs={"y": result}),
    )
    return Lowered("made", ops)


def test_what_is_multiplied_by_one_and_more_is_within_the_result() -> None:
    assert unranged(product((1.0, 4.0))) == ""
    assert unranged(product((0.5, 4.0))) == "between"


def test_what_is_converted_to_more_bits_has_the_same_range() -> None:
    wide = intermediate("wide", [2], widened(X))
    convert = lowered_op("Convert", inputs={"x": X}, outputs={"y": wide})
    assert unranged(Lowered("made", (convert,))) == ""
    other = intermediate("wide", [2], TensorRef((2,), "uq16", quant=Quant("SCALE_OFFSET", (0.1,), (0,))))
    assert (
        unranged(Lowered("made", (lowered_op("Convert", inputs={"x": X}, outputs={"y": other}),))) == "wide"
    )
    back = lowered_op("Convert", inputs={"x": wide}, outputs={"y": intermediate("same", [2], wide)})
    assert unranged(Lowered("made", (back,))) == "same"
