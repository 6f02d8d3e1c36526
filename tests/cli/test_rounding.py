"""opdb compile with a recipe that rounds weights with AdaRound: the context has AIMET's weights."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opdb.core.errors import OpdbError
from opdb.execute.compile import rounding
from opdb.lower.quantize.recipe import named, parsed

from .compiling import Here

onnx = pytest.importorskip("onnx")
pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.vendor]
W = np.random.default_rng(0).normal(size=(2, 16, 16)).astype(np.float32)
B = np.linspace(-1, 1, 16, dtype=np.float32)
X = np.random.default_rng(1).normal(size=(24, 4, 16)).astype(np.float32)
RECIPE = "base: 16a4w\nweights: {rounding: adaround}\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    """Two linear layers with ReLU between them, the second without a name, and samples."""
    from onnx import TensorProto, helper, numpy_helper

    monkeypatch.chdir(tmp_path)
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["h"], "first"),
        helper.make_node("Relu", ["h"], ["r"], "relu"),
        helper.make_node("MatMul", ["r", "w1"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["y"]),
    ]
    ends = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, 16])] for n in "xy"]
    weights = [numpy_helper.from_array(w, n) for w, n in zip((*W, B), ("w0", "w1", "b"), strict=True)]
    graph = helper.make_graph(nodes, "g", *ends, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), "net.onnx")
    np.savez("data.npz", x=X)
    Path("own.yaml").write_text(RECIPE)
    return Here(capsys)


def compiled(here: Here, recipe: str) -> Any:
    options = ("--soc", "SM8650", "--quantize", recipe, "--data", "data.npz")
    return here("compile", "net.onnx", *options, "-o", "net.bin")


def steps(w: Any) -> Any:
    """A step for each column, so that its most extreme number is -8 or 7."""
    return np.maximum(w.max(0) / 7, -w.min(0) / 8)


def down(w: Any) -> Any:
    """An unusual rounding, to tell it apart: down to the next step."""
    return (np.clip(np.floor(w / steps(w) + 1e-4), -8, 7) * steps(w)).astype(np.float32)


def results(weights: Any) -> Any:
    return np.maximum(X[0] @ weights[0], 0) @ weights[1] + B


@pytest.mark.parametrize("rule", ["", "rules:\n  - {node: first, weights: {bits: 8}}"])
def test_the_context_has_aimets_weights(here: Here, monkeypatch: pytest.MonkeyPatch, rule: str) -> None:
    seen: list[Any] = []

    def adaround(model: Any, inputs: Any, bits: Any, left: Collection[str], iterations: int) -> Any:
        seen.append((inputs, bits, set(left), iterations))
        rounded = {f"w{i}": down(w) for i, w in enumerate(W) if f"w{i}" not in left}
        return model, rounded, len(rounded)

    monkeypatch.setattr(rounding, "_adaround", adaround)
    monkeypatch.setattr(rounding, "_aimet", lambda: None)
    Path("own.yaml").write_text(RECIPE + rule)
    done = compiled(here, "own.yaml")
    assert done.code == 0, done.err
    count = 1 if rule else 2
    assert f"rounded by AdaRound: {count} of {count} weights, on 24 samples" in done.out
    ((inputs, bits, left, iterations),) = seen
    np.testing.assert_array_equal([i["x"] for i in inputs], X)
    assert (bits, left, iterations) == (("int4", "int16"), {"x", "w0"} if rule else set(), 2000)
    np.savez("x.npz", x=X[0])
    ran = here("run", "net.bin", "--inputs", "x.npz", "--real", "--outputs", "y.npz")
    assert ran.code == 0, ran.err
    (y,) = np.load("y.npz").values()
    wanted = results([W[0] if rule else down(W[0]), down(W[1])])
    other = results(W)
    noise = [10 * np.log10((w**2).sum() / ((y - w) ** 2).sum()) for w in (wanted, other)]
    assert noise[0] > (38 if rule else 50) and noise[1] < 20, noise


@pytest.mark.parametrize(
    ("model", "layout", "message"),
    [
        (
            "net.py:make",
            "keep",
            "rounding: adaround is for ONNX files, not for net.py:make; export the module",
        ),
        ("net.tflite", "keep", "for ONNX files, not for net.tflite"),
        ("net.onnx", "nhwc", "leave --io-layout nhwc out"),
    ],
)
def test_models_that_cannot_be_rounded_are_rejected(model: str, layout: str, message: str) -> None:
    with pytest.raises(OpdbError, match=message):
        rounding.check(parsed(RECIPE, "own.yaml"), model, layout)
    assert not rounding.check(named("16a4w"), model, layout)


def test_missing_aimet_is_reported_with_the_install_command(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "aimet_onnx", None)
    done = compiled(here, "own.yaml")
    assert (
        done.code == 2
        and "AIMET (aimet-onnx) is not installed; install it with: pip install 'qnn-opdb[aimet]'" in done.err
    )
    assert not Path("net.bin").exists()


def test_adaround_is_refused_for_a_pte(here: Here) -> None:
    from opdb.plugins.executorch.quantize import check

    with pytest.raises(OpdbError, match="rounding: adaround is for a context file; give rounding: nearest"):
        check(parsed(RECIPE, "own.yaml"))


def test_an_aimet_error_is_one_line(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise ValueError("no\nsuch thing")

    monkeypatch.setattr(rounding, "_adaround", fails)
    monkeypatch.setattr(rounding, "_aimet", lambda: None)
    done = compiled(here, "own.yaml")
    assert done.code == 2 and "net.onnx: AdaRound fails: ValueError: no\n" in done.err


def test_adaround_beats_rounding_to_nearest(here: Here) -> None:
    """Runs AIMET on inputs of rank 2, where errors of weights can compensate for each other."""
    pytest.importorskip("aimet_onnx")
    mixed = X @ np.random.default_rng(2).normal(size=(16, 2)) @ np.random.default_rng(3).normal(size=(2, 16))
    np.savez("data.npz", x=mixed.astype(np.float32))
    np.savez("x.npz", x=mixed[0].astype(np.float32))
    found = []
    for recipe in ("16a4w", "own.yaml"):
        done = compiled(here, recipe)
        assert done.code == 0, done.err
        assert ("rounded by AdaRound: 2 of 2 weights" in done.out) == (recipe == "own.yaml")
        assert here("run", "net.bin", "--inputs", "x.npz", "--real", "--outputs", "y.npz").code == 0
        (y,) = np.load("y.npz").values()
        want = np.maximum(mixed[0] @ W[0], 0) @ W[1] + B
        found.append(10 * np.log10((want**2).sum() / ((y - want) ** 2).sum()))
    assert found[1] > found[0] + 1, found
