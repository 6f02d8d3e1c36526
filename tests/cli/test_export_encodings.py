"""opdb compile --export-encodings: a recipe's encodings, read back by --encodings, as a QDQ file, and by ONNX Runtime."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper, parser

from opdb.programs.onnx.encodings import read_encodings

from .compiling import Here

pytestmark = [pytest.mark.torch, pytest.mark.vendor]
RECIPES = ("8a8w", "16a8w", "16a4w", "16a4w-block")
CHIPS = ("SM8550", "QCM6490")
#: A convolution with a batch norm, a 3 by 3 one, attention whose scale is folded into a weight, GELU from its parts, linear layers.
MODEL = """<ir_version: 8, opset_import: ["": 17]>
net (float[1,32,4,4] x) => (float[1,16,8] y) {
    c = Conv(x, a)
    n = BatchNormalization(c, gain, shift, mean, variance)
    r = Relu(n)
    d = Conv<pads=[1,1,1,1]>(r, b, b_bias)
    rows = Reshape(d, shape)
    t = Transpose<perm=[0,2,1]>(rows)
    l = LayerNormalization(t, gamma, beta)
    q = MatMul(l, wq)
    q_biased = Add(q, bq)
    q_split = Reshape(q_biased, heads)
    q_heads = Transpose<perm=[0,2,1,3]>(q_split)
    k = MatMul(l, wk)
    k_biased = Add(bk, k)
    k_split = Reshape(k_biased, heads)
    k_heads = Transpose<perm=[0,2,3,1]>(k_split)
    v = MatMul(l, wv)
    v_split = Reshape(v, heads)
    v_heads = Transpose<perm=[0,2,1,3]>(v_split)
    scores = MatMul(q_heads, k_heads)
    quarter = Constant<value=float {0.25}>()
    scaled = Mul(scores, quarter)
    p = Softmax<axis=-1>(scaled)
    mixed_heads = MatMul(p, v_heads)
    mixed_split = Transpose<perm=[0,2,1,3]>(mixed_heads)
    mixed = Reshape(mixed_split, joined)
    u = MatMul(mixed, wu)
    u_biased = Add(u, bu)
    root = Constant<value=float {1.41421354}>()
    one = Constant<value=float {1.0}>()
    half = Constant<value=float {0.5}>()
    g1 = Div(u_biased, root)
    g2 = Erf(g1)
    g3 = Add(g2, one)
    g4 = Mul(u_biased, g3)
    gelu = Mul(g4, half)
    y = MatMul(gelu, wo)
}"""
SHAPES = {
    "a": (32, 32, 1, 1), "gain": (32,), "shift": (32,), "mean": (32,), "variance": (32,), "b": (32, 32, 3, 3), "b_bias": (32,),
    "gamma": (32,), "beta": (32,), "wq": (32, 32), "bq": (32,), "wk": (32, 32), "bk": (32,), "wv": (32, 32), "wu": (32, 64),
    "bu": (64,), "wo": (64, 8),
}  # fmt: skip
#: Tensors inside node groups that become one op in the graph, or are read as one.
INSIDE = {"c", "q", "k", "u", "g1", "g2", "g3", "g4"}
Values = np.ndarray[Any, Any]


def net(path: Path, scaled: bool = True) -> None:
    """``scaled``: with the product by 0.25, which the recipes fold into the weight of q."""
    generator = np.random.default_rng(0)
    text = (
        MODEL
        if scaled
        else MODEL.replace("scaled = Mul(scores, quarter)", "").replace("(scaled)", "(scores)")
    )
    model = parser.parse_model(text)
    for name, shape in SHAPES.items():
        w = generator.standard_normal(shape) / np.sqrt(np.prod(shape[1:]) if len(shape) > 2 else shape[0])
        if name in ("gain", "variance", "gamma"):
            w = np.abs(w) + 0.5
        if name == "gain":
            w[::3] *= -1
        model.graph.initializer.append(numpy_helper.from_array(w.astype(np.float32), name))
    for name, sizes in {"shape": [1, 32, 16], "heads": [1, 16, 2, 16], "joined": [1, 16, 32]}.items():
        model.graph.initializer.append(numpy_helper.from_array(np.array(sizes), name))
    onnx.save(model, path)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    monkeypatch.chdir(tmp_path)
    net(Path("net.onnx"))
    generator = np.random.default_rng(1)
    samples = generator.standard_normal((5, 1, 32, 4, 4)).astype(np.float32)
    np.savez("data.npz", x=samples)
    np.savez("x.npz", x=samples[2])
    return Here(capsys)


def exported(here: Here, file: str, recipe: str, soc: str, *more: str) -> float:
    """Compiles to a.bin with ``file`` beside it, and returns one step of y."""
    how = ("--soc", soc, "--quantize", recipe, "--data", "data.npz", "--ranges", "ranges.json")
    done = here("compile", "net.onnx", *how, "--export-encodings", file, "-o", "a.bin", *more)
    assert done.code == 0 and f"{file}: encodings of " in done.out and "not in it" not in done.out, done.err
    return float(json.loads(Path("ranges.json").read_text())["tensors"]["y"]["scale"])


def on_steps() -> None:
    """Rounds the input to the steps of its encoding: the device rounds inputs of graphs with float ends in half precision."""
    x = json.loads(Path("ranges.json").read_text())["tensors"]["x"]
    values = np.round(np.load("x.npz")["x"] / x["scale"]) * x["scale"]
    np.savez("x.npz", x=values.astype(np.float32))


def result(here: Here, context: str) -> Values:
    done = here("run", context, "--inputs", "x.npz", "--real", "--outputs", f"{context}.npz")
    assert done.code == 0, done.err
    (y,) = np.load(f"{context}.npz").values()
    found: Values = y
    return found


def signal(wanted: Values, found: Values) -> float:
    """Signal to noise in dB."""
    return float(10 * np.log10((wanted**2).sum() / ((wanted - found) ** 2).sum()))


@pytest.mark.parametrize("soc", CHIPS)
@pytest.mark.parametrize("recipe", RECIPES)
def test_exported_encodings_give_the_same_results(here: Here, recipe: str, soc: str) -> None:
    """Within one step of the result.  8a8w is without the product by 0.25: in the file it is an op, which HTP rounds separately."""
    net(Path("net.onnx"), scaled=recipe != "8a8w")
    step = exported(here, "e.encodings", recipe, soc)
    on_steps()
    done = here("compile", "net.onnx", "--soc", soc, "--encodings", "e.encodings", "-o", "b.bin")
    assert done.code == 0 and " in floats" not in done.out, done.out + done.err
    np.testing.assert_allclose(result(here, "b.bin"), result(here, "a.bin"), rtol=0, atol=step * 1.01)


@pytest.mark.parametrize(("recipe", "least"), [("8a8w", 27), ("16a8w", 58), ("16a4w-block", 55)])
def test_a_qdq_file_gives_the_same_results(here: Here, recipe: str, least: float) -> None:
    """opdb and ONNX Runtime read the model with quantize nodes; ``least``: dB between ONNX Runtime on the CPU and HTP."""
    net(Path("net.onnx"), scaled=recipe != "8a8w")
    step = exported(here, "q.onnx", recipe, "SM8550")
    onnx.checker.check_model(onnx.load("q.onnx"), full_check=True)
    assert here("compile", "q.onnx", "--soc", "SM8550", "-o", "c.bin").code == 0
    on_steps()
    wanted = result(here, "a.bin")
    np.testing.assert_allclose(result(here, "c.bin"), wanted, rtol=0, atol=step * 1.01)
    options = (
        onnxruntime.SessionOptions()
    )  # as the file is: further fusions would compute 16-bit parts in 8 bits
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    session = onnxruntime.InferenceSession("q.onnx", options, providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"x": np.load("x.npz")["x"]})
    assert signal(y, wanted) > least


def test_exported_encodings_describe_the_models_tensors(here: Here) -> None:
    """Weights have AIMET's symmetric steps, a convolution before BatchNormalization its own weights', and x the range of the data."""
    exported(here, "e.encodings", "8a8w", "SM8550")
    found, model = read_encodings("e.encodings"), onnx.load("net.onnx")
    weights = {w.name: numpy_helper.to_array(w) for w in model.graph.initializer}
    made = {o for node in model.graph.node for o in node.output} | {"x"}
    assert set(found) & made == made - INSIDE - {"root", "one", "half"}
    for name, axis in (("a", 0), ("b", 0), ("wk", 1), ("wo", 1)):
        others = tuple(d for d in range(weights[name].ndim) if d != axis)
        np.testing.assert_allclose(found[name].scales, np.abs(weights[name]).max(others) / 127, rtol=1e-5)
    data = np.load("data.npz")["x"]
    np.testing.assert_allclose(found["x"].scales, (data.max() - data.min()) / 255, rtol=1e-5)
    np.testing.assert_allclose(found["scores"].scales, found["scaled"].scales * 4, rtol=1e-5)


def test_version_2_has_the_same_encodings(here: Here) -> None:
    for recipe in ("16a8w", "16a4w-block"):
        exported(here, "1.encodings", recipe, "SM8550")
        exported(here, "2.encodings", recipe, "SM8550", "--encodings-version", "2.0.0")
        assert json.loads(Path("2.encodings").read_text())["version"] == "2.0.0"
        one, two = read_encodings("1.encodings"), read_encodings("2.encodings")
        assert list(one) == list(two) or sorted(one) == sorted(two)
        for name, own in one.items():
            other = two[name]
            assert (own.bits, own.block) == (other.bits, other.block)
            np.testing.assert_array_equal(own.scales, other.scales)
            np.testing.assert_array_equal(own.zeros, other.zeros)
            if own.steps is not None and other.steps is not None:
                np.testing.assert_array_equal(own.steps, other.steps)


PROGRAM = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.out = nn.Conv2d(3, 8, 3), nn.Linear(8, 4)

    def forward(self, x):
        return self.out(torch.relu(self.conv(x)).mean((2, 3)))


def make():
    return Net().eval(), (torch.randn(1, 3, 8, 8),)
"""


