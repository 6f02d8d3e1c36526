"""The ranges of tensors between the ops of one node."""

from __future__ import annotations

from opdb.core.op_config import Quant
from opdb.lower.ranges import unranged
from opdb.runtime.forms import Lowered, lowered_op, scalar
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


def test_a_factor_of_at_least_one_keeps_values_within_the_result() -> None:
    assert unranged(product((1.0, 4.0))) == ""
    assert unranged(product((0.5, 4.0))) == "between"


def test_a_conversion_to_more_bits_keeps_the_range() -> None:
    wide = intermediate("wide", [2], widened(X))
    convert = lowered_op("Convert", inputs={"x": X}, outputs={"y": wide})
    assert unranged(Lowered("made", (convert,))) == ""
    other = intermediate("wide", [2], TensorRef((2,), "uq16", quant=Quant("SCALE_OFFSET", (0.1,), (0,))))
    assert (
        unranged(Lowered("made", (lowered_op("Convert", inputs={"x": X}, outputs={"y": other}),))) == "wide"
    )
    back = lowered_op("Convert", inputs={"x": wide}, outputs={"y": intermediate("same", [2], wide)})
    assert unranged(Lowered("made", (back,))) == "same"


def sixteen(name: str, scale: float, offset: int) -> TensorRef:
    quant = Quant("SCALE_OFFSET", (scale,), (offset,))
    return TensorRef((1, 4, 4, 3), "uq16", key=(name, 0), quant=quant, base_shape=(1, 4, 4, 3))


def converted(op: str, scale: float, offset: int, operation: int | None = None) -> Lowered:
    """``op`` of x with a result of this encoding, converted to one from 0 to 0.655."""
    between = intermediate("between", (1, 4, 4, 3), sixteen("", scale, offset))
    params = [] if operation is None else [scalar("operation", "u32", operation)]
    x, y = sixteen("x", 2e-5, 0), sixteen("y", 1e-5, 0)
    ops = (
        lowered_op(op, inputs={"x": x}, params=params, outputs={"y": between}),
        lowered_op("Convert", inputs={"x": between}, outputs={"y": y}),
    )
    return Lowered("made", ops)


def test_an_interpolation_may_have_a_wider_range_than_the_result() -> None:
    assert unranged(converted("Resize", 2e-5, 0)) == ""
    assert unranged(converted("Resize", 2e-5, -30000)) == ""
    assert unranged(converted("Resize", 0.9e-5, 0)) == "between"
    assert unranged(converted("ElementWiseNeuron", 2e-5, 0, operation=4)) == "between"


def test_a_result_may_have_the_specs_fixed_range() -> None:
    assert unranged(converted("ElementWiseNeuron", 2**-16, 0, operation=2)) == ""
    assert unranged(converted("ElementWiseNeuron", 2**-12, 0, operation=2)) == "between"
    assert unranged(converted("ElementWiseNeuron", 2**-17, 0, operation=2)) == "between"
