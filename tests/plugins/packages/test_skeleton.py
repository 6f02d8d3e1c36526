"""Models with custom ops -> drafts of specs, and packages for Cloud AI that run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opdb.core import c_compiler
from opdb.core.errors import OpdbError
from opdb.core.op_config import OpConfig, ParamConfig, TensorConfig
from opdb.plugins.cloud_ai import conformance, onnx_nodes, skeleton
from opdb.spec.catalog import Catalog

onnx = pytest.importorskip("onnx")
pytestmark = [pytest.mark.native, pytest.mark.slow]
FLOAT, INT8, INT64 = 1, 3, 7
SCALED_C = """\
#include "kernel.h"

opdb_status opdb_scaled(const opdb_tensor *x, double alpha, opdb_ints places, const opdb_tensor *y) {
    for (int64_t i = 0; i < size_of(y); i++)
        ((float *)y->data)[i] = (float)(alpha * (double)places.v[i % places.n]) * ((const float *)x->data)[i];
    return OPDB_OK;
}
"""


def node(op: str, inputs: list[str], outputs: list[str], domain: str = "com.acme", **attributes: Any) -> Any:
    return onnx.helper.make_node(op, inputs, outputs, name=f"{op}_{outputs[0]}", domain=domain, **attributes)


def saved(
    folder: Path,
    nodes: list[Any],
    inputs: dict[str, Any],
    outputs: dict[str, Any],
    known: dict[str, Any] | None = None,
) -> Path:
    """``inputs``, ``outputs``, ``known``: type and shape by name."""
    values = [
        [onnx.helper.make_tensor_value_info(n, *t) for n, t in group.items()]
        for group in (inputs, outputs, known or {})
    ]
    graph = onnx.helper.make_graph(nodes, "graph", values[0], values[1], value_info=values[2])
    domains = sorted({n.domain for n in nodes} | {""})
    opsets = [onnx.helper.make_opsetid(d, 17 if d == "" else 1) for d in domains]
    path = folder / "model.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9), str(path))
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return saved(
        tmp_path,
        [
            node("Relu", ["a"], ["r"], domain=""),
            node("Scaled", ["r"], ["b"], alpha=0.5, places=[1, 2]),
            node("Scaled", ["b"], ["c"], alpha=0.25, places=[3, 4]),
            node("DequantizeAdd", ["q", "bias"], ["y"], scale=0.5),
            node("Top2", ["c"], ["v", "i"], k=2),
        ],
        {"a": (FLOAT, [2, 4]), "q": (INT8, ["n", 4]), "bias": (FLOAT, [4])},
        {"c": (FLOAT, [2, 4]), "y": (FLOAT, ["n", 4]), "v": (FLOAT, [2, 2]), "i": (INT64, [2, 2])},
        {"b": (FLOAT, [2, 4])},
    )


def test_ranks_types_and_attributes_of_all_nodes_are_read(model: Path) -> None:
    """C2, C5: ONNX's own nodes are ignored."""
    scaled, dequantize, top = onnx_nodes.read(model)
    assert (scaled.name, scaled.nodes, scaled.first) == ("Scaled", 2, "Scaled_b")
    assert scaled.inputs[0].shapes == [(2, 4), (2, 4)] and scaled.inputs[0].dtypes == ["f32"]
    assert scaled.attributes["alpha"].base == "f32" and not scaled.attributes["alpha"].listed
    assert scaled.attributes["places"].listed and scaled.attributes["places"].counts == {2}
    assert dequantize.inputs[0].shapes == [("n", 4)] and [p.dtypes for p in top.outputs] == [["f32"], ["i64"]]


