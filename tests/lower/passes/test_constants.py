"""Constants are folded, divisions become products, scalings are merged, and ops without effect are removed."""

from __future__ import annotations

import numpy as np
import pytest
from graphs import HTP, Made, agree, drawn, kinds, number, numbers, passed

from opdb.catalog.targets.target import Target
from opdb.core.op_config import ParamConfig, Quant
from opdb.runtime.kernels import run_graph

SHAPE = (2, 3, 4)


def test_ops_on_constants_are_computed_ahead() -> None:
    made = Made()
    c = made.op("ElementWiseAdd", [made.random(3, 4), made.random(4)], (3, 4))
    c = made.op("Transpose", [c], (4, 3), [numbers("perm", 1, 0)])
    c = made.op("Transpose", [c], (3, 4), [numbers("perm", 1, 0)])
    before = made.output(made.op("ElementWiseMultiply", [made.input(*SHAPE), c], SHAPE))
    after = passed(before, "fold-constants")
    assert kinds(after.graph) == ["ElementWiseMultiply"] and after.counts == {"fold-constants": 3}
    assert {t.type for t in after.graph.tensors.values()} == {"APP_WRITE", "STATIC", "APP_READ"}
    agree(before, after.graph, None)


def test_large_repetitions_are_not_folded() -> None:
    made = Made()
    c = made.op("Tile", [made.random(1, 1, 64)], (128, 64, 64), [numbers("multiples", 128, 64, 1)])
    before = made.output(made.op("ElementWiseAdd", [made.input(128, 64, 64), c], (128, 64, 64)))
    assert passed(before, "fold-constants").counts == {}


def test_an_output_computed_from_constants_stays_an_op() -> None:
    made = Made()
    before = made.output(made.op("Relu", [made.random(3)], (3,)), made.op("Relu", [made.input(3)], (3,)))
    assert passed(before, "fold-constants").counts == {}


@pytest.mark.parametrize("op", ["Multiply", "Divide", "Add", "Subtract", "Batchnorm"])
def test_products_with_1_and_sums_with_0_are_removed(op: str) -> None:
    made = Made()
    x = made.op("Relu", [made.input(*SHAPE)], SHAPE)
    same = 0.0 if op in ("Add", "Subtract") else 1.0
    if op == "Batchnorm":
        y = made.op(op, [x, made.constant(np.ones(4)), made.constant(np.zeros(4))], SHAPE)
    else:
        y = made.op(f"ElementWise{op}", [x, made.constant(np.full((3, 1), same))], SHAPE)
    before = made.output(made.op("Tanh", [y], SHAPE), made.op("Sigmoid", [y], SHAPE))
    after = passed(before, "drop-identities").graph
    assert kinds(after) == ["Relu", "Tanh", "Sigmoid"]
    agree(before, after, None)


def test_moves_without_effect_are_removed() -> None:
    made = Made()
    x = made.op("Relu", [made.input(*SHAPE)], SHAPE)
    whole = ParamConfig("ranges", "i32", (0, 2, 1, 0, 3, 1, 0, 4, 1), (3, 3))
    x = made.op("Reshape", [x], SHAPE)
    x = made.op("Cast", [x], SHAPE)
    x = made.op("Pad", [x], SHAPE, [number("scheme", 0), numbers("pad_amount", *[0] * 6, shape=(3, 2))])
    x = made.op("StridedSlice", [x], SHAPE, [whole])
    x = made.op("Tile", [x], SHAPE, [numbers("multiples", 1, 1, 1)])
    before = made.output(made.op("Transpose", [x], SHAPE, [numbers("perm", 0, 1, 2)]))
    after = passed(before, "drop-identities")
    assert kinds(after.graph) == ["Relu"] and after.counts == {"drop-identities": 6}
    agree(before, after.graph, None)


def test_a_concat_of_one_tensor_is_removed() -> None:
    made = Made()
    x = made.op("Relu", [made.input(*SHAPE)], SHAPE)
    after = passed(made.output(made.op("Concat", [x], SHAPE, [number("axis", 1)])), "drop-identities").graph
    assert kinds(after) == ["Relu"] and after.ops[0].outputs == (after.outputs[0].name,)


