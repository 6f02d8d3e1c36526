"""ONNX graphs as PyTorch modules: the numbers of ONNX's reference; constants are computed once."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from opdb.core.errors import OpdbError
from opdb.programs.onnx.graph import Graph, to_module

pytestmark = pytest.mark.torch
Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def info(name: str, kind: int = FLOAT, shape: Any = None) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    nodes: list[Any], weights: dict[str, Array], opset: int = 18, outputs: Any = ("y",), **more: Any
) -> Any:
    tensors = [numpy_helper.from_array(w, n) for n, w in weights.items()]
    graph = helper.make_graph(nodes, "graph", [info("x")], [info(o) for o in outputs], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], **more)


def judged(made: Any, x: Array) -> Graph:
    """The module, checked to match ONNX's reference."""
    module = to_module(made, {"x": torch.from_numpy(x)})
    got = module(torch.from_numpy(x))
    wanted = ReferenceEvaluator(made).run(None, {"x": x})
    for g, w in zip(got if isinstance(got, tuple) else (got,), wanted, strict=True):
        assert g.numpy().shape == w.shape and g.numpy().dtype == w.dtype
        np.testing.assert_allclose(g.numpy(), w, rtol=1e-5, atol=1e-5)
    return module


def as_onnx_runtime(made: Any, x: Array) -> None:
    """Checks against ONNX Runtime, for operators whose ONNX reference is wrong or lacks older forms."""
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    got = to_module(made, {"x": torch.from_numpy(x)})(torch.from_numpy(x))
    got = got[0] if isinstance(got, tuple) else got
    np.testing.assert_allclose(got.numpy(), session.run(None, {"x": x})[0], rtol=1e-5, atol=1e-5)