def test_all_ops_are_drafted_and_ops_with_kernels_packaged(
    model: Path, catalog: Catalog, tmp_path: Path
) -> None:
    """C1, C3, C5."""
    (tmp_path / "scaled.c").write_text(SCALED_C)
    made = skeleton.make(catalog, model, tmp_path / "out", domain="com.acme", kernels=[tmp_path / "scaled.c"])
    assert sorted(made.drafts) == ["Scaled", "Top2"] and made.left == {"Top2": "it has no kernel"}
    text = made.drafts["Scaled"].read_text()
    assert "  alpha: f32\n" in text and "i32[2]" in text and "function: opdb_scaled" in text
    assert "k: i32" in made.drafts["Top2"].read_text()
    (written,) = made.packages
    config_text = written.config.read_text()
    assert written.ops == ("DequantizeAdd", "Scaled") and "    package: com.acme\n" in config_text
    assert (
        "      - name: places\n        dataType: int\n        scalar: false\n        size: 2\n" in config_text
    )
    c_compiler.make(
        written.folder,
        "the package",
        "CFLAGS=-std=c11 -O1 -fPIC -fvisibility=hidden -DOPDB_NO_CLONES",
        "all",
        "card",
    )
    config = OpConfig(
        "Scaled",
        (TensorConfig("x", "f32", (2, 4)),),
        (ParamConfig("alpha", "f32", 0.5), ParamConfig("places", "i32", (1, 2), (2,))),
        (TensorConfig("y", "f32", (2, 4)),),
    )
    x = np.arange(8, dtype=np.float32).reshape(2, 4)

    def ran() -> None:
        of = conformance.Package(written.folder, "1.21", "Scaled")
        assert of.verify(config) == (True, "") and of.infer(config) == ([("DTFloat32", (2, 4))], "")
        for answer in (of.on_host(config, [x]), of.on_card(config, [x])):
            assert np.array_equal(answer.outputs[0], x * np.float32([0.5, 1, 0.5, 1]))

    conformance.in_child(ran)


def test_a_second_run_overwrites_nothing(model: Path, catalog: Catalog, tmp_path: Path) -> None:
    made = skeleton.make(catalog, model, tmp_path / "out")
    made.drafts["Top2"].write_text("mine\n")
    with pytest.raises(
        OpdbError, match=r"\.yaml: is there already; choose another folder, or overwrite it with --force"
    ):
        skeleton.make(catalog, model, tmp_path / "out")
    assert made.drafts["Top2"].read_text() == "mine\n"
    skeleton.make(catalog, model, tmp_path / "out", force=True)
    assert "op: Top2" in made.drafts["Top2"].read_text()


def test_unusable_models_are_rejected(catalog: Catalog, tmp_path: Path) -> None:
    x = {"x": (FLOAT, [2, 4])}
    y = {"y": (FLOAT, [2, 4])}

    def refused(reason: str, *nodes: Any, domain: str | None = None) -> None:
        with pytest.raises(OpdbError, match=reason):
            skeleton.make(catalog, saved(tmp_path, list(nodes), x, y), tmp_path / "out", domain=domain)
        assert not (tmp_path / "out").exists()

    refused(
        r"model\.onnx: no node of a foreign domain; its nodes are of ai\.onnx",
        node("Relu", ["x"], ["y"], domain=""),
    )
    refused(
        "no node of the domain com.other; its nodes are of com.acme",
        node("A", ["x"], ["y"]),
        domain="com.other",
    )
    refused("A_y: the attribute s is of kind STRING; a custom op takes", node("A", ["x"], ["y"], s="text"))
    refused("the attribute n = 4294967296 has more than 32 bits", node("A", ["x"], ["y"], n=2**32))
    refused(
        "the attribute n has another type here", node("A", ["x"], ["b"], n=1), node("A", ["b"], ["y"], n=1.0)
    )
    refused("A: in several domains", node("A", ["x"], ["b"]), node("A", ["b"], ["y"], domain="com.other"))
    refused(r"the op 'A\.b' is not a valid C name", node("A.b", ["x"], ["y"]))
    refused(
        "the spec DequantizeAdd has no parameter shift; it has scale",
        node("DequantizeAdd", ["x", "x"], ["y"], scale=1.0, shift=1),
    )
    refused("it has 1 input, the spec DequantizeAdd 2", node("DequantizeAdd", ["x"], ["y"], scale=1.0))
    (tmp_path / "model.onnx").write_bytes(b"no model")
    with pytest.raises(OpdbError, match=r"model\.onnx: not an ONNX model"):
        skeleton.make(catalog, tmp_path / "model.onnx", tmp_path / "out")