def test_moves_with_an_effect_are_kept() -> None:
    made = Made()
    x = made.input(3, 3)
    y = made.op("Transpose", [x], (3, 3), [numbers("perm", 1, 0)])
    back = ParamConfig("ranges", "i32", (2, -1, -1, 0, 3, 1), (2, 3))
    z = made.op("StridedSlice", [y], (3, 3), [back, number("end_mask", 1)])
    before = made.output(made.op("Relu", [z], (3, 3)))
    assert passed(before, "drop-identities").counts == {}
    made = Made()
    quant = [Quant("SCALE_OFFSET", (0.1 * n,), (-8,)) for n in (1, 2)]
    x = made.input(4, dtype="uq8", quant=quant[0])
    y = made.op("Convert", [x], (4,), dtype="uq8", quant=quant[1])
    assert passed(made.output(made.op("Relu", [y], (4,))), "drop-identities").counts == {}


def test_products_with_1_of_a_workaround_are_kept() -> None:
    made = Made()
    x = made.op("ElementWiseMultiply", [made.constant([1.0]), made.input(*SHAPE)], SHAPE)
    before = made.output(made.op("Relu", [x], SHAPE))
    v68 = Target("HTP", "SM8350", execution="emulator")
    assert passed(before, "drop-identities", target=v68).counts == {}
    assert passed(before, "drop-identities", target=HTP).counts == {"drop-identities": 1}


@pytest.mark.parametrize("rank", [3, 5])
def test_a_division_becomes_a_product(rank: int) -> None:
    """The error is at most 1.5 units in the last place: reciprocal and product are rounded instead of the quotient."""
    made = Made()
    shape = (2, 1, 1, 3, 4)[5 - rank :] if rank == 5 else SHAPE
    x, c = made.input(*shape), made.random(4, low=0.1, high=9.0)
    before = made.output(made.op("ElementWiseBinary", [x, c], shape, [number("operation", 2)]))
    after = passed(before, "divide-by-product").graph
    assert kinds(after) == ["ElementWiseBinary"] and after.ops[0].params[0].value == 13
    assert after.ops[0].inputs.index(x) == (1 if rank == 5 else 0)
    given = drawn(before)
    (want,), (got,) = run_graph(before, given).values(), run_graph(after, given).values()
    assert (np.abs(got - want) <= 1.5 * np.spacing(np.abs(want))).all()


@pytest.mark.parametrize("constant", [0.0, 1e-39, 3e38])
def test_divisions_by_extreme_constants_are_kept(constant: float) -> None:
    made = Made()
    before = made.output(made.op("ElementWiseDivide", [made.input(*SHAPE), made.constant([constant])], SHAPE))
    assert passed(before, "divide-by-product").counts == {}


@pytest.mark.parametrize(
    ("chain", "left"),
    [
        (["Multiply", "Multiply"], ["ElementWiseMultiply"]),
        (["Add", "Subtract", "Add"], ["ElementWiseAdd"]),
        (["Subtract", "Divide"], ["Batchnorm"]),
        (["Subtract", "Multiply", "Multiply", "Add"], ["Batchnorm"]),
        (["Divide", "Multiply"], ["ElementWiseMultiply"]),
    ],
)
def test_consecutive_scalings_become_one_op(chain: list[str], left: list[str]) -> None:
    made = Made()
    y = made.input(1, 5, 6, 4)
    for what in chain:
        y = made.op(f"ElementWise{what}", [y, made.random(4, low=0.5, high=2.0)], (1, 5, 6, 4))
    before = made.output(y)
    after = passed(before, "merge-scalings").graph
    assert kinds(after) == left
    agree(before, after)


def test_scalings_along_other_axes_are_not_merged() -> None:
    """A sum and a product along the channels of NCHW are no Batchnorm; products with a row and a column stay two small constants."""
    made = Made()
    y = made.op("ElementWiseSubtract", [made.input(1, 3, 6, 6), made.random(3, 1, 1)], (1, 3, 6, 6))
    y = made.op("ElementWiseDivide", [y, made.random(3, 1, 1, low=0.5)], (1, 3, 6, 6))
    y = made.op("Relu", [y], (1, 3, 6, 6))
    y = made.op("ElementWiseMultiply", [y, made.random(6, 1)], (1, 3, 6, 6))
    before = made.output(made.op("ElementWiseMultiply", [y, made.random(1, 6)], (1, 3, 6, 6)))
    assert passed(before, "merge-scalings").counts == {}


def test_scalings_read_by_another_op_are_not_merged() -> None:
    made = Made()
    x = made.op("ElementWiseMultiply", [made.input(*SHAPE), made.random(4)], SHAPE)
    before = made.output(
        made.op("ElementWiseMultiply", [x, made.random(4)], SHAPE), made.op("Relu", [x], SHAPE)
    )
    assert passed(before, "merge-scalings").counts == {}
