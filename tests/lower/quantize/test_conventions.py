"""The conventions against the libraries that use them; QHPI's against a package run by HTP (tests/plugins/packages)."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.core.op_config import Quant
from opdb.lower.quantize.conventions import CONVENTIONS, ONNX, PYTORCH, QHPI, QNN, Encoding, converted

#: type -> its smallest and largest integer
ENDS = {"uq8": (0, 255), "sq8": (-128, 127), "uq16": (0, 65535), "sq16": (-32768, 32767)}
CASES = [Encoding(dtype, 0.25, offset) for dtype in ENDS for offset in (0, -3, 7, -128)]
EIGHT = [c for c in CASES if c.dtype in ("uq8", "sq8")]


def name(case: Encoding) -> str:
    return f"{case.dtype} {case.offset}"


def zero_is_stored(case: Encoding) -> bool:
    low, high = ENDS[case.dtype]
    return low <= -case.offset <= high


@pytest.mark.parametrize(("a", "b"), itertools.product(CONVENTIONS, CONVENTIONS), ids=lambda c: c.name)
def test_conversions_between_conventions_are_invertible(a, b) -> None:
    for case in CASES:
        start, before = converted(case, a)
        there, added = converted(start, b)
        assert converted(there, a) == (start, -added)
        for stored in (*ENDS[case.dtype], 3):
            assert there.real(stored + before + added) == start.real(stored + before) == case.real(stored)


def test_qhpi_stores_signed_integers_as_unsigned() -> None:
    assert converted(Encoding("sq8", 0.5, -3), QHPI) == (Encoding("sq8", 0.5, 131, QHPI), 128)
    assert converted(Encoding("sq16", 0.5, 0), QHPI) == (Encoding("sq16", 0.5, 32768, QHPI), 32768)
    assert converted(Encoding("uq8", 0.5, -3), QHPI) == (Encoding("uq8", 0.5, 3, QHPI), 0)


def test_a_float_type_is_rejected() -> None:
    with pytest.raises(OpdbError, match="FLOAT_32 is not a quantized type"):
        converted(Encoding("f32", 1.0, 0), ONNX)


@pytest.mark.parametrize(
    "case", filter(zero_is_stored, EIGHT), ids=name
)  # ONNX's zero points are stored values
def test_the_onnx_convention_matches_onnx_runtime(case: Encoding) -> None:
    onnx, ort = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    made, _ = converted(case, ONNX)
    numpy_type = np.uint8 if case.dtype == "uq8" else np.int8
    stored = np.arange(*ENDS[case.dtype], 17).astype(numpy_type)
    h = onnx.helper
    element = h.np_dtype_to_tensor_dtype(np.dtype(numpy_type))
    graph = h.make_graph(
        [h.make_node("DequantizeLinear", ["x", "scale", "zero"], ["y"])],
        "g",
        [h.make_tensor_value_info("x", element, stored.shape)],
        [h.make_tensor_value_info("y", onnx.TensorProto.FLOAT, stored.shape)],
        [
            h.make_tensor("scale", onnx.TensorProto.FLOAT, [], [made.scale]),
            h.make_tensor("zero", element, [], [made.offset]),
        ],
    )
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 13)], ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (got,) = session.run(None, {"x": stored})
    assert got.tolist() == [case.real(int(q)) for q in stored]


@pytest.mark.parametrize("case", CASES, ids=name)
def test_the_pytorch_convention_matches_pytorch(case: Encoding) -> None:
    torch = pytest.importorskip("torch")
    from torch.ao.quantization.fx import _decomposed  # noqa: F401  # registers the operators

    kind = {"uq8": torch.uint8, "sq8": torch.int8, "uq16": torch.int32, "sq16": torch.int16}[case.dtype]
    low, high = ENDS[case.dtype]
    made, _ = converted(case, PYTORCH)
    stored = torch.arange(low, high, 17, dtype=kind)
    dequantize = torch.ops.quantized_decomposed.dequantize_per_tensor.default
    got = dequantize(stored, made.scale, made.offset, low, high, kind)
    assert got.tolist() == [case.real(int(q)) for q in stored]


@pytest.mark.vendor
@pytest.mark.parametrize("case", EIGHT, ids=name)
def test_the_qnn_convention_matches_qnn(case: Encoding) -> None:
    from opdb.runtime.qnn import libraries
    from opdb.runtime.qnn.backend import Backend

    if not (found := [one for one in libraries.discover() if "CPU" in one.present]):
        pytest.skip("no QNN library for CPU")
    stored = np.arange(*ENDS[case.dtype], 17).astype(np.uint8 if case.dtype == "uq8" else np.int8)
    quant = Quant("SCALE_OFFSET", (case.scale,), (converted(case, QNN)[0].offset,))
    tensors = [
        GraphTensor("x", case.dtype, stored.shape, "APP_WRITE", quant=quant),
        GraphTensor("y", "f32", stored.shape, "APP_READ"),
    ]
    graph = QnnGraph("g", {t.name: t for t in tensors}, [GraphOp("d", "Dequantize", ("x",), (), ("y",))])
    with Backend.open("CPU", libraries=found[0]) as backend, backend.prepare(graph) as prepared:
        assert prepared.execute({"x": stored})["y"].tolist() == [case.real(int(q)) for q in stored]


def test_the_c_code_of_htp_packages_uses_the_same_offsets() -> None:
    """has_element compares a node's zero with these numbers."""
    text = (Path(__file__).parents[3] / "runtime/src/packages/htp_nodes.c").read_text()
    for dtype, macro in (("sq8", "OPDB_SQ8"), ("sq16", "OPDB_SQ16")):
        _, added = converted(Encoding(dtype, 1.0, 0), QHPI)
        begin = text.index(f"case {macro}:")
        assert f"zero + {added})" in text[begin : text.index("case", begin + 5)]
