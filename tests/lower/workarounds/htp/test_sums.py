"""Sums of quantized tensors and constants, which HTP drops after some ops: their negatives are subtracted.

tests/plugins/executorch/quantized_cases.py runs them on HTP's library.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from obeying import Place, obeying

from opdb.core.op_config import Quant
from opdb.runtime.forms import lowered_op
from opdb.runtime.tensors import TensorRef


def tensor(name: str, shape: tuple[int, ...], *, static: bool = False, dtype: str = "uq8") -> TensorRef:
    quant = Quant("SCALE_OFFSET", (0.5,), (-3,))
    return TensorRef(shape, dtype, static, key=(name, 0), quant=quant, base_shape=shape)


#: Tensors named "constant" count as computed from constants.
AROUND = Place(known=[("constant", 0)])


X, Y = tensor("x", (2, 3, 4)), tensor("y", (2, 3, 4))


def ops_of(a: TensorRef, b: TensorRef) -> list[str]:
    op = lowered_op("ElementWiseAdd", inputs={"a": a, "b": b}, params=[], outputs={"y": Y})
    return [op.op for op in obeying(op, around=AROUND)]


@pytest.mark.parametrize(
    ("b", "ops"),
    [
        (tensor("one", (1,), static=True), ["ElementWiseSubtract"]),
        (tensor("row", (1, 1, 4), static=True), ["ElementWiseSubtract"]),
        (tensor("constant", (4,)), ["ElementWiseNeg", "ElementWiseSubtract"]),
        (tensor("constant", (4,), dtype="uq16"), ["ElementWiseAdd"]),
        (tensor("column", (3, 1), static=True), ["ElementWiseAdd"]),
        (tensor("row", (4,)), ["ElementWiseAdd"]),
        (tensor("column", (3, 1), static=True, dtype="uq16"), ["ElementWiseAdd"]),
        (replace(tensor("float", (4,), static=True), dtype="f32", quant=None), ["ElementWiseAdd"]),
    ],
    ids=[
        "one element",
        "a row",
        "a row made of constants",
        "in 16 bits",
        "a column",
        "a row made of inputs",
        "a column in 16 bits",
        "floats",
    ],
)
def test_only_constants_along_the_last_dimension_are_subtracted(b: TensorRef, ops: list[str]) -> None:
    assert ops_of(X, b) == ops_of(b, X) == ops


def test_the_negated_constant_becomes_the_second_operand() -> None:
    row = tensor("row", (4,), static=True)
    op = lowered_op("ElementWiseAdd", inputs={"a": row, "b": X}, params=[], outputs={"y": Y})
    (less,) = obeying(op, around=AROUND)
    a, b = less.inputs
    assert (a, less.outputs) == (X, (Y,))
    assert b is not None
    assert (b.scale, b.offset) == (0.5, 3 - 255)


@pytest.mark.parametrize(("highest", "op"), [(2.0, "ElementWiseSubtract"), (0.5, "ElementWiseAdd")])
def test_a_16_bit_constant_beyond_the_results_range_is_added(highest: float, op: str) -> None:
    def stored(name: str, most: float, shape: tuple[int, ...]) -> TensorRef:
        t = tensor(name, shape, static=name == "c", dtype="uq16")
        scale = 8 / 65535
        return replace(t, quant=Quant("SCALE_OFFSET", (scale,), (round(most / scale) - 65535,)))

    one = replace(stored("c", 1, (1,)), quant=Quant("SCALE_OFFSET", (1 / 65535,), (0,)))
    x, y = stored("x", 1, (2, 3)), stored("y", highest, (2, 3))
    add = lowered_op("ElementWiseAdd", inputs={"a": x, "b": one}, params=[], outputs={"y": y})
    assert [o.op for o in obeying(add, around=AROUND)] == [op]
