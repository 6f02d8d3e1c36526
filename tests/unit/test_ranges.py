"""The ranges of what lies between the ops of one node."""

from __future__ import annotations

from opdb.lowering.ranges import unranged
from opdb.op_config import Quant
from opdb.runtime.lowering import Lowered, lowered_op
from opdb.runtime.tensors import TensorRef, intermediate, widened

X = TensorRef((2,), "uq8", key=("x", 0), quant=Quant("SCALE_OFFSET", (0.5,), (-3,)), base_shape=(2,))


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