def floats(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def test_values_that_depend_only_on_shapes_are_known() -> None:
    """The usual export of x.view(x.shape[0], -1)."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Unsqueeze", ["n", "axes"], ["row"]),
        helper.make_node("Concat", ["row", "rest"], ["to"], axis=0),
        helper.make_node("Reshape", ["x", "to"], ["y"]),
    ]
    weights = {"zero": np.array(0), "axes": np.array([0]), "rest": np.array([-1])}
    module = judged(model(nodes, weights), floats(2, 3, 4))
    assert [name for name, _ in module.named_children()] == ["n4"]


def test_a_shared_weight_is_one_parameter() -> None:
    nodes = [helper.make_node("Mul", ["x", "w"], ["m"]), helper.make_node("Add", ["m", "w"], ["y"])]
    module = judged(model(nodes, {"w": floats(3)}), floats(2, 3))
    assert len(list(module.parameters())) == 1


def test_products_with_weights_become_linear_layers() -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Gemm", ["m", "v", "b"], ["y"])]
    module = judged(model(nodes, {"w": floats(4, 5), "v": floats(5, 6), "b": floats(6)}), floats(3, 4))
    program = torch.export.export(module, (torch.zeros(3, 4),))
    assert [str(n.target) for n in program.graph.nodes if n.op == "call_function"] == [
        "aten.linear.default"
    ] * 2


def test_model_functions_receive_their_attributes() -> None:
    scaled = helper.make_function(
        "own", "Scaled", ["a"], ["b"],
        [helper.make_node("Elu", ["a"], ["e"]), helper.make_node("Mul", ["e", "e"], ["b"])],
        [helper.make_opsetid("", 18)], ["alpha"],
    )  # fmt: skip
    reference = onnx.AttributeProto(name="alpha", ref_attr_name="alpha", type=onnx.AttributeProto.FLOAT)
    scaled.node[0].attribute.append(reference)
    nodes = [
        helper.make_node("Scaled", ["x"], ["s"], domain="own", alpha=0.5),
        helper.make_node("Scaled", ["s"], ["y"], domain="own", alpha=2.0),
    ]
    made = model(nodes, {}, functions=[scaled])
    made.opset_import.append(helper.make_opsetid("own", 1))
    x = torch.from_numpy(floats(4))
    module = to_module(made, {"x": x})  # ONNX's reference passes no attributes on to Elu
    first = torch.nn.functional.elu(x, 0.5) ** 2
    torch.testing.assert_close(module(x), torch.nn.functional.elu(first, 2.0) ** 2)
    assert [name for name, _ in module.named_children()] == ["n0", "n1"]


def body(nodes: list[Any], inputs: list[Any], outputs: list[Any]) -> Any:
    return helper.make_graph(nodes, "body", inputs, outputs)


@pytest.mark.parametrize("condition", [True, False])
def test_a_known_condition_selects_its_branch(condition: bool) -> None:
    branches = [body([helper.make_node(op, ["x"], ["r"])], [], [info("r")]) for op in ("Relu", "Neg")]
    node = helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])
    judged(model([node], {"c": np.array(condition)}), floats(4))


@pytest.mark.parametrize("limit", [2, 9])
def test_a_loop_is_unrolled_until_its_known_condition(limit: int) -> None:
    """The body adds x times the step number; the sums of all steps are stacked."""
    step = body(
        [
            helper.make_node("Cast", ["i"], ["f"], to=FLOAT),
            helper.make_node("Mul", ["x", "f"], ["m"]),
            helper.make_node("Add", ["v", "m"], ["w"]),
            helper.make_node("Identity", ["w"], ["each"]),
            helper.make_node("Less", ["i", "limit"], ["on"]),
        ],
        [info("i", INT64, []), info("c", BOOL, []), info("v")],
        [info("on", BOOL, []), info("w"), info("each")],
    )
    node = helper.make_node("Loop", ["count", "", "x"], ["y", "all"], body=step)
    weights = {"count": np.array(5), "limit": np.array(limit)}
    x = torch.from_numpy(floats(4))
    last, all_steps = to_module(model([node], weights, outputs=("y", "all")), {"x": x})(x)
    sums = torch.stack([x * (1 + sum(range(i + 1))) for i in range(min(5, limit + 1))])
    torch.testing.assert_close(all_steps, sums)
    torch.testing.assert_close(last, sums[-1])


@pytest.mark.parametrize("back", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_scan_is_unrolled(axis: int, back: int) -> None:
    step = body(
        [helper.make_node("Add", ["s", "row"], ["t"]), helper.make_node("Mul", ["t", "row"], ["out"])],
        [info("s"), info("row")], [info("t"), info("out")],
    )  # fmt: skip
    node = helper.make_node(
        "Scan", ["start", "x"], ["last", "y"], body=step, num_scan_inputs=1, scan_input_axes=[axis],
        scan_input_directions=[back],
    )  # fmt: skip
    # ONNX's reference computes neither other axes nor directions.
    x, start = floats(3, 3), floats(3)
    made = model([node], {"start": start}, outputs=("last", "y"))
    rows = np.moveaxis(x, axis, 0)[:: -1 if back else 1]
    last, out = to_module(made, {"x": torch.from_numpy(x)})(torch.from_numpy(x))
    sums = start + np.cumsum(rows, 0)
    np.testing.assert_allclose(last.numpy(), sums[-1], rtol=1e-5)
    np.testing.assert_allclose(out.numpy(), sums * rows, rtol=1e-5)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 7), st.integers(-9, 9), st.integers(-9, 9), st.sampled_from((-3, -2, -1, 1, 2, 3)))
def test_any_slice_matches_the_reference(size: int, start: int, stop: int, step: int) -> None:
    weights = {k: np.array([v]) for k, v in (("a", start), ("b", stop), ("d", 1), ("s", step))}
    judged(model([helper.make_node("Slice", ["x", "a", "b", "d", "s"], ["y"])], weights), floats(2, size))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(3, 8), st.integers(1, 3), st.integers(1, 3), st.integers(1, 2), st.integers(0, 2),
    st.integers(0, 2), st.booleans(), st.booleans(),
)  # fmt: skip
def test_any_average_pool_matches_onnx_runtime(
    size: int, kernel: int, stride: int, dilation: int, before: int, after: int, ceil: bool, with_pads: bool
) -> None:
    """Pads are smaller than the window, as ONNX requires; ONNX Runtime is the reference.

    With ceil_mode ONNX's reference distributes the missing part of the last window over both ends, against ONNX's text.
    """
    before, after = min(before, kernel - 1), min(after, kernel - 1)
    if (kernel - 1) * dilation + 1 > size + before + after:
        return
    node = helper.make_node(
        "AveragePool", ["x"], ["y"], kernel_shape=[kernel], strides=[stride], dilations=[dilation],
        pads=[before, after], ceil_mode=int(ceil), count_include_pad=int(with_pads),
    )  # fmt: skip
    as_onnx_runtime(model([node], {}, opset=22, ir_version=10), floats(1, 2, size))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 6), st.integers(1, 9), st.sampled_from(("nearest", "linear", "cubic")),
    st.sampled_from(("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")),
    st.sampled_from(("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")),
)  # fmt: skip
def test_any_resize_matches_the_reference(size: int, wanted: int, mode: str, places: str, rule: str) -> None:
    # With one result ONNX's reference divides by 0, or uses -0.5 where ONNX's text and ONNX Runtime use 0.
    if wanted == 1 and places in ("align_corners", "pytorch_half_pixel"):
        return
    node = helper.make_node(
        "Resize",
        ["x", "", "", "sizes"],
        ["y"],
        mode=mode,
        coordinate_transformation_mode=places,
        nearest_mode=rule,
    )
    judged(model([node], {"sizes": np.array([1, 2, size, wanted])}), floats(1, 2, size, size))


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (helper.make_node("Det", ["x"], ["y"], name="d"), "node 1, Det 'd': opdb cannot express it in PyTorch"),
        (helper.make_node("Odd", ["x"], ["y"], domain="own"), "node 1, Odd: the domain 'own' has no such operator"),
        (helper.make_node("RandomNormalLike", ["x"], ["y"]), "its results are random"),
        (helper.make_node("Relu", ["z"], ["y"]), "it reads 'z', which no earlier node produces"),
        (helper.make_node("NonZero", ["x"], ["y"]), "the shape of its result is only known when the model runs"),
        (helper.make_node("Reshape", ["x", "x"], ["y"]), "its input 'shape' is only computed when the model runs"),
        (helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT8E5M2), "tensors of float8_e5m2"),
        (helper.make_node("MatMul", ["x", "w"], ["y"]), "node 1, MatMul, cannot be computed: mat1 and mat2 shapes"),
    ],
)  # fmt: skip
def test_unsupported_nodes_are_named(node: Any, words: str) -> None:
    with pytest.raises(OpdbError, match=words):
        to_module(model([node], {"w": floats(5, 2)}, opset=20), {"x": torch.ones(2, 3)})


@pytest.mark.parametrize(
    ("opset", "node"),
    [
        (7, helper.make_node("Dropout", ["x"], ["y"], ratio=0.3)),
        (7, helper.make_node("TopK", ["x"], ["y", "i"], k=2, axis=1)),
        (8, helper.make_node("Clip", ["x"], ["y"], min=-0.5, max=0.25)),
        (9, helper.make_node("Slice", ["x"], ["y"], starts=[1, 0], ends=[9, -1], axes=[1, 3])),
        (9, helper.make_node("Upsample", ["x", "scales"], ["y"], mode="nearest")),
        (7, helper.make_node("Upsample", ["x"], ["y"], mode="linear", scales=[1.0, 1.0, 2.0, 1.5])),
        (10, helper.make_node("Resize", ["x", "scales"], ["y"], mode="nearest")),
        (10, helper.make_node("Pad", ["x"], ["y"], pads=[0, 0, 1, 2, 0, 0, 0, 1], value=0.5)),
        (11, helper.make_node("Softmax", ["x"], ["y"])),
        (11, helper.make_node("LogSoftmax", ["x"], ["y"], axis=2)),
        (11, helper.make_node("Hardmax", ["x"], ["y"], axis=2)),
        (11, helper.make_node("ReduceSum", ["x"], ["y"], axes=[1, -1], keepdims=0)),
        (11, helper.make_node("ReduceMean", ["x"], ["y"])),
        (11, helper.make_node("Split", ["x"], ["y", "z"], axis=1, split=[1, 2])),
        (11, helper.make_node("Squeeze", ["x"], ["y"], axes=[0])),
        (11, helper.make_node("Unsqueeze", ["x"], ["y"], axes=[0, 3])),
        (11, helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], axis=1)),
    ],
    ids=lambda v: v.op_type if hasattr(v, "op_type") else str(v),
)  # fmt: skip
def test_older_forms_of_operators_are_supported(opset: int, node: Any) -> None:
    weights = {
        "scales": np.array([1, 1, 2, 1.5], np.float32), "u": floats(1, 2, 4, 4),
        "i": RNG.permuted(np.tile(np.arange(3).reshape(1, 3, 1, 1), (1, 1, 4, 4)), axis=1)[:, :2],
    }  # fmt: skip
    given = {k: v for k, v in weights.items() if k in node.input}
    as_onnx_runtime(model([node], given, opset, node.output[:1], ir_version=8), floats(1, 3, 4, 4))


def test_a_too_old_opset_is_refused() -> None:
    made = model([helper.make_node("Add", ["x", "b"], ["y"], broadcast=1)], {"b": floats(2)}, opset=6)
    with pytest.raises(OpdbError, match="its operators are of opset 6, and opdb reads them from 7 on"):
        to_module(made, {"x": torch.ones(2)})


def test_a_newer_form_of_an_operator_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opdb.programs.onnx.graph.NEWEST", 19)
    with pytest.raises(
        OpdbError, match="its form of opset 20 is newer than what opdb knows, which is opset 19"
    ):
        to_module(model([helper.make_node("Gelu", ["x"], ["y"])], {}, opset=20), {"x": torch.ones(2)})
