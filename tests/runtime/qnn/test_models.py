"""Float and quantized networks on the vendor's libraries against PyTorch; ``pytest -s`` prints the errors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))

from networks import MOVES, Array, pytorch_values, silu, sqnr, subject  # noqa: E402

from opdb.catalog.targets.target import Target  # noqa: E402
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph  # noqa: E402
from opdb.core.op_config import ParamConfig, Quant  # noqa: E402
from opdb.execute.libraries.client import VendorWorker  # noqa: E402
from opdb.generated.constants.socs import SOCS  # noqa: E402
from opdb.lower.quantize import Asked, WeightType, quantize  # noqa: E402
from opdb.runtime.qnn.real_numbers import to_real, to_stored  # noqa: E402

pytestmark = [pytest.mark.vendor, pytest.mark.torch, pytest.mark.usefixtures("libraries")]
gelu: Callable[..., Any] = torch.nn.functional.gelu
CHIPS = ("SM8450", "SM8550", "SM8650", "SM8750")
#: Form -> (types of activations and weights, least SQNR in dB).  Weights of 16 bits are for Hexagon v73 and later.
FORMS = {
    "f32": (None, 80),
    "fp16": (None, 45),
    "uq8": (("uq8", "sq8"), 36),
    "uq16": (("uq16", "sq8"), 40),
    "uq16/sq16": (("uq16", "sq16"), 50),
}
SHORT = {("CPU", "f32"), ("CPU", "uq8"), ("SM8450", "uq16"), ("SM8650", "fp16"), ("SM8650", "uq8")}
CASES = [("CPU", f) for f in ("f32", "uq8")] + [
    (soc, form) for soc in CHIPS for form in FORMS if form != "f32" and (soc, form) != ("SM8450", "uq16/sq16")
]
TABLE: list[str] = []


@pytest.fixture(scope="module", autouse=True)
def table() -> Iterator[None]:
    yield
    head = f"\n{'place':8}{'form':12}{'ops':>4}{'largest':>10}{'max error':>11}{'of largest':>12}{'SQNR':>9}"
    print("\n".join([head, *TABLE]))  # noqa: T201  what `pytest -s` is asked for


@cache
def made(place: str, form: str) -> tuple[Target, QnnGraph]:
    """The graph of a case.  CPU supports quantized SiLU, but not quantized GELU."""
    target = Target(
        "CPU" if place == "CPU" else "HTP", None if place == "CPU" else place, execution="emulator"
    )
    model = subject(silu if (place, form) == ("CPU", "uq8") else gelu)
    _, graph = model.lowered(target)
    types, _ = FORMS[form]
    if types is None:
        return target, graph
    inputs = [{"x": x} for x in model.calibration]
    activations, weights = types
    wish = Asked(activations, WeightType(weights))
    return target, quantize(graph, inputs, target=target, recipe=wish, margin=0.1)


def run(target: Target, graph: QnnGraph, form: str, x: Array) -> dict[str, Array]:
    """Real values of all outputs, from a child process for this chip."""
    with VendorWorker(target.backend or "", target.soc) as worker:
        feed = {t.name: to_stored(t, x) for t in graph.inputs}
        result = worker.run(graph, feed, "fp16" if form == "fp16" else None)
    assert result.stage == "done", (result.stage, result.node, result.code_name, result.log[-5:])
    return {t.name: to_real(t, result.outputs[t.name]) for t in graph.outputs}


@pytest.mark.parametrize(
    ("place", "form"), [pytest.param(*c, marks=() if c in SHORT else pytest.mark.sweep) for c in CASES]
)
def test_a_network_matches_pytorch(place: str, form: str) -> None:
    target, graph = made(place, form)
    assert len([op for op in graph.ops if op.op not in MOVES]) >= 20
    model = subject(silu if (place, form) == ("CPU", "uq8") else gelu)
    (got,) = run(target, graph, form, model.x).values()
    error, largest = float(np.abs(got - model.y).max()), float(np.abs(model.y).max())
    decibels = sqnr(got, model.y)
    TABLE.append(
        f"{place:8}{form:12}{len(graph.ops):4}{largest:10.4f}{error:11.2e}{error / largest:12.2e}{decibels:6.1f} dB"
    )
    assert decibels >= FORMS[form][1]


def test_tensors_get_the_requested_types() -> None:
    _, eight = made("SM8650", "uq8")
    assert {t.dtype for t in eight.tensors.values() if t.type != "STATIC"} == {"uq8"}
    _, old = made("SM8450", "uq16/sq16")  # v69: no weights and no second factor of 16 bits
    converts = [op for op in old.ops if op.op == "Convert"]
    assert [old.tensors[op.outputs[0]].dtype for op in converts] == ["uq8", "uq8"]
    assert all(
        reads.inputs[1] in {c.outputs[0] for c in converts} for reads in old.ops if reads.op == "MatMul"
    )
    filters = {op.inputs[1] for op in old.ops if op.op in ("Conv2d", "FullyConnected")}
    assert {old.tensors[f or ""].dtype for f in filters} == {"sq8"}
    _, new = made("SM8650", "uq16/sq16")
    assert not [op for op in new.ops if op.op == "Convert"]
    filters = {op.inputs[1] for op in new.ops if op.op in ("Conv2d", "FullyConnected")}
    assert {new.tensors[f or ""].dtype for f in filters} == {"sq16"}


def test_cpu_computes_16_bit_activations_in_floats() -> None:
    """Computing ops use floats, between Dequantizes and Quantizes."""
    _, graph = made("CPU", "uq16")
    computing = [op for op in graph.ops if op.op in ("Conv2d", "FullyConnected", "MatMul")]
    assert computing and {graph.tensors[op.outputs[0]].dtype for op in computing} == {"f32"}


@pytest.mark.parametrize(("place", "form", "bound"), [("CPU", "f32", 5e-4), ("SM8650", "fp16", 2e-2)])
def test_every_intermediate_matches_pytorch(place: str, form: str, bound: float) -> None:
    target, graph = made(place, form)
    model = subject(gelu)
    expected = pytorch_values(*model.lowered(target), model.x)
    got = run(target, graph.with_intermediates(), form, model.x)
    inside = {n for n, t in graph.tensors.items() if t.type == "NATIVE"}
    assert inside and set(got) == inside | {t.name for t in graph.outputs}
    for name, values in got.items():
        want = expected[name]
        assert values.shape == want.shape, name
        assert np.abs(values - want).max() <= bound * np.abs(want).max(), name


@pytest.mark.parametrize(
    ("place", "form", "bound"),
    [
        ("CPU", "uq8", 20),
        pytest.param("SM8650", "uq8", 20, marks=pytest.mark.sweep),
        pytest.param("SM8450", "uq16", 35, marks=pytest.mark.sweep),
    ],
)
def test_every_quantized_intermediate_is_close_to_pytorch(place: str, form: str, bound: float) -> None:
    target, graph = made(place, form)
    model = subject(silu if (place, form) == ("CPU", "uq8") else gelu)
    expected = pytorch_values(*model.lowered(target), model.x)
    got = run(target, graph.with_intermediates(), form, model.x)
    converted = {op.outputs[0]: op.inputs[0] or "" for op in graph.ops if op.op == "Convert"}
    for name, values in got.items():
        assert sqnr(values, expected[converted.get(name, name)]) >= bound, name


def strided(weights: str, between: bool) -> QnnGraph:
    """A convolution of 3 x 3 with stride 2, a Transpose if there is one between, and Relu, in uq16."""
    wide, largest = 2**16 - 1, {"sq8": 127, "sq16": 32767}[weights]
    data = np.random.default_rng(0).integers(-largest, largest, (3, 3, 16, 16))
    conv, relu = Quant("SCALE_OFFSET", (20 / wide,), (-(2**15),)), Quant("SCALE_OFFSET", (10 / wide,), (0,))
    before, after = (1, 8, 8, 16), (1, 16, 8, 8) if between else (1, 8, 8, 16)
    tensors = [
        GraphTensor("x", "uq16", (1, 16, 16, 16), "APP_WRITE", quant=conv),
        GraphTensor("w", weights, data.shape, "STATIC", data, Quant("SCALE_OFFSET", (1 / largest,), (0,))),
        GraphTensor("h", "uq16", before, quant=conv),
        GraphTensor("y", "uq16", after, "APP_READ", quant=relu),
    ]
    window = (
        ParamConfig("stride", "u32", (2, 2), (2,)),
        ParamConfig("pad_amount", "u32", (1, 1, 1, 1), (2, 2)),
    )
    ops = [GraphOp("conv", "Conv2d", ("x", "w"), window, ("h",))]
    if between:
        tensors.append(GraphTensor("t", "uq16", after, quant=conv))
        ops.append(
            GraphOp("t", "Transpose", ("h",), (ParamConfig("perm", "u32", (0, 3, 1, 2), (4,)),), ("t",))
        )
    ops.append(GraphOp("relu", "Relu", ("t" if between else "h",), (), ("y",)))
    return QnnGraph("strided", {t.name: t for t in tensors}, ops)


def converted(soc: str) -> QnnGraph:
    """FullyConnected in uq16 with a scale per row; its input is converted from a graph input in uq8."""
    ends = {"x": "APP_WRITE", "y": "APP_READ"}
    tensors = {n: GraphTensor(n, "f32", (8, 4), t) for n, t in ends.items()}
    tensors["w"] = GraphTensor("w", "f32", (4, 4), "STATIC", np.eye(4, dtype=np.float32))
    graph = QnnGraph("converted", tensors, [GraphOp("fc", "FullyConnected", ("x", "w"), (), ("y",))])
    seen = [{"x": np.ones((8, 4), np.float32)}]
    return quantize(graph, seen, target=Target("HTP", soc, execution="emulator"), overrides={"y": "uq16"})


@pytest.mark.sweep
@pytest.mark.parametrize("soc", CHIPS)
def test_htp_faults_named_in_the_guide_still_occur(soc: str) -> None:
    """docs/guides/quantization.md: accepted by validation, refused by finalization."""
    wide = (SOCS[soc].htp_arch or 0) >= 73
    strides = [("sq8", True), ("sq8", False)] + [("sq16", True)] * wide
    cases = [(strided(*s), wide and s == ("sq8", True)) for s in strides] + [(converted(soc), True)]
    for graph, fails in cases:
        (x,) = graph.inputs
        with VendorWorker("HTP", soc) as worker:
            result = worker.run(graph, {"x": to_stored(x, np.zeros(x.shape))})
        assert result.stage == ("finalize" if fails else "done"), (graph.name, result.log)