def test_a_programs_encodings_have_its_names(here: Here) -> None:
    Path("net.py").write_text(PROGRAM)
    how = ("--soc", "SM8550", "--quantize", "8a8w", "--data", "random:3", "-o", "a.bin")
    assert here("compile", "net.py:make", *how, "--export-encodings", "e.encodings").code == 0
    found = read_encodings("e.encodings")
    assert list(found) == ["x", "conv2d", "relu", "mean", "linear", "conv.weight", "out.weight"]
    scope: dict[str, Any] = {}
    exec(PROGRAM, scope)
    weight = scope["make"]()[0].conv.weight.detach().numpy()
    np.testing.assert_allclose(found["conv.weight"].scales, np.abs(weight).max((1, 2, 3)) / 127, rtol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("net.onnx", "--export-encodings", "e.encodings"), "--export-encodings e.encodings: for --quantize; give --quantize 8a8w"),
        (("net.onnx", "--quantize", "fp16", "--export-encodings", "e.encodings"), "for --quantize"),
        (("net.py:make", "--quantize", "8a8w", "--data", "random", "--export-encodings", "q.onnx"), "the encodings alone: q.encodings"),
        (("net.onnx", "--quantize", "8a8w", "--data", "random", "--export-encodings", "e.encodings", "--encodings-version", "3"),
         "--encodings-version 3: one of 1.0.0, 2.0.0"),
        (("net.onnx", "--quantize", "8a8w", "--data", "random", "--export-encodings", "q.onnx", "--encodings-version", "2.0.0"),
         "for AIMET's files; leave it out for q.onnx"),
        (("net.onnx", "--quantize", "8a8w", "--data", "random", "--export-encodings", "."), "this is a folder; name a file"),
    ],
)  # fmt: skip
def test_bad_options_are_rejected(here: Here, arguments: tuple[str, ...], message: str) -> None:
    Path("net.py").write_text(PROGRAM)
    done = here("compile", *arguments, "--soc", "SM8550", "-o", "a.bin")
    assert done.code == 2 and message in done.err
    assert not any(Path(p).exists() for p in ("a.bin", "e.encodings", "q.onnx"))


def test_encodings_of_a_pte_are_refused(here: Here) -> None:
    how = ("--soc", "SM8550", "--quantize", "8a8w", "--data", "random", "--export-encodings", "e.encodings")
    done = here("compile", "net.onnx", *how, "-o", "a.pte")
    assert done.code == 2 and "compile to a context (-o FILE.bin)" in done.err
