"""``opdb.judge.nearest``: the change found, and its description."""

from __future__ import annotations

from typing import Any

import pytest

from opdb.catalog.targets.target import Target
from opdb.core.errors import OpdbError
from opdb.core.op_config import OpConfig, Quant, from_json
from opdb.judge.nearest import Variant, nearest
from opdb.judge.nearest.encodings import reencoded
from opdb.judge.nearest.rows import far, retyped
from opdb.judge.validate import check

HTP, OLD, CPU = Target("HTP", "SM8650"), Target("HTP", "SM8350"), Target("CPU")


def tensor(dtype: str, *shape: int, **more: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), **more}


def found(target: Target, op: str, inputs: list[Any], params: dict[str, Any], *outputs: Any) -> str | None:
    document = {"op": op, "inputs": inputs, "params": params, "outputs": list(outputs)}
    variant = nearest(from_json(document), target)
    assert variant is None or check(variant.config, target).verdict == "accept"
    return None if variant is None else variant.text


def u32(value: Any) -> dict[str, Any]:
    return {"dtype": "u32", "data": value} if isinstance(value, list) else {"dtype": "u32", "value": value}


AFFINE = {"encoding": "SCALE_OFFSET", "scale": 0.5, "offset": -100}
F, H, X = (tensor(d, 2, 3, 4) for d in ("f32", "f16", "i32"))
FALSE = {"dtype": "bool8", "value": False}
CASES: dict[str, tuple[Target, str, list[Any], dict[str, Any], Any, str | None]] = {
    "one type of a row": (HTP, "LayerNorm", [H], {"axes": u32([2])}, F, "y f16 instead of f32"),
    "the row with fewer changes": (
        CPU, "LayerNorm", [F, tensor("f32", 4), tensor("f16", 4)], {"axes": u32([2])}, H,
        "beta f32 instead of f16, y f32 instead of f16",
    ),
    "the likest row": (CPU, "Relu", [H], {}, H, "x f32 instead of f16, y f32 instead of f16"),
    "an encoding is kept over the same numbers": (
        CPU, "LayerNorm", [tensor("sq8", 2, 4, quant={"encoding": "SCALE_OFFSET", "scale": 0.5, "offset": 3})],
        {"axes": u32([1])}, tensor("uq8", 2, 4),
        "x uq8 instead of sq8, x offset -125 instead of 3",
    ),
    "sparse instead of dense": (
        CPU, "CreateSparse", [tensor("u32", 5, 3), tensor("f32", 5)], {}, F, "y sparse",
    ),
    "dense instead of sparse": (
        CPU, "SparseToDense", [tensor("f32", 2, sparse={"specified": 1, "dimensions": 1})], {},
        tensor("f32", 2, sparse={"specified": 1, "dimensions": 1}), "y dense",
    ),
    "an axis in range": (HTP, "Softmax", [F], {"axis": u32(7)}, F, "axis 2 instead of 7"),
    "an axis of many": (HTP, "LayerNorm", [F], {"axes": u32([0])}, F, "axes [2] instead of [0]"),
    "a permutation": (CPU, "Transpose", [F], {"perm": u32([0, 3, 1])}, tensor("f32", 2, 4, 3), "perm [0, 2, 1] instead of [0, 3, 1]"),
    "an enum by name": (
        CPU, "ElementWiseBinary", [F, F], {"operation": u32(99)}, F, "operation SUBTRACT instead of 99",
    ),
    "a misspelt parameter": (CPU, "Softmax", [F], {"axes": u32(1)}, F, "axes omitted, axis 1 given"),
    "an unknown parameter": (CPU, "Relu", [F], {"slope": u32(1)}, F, "slope omitted"),
    "a parameter of another type": (
        CPU, "Softmax", [F], {"axis": {"dtype": "i32", "value": 2}}, F, "axis u32 2 instead of i32 2",
    ),
    "the shape that follows": (CPU, "Relu", [F], {}, tensor("f32", 2, 3), "y of shape [2, 3, 4] instead of [2, 3]"),
    "zero in the middle": (
        HTP, "LayerNorm", [tensor("uq16", 2, 4, quant=AFFINE), tensor("uq16", 4, quant=AFFINE)], {"axes": u32([1])},
        tensor("uq16", 2, 4, quant=AFFINE), "gamma offset -32768 instead of -100",
    ),
    "what the chip cannot do": (
        OLD, "LayerNorm", [tensor("uq16", 2, 4), tensor("sq16", 4)], {"axes": u32([1])}, tensor("uq16", 2, 4),
        "gamma uq8 instead of sq16",
    ),
    "constness": (
        HTP, "Conv2d", [tensor("f16", 1, 5, 5, 2), tensor("sq8", 1, 1, 2, 3, quant={
            "encoding": "AXIS_SCALE_OFFSET", "scale": [0.1, 0.2, 0.3], "offset": [0, 0, 0], "axis": 3})],
        {"stride": u32([1, 1]), "pad_amount": u32([[0, 0], [0, 0]]) | {"shape": [2, 2]}}, tensor("f16", 1, 5, 5, 3),
        "filter STATIC instead of NATIVE",
    ),
    "the axis of an encoding": (
        HTP, "Conv2d", [tensor("uq8", 1, 5, 5, 2), tensor("sq8", 1, 1, 2, 2, type="STATIC", quant={
            "encoding": "AXIS_SCALE_OFFSET", "scale": [0.1, 0.2], "offset": [0, 0], "axis": 2})],
        {"stride": u32([1, 1]), "pad_amount": u32([[0, 0], [0, 0]]) | {"shape": [2, 2]}}, tensor("uq8", 1, 5, 5, 2),
        "filter axis 3 instead of 2",
    ),
    "a type and a parameter": (HTP, "LayerNorm", [H], {"axes": u32([9])}, F, "axes [2] instead of [9], y f16 instead of f32"),
    "a type and a shape": (CPU, "Relu", [F], {}, tensor("f16", 2), "y f32 instead of f16, y of shape [2, 3, 4] instead of [2]"),
    "the rank of an input": (
        HTP, "Conv2d", [F, tensor("f32", 3, 3, 4, 8)], {"stride": u32([1, 1]), "pad_amount": u32([[0, 0], [0, 0]]) | {"shape": [2, 2]}},
        tensor("f32", 1, 6, 6, 8), "only with other data: the rank of x must be 4",
    ),
    "a batch that is missing": (
        HTP, "Conv2d", [tensor("f32", 8, 8, 4), tensor("f32", 3, 3, 4, 8)],
        {"stride": u32([1, 1]), "pad_amount": u32([[0, 0], [0, 0]]) | {"shape": [2, 2]}},
        tensor("f32", 6, 6, 8), "x reshaped to rank 4, e.g. [1, 8, 8, 4], y reshaped to rank 4, e.g. [1, 6, 6, 8]",
    ),
    "dimensions too many": (
        HTP, "CumulativeSum", [tensor("f32", 1, 2, 3, 4, 5)], {"axis": u32(3), "exclusive": FALSE, "reverse": FALSE},
        tensor("f32", 1, 2, 3, 4, 5),
        "x reshaped to rank 4, e.g. [2, 3, 4, 5], axis 2 instead of 3, y reshaped to rank 4, e.g. [2, 3, 4, 5]",
    ),
    "sizes that do not fit are said in words": (
        HTP, "LayerNorm", [F, tensor("f32", 5)], {"axes": u32([2])}, F,
        "only with other data: if gamma is given, the shape of gamma must be S at axes",
    ),
    "a tensor too many": (CPU, "Relu", [F, F], {}, F, "inputs[1] omitted"),
    "a tensor too few": (CPU, "ElementWiseAdd", [F], {}, F, "b f32 [2, 1, 4] given"),
    "no output": (CPU, "Relu", [F], {}, None, "y f32 [2, 3, 4] given"),
    "a backend without a document": (Target("HTA"), "IsNan", [X], {}, F, None),
    "nothing is wrong": (CPU, "Relu", [F], {}, F, None),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_smallest_change_is_found(name: str) -> None:
    target, op, inputs, params, output, text = CASES[name]
    assert found(target, op, inputs, params, *([] if output is None else [output])) == text


def test_tensors_are_named_by_their_slots() -> None:
    one, other = tensor("f32", 2, 3), tensor("f16", 2, 3)
    text = found(CPU, "Concat", [one, other, one], {"axis": u32(0)}, tensor("f32", 6, 3))
    assert text == "xs[1] f32 instead of f16"


def test_a_variant_keeps_data_of_unchanged_tensors() -> None:
    config = from_json({
        "op": "LayerNorm", "id": "n", "params": {"axes": u32([2])}, "outputs": [F],
        "inputs": [H, tensor("f16", 4, type="STATIC", data=[1, 2, 3, 4]), tensor("f32", 4, type="STATIC", data=[0, 0, 0, 0])],
    })  # fmt: skip
    variant = nearest(config, HTP)
    assert isinstance(variant, Variant)
    assert variant.json() == {"text": "beta f16 instead of f32, y f16 instead of f32", "changes": [
        {"path": "inputs[2].dtype", "slot": "beta", "from": "FLOAT_32", "to": "FLOAT_16"},
        {"path": "outputs[0].dtype", "slot": "y", "from": "FLOAT_32", "to": "FLOAT_16"},
    ]}  # fmt: skip
    assert [t.data for t in variant.config.inputs] == [None, [1, 2, 3, 4], None]
    assert variant.config.id == "n"


def test_nearest_raises_the_errors_of_check() -> None:
    with pytest.raises(OpdbError, match="unknown op 'Rleu'; did you mean 'Relu'"):
        nearest(OpConfig("Rleu"), CPU)
    with pytest.raises(OpdbError, match="unknown SoC"):
        nearest(OpConfig("Relu"), Target("HTP", "SM1"))


def test_only_rows_of_the_sdk_are_proposed() -> None:
    """Rows in a table but not in force are not proposed: ``nearest`` uses the rows of the SDK."""
    from types import SimpleNamespace

    from opdb.judge.nearest.single_changes import _Site
    from opdb.runtime.binding import Context, Signature, Slot, rows

    module = SimpleNamespace(
        SIGNATURE=Signature("T", (Slot("x"),), (), (Slot("y"),)),
        ROWS_CPU=(*rows(("a", "f32", "f32")), *rows(("b", "f16", "f16"), since=2047)),
    )
    config = from_json({"op": "T", "inputs": [X], "outputs": [X]})
    for sdk, types in ((2040, {"f32"}), (2047, {"f32", "f16"})):
        levels = list(_Site(module, Context("CPU", sdk), config).levels())
        assert {m.config.inputs[0].dtype for level in levels for m in level} == types


def test_retyped_variants_are_ordered_by_number_of_changes() -> None:
    cells = [
        {"x": frozenset({"f16"}), "y": frozenset({"f16"})},
        {"x": frozenset({"f32", "i32"}), "y": frozenset({"i32"})},
    ]
    levels = list(retyped([("x", "f32"), ("y", "f16")], cells))
    assert [[types for types, _ in sorted(level, key=lambda e: e[1])] for level in levels] == [
        [("f16", "f16"), ("f32", "i32")],
        [("i32", "i32")],
    ]


def test_data_types_are_ordered_by_distance() -> None:
    order = sorted(("f32", "sq8", "uq16", "i8", "uq4", "uq8"), key=lambda t: far("uq8", t))
    assert (order[0], set(order[1:3]), order[3:]) == ("uq8", {"uq4", "uq16"}, ["sq8", "i8", "f32"])
    assert far("f16", "bf16") < far("f16", "f32") < far("f16", "i16")


def test_reencoded_covers_the_same_numbers() -> None:
    affine = Quant("SCALE_OFFSET", (0.5,), (-100,))
    assert reencoded(affine, "uq8", "sq8") == Quant("SCALE_OFFSET", (0.5,), (28,))
    wide = reencoded(affine, "uq8", "uq16")
    assert wide is not None
    assert wide.scale[0] * (0 + wide.offset[0]) == pytest.approx(0.5 * -100)
    assert wide.scale[0] * (65535 + wide.offset[0]) == pytest.approx(0.5 * 155)
    symmetric = reencoded(Quant("SCALE_OFFSET", (0.5,), (0,)), "sq8", "uq16")
    assert symmetric == Quant("SCALE_OFFSET", (0.5 / 256,), (-32768,))
    assert reencoded(affine, "uq8", "f32") is None
