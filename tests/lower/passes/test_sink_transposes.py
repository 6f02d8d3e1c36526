"""Moving Transposes, op by op; the numbers on the C kernels stay the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from graphs import CPU, HTP, Made, agree, kinds, number, numbers, pads, passed

from opdb.catalog.targets.target import Target
from opdb.core.graph import QnnGraph
from opdb.core.op_config import ParamConfig, Quant
from opdb.lower.passes.layouts import ELEMENTWISE, RULES

NCHW, NHWC = (0, 3, 1, 2), (0, 2, 3, 1)
#: The definition alone: every rule of the table counts, whatever a chip takes.
DEFINITION = Target()


def turned(made: Made, x: str, perm: Sequence[int]) -> str:
    shape = made.graph.tensors[x].shape
    return made.op("Transpose", [x], [shape[i] for i in perm], [numbers("perm", *perm)])


def sunk(graph: QnnGraph, left: int, target: Target = DEFINITION, tolerance: float | None = None) -> QnnGraph:
    """The graph after the pass, checked to have this many Transposes left and unchanged results."""
    after = passed(graph, "sink-transposes", target=target).graph
    assert kinds(after).count("Transpose") == left, kinds(after)
    agree(graph, after, tolerance)
    return after


def flag(name: str, value: bool = True) -> ParamConfig:
    return ParamConfig(name, "bool8", value)


#: Ops on a tensor [2, 3, 4, 5] in NCHW between two Transposes: (op, params, shape of the result, other inputs)
OPS: dict[str, tuple[str, list[ParamConfig], tuple[int, ...]]] = {
    "relu": ("Relu", [], (2, 3, 4, 5)),
    "softmax": ("Softmax", [number("axis", 1)], (2, 3, 4, 5)),
    "softmax-of-the-last": ("Softmax", [], (2, 3, 4, 5)),
    "log-softmax": ("LogSoftmax", [number("axis", 2)], (2, 3, 4, 5)),
    "cumulative-sum": ("CumulativeSum", [number("axis", 1)], (2, 3, 4, 5)),
    "l2norm": ("L2Norm", [number("axis", 1)], (2, 3, 4, 5)),
    "l2norm-axes": ("L2Norm", [numbers("axes", 1, 3)], (2, 3, 4, 5)),
    "layernorm": ("LayerNorm", [numbers("axes", 1)], (2, 3, 4, 5)),
    "mean-kept": ("ReduceMean", [numbers("axes", 2, 3), flag("keep_dims")], (2, 3, 1, 1)),
    "pad": ("Pad", [number("scheme", 0), pads(0, 0, 1, 0, 2, 1, 0, 3)], (2, 4, 7, 8)),
    "tile": ("Tile", [numbers("multiples", 1, 2, 1, 3)], (2, 6, 4, 15)),
    "slice": (
        "StridedSlice",
        [
            ParamConfig("ranges", "i32", (0, 2, 1, 1, 3, 1, 0, 4, 2, 4, 0, -1), (4, 3)),
            number("end_mask", 1),
        ],
        (2, 2, 2, 4),
    ),
    "argmax-kept": ("Argmax", [number("axis", 1), flag("keep_dims")], (2, 1, 4, 5)),
}  # fmt: skip


@pytest.mark.parametrize("case", OPS)
def test_an_op_between_two_transposes_adopts_their_layout(case: str) -> None:
    kind, params, shape = OPS[case]
    made = Made()
    x = turned(made, made.input(2, 4, 5, 3), NCHW)
    extra = [made.random(3), made.random(3)] if kind == "LayerNorm" else []
    dtype = "i32" if kind == "Argmax" else None
    y = made.op(kind, [x, *extra], shape, params, dtype)
    graph = made.output(turned(made, y, NHWC))
    after = sunk(graph, 0, tolerance=2e-6 if "Norm" in kind or "Reduce" in kind else None)
    assert kinds(after) == [kind]


def test_elementwise_ops_agree_with_their_specs() -> None:
    """The result has the shape of the broadcast inputs; only that makes an op elementwise."""
    from opdb.generated import validators

    for kind in ELEMENTWISE:
        module = validators.module(kind)
        assert module is not None, kind
        assert len(module.SIGNATURE.outputs) == 1, kind
    assert not ELEMENTWISE.intersection({"Concat", "Split"}) and set(RULES) > ELEMENTWISE


@pytest.mark.parametrize("shape", [(3, 1, 1), (1, 3, 1, 1), (4, 1), (1,), (5,), (2, 3, 4, 5)])
def test_a_constant_is_transposed_along(shape: tuple[int, ...]) -> None:
    made = Made()
    x = turned(made, made.input(2, 4, 5, 3), NCHW)
    y = made.op("ElementWiseAdd", [made.random(*shape), x], (2, 3, 4, 5))
    sunk(made.output(turned(made, y, NHWC)), 0)


def test_a_lower_rank_tensor_that_mixes_dimensions_blocks_the_move() -> None:
    made = Made()
    x, lines = turned(made, made.input(2, 4, 5, 3), NCHW), made.input(4, 5)
    y = made.op("ElementWiseAdd", [x, lines], (2, 3, 4, 5))
    sunk(made.output(turned(made, y, NHWC)), 2)


def test_a_lower_rank_tensor_follows_within_its_dimensions() -> None:
    made = Made()
    x, bias = turned(made, made.input(2, 4, 5, 3), NCHW), made.input(3, 1, 1)
    y = made.op("ElementWiseAdd", [x, bias], (2, 3, 4, 5))
    assert kinds(sunk(made.output(turned(made, y, NHWC)), 0)) == ["Reshape", "ElementWiseAdd"]


def test_ops_with_three_inputs_change_layout() -> None:
    made = Made()
    a, b = (turned(made, made.input(2, 4, 5, 3), NCHW) for _ in range(2))
    chosen = made.op("ElementWiseGreater", [a, b], (2, 3, 4, 5), dtype="bool8")
    y = made.op("ElementWiseSelect", [chosen, a, made.random(3, 1, 1)], (2, 3, 4, 5), dtype="f32")
    sunk(made.output(turned(made, y, NHWC)), 0)


def test_concat_split_and_gather_change_layout() -> None:
    made = Made()
    a, b = (turned(made, made.input(2, 4, 5, 3), NCHW) for _ in range(2))
    both = made.op("Concat", [a, b], (2, 6, 4, 5), [number("axis", 1)])
    picked = made.op(
        "Gather",
        [both, made.constant([4, 0, 1], "i32")],
        (2, 3, 4, 5),
        [ParamConfig("axis", "i32", 1)],
    )
    sunk(made.output(turned(made, picked, NHWC), turned(made, both, NHWC)), 0)


def test_a_split_passes_its_layout_to_all_parts() -> None:
    made = Made()
    x = turned(made, made.input(2, 4, 5, 6), NCHW)
    first = made.op("Split", [x], (2, 2, 4, 5), [number("axis", 1), numbers("split_index", 2)])
    graph = made.graph
    other = made.op("Relu", [x], (2, 4, 4, 5))  # a name and a shape for the second part
    graph.ops.pop()
    split = graph.ops[-1]
    graph.ops[-1] = type(split)(split.name, split.op, split.inputs, split.params, (first, other))
    sunk(made.output(turned(made, first, NHWC), turned(made, other, NHWC)), 0)


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("axes", [(2, 3), (1,), (0, 2), (1, 2, 3)])
def test_a_mean_adapts_its_axes(axes: tuple[int, ...], kept: bool) -> None:
    made = Made()
    x = turned(made, made.input(2, 4, 5, 3), NCHW)
    shape = [1 if i in axes else d for i, d in enumerate((2, 3, 4, 5)) if kept or i not in axes]
    y = made.op("ReduceMean", [x], shape, [numbers("axes", *axes), flag("keep_dims", kept)])
    after = passed(made.output(y), "sink-transposes", target=DEFINITION).graph
    agree(made.graph, after)
    bytes_left = sum(
        math.prod(after.tensors[op.outputs[0]].shape) for op in after.ops if op.op == "Transpose"
    )
    assert bytes_left <= math.prod(shape)


def test_a_slice_may_drop_a_dimension() -> None:
    made = Made()
    x = turned(made, made.input(2, 4, 5, 3), NCHW)
    ranges = ParamConfig("ranges", "i32", (0, 2, 1, 1, 2, 1, 0, 4, 1, 0, 5, 1), (4, 3))
    y = made.op("StridedSlice", [x], (2, 4, 5), [ranges, number("shrink_axes", 2)])
    after = sunk(made.output(y), 0)
    assert kinds(after) == ["StridedSlice"]


def test_a_pool_can_swap_height_and_width() -> None:
    made = Made()
    swap = (0, 2, 1, 3)
    x = turned(made, made.input(2, 7, 6, 3), swap)
    params = [numbers("filter_size", 3, 2), numbers("stride", 1, 2), pads(1, 1, 0, 1)]
    y = made.op("PoolMax2d", [x], (2, 6, 4, 3), params)
    sunk(made.output(turned(made, y, swap)), 0)


def test_chains_merge_and_pairs_cancel() -> None:
    made = Made()
    x = made.input(2, 3, 4, 5)
    y = turned(made, turned(made, turned(made, x, (1, 0, 2, 3)), (0, 2, 1, 3)), (3, 1, 0, 2))
    sunk(made.output(y), 1)
    made = Made()
    y = turned(made, turned(made, made.input(2, 3, 4, 5), NHWC), NCHW)
    assert kinds(sunk(made.output(y), 0)) == ["Reshape"]


def test_one_transpose_serves_all_readers() -> None:
    made = Made()
    x = made.op("Relu", [made.input(2, 3, 4, 5)], (2, 3, 4, 5))
    weights = [made.random(1, 1, 3, 2) for _ in range(3)]
    ends = [
        made.op(
            "Conv2d", [turned(made, x, NHWC), w], (2, 4, 5, 2), [numbers("stride", 1, 1), pads(0, 0, 0, 0)]
        )
        for w in weights
    ]
    sunk(made.output(*ends), 1)


def test_transposes_of_size_1_dimensions_become_reshapes() -> None:
    made = Made()
    y = turned(made, made.op("Relu", [made.input(2, 1, 1, 5)], (2, 1, 1, 5)), NCHW)
    assert sorted(kinds(sunk(made.output(y), 0))) == ["Relu", "Reshape"]


def flattened(kind: str, swapped: bool = False) -> QnnGraph:
    """NHWC -> NCHW -> [2, 60] -> a product with a constant."""
    made = Made()
    x = turned(made, made.op("Relu", [made.input(2, 4, 5, 3)], (2, 4, 5, 3)), NCHW)
    flat = made.op("Reshape", [x], (2, 60))
    weights = made.random(7, 60) if kind == "FullyConnected" or swapped else made.random(60, 7)
    params = [flag("transpose_in1")] if swapped else []
    return made.output(made.op(kind, [flat, weights], (2, 7), params))


@pytest.mark.parametrize("kind, swapped", [("FullyConnected", False), ("MatMul", False), ("MatMul", True)])
def test_weight_rows_follow_a_flattened_input(kind: str, swapped: bool) -> None:
    after = sunk(flattened(kind, swapped), 0, tolerance=2e-6)
    assert kinds(after) == ["Relu", "Reshape", kind]


def test_a_flattened_input_with_other_readers_is_kept() -> None:
    graph = flattened("FullyConnected")
    flat = graph.ops[-1].inputs[0]
    assert flat is not None
    held = graph.tensors[flat]
    graph.tensors[flat] = type(held)(held.name, held.dtype, held.shape, "APP_READ")
    sunk(graph, 1)


def test_dimensions_merged_by_a_reshape_move_together() -> None:
    """A vision transformer flattens its patches this way."""
    made = Made()
    x = turned(made, made.input(1, 4, 5, 6), NCHW)
    flat = made.op("Reshape", [x], (1, 6, 20))
    graph = made.output(turned(made, flat, (0, 2, 1)))
    assert kinds(sunk(graph, 0)) == ["Reshape"]


def test_a_reshape_that_mixes_dimensions_keeps_its_transpose() -> None:
    made = Made()
    x = turned(made, made.input(1, 4, 5, 6), NCHW)
    sunk(made.output(made.op("Reshape", [x], (1, 8, 15))), 1)


def test_moving_transposes_up_can_remove_more() -> None:
    """Two readers need NHWC of sums of one NCHW tensor: one Transpose before them all."""
    made = Made()
    x = made.input(2, 3, 4, 5)
    parts = [made.op("ElementWiseAdd", [x, made.random(3, 1, 1)], (2, 3, 4, 5)) for _ in range(3)]
    conv = [numbers("stride", 1, 1), pads(0, 0, 0, 0)]
    ends = [
        made.op("Conv2d", [turned(made, p, NHWC), made.random(1, 1, 3, 2)], (2, 4, 5, 2), conv) for p in parts
    ]
    sunk(made.output(*ends), 1)


def test_two_ops_move_together() -> None:
    """x * sigmoid(x) between convolutions: moving only one of them gains nothing."""
    made = Made()
    conv = [numbers("stride", 1, 1), pads(0, 0, 0, 0)]
    x = made.op("Conv2d", [made.input(1, 4, 5, 3), made.random(1, 1, 3, 2)], (1, 4, 5, 2), conv)
    x = turned(made, x, NCHW)
    gate = made.op("Sigmoid", [x], (1, 2, 4, 5))
    y = turned(made, made.op("ElementWiseMultiply", [x, gate], (1, 2, 4, 5)), NHWC)
    sunk(made.output(made.op("Conv2d", [y, made.random(1, 1, 2, 3)], (1, 4, 5, 3), conv)), 0)


def test_inputs_and_outputs_keep_their_names_and_shapes() -> None:
    made = Made()
    x = made.input(2, 4, 5, 3)
    y = made.op("Relu", [turned(made, x, NCHW)], (2, 3, 4, 5))
    after = sunk(made.output(y), 1)
    assert after.outputs[0].name == y and after.outputs[0].shape == (2, 3, 4, 5)


def test_an_output_with_other_readers_keeps_its_layout() -> None:
    made = Made()
    x = turned(made, made.input(2, 4, 5, 3), NCHW)
    y = made.op("Relu", [x], (2, 3, 4, 5))
    z = turned(made, made.op("Sigmoid", [y], (2, 3, 4, 5)), NHWC)
    twice = turned(made, y, NHWC)
    sunk(made.output(y, z, twice, turned(made, y, NHWC)), 1)


def test_an_input_may_be_transposed_to_two_outputs() -> None:
    made = Made()
    x = made.input(2, 3, 4)
    sunk(made.output(turned(made, x, (0, 2, 1)), turned(made, x, (0, 2, 1))), 1)


# -- quantized


def quant(scale: float = 0.02, offset: int = -100) -> Quant:
    return Quant("SCALE_OFFSET", (scale,), (offset,))


def test_quantized_tensors_keep_their_encodings() -> None:
    made = Made()
    x = turned(made, made.input(2, 4, 5, 3, dtype="uq8", quant=quant()), NCHW)
    bias = made.constant(made.rng.integers(0, 255, (3, 1, 1)), "uq8", quant(0.01))
    y = made.op("ElementWiseAdd", [x, bias], (2, 3, 4, 5), quant=quant(0.03))
    real = made.op("Dequantize", [turned(made, y, NHWC)], (2, 4, 5, 3), dtype="f32")
    graph = made.output(real)
    after = sunk(graph, 0, target=HTP)
    inner = [t for t in after.tensors.values() if t.type == "NATIVE"]
    assert [t.quant for t in inner] == [quant(0.03)]


def test_an_axis_encoding_follows_its_dimension() -> None:
    made = Made()
    per = Quant("AXIS_SCALE_OFFSET", (0.01, 0.02, 0.03), (0, 0, 0), axis=0)
    weight = made.constant(made.rng.integers(-100, 100, (3, 1, 1)), "sq8", per)
    x = turned(made, made.input(2, 4, 5, 3), NCHW)
    real = made.op("Dequantize", [weight], (3, 1, 1), dtype="f32")
    y = made.op("ElementWiseMultiply", [x, made.random(3, 1, 1)], (2, 3, 4, 5))
    graph = made.output(turned(made, y, NHWC), real)
    sunk(graph, 0)
    from opdb.lower.passes.tensor_layouts import stored

    moved = stored(graph.tensors[weight], (1, 2, 0))
    assert moved is not None and moved.quant is not None and moved.quant.axis == 2
    wider = stored(graph.tensors[weight], (0, 2, 3, 1))
    assert (
        wider is not None
        and wider.quant is not None
        and wider.quant.axis == 3
        and wider.shape == (1, 1, 1, 3)
    )
    blocks = Quant("BLOCK", (0.1,) * 3, (0,) * 3, block_size=(1, 1, 1))
    assert stored(type(moved)("b", "sq8", (3, 1, 1), "STATIC", None, blocks), (1, 2, 0)) is None


def test_per_channel_weights_are_transposed_but_blocks_are_not() -> None:
    """The first is absorbed, with its axis; the second is kept, as its scales depend on the order of the dimensions."""
    per = Quant("AXIS_SCALE_OFFSET", (0.01, 0.02), (0, 0), axis=1)
    turned_per = Quant("AXIS_SCALE_OFFSET", (0.01, 0.02), (0, 0), axis=0)
    blocks = Quant("BLOCK", (0.1,) * 4, (0,) * 4, block_size=(1, 1))
    for before, behind, left in ((per, turned_per, 0), (blocks, blocks, 1)):
        made = Made()
        weight = made.constant(made.rng.integers(-100, 100, (2, 2)), "sq8", before)
        y = made.op("Transpose", [weight], (2, 2), [numbers("perm", 1, 0)], quant=behind)
        x = made.input(3, 2)
        graph = made.output(made.op("MatMul", [x, y], (3, 2), dtype="f32"))
        after = passed(graph, "sink-transposes", target=DEFINITION).graph
        assert kinds(after).count("Transpose") == left
        kept = after.tensors[str(after.ops[-1].inputs[1])]
        assert kept.quant == behind and (left or kept.data is not None)
        if not left:
            np.testing.assert_array_equal(kept.data, np.asarray(graph.tensors[weight].data).T)


def test_a_weight_shared_by_two_layouts_is_duplicated() -> None:
    made = Made()
    x = turned(made, made.op("Relu", [made.input(2, 4, 5, 3)], (2, 4, 5, 3)), NCHW)
    flat, plain = made.op("Reshape", [x], (2, 60)), made.input(2, 60)
    weights = made.random(7, 60)
    ends = [made.op("FullyConnected", [t, weights], (2, 7)) for t in (flat, plain, flat)]
    sunk(made.output(*ends), 0, tolerance=2e-6)


def test_a_transpose_that_changes_an_encoding_stays() -> None:
    made = Made()
    x = made.input(2, 4, 5, 3, dtype="uq8", quant=quant(0.02))
    shape = (2, 3, 4, 5)
    y = made.op("Transpose", [x], shape, [numbers("perm", *NCHW)], quant=quant(0.04))
    after = passed(made.output(turned(made, y, NHWC)), "sink-transposes", target=DEFINITION).graph
    assert kinds(after).count("Transpose") == 2


# -- ops the target does not support


def test_an_op_unsupported_in_the_new_layout_does_not_move() -> None:
    """HTP has Softmax only along the last dimension."""
    made = Made()
    x = turned(made, made.op("Relu", [made.input(2, 4, 5, 3)], (2, 4, 5, 3)), NCHW)
    y = made.op("Softmax", [x], (2, 3, 4, 5), [number("axis", 3)])
    graph = made.output(turned(made, y, NHWC))
    sunk(graph, 2, target=HTP)
    sunk(graph, 0, target=CPU)


@pytest.mark.parametrize("network", ["mul", "chain"])
def test_the_pass_reaches_a_fixed_point(network: str) -> None:
    """A second run finds nothing to do."""
    makers: dict[str, Callable[[], QnnGraph]] = {
        "mul": lambda: flattened("MatMul"),
        "chain": lambda: flattened("FullyConnected"),
    }
    after = passed(makers[network](), "sink-transposes").graph
    assert passed(after, "sink-transposes").counts == {}
    assert all(isinstance(t.data, np.ndarray) for t in after.tensors.values() if t.type == "STATIC")
