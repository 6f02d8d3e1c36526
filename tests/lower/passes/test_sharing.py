"""Equal ops are merged, unused ones removed, and inverse Casts, Converts and Quantize pairs cancel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from graphs import Made, agree, drawn, kinds, numbers, passed

from opdb.core.graph import GraphOp, QnnGraph
from opdb.core.op_config import Quant
from opdb.lower.passes.casts import holds
from opdb.runtime.kernels import run_graph

SHAPE = (3, 4)


def test_equal_ops_are_computed_once() -> None:
    made = Made()
    x = made.input(*SHAPE)
    factor = np.linspace(1, 2, 4)
    two = [made.op("ElementWiseMultiply", [x, made.constant(factor)], SHAPE) for _ in range(2)]
    views = [made.op("Transpose", [y], (4, 3), [numbers("perm", 1, 0)]) for y in two]
    other = made.op("Transpose", [two[0]], SHAPE, [numbers("perm", 0, 1)])
    ends = [made.op(kind, [y], (4, 3)) for kind, y in zip(("Relu", "Tanh"), views, strict=True)]
    before = made.output(*ends, made.op("Relu", [other], SHAPE))
    after = passed(before, "merge-equal")
    assert after.counts == {"merge-equal": 2}
    assert kinds(after.graph) == ["ElementWiseMultiply", "Transpose", "Transpose", "Relu", "Tanh", "Relu"]
    agree(before, after.graph, None)


def test_equal_inputs_of_one_op_are_merged() -> None:
    made = Made()
    x = made.input(*SHAPE)
    c, d = (made.op("Relu", [x], SHAPE) for _ in range(2))
    before = made.output(made.op("ElementWiseMultiply", [c, d], SHAPE))
    after = passed(before, "merge-equal").graph
    assert kinds(after) == ["Relu", "ElementWiseMultiply"]
    agree(before, after, None)


def test_different_ops_are_not_merged() -> None:
    made = Made()
    x = made.input(*SHAPE)
    a, b = (made.op("ElementWiseAdd", [x, made.random(4)], SHAPE) for _ in range(2))
    assert passed(made.output(made.op("ElementWiseAdd", [a, b], SHAPE)), "merge-equal").counts == {}


def test_unused_ops_are_removed() -> None:
    made = Made()
    x = made.input(*SHAPE)
    made.op("Relu", [made.op("ElementWiseAdd", [x, made.random(4)], SHAPE)], SHAPE)
    made.random(5)
    before = made.output(made.op("Tanh", [x], SHAPE))
    after = passed(before, "drop-dead")
    assert kinds(after.graph) == ["Tanh"] and after.counts == {"drop-dead": 3}
    assert {t.type for t in after.graph.tensors.values()} == {"APP_WRITE", "APP_READ"}
    agree(before, after.graph, None)


def chain(kind: str, *types: tuple[str, Quant | None], ends: tuple[str, str] = ("Relu", "Relu")) -> QnnGraph:
    """An op, then ``kind`` from type to type (two kinds: the first, then the second), then an op."""
    made = Made()
    (first, quant), *rest = types
    x = made.op(ends[0], [made.input(*SHAPE, dtype=first, quant=quant)], SHAPE)
    for each, (dtype, q) in zip((*kind.split(), kind), rest, strict=False):
        x = made.op(each, [x], SHAPE, dtype=dtype, quant=q)
    return made.output(made.op(ends[1], [x], SHAPE))


def plain(*types: str) -> list[tuple[str, Quant | None]]:
    return [(t, None) for t in types]


@pytest.mark.parametrize(
    ("types", "left"),
    [
        (("f16", "f32", "f16"), 0),
        (("i32", "f32", "i32"), 2),
        (("f32", "f16", "f32"), 2),
        (("f32", "i32", "f32"), 2),
        (("i32", "i64", "i32"), 0),
    ],
)
def test_inverse_casts_cancel(types: tuple[str, ...], left: int) -> None:
    ends = ("Relu", "Relu") if types[0][0] == "f" else ("ElementWiseAbs", "ElementWiseAbs")
    before = chain("Cast Cast", *plain(*types), ends=ends)
    after = passed(before, "cancel-casts", "drop-dead").graph
    assert kinds(after).count("Cast") == left
    if "f16" not in types[0]:
        agree(before, after, None)


def test_casts_through_a_wider_type_become_one() -> None:
    before = chain("Cast Cast", *plain("i32", "i64", "f32"), ends=("ElementWiseAbs", "Relu"))
    after = passed(before, "cancel-casts", "drop-dead").graph
    assert kinds(after) == ["ElementWiseAbs", "Cast", "Relu"]
    agree(before, after, None)


def test_holds_says_which_types_include_others() -> None:
    assert holds("f16", "f32") and holds("u8", "i16") and holds("bool8", "f16") and holds("i16", "f32")
    assert (
        not holds("i32", "f32")
        and not holds("u8", "i8")
        and not holds("f32", "bf16")
        and not holds("uq8", "f32")
    )


COARSE, FINE = Quant("SCALE_OFFSET", (0.1,), (-100,)), Quant("SCALE_OFFSET", (0.0005,), (-30000,))


@pytest.mark.parametrize(
    ("types", "left"),
    [
        ([("uq8", COARSE), ("uq16", FINE), ("uq8", COARSE)], 0),
        ([("uq16", FINE), ("uq8", COARSE), ("uq16", FINE)], 2),  # the type between has fewer steps
        ([("uq8", COARSE), ("uq16", replace(FINE, offset=(0,))), ("uq8", COARSE)], 2),  # negatives are cut
        (
            [("uq8", COARSE), ("uq8", replace(COARSE, scale=(0.07,))), ("uq8", COARSE)],
            2,
        ),  # some steps fall together
        ([("uq8", COARSE), ("uq16", FINE), ("uq8", replace(COARSE, offset=(-99,)))], 2),  # another encoding
    ],
)
def test_inverse_converts_cancel(types: list[tuple[str, Quant | None]], left: int) -> None:
    before = chain("Convert Convert", *types)
    after = passed(before, "cancel-casts", "drop-dead").graph
    assert kinds(after).count("Convert") == left
    agree(before, after, None)


def test_a_dequantize_quantize_pair_cancels() -> None:
    fine = Quant("SCALE_OFFSET", (3e-5,), (-32768,))
    for dtype, quant, other in (
        ("uq8", COARSE, COARSE),
        ("uq16", fine, fine),
        ("uq8", COARSE, replace(COARSE, offset=(-99,))),
    ):
        before = chain("Dequantize Quantize", (dtype, quant), ("f32", None), (dtype, other))
        after = passed(before, "cancel-casts", "drop-dead").graph
        assert ("Quantize" in kinds(after)) == (quant != other)
        agree(before, after, None)


def test_a_pair_keeps_every_stored_value() -> None:
    """Checks all 65,536 values of 16 bits at several scales."""
    for scale in (1e-5, 0.37, 2.0**-15, 777.7):
        quant = Quant("SCALE_OFFSET", (scale,), (-12345,))
        made = Made()
        x = made.input(65536, dtype="uq16", quant=quant)
        y = made.op("Dequantize", [x], (65536,), dtype="f32")
        graph = made.output(made.op("Quantize", [y], (65536,), dtype="uq16", quant=quant))
        values = np.arange(65536, dtype=np.uint16)
        (got,) = run_graph(graph, {x: values}).values()
        np.testing.assert_array_equal(got, values)
    assert isinstance(graph.ops[0], GraphOp) and drawn(graph)
