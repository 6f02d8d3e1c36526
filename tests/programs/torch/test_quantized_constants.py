"""Computed or float-read constants of quantized programs, and joins of several types: values, on the emulation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # defines torch.ops.quantized_decomposed
from torch import nn

from opdb.catalog.targets.target import Target
from opdb.execute.compile.model import lowered
from opdb.execute.libraries.client import VendorWorker
from opdb.programs.load import load_program
from opdb.runtime.qnn.real_numbers import to_real, to_stored

Q = torch.ops.quantized_decomposed
STEP = 0.05


def fake(x: torch.Tensor) -> torch.Tensor:
    """x rounded to steps of 0.05, as in a quantized program."""
    stored = Q.quantize_per_tensor(x, STEP, 128, 0, 255, torch.uint8)
    result: torch.Tensor = Q.dequantize_per_tensor(stored, STEP, 128, 0, 255, torch.uint8)
    return result


class Positions(nn.Module):
    """Adds a tensor computed only from constants, in one of several ways, and then quantized."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.register_buffer("w", torch.linspace(-1, 1, 8))
        self.p = nn.Parameter(torch.linspace(1, -2, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = {
            "buffer": lambda: self.w,
            "sum": lambda: self.w + self.p,
            "places": lambda: torch.arange(8, dtype=torch.float32) / 4,
            "sines": lambda: torch.sin(torch.arange(8, dtype=torch.float32)) * self.p,
            "a slice": lambda: self.p.reshape(2, 4)[1].repeat(2),
        }[self.kind]()
        return fake(fake(x) + fake(made))


def run(program: Any, given: list[Any], soc: str = "SM8650") -> list[Any]:
    target = Target("HTP", soc, execution="emulator")
    coverage, graph = lowered(program, target, "g")
    assert graph is not None, [r for r in coverage.rows if r.verdict != "supported"]
    stored = {t.name: to_stored(t, x) for t, x in zip(graph.inputs, given, strict=True)}
    with VendorWorker("HTP", soc) as worker:
        result = worker.run(graph, stored)
    assert result.stage == "done", (result.node, result.log)
    return [to_real(t, result.outputs[t.name]) for t in graph.outputs]


@pytest.mark.vendor
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("kind", ["buffer", "sum", "places", "sines", "a slice"])
def test_a_computed_constant_is_folded_then_quantized(kind: str, batch: int) -> None:
    module, x = Positions(kind).eval(), torch.linspace(-2, 2, batch * 8).reshape(batch, 8)
    (found,) = run(torch.export.export(module, (x,)), [x.numpy()])
    assert np.abs(found - module(x).detach().numpy()).max() <= STEP * 1.01


@pytest.mark.vendor
@pytest.mark.parametrize(("kind", "gates"), [("GRU", 3), ("LSTM", 4), ("RNN", 1)])
def test_recurrent_weights_may_be_dequantized(kind: str, gates: int, tmp_path: Path) -> None:
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    make, rng, size = onnx.helper, np.random.default_rng(0), 4
    weights = [
        onnx.numpy_helper.from_array(rng.integers(0, 255, (1, gates * size, size)).astype(np.uint8), n)
        for n in "wr"
    ]
    weights += [
        onnx.numpy_helper.from_array(np.float32(0.01), "s"),
        onnx.numpy_helper.from_array(np.uint8(128), "z"),
    ]
    nodes = [make.make_node("DequantizeLinear", [n, "s", "z"], [f"{n}d"]) for n in "wr"]
    nodes.append(make.make_node(kind, ["x", "wd", "rd"], ["y"], hidden_size=size))
    float32 = onnx.TensorProto.FLOAT
    ends = [
        make.make_tensor_value_info(n, float32, shape) for n, shape in (("x", [2, 1, 4]), ("y", [2, 1, 1, 4]))
    ]
    model = make.make_model(
        make.make_graph(nodes, "g", ends[:1], ends[1:], weights),
        ir_version=10,
        opset_imports=[make.make_opsetid("", 17)],
    )
    path, x = str(tmp_path / "m.onnx"), rng.standard_normal((2, 1, 4)).astype(np.float32)
    onnx.save(model, path)
    (found,) = run(load_program(path), [x])
    (want,) = runtime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    assert np.abs(found.reshape(want.shape) - want).max() < 2e-3


class Joined(nn.Module):
    def __init__(self, join: str, cast: bool) -> None:
        super().__init__()
        self.join, self.cast = join, cast

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        n = n.to(x.dtype) if self.cast else n
        result: torch.Tensor = getattr(torch, self.join)([x, n], 1)
        return result


@pytest.mark.vendor
@pytest.mark.parametrize("join", ["cat", "stack"])
def test_tensors_of_several_types_are_cast_before_joining(join: str) -> None:
    x, n = torch.randn(1, 8, 16), torch.arange(128, dtype=torch.int32).reshape(1, 8, 16)
    for cast in (False, True):  # by PyTorch's promotion, or by the model
        module = Joined(join, cast)
        (found,) = run(torch.export.export(module, (x, n)), [x.numpy(), n.numpy()])
        want = module(x, n).numpy()
        assert np.abs(found - want).max() <= np.abs(want).max() / 1000
