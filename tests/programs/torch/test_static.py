"""Static tensors that builders create or change, and values of a program known before it runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from modules import Function, aten

from opdb.catalog.targets.target import Target
from opdb.checks.verdicts import check_program
from opdb.core.op_config import Quant
from opdb.judge.validate import check
from opdb.programs.torch.export import export
from opdb.programs.torch.program import Program
from opdb.runtime.forms import Lowered, layout_ops, lowered_op
from opdb.runtime.static import ramp_values, transformed
from opdb.runtime.tensors import (
    Rejection,
    TensorRef,
    Transform,
    block_diagonal,
    chosen,
    full,
    given_at,
    lifted,
    negated,
    permute,
    ramp,
    ramp_mask,
    reshape,
    scaled,
    spaced,
    tiled,
    widened,
    wrapped,
)


def values(t: TensorRef) -> np.ndarray[Any, Any]:
    return transformed(ramp_values(t), t.transforms)


def test_a_ramp_has_a_start_and_steps() -> None:
    rows, columns = np.indices((3, 4))
    made = values(ramp([3, 4], [10, -1], 5))
    assert made.dtype == np.int32 and np.array_equal(made, 5 + 10 * rows - columns)
    for diagonal in range(-4, 5):
        kept = values(ramp_mask([3, 4], [1, -1], diagonal))
        assert kept.dtype == bool and np.array_equal(
            kept, torch.tril(torch.ones(3, 4), diagonal).bool().numpy()
        )


def test_transforms_of_static_data_match_torch() -> None:
    truth = torch.arange(6, dtype=torch.int32).reshape(2, 3) - 3
    t = wrapped(scaled(ramp([2, 3], [3, 1], -3), 2), 5)
    t = permute(tiled(reshape(t, [2, 1, 3]), [4, 2, 2, 3]), [3, 0, 1, 2])
    wanted = torch.remainder(truth * 2, 5)[:, None].expand(4, 2, 2, 3).permute(3, 0, 1, 2)
    assert t.shape == tuple(wanted.shape) and np.array_equal(values(t), wanted.numpy())


@pytest.mark.parametrize("zero", [0, 128])
def test_expanding_groups_and_dilation_keeps_the_convolution(zero: int) -> None:
    shape, groups, gaps = (6, 4, 2, 3), 3, (2, 3)
    stored = torch.randint(1, 255, shape, dtype=torch.uint8)
    quant = Quant("SCALE_OFFSET", (0.5,), (-zero,))
    filter_ = TensorRef(shape, "uq8", static=True, key="w", base_shape=shape, quant=quant)
    made = spaced(block_diagonal(filter_, groups), gaps)
    wide = torch.from_numpy(transformed(stored.numpy(), made.transforms))
    assert made.shape == tuple(wide.shape) == (6, 12, 3, 7)
    x = torch.randn(2, 6, 5, 5, dtype=torch.float64)
    convolve = torch.nn.functional.conv_transpose2d
    truth = convolve(x, stored.double() - zero, stride=2, padding=1, groups=groups, dilation=gaps)
    torch.testing.assert_close(convolve(x, wide.double() - zero, stride=2, padding=1), truth)


def test_per_channel_scales_are_repeated_for_each_group() -> None:
    quant = Quant("AXIS_SCALE_OFFSET", (0.5, 2.0), (0, 0), axis=1)
    filter_ = TensorRef((4, 2, 1), "sq8", static=True, key="w", base_shape=(4, 2, 1), quant=quant)
    assert block_diagonal(filter_, 2).quant == Quant("AXIS_SCALE_OFFSET", (0.5, 2.0) * 2, (0,) * 4, axis=1)
    assert block_diagonal(filter_, 1) == spaced(filter_, [1]) == filter_


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"static": False}, "only known when the program runs"),
        ({"quant": Quant("AXIS_SCALE_OFFSET", (0.5, 2.0), (-3, -4), axis=1)}, "not stored as one number"),
        ({"shape": (5, 2, 1)}, "no 2 groups"),
        ({"shape": (1 << 20, 1 << 6, 1)}, "more than"),
    ],
)
def test_filters_that_cannot_be_padded_with_zeros_are_rejected(changes: dict[str, Any], words: str) -> None:
    filter_ = TensorRef((4, 2, 1), "sq8", static=True, key="w", base_shape=(4, 2, 1))
    with pytest.raises(Rejection, match=words):
        block_diagonal(replace(filter_, **changes), 2)


def test_an_8_bit_tensor_is_widened_exactly() -> None:
    t = TensorRef((3,), "uq8", key="x", quant=Quant("SCALE_OFFSET", (0.5,), (-3,)))
    wide = widened(t)
    assert wide.dtype == "uq16"
    for stored in (0, 3, 255):
        assert (257 * stored + wide.offset) * wide.scale == pytest.approx((stored - 3) * 0.5)
    with pytest.raises(Rejection, match="not widened"):
        widened(wide)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
def test_the_negative_of_a_quantized_tensor_is_exact(dtype: str) -> None:
    stored = np.arange(np.iinfo(dtype).min, np.iinfo(dtype).max + 1).astype(dtype)
    short = f"{'u' if dtype[0] == 'u' else 's'}q{stored.itemsize * 8}"
    t = TensorRef(stored.shape, short, static=True, key="x", quant=Quant("SCALE_OFFSET", (0.5,), (-3,)))
    less = negated(t)
    found = transformed(stored, less.transforms)
    assert found.dtype == dtype
    assert (found.astype(int) + less.offset == -(stored.astype(int) + t.offset)).all()
    with pytest.raises(Rejection, match="only known when the program runs"):
        negated(replace(t, static=False))
    with pytest.raises(Rejection, match="NONE"):
        negated(replace(t, quant=None))


def test_dynamic_tensors_get_an_op_per_transform() -> None:
    index = TensorRef((2, 1), "i32", key="index", base_shape=(2, 1))
    ops = layout_ops(tiled(scaled(wrapped(index, 7), 3), [5, 2, 4]))
    assert [o.op for o in ops] == ["ElementWiseMod", "ElementWiseMultiply", "Reshape", "Tile"]
    assert [o.outputs[0].shape for o in ops] == [(2, 1), (2, 1), (1, 2, 1), (5, 2, 4)]
    assert [o.inputs[1].fill for o in ops[:2] if o.inputs[1] is not None] == [7, 3]
    assert ops[3].params[0].value == (5, 1, 4)


def test_a_scalar_is_transformed_without_ops() -> None:
    number = full([1], -2.0, ramp([1], [0], 0))
    assert (wrapped(number, 7).fill, scaled(number, 3).fill, tiled(number, [2, 3]).shape) == (5, -6, (2, 3))


def test_lists_may_have_missing_tensors() -> None:
    a, b = (TensorRef((2,), "i32", key=k, base_shape=(2,)) for k in "ab")
    assert given_at([None, a, None, b]) == [1, 3] and chosen([None, a, None, b]) == [a, b]
    assert [t.shape for t in lifted([a, b], 1)] == [(2, 1), (2, 1)]


def test_impossible_transforms_are_rejected() -> None:
    t = TensorRef((2, 3), "f32", key="t", base_shape=(2, 3))
    with pytest.raises(Rejection, match=r"\[2, 3\] cannot be repeated to \[4, 3\]"):
        tiled(t, [4, 3])
    with pytest.raises(Rejection, match="size 0 has no element"):
        wrapped(t, 0)
    with pytest.raises(Rejection, match="1 step along the dimensions of \\[2, 3\\]"):
        ramp([2, 3], [1], 0)
    with pytest.raises(Rejection, match="do not fit INT_32"):
        ramp([2**20, 2**12], [2**12, 1], 0)
    with pytest.raises(Rejection, match="permuted and reshaped only"):
        lowered_op("Relu", inputs={"x": t}, outputs={"y": scaled(t, 2)})


@pytest.mark.torch
def test_values_determined_by_shapes_are_known_ahead() -> None:
    def call(x: torch.Tensor) -> torch.Tensor:
        filled = aten.fill.Scalar(x, 2.5) + torch.full_like(x, 1.0) - aten.new_zeros.default(x, [3])
        return x * aten.copy.default(x, filled) + torch.empty_like(x)

    program = Program(export(Function(call), (torch.randn(2, 3),)))
    assert [n.target for n in program.nodes] == ["aten.mul.Tensor", "aten.add.Tensor"]
    known = {name: program.values[name, 0] for name, _ in program.values}
    assert torch.equal(known["copy"], torch.full((2, 3), 3.5)) and not known["empty_like"].any()


@pytest.mark.torch
def test_a_copy_of_an_input_is_not_known_ahead() -> None:
    program = Program(export(Function(lambda x: aten.copy.default(x, x * 2)), (torch.randn(2, 3),)))
    assert [n.target for n in program.nodes] == ["aten.mul.Tensor", "aten.copy.default"]


def test_stored_integers_are_dequantized_per_tensor_or_axis() -> None:
    stored = np.array([[0, 128], [255, 1]], np.uint8)
    one = transformed(stored, [Transform("dequantize", ((0.5,), (-128,), -1))])
    assert one.dtype == np.float32 and one.tolist() == [[-64.0, 0.0], [63.5, -63.5]]
    each = transformed(stored, [Transform("dequantize", ((0.5, 2.0), (-128, 0), 1))])
    assert each.tolist() == [[-64.0, 256.0], [63.5, 2.0]]
    assert transformed(stored, [Transform("dequantize", ((1.0, 2.0), (0, 0), 0))]).tolist() == [
        [0, 128],
        [510, 2],
    ]


class Long(torch.nn.Module):
    """Selects with a constant of more than 4,096 elements."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("places", torch.arange(16).flip(0)[:, None].repeat(1, 320))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.gather(x, 0, self.places)


@pytest.mark.parametrize("last", [0, 16])
def test_rules_read_long_constants(last: int) -> None:
    target = Target("HTP", "SM8650")
    coverage = check_program(export(Long(), (torch.randn(16, 320),)), target)
    (lowered,) = coverage.lowered.values()
    assert isinstance(lowered, Lowered) and coverage.complete
    config = lowered.ops[0].config()
    places = np.full((16, 320), last, np.int32)
    long = replace(config.inputs[1], data=places)
    found = check(replace(config, inputs=(config.inputs[0], long)), target).violations
    assert ("GatherElements.H10" in {v.rule for v in found}) == (last == 16)


def test_a_permuted_constant_can_be_viewed() -> None:
    """The program makes it contiguous; the constant keeps the strides of the permutation."""

    class Positions(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            table = torch.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1).contiguous()
            return x + table.view(4, 6)

    exported = export(Positions(), (torch.zeros(4, 6),))
    program = Program(exported)
    (add,) = program.nodes
    key = next(t.key for t in (add.arg("self"), add.arg("other")) if t.static)
    np.testing.assert_array_equal(program.array(key), exported.module()(torch.zeros(4, 6)).numpy())
