"""Transformer operators of ONNX Runtime: the module matches its CPU provider, and HTP supports it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import helper, numpy_helper

from opdb.catalog.targets.target import Target
from opdb.checks.verdicts import check_program
from opdb.core.errors import OpdbError
from opdb.programs.onnx.graph import to_module
from opdb.programs.onnx.host_shapes import Unread
from opdb.programs.torch.export import export

pytestmark = pytest.mark.torch
HTP = Target("HTP", "SM8650", execution="emulator")
Arrays = dict[str, np.ndarray[Any, Any]]
RNG = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype(np.float32)


def model(node: onnx.NodeProto, given: Arrays, held: Arrays) -> onnx.ModelProto:
    def ends(arrays: Arrays) -> list[onnx.ValueInfoProto]:
        return [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in arrays.items()
        ]

    graph = helper.make_graph(
        [node],
        "one",
        ends(given),
        [onnx.ValueInfoProto(name=o) for o in node.output if o],
        [numpy_helper.from_array(a, n) for n, a in held.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def compared(
    op: str,
    inputs: Sequence[str],
    given: Arrays,
    held: Arrays | None = None,
    outputs: Sequence[str] = ("y",),
    domain: str = "com.microsoft",
    **attributes: Any,
) -> None:
    node = helper.make_node(op, inputs, outputs, domain=domain, **attributes)
    made = model(node, given, held or {})
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = session.run(None, given)
    tensors = {n: torch.from_numpy(a) for n, a in given.items()}
    module = to_module(made, tensors)
    got = module(*tensors.values())
    for g, w in zip(got if isinstance(got, tuple) else (got,), wanted, strict=True):
        np.testing.assert_allclose(g.numpy(), w, rtol=2e-4, atol=2e-5)
    rows = check_program(export(module, tuple(tensors.values())), HTP).rows
    assert not [r for r in rows if r.verdict != "supported"]


@pytest.mark.parametrize(
    ("a", "b", "attributes"),
    [
        ((2, 3, 4), (4, 5), {"alpha": 0.5}),
        ((2, 4, 3), (2, 5, 4), {"transA": 1, "transB": 1}),
        ((3, 2, 4), (2, 4, 5), {"transBatchA": 1}),
        ((2, 3, 4), (4, 2, 5), {"transBatchB": 1, "alpha": 2.0}),
        ((4, 2, 3), (5, 2, 4), {"transA": 1, "transBatchA": 1, "transB": 1, "transBatchB": 1}),
    ],
)
def test_fused_matmul_matches_onnx_runtime(
    a: tuple[int, ...], b: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    compared("FusedMatMul", ["a", "b"], {"a": floats(*a), "b": floats(*b)}, **attributes)


def test_normalizations_match_onnx_runtime() -> None:
    x, skip, one = floats(2, 3, 8), floats(2, 3, 8), floats(8)
    compared(
        "SimplifiedLayerNormalization", ["x", "w"], {"x": x}, {"w": one}, domain="", axis=-1, epsilon=1e-6
    )
    compared("SimplifiedLayerNormalization", ["x", "w"], {"x": x}, {"w": one}, ("y", "i"), "", axis=-1)
    compared(
        "SkipSimplifiedLayerNormalization", ["x", "s", "w"], {"x": x, "s": skip}, {"w": one}, ("y", "", "", "z"),
        epsilon=1e-6,
    )  # fmt: skip
    compared(
        "SkipSimplifiedLayerNormalization",
        ["x", "s", "w", "b"],
        {"x": x, "s": skip},
        {"w": one, "b": floats(8)},
    )
    held = {"w": one, "b": floats(8), "c": floats(8)}
    compared("SkipLayerNormalization", ["x", "s", "w", "b", "c"], {"x": x, "s": skip}, held, epsilon=1e-6)
    compared("SkipLayerNormalization", ["x", "s", "w"], {"x": x, "s": skip}, held, ("y", "", "", "z"))


@pytest.mark.parametrize("op", ["Gelu", "BiasGelu", "FastGelu", "QuickGelu"])
def test_activations_match_onnx_runtime(op: str) -> None:
    biased = op in ("BiasGelu", "FastGelu")
    compared(op, ["x", "b"] if biased else ["x"], {"x": floats(2, 3, 8)}, {"b": floats(8)} if biased else {})


def test_embeddings_match_onnx_runtime() -> None:
    ids, kinds = RNG.integers(0, 9, (2, 4)).astype(np.int32), RNG.integers(0, 2, (2, 4)).astype(np.int32)
    held = {"w": floats(9, 8), "p": floats(6, 8), "s": floats(2, 8), "g": floats(8), "b": floats(8)}
    compared(
        "EmbedLayerNormalization",
        ["i", "k", "w", "p", "s", "g", "b"],
        {"i": ids, "k": kinds},
        held,
        ("y", "m"),
    )


def angles(size: int) -> Arrays:
    turned = np.outer(np.arange(16), 1 / 10000 ** (np.arange(0, size, 2) / size)).astype(np.float32)
    return {"cos": np.cos(turned), "sin": np.sin(turned)}


@pytest.mark.parametrize(
    ("shape", "attributes"),
    [
        ((1, 2, 4, 8), {}),
        ((1, 2, 4, 8), {"interleaved": 1}),
        ((1, 4, 16), {"num_heads": 2}),
        ((1, 4, 16), {}),
        ((1, 4, 32), {"num_heads": 2, "rotary_embedding_dim": 8}),
    ],
)
def test_rotary_embeddings_match_onnx_runtime(shape: tuple[int, ...], attributes: dict[str, Any]) -> None:
    for places in (np.arange(2, 6, dtype=np.int64)[None], np.array([3], np.int64)):
        inputs = ["x", "p", "cos", "sin"]
        compared("RotaryEmbedding", inputs, {"x": floats(*shape)}, {"p": places, **angles(8)}, **attributes)


def test_multi_head_attention_matches_onnx_runtime() -> None:
    q, k, v = floats(1, 4, 16), floats(1, 6, 16), floats(1, 6, 16)
    given = {"q": q, "k": k, "v": v}
    compared("MultiHeadAttention", ["q", "k", "v"], given, num_heads=2)
    compared("MultiHeadAttention", ["q", "k", "v", "b"], given, {"b": floats(48)}, num_heads=2, scale=0.3)
    mask = np.array([[1, 1, 1, 1, 0, 0]], np.int32)
    compared("MultiHeadAttention", ["q", "k", "v", "", "m"], given, {"m": mask}, num_heads=2)
    compared(
        "MultiHeadAttention", ["q", "k", "v", "", "", "a"], {**given, "a": floats(1, 2, 4, 6)}, num_heads=2
    )
    past = {"pk": floats(1, 2, 3, 8), "pv": floats(1, 2, 3, 8)}
    same = {"q": q, "k": floats(1, 4, 16), "v": floats(1, 4, 16), **past}
    inputs = ["q", "k", "v", "", "", "", "pk", "pv"]
    compared("MultiHeadAttention", inputs, same, {}, ("y", "nk", "nv"), num_heads=2, unidirectional=1)


def test_packed_attention_matches_onnx_runtime() -> None:
    held = {"w": floats(8, 48), "b": floats(48), "m": np.array([[1, 1, 1, 0], [1, 1, 1, 1]], np.int32)}
    compared("Attention", ["x", "w", "b"], {"x": floats(2, 4, 8)}, held, num_heads=2)
    compared("Attention", ["x", "w", "b", "m"], {"x": floats(2, 4, 8)}, held, num_heads=2)
    compared("Attention", ["x", "w", "b"], {"x": floats(2, 4, 8)}, held, num_heads=2, unidirectional=1)


@pytest.mark.parametrize(("new", "past"), [(4, 0), (1, 3), (4, 2)])
@pytest.mark.parametrize("attributes", [{}, {"do_rotary": 1}, {"do_rotary": 1, "rotary_interleaved": 1}])
def test_grouped_query_attention_matches_onnx_runtime(
    new: int, past: int, attributes: dict[str, Any]
) -> None:
    """Covers the first tokens, one more after a cache, and several."""
    given = {"q": floats(1, new, 64), "k": floats(1, new, 32), "v": floats(1, new, 32)}
    given |= {"pk": floats(1, 2, past, 16), "pv": floats(1, 2, past, 16)} if past else {}
    held = {"n": np.array([new + past - 1], np.int32), "t": np.array(new + past, np.int32), **angles(16)}
    cache = ["pk", "pv"] if past else ["", ""]
    inputs = ["q", "k", "v", *cache, "n", "t", *(["cos", "sin"] if attributes else [])]
    outputs = ("y", "nk", "nv")
    compared("GroupQueryAttention", inputs, given, held, outputs, num_heads=4, kv_num_heads=2, **attributes)


def test_packed_and_windowed_grouped_queries_match_onnx_runtime() -> None:
    held = {"n": np.array([5], np.int32), "t": np.array(6, np.int32)}
    inputs, sizes = ["q", "", "", "", "", "n", "t"], {"num_heads": 4, "kv_num_heads": 2}
    compared("GroupQueryAttention", inputs, {"q": floats(1, 6, 64)}, held, ("y", "nk", "nv"), **sizes)
    compared(
        "GroupQueryAttention",
        inputs,
        {"q": floats(1, 6, 64)},
        held,
        ("y", "nk", "nv"),
        **sizes,
        local_window_size=3,
    )


def test_a_cache_of_unknown_length_stays_on_the_host() -> None:
    given = {"q": floats(1, 1, 64), "n": np.array([5], np.int32), "t": np.array(6, np.int32)}
    node = helper.make_node(
        "GroupQueryAttention",
        ["q", "", "", "", "", "n", "t"],
        ["y"],
        domain="com.microsoft",
        num_heads=4,
        kv_num_heads=2,
    )
    made = model(node, given, {})
    tensors = {n: torch.from_numpy(a) for n, a in given.items()}
    with pytest.raises(OpdbError, match="how much of its cache is used is only known when the model runs"):
        to_module(made, tensors)
    module = to_module(made, tensors, Unread(made))
    assert "only known when the model runs" in module.n0.reason
