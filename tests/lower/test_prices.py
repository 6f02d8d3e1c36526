"""The table of prices: its estimates for ops, its choices between forms, and the file shipped with opdb."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from opdb.catalog.targets.target import Target
from opdb.core.errors import OpdbError
from opdb.generated.builders import TARGETS
from opdb.lower import prices
from opdb.lower.candidates import forms
from opdb.lower.cost import MODELED, Cost
from opdb.lower.prices import (
    Kind,
    Line,
    OfOperator,
    Table,
    covers,
    kind_of,
    prices_of,
    read,
    shipped,
    work_of,
    written,
)
from opdb.runtime.forms import Lowered, LoweredOp, lowered_op, scalar
from opdb.runtime.tensors import TensorRef, permute, reshape

RELU, TANH = Kind("Relu", "fp16", ""), Kind("Tanh", "fp16", "")
TABLE = Table("SA8255", "v1", ("net",), {RELU: Line(10.0, 1.0, 0.0, 4), TANH: Line(1.0, 1.0, 0.0, 2)})


def op(name: str, *shape: int, dtype: str = "f32", operation: int | None = None) -> LoweredOp:
    t = TensorRef(shape, dtype, base_shape=shape)
    params = [] if operation is None else [scalar("operation", "u32", operation)]
    return lowered_op(name, inputs={"x": t}, outputs={"y": t}, params=params)


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (op("Relu", 1, 8, 8, 32), RELU),
        (op("Relu", 1, 8, 8, 32, dtype="uq8"), Kind("Relu", "8 bits", "")),
        (op("Relu", 1, 8, 8, 32, dtype="sq16"), Kind("Relu", "16 bits", "")),
        (op("Cast", 1, 8, 8, 32, dtype="i32"), Kind("Cast", "32 bits", "")),
        (op("Relu", 1, 2, 8, 8, 32), Kind("Relu", "fp16", "5d")),
        (op("Relu", 1, 64, 64, 3), Kind("Relu", "fp16", "narrow")),
        (op("Relu", 4, 3), RELU),  # too small for its rows to matter
        (op("MatMul", 16, 32, 32), Kind("MatMul", "fp16", "many")),
        (op("MatMul", 1, 12, 32, 32), Kind("MatMul", "fp16", "")),
        (op("ElementWiseNeuron", 4, 32, operation=2), Kind("ElementWiseNeuron.2", "fp16", "")),
    ],
)
def test_ops_are_assigned_lines_of_the_table(made: LoweredOp, kind: Kind) -> None:
    assert kind_of(made) == kind


def test_a_price_sums_ops_bytes_and_products() -> None:
    line = Line(2.0, 10.0, 100.0, 3)
    assert line.price(Cost(3_000_000, 20_000_000, 1_000_000, 2)) == pytest.approx(2 * 2 + 10 * 4 + 100 * 0.02)
    work = work_of([op("Relu", 1, 100, 2500), op("Relu", 1, 100, 2500)])
    assert work == {RELU: Cost(4_000_000, 0, 0, 2)}
    assert TABLE.price(work) == pytest.approx(24)
    assert TABLE.difference({RELU: Cost(-2_000_000, 0, 0, -1)}) == pytest.approx(-12)


def test_transposes_of_a_channels_first_image_are_priced() -> None:
    """The op reads rows of an image whose neighbors have channels last."""
    image = TensorRef((1, 32, 8, 8), "f32", key=("x", 0), base_shape=(1, 32, 8, 8))
    rows, last = reshape(image, (32, 8, 8)), permute(image, (0, 2, 3, 1))
    turned = lowered_op("Relu", inputs={"x": rows}, outputs={"y": rows})
    moved = 2 * 2 * 4 * 32 * 8 * 8
    assert work_of([turned])[Kind("Transpose", "fp16", "")] == Cost(moved, 0, 0, 2)
    assert len(work_of([lowered_op("Relu", inputs={"x": last}, outputs={"y": last})])) == 1
    vector = TensorRef((1, 32, 1, 1), "f32", key=("x", 0), base_shape=(1, 32, 1, 1))
    assert (
        len(work_of([lowered_op("Relu", inputs={"x": reshape(vector, (1, 32))}, outputs={"y": vector})])) == 1
    )


def test_an_op_without_a_line_costs_the_price_of_its_class() -> None:
    pooled = replace(TABLE, lines={**TABLE.lines, Kind("", "fp16", ""): Line(7.0, 0.0, 0.0, 9)})
    work = work_of([op("Elu", 1, 2, 8, 8, 32)])
    assert pooled.price(work) == 7 and not pooled.knows(work)
    assert TABLE.price(work) > 0  # its class has no line either
    free = replace(TABLE, lines={RELU: Line(0.0, 0.0, 0.0, 1)})
    assert free.price(work_of([op("Relu", 2, 2)])) == prices.LEAST


def test_the_table_decides_only_between_compared_forms() -> None:
    one = Lowered("relu", (op("Relu", 1, 64),))
    three = Lowered("tanhs", (op("Tanh", 1, 64),) * 3)
    compared = replace(TABLE, compared=frozenset({("aten.x", "relu", "tanhs", "fp16", "", "")}))
    assert OfOperator(compared, "aten.x").saves(three, one)
    assert not OfOperator(compared, "aten.x").beyond("tanhs", ("Tanh", "Exp", "Elu"), one)
    for other in (OfOperator(TABLE, "aten.x"), OfOperator(compared, "aten.y"), MODELED):
        assert not other.saves(three, one)
        assert other.beyond("tanhs", ("Tanh", "Exp", "Elu"), one)
    unknown = replace(compared, lines={RELU: TABLE.lines[RELU]})
    assert not OfOperator(unknown, "aten.x").saves(three, one)


def test_a_later_form_must_save_more_than_the_error() -> None:
    work = work_of([op("Relu", 1, 64)])
    small = replace(TABLE, lines={RELU: Line(10.0, 0.0, 0.0, 4), TANH: Line(8.0, 0.0, 0.0, 4)})
    assert not small.saves(work_of([op("Tanh", 1, 64)]), work)
    assert small.saves(work_of([op("Tanh", 1, 64)]), {RELU: Cost(0, 0, 0, 2)})
    assert not small.saves(work, work)


def test_the_table_applies_only_to_htp_v73_to_v81() -> None:
    v68, v73, v75 = (Target("HTP", soc) for soc in ("SM8350", "SA8255", "SM8650"))
    assert [covers(t) for t in (v68, v73, v75)] == [False, True, True]
    assert not covers(Target("CPU")) and not covers(Target("GPU", "SM8650")) and not covers(Target())
    assert prices_of("aten.relu.default", v68) is MODELED
    assert prices_of("aten.relu.default", v75) == OfOperator(shipped(), "aten.relu.default")


def test_a_table_survives_a_round_trip() -> None:
    table = replace(TABLE, compared=frozenset({("aten.x", "a", "b", "fp16", "", "narrow")}))
    assert read(written(table)) == table
    assert written(read(written(table))) == written(table)
    document = json.loads(written(table))
    assert document["lines"][0] == ["Relu", "fp16", "", 10.0, 1.0, 0.0, 4]
    with pytest.raises(OpdbError, match="format 99; this opdb reads 1"):
        read(written(table).replace('"format": 1', '"format": 99'))
    with pytest.raises(OpdbError, match="not a table of prices"):
        read('{"lines": []}')


def test_the_shipped_table_has_the_canonical_format() -> None:
    assert written(shipped()) == prices.FILE.read_text()
    assert shipped().soc == "SA8255" and shipped().build_id.startswith("v2.51.")
    assert {k.numbers for k in shipped().lines} >= {"fp16", "8 bits", "16 bits"}
    assert all(min(x.us, x.us_per_mb, x.us_per_g) >= 0 for x in shipped().lines.values())


def test_forms_in_the_shipped_table_exist() -> None:
    for target, earlier, later, *_ in shipped().compared:
        assert target in TARGETS
        names = [f.name for f in forms(target)]
        assert names.index(earlier) < names.index(later)
