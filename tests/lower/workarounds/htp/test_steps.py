"""16-bit ops that HTP computes correctly only for some encodings of the result, and concatenations of several types.

The numbers come from HTP's library, with and without the workarounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from obeying import EMULATOR, avoided, obeying
from ops_on_htp import off, real, run, tensor

from opdb.catalog.targets.target import Target
from opdb.core.op_config import Quant
from opdb.judge.errata.policy import AVOID, policy
from opdb.lower.ranges import unranged
from opdb.runtime.forms import Lowered, LoweredOp, lowered_op, scalar
from opdb.runtime.tensors import TensorRef, stored_range

HALF, DOUBLE = (1, 5, 6, 3), (1, 10, 12, 3)


def hard_sigmoid(
    scale: float, offset: int, dtype: str = "uq16", shape: tuple[int, ...] = (4, 16)
) -> LoweredOp:
    steps = 2**16 if dtype == "uq16" else 2**8
    params = [scalar("operation", "u32", 2), scalar("alpha", "f32", 1 / 6), scalar("beta", "f32", 0.5)]
    x, y = tensor("x", shape, 8 / steps, -steps // 2, dtype), tensor("y", shape, scale, offset, dtype)
    return lowered_op("ElementWiseNeuron", inputs={"x": x}, params=params, outputs={"y": y})


def resize(
    x_scale: float,
    y_scale: float,
    y_offset: int = -32768,
    sizes: tuple[tuple[int, ...], tuple[int, ...]] = (HALF, DOUBLE),
) -> LoweredOp:
    params = [scalar("transformation_mode", "u32", 0), scalar("interpolation_mode", "u32", 2)]
    x, y = tensor("x", sizes[0], x_scale, -32768), tensor("y", sizes[1], y_scale, y_offset)
    return lowered_op("Resize", inputs={"x": x}, params=params, outputs={"y": y})


# -- HTP-0214


@pytest.mark.parametrize(
    ("scale", "offset"), [(0.8333 / 65535, 0), (2**-13, -32768), (2**-16, -100), (1.1 / 65535, -3000)]
)
def test_a_hard_sigmoid_gets_its_fixed_encoding(scale: float, offset: int) -> None:
    given = hard_sigmoid(scale, offset)
    assert avoided(given) == {"HTP-0214"}
    first, second = obeying(given)
    assert (first.op, second.op) == ("ElementWiseNeuron", "Convert")
    assert (first.outputs[0].scale, first.outputs[0].offset) == (2**-16, 0)
    assert first.params == given.params and second.outputs == given.outputs
    assert not avoided(first) | avoided(second) and unranged(Lowered("made", (first, second))) == ""


@pytest.mark.parametrize(
    ("scale", "offset", "dtype"), [(1 / 65535, 0, "uq16"), (2**-16, 0, "uq16"), (2**-5, -128, "uq8")]
)
def test_an_8_bit_or_0_to_1_hard_sigmoid_is_unchanged(scale: float, offset: int, dtype: str) -> None:
    given = hard_sigmoid(scale, offset, dtype)
    assert obeying(given) == (given,)


@pytest.mark.vendor
@pytest.mark.parametrize("shape", [(64,), (1, 4, 4, 16), (1, 2, 2, 4, 16)], ids=str)
@pytest.mark.parametrize(
    ("scale", "offset", "least"), [(0.8333 / 65535, 0, 10800), (2**-13, -32768, 32000), (1.1 / 65535, -3000, 2900)]
)  # fmt: skip
def test_a_16_bit_hard_sigmoid_is_then_right_on_htp(
    scale: float, offset: int, least: int, shape: tuple[int, ...], htp: Any
) -> None:
    given = hard_sigmoid(scale, offset, shape=shape)
    x = np.linspace(0, 65535, int(np.prod(shape))).round().astype(np.uint16).reshape(shape)
    wanted = (real(x, tensor("x", shape, 2**-13, -32768)) / 6 + 0.5).clip(0, 1)
    assert off(htp, [given], wanted, x) >= least
    assert off(htp, obeying(given), wanted, x) <= 2


# -- HTP-0429 and HTP-0430


@pytest.mark.parametrize(
    ("x_scale", "y_scale", "y_offset"),
    [(1.2e-4, 1e-4, -32768), (1.000001e-4, 1e-4, 0), (4e-4, 1e-4, -20000), (4e-4, 1e-4, -65535)],
)
def test_a_cubic_resize_gets_the_scale_of_x(x_scale: float, y_scale: float, y_offset: int) -> None:
    given = resize(x_scale, y_scale, y_offset)
    assert avoided(given) == {"HTP-0429"}
    first, second = obeying(given)
    assert (first.op, second.op) == ("Resize", "Convert")
    assert first.outputs[0].scale == x_scale and second.outputs == given.outputs
    assert -65535 <= first.outputs[0].offset <= 0
    assert not avoided(first) | avoided(second) and unranged(Lowered("made", (first, second))) == ""


@pytest.mark.parametrize(
    "given",
    [
        resize(1e-4, 1e-4),
        resize(1e-4, 1.2e-4),
        resize(1.2e-4, 1e-4, sizes=(HALF, (1, 15, 18, 3))),
        resize(1.2e-4, 1e-4, sizes=(HALF, (1, 10, 6, 3))),
        resize(1.2e-4, 1e-4, sizes=(DOUBLE, HALF)),
    ],
)
def test_other_cubic_resizes_are_unchanged(given: LoweredOp) -> None:
    assert obeying(given) == (given,) and not avoided(given)


@pytest.mark.vendor
@pytest.mark.parametrize(
    ("x_scale", "y_scale", "y_offset"), [(1.2e-4, 1e-4, -32768), (1.000001e-4, 1e-4, -30000), (4e-4, 1e-4, -20000)]
)  # fmt: skip
@pytest.mark.parametrize("factor", [2, 4])
def test_a_16_bit_cubic_resize_is_then_right_on_htp(
    factor: int, x_scale: float, y_scale: float, y_offset: int, htp: Any
) -> None:
    given = resize(x_scale, y_scale, y_offset, (HALF, (1, 5 * factor, 6 * factor, 3)))
    x = np.random.default_rng(0).integers(0, 65536, HALF).astype(np.uint16)
    wanted = cubic(given, x)
    assert off(htp, [given], wanted, x) >= 10000
    assert off(htp, obeying(given), wanted, x) <= 16


@pytest.mark.vendor
@pytest.mark.parametrize("sizes", [(10, 24), (20, 12)])
def test_a_cubic_resize_by_2_and_4_has_no_workaround(sizes: tuple[int, int], htp: Any) -> None:
    given = resize(1e-4, 1e-4, sizes=(HALF, (1, *sizes, 3)))
    assert avoided(given) == {"HTP-0430"} and obeying(given) == (given,)
    x = np.random.default_rng(0).integers(0, 65536, HALF).astype(np.uint16)
    assert off(htp, [given], cubic(given, x), x) >= 10000
    other = resize(1e-4, 1e-4, sizes=(HALF, (1, 10, 18, 3)))
    assert not avoided(other) and off(htp, [other], cubic(other, x), x) <= 4


def cubic(op: LoweredOp, x: Any) -> Any:
    (source,), (result,) = op.inputs, op.outputs
    assert source is not None
    image = torch.from_numpy(real(x, source)).permute(0, 3, 1, 2)
    made = torch.nn.functional.interpolate(image, size=result.shape[1:3], mode="bicubic")
    return made.permute(0, 2, 3, 1).numpy()


# -- HTP-0431 and HTP-0432


def joined(first: str, second: str) -> LoweredOp:
    kinds = {
        "uq8": Quant("SCALE_OFFSET", (0.5,), (0,)),
        "uq16": Quant("SCALE_OFFSET", (0.25,), (0,)),
    }
    a, b = (
        TensorRef((2, 8), dtype, key=key, quant=kinds.get(dtype), base_shape=(2, 8))
        for key, dtype in (("a", first), ("b", second))
    )
    y = replace(a, key="y", shape=(4, 8), base_shape=(4, 8))
    return lowered_op("Concat", inputs={"xs": [a, b]}, params=[scalar("axis", "u32", 0)], outputs={"y": y})


@pytest.mark.parametrize(
    ("first", "second", "wrong"),
    [
        ("f32", "i32", True),
        ("i32", "f32", True),
        ("f16", "f32", True),
        ("f32", "f32", False),
        ("i32", "u32", False),
        ("uq8", "uq16", False),
        ("uq16", "uq8", False),
    ],
)
def test_a_concat_of_several_types_is_avoided(first: str, second: str, wrong: bool) -> None:
    assert ("HTP-0431" in avoided(joined(first, second))) is wrong
    for execution in ("device", "emulator"):
        assert policy("HTP-0431", Target("HTP", EMULATOR.soc, execution=execution)) == AVOID


@pytest.mark.vendor
def test_htp_reads_all_concat_inputs_in_the_first_type(htp: Any) -> None:
    a, b = np.arange(16, dtype=np.float32).reshape(2, 8), np.arange(16, dtype=np.int32).reshape(2, 8)
    got = run(htp, [joined("f32", "i32")], {"a": a, "b": b})
    assert np.array_equal(got[:2], a) and np.abs(got[2:]).max() < 1e-40
    same = run(htp, [joined("f32", "f32")], {"a": a, "b": b.astype(np.float32)})
    assert np.abs(same - np.concatenate([a, b])).max() <= 1e-2
    stored = run(htp, [joined("uq8", "uq16")], {"a": a.astype(np.uint8), "b": b.astype(np.uint16) * 2})
    assert np.array_equal(stored, np.concatenate([a, b]).astype(np.uint8))


@pytest.mark.vendor
def test_htp_clips_8_bit_inputs_in_a_16_bit_concat(htp: Any) -> None:
    given, other = joined("uq16", "uq8"), joined("uq8", "uq16")
    assert "HTP-0432" in avoided(given) and not avoided(other)
    wide, narrow = (np.arange(16).reshape(2, 8) * n for n in (4, 17))
    wide, narrow = wide.astype(np.uint16), narrow.astype(np.uint8)
    wrong = run(htp, [given], {"a": wide, "b": narrow})
    assert np.array_equal(wrong, np.concatenate([wide, np.minimum(2 * narrow.astype(np.uint16), 255)]))
    right = run(htp, [other], {"a": narrow, "b": wide})
    assert np.array_equal(right, np.concatenate([narrow, wide // 2]))


# -- HTP-0440 and HTP-0441


def scatter(op: str, updates: tuple[float, int], y: tuple[float, int] = (0.05, -128)) -> LoweredOp:
    rows = (3, 4) if op == "ScatterElements" else (3, 1)
    i = TensorRef(rows, "i32", key="i", base_shape=rows)
    tensors = {
        "x": tensor("x", (5, 4), 0.05, -128, "uq8"),
        "indices": i,
        "updates": tensor("u", (3, 4), *updates, "uq8"),
    }
    params = [scalar("reduction", "u32", 0)] + [scalar("axis", "u32", 0)] * (op == "ScatterElements")
    return lowered_op(op, inputs=tensors, params=params, outputs={"y": tensor("y", (5, 4), *y, "uq8")})


@pytest.mark.parametrize(("op", "erratum"), [("ScatterElements", "HTP-0440"), ("ScatterNd", "HTP-0441")])
def test_scattered_updates_get_the_encoding_of_the_result(op: str, erratum: str) -> None:
    given = scatter(op, (0.025, -100))
    assert avoided(given) == {erratum}
    convert, made = obeying(given)
    assert (convert.op, made.op) == ("Convert", op) and not avoided(made)
    assert made.inputs[2] is not None and made.inputs[2].quant == given.outputs[0].quant
    assert len(obeying(scatter(op, (0.05, -128), (0.06, -128)))) == 3  # x, too
    same = scatter(op, (0.05, -128))
    assert obeying(same) == (same,)


@pytest.mark.vendor
@pytest.mark.parametrize("op", ["ScatterElements", "ScatterNd"])
@pytest.mark.parametrize("updates", [(0.1, -128), (0.05, -108)])
def test_scattered_values_are_then_right_on_htp(op: str, updates: tuple[float, int], htp: Any) -> None:
    given = scatter(op, updates)
    rng = np.random.default_rng(0)
    x, u = (rng.integers(0, 256, shape).astype(np.uint8) for shape in ((5, 4), (3, 4)))
    rows = np.array([[0, 1, 2, 3], [1, 2, 3, 0], [4, 0, 0, 1]], np.int32)
    rows = rows if op == "ScatterElements" else np.array([[0], [3], [4]], np.int32)
    wanted, values = real(x, given.inputs[0]), real(u, given.inputs[2])  # type: ignore[arg-type]
    for place in np.ndindex(3, 4):
        row = int(rows[place] if op == "ScatterElements" else rows[place[0], 0])
        wanted[row, place[1]] = values[place]
    y = given.outputs[0]

    def most(ops: Sequence[LoweredOp]) -> float:
        found = real(run(htp, ops, {"x": x, "i": rows, "u": u}), y)
        return float(np.abs(found - wanted.clip(*stored_range(y))).max() / y.scale)

    assert most([given]) >= 20 and most(obeying(given)) <= 1
