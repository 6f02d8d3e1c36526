"""Graphs of op configs: chained by tensor names, run without PyTorch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from opdb.catalog.targets.target import Target
from opdb.core.errors import OpdbError
from opdb.core.op_config import ConfigError, OpConfig, ParamConfig, Quant, TensorConfig, from_json
from opdb.execute.dispatch import Dispatcher, PlanError, graph_of, partition
from opdb.runtime.qnn.backend import Backend

pytestmark = [pytest.mark.vendor, pytest.mark.native]
RNG = np.random.default_rng(5)
WEIGHT = RNG.normal(size=(6, 4)).astype(np.float32)
CPU = Target("CPU", execution="emulator")


def t(name: str, *shape: int, kind: str = "NATIVE", **more: Any) -> TensorConfig:
    return TensorConfig(name, more.pop("dtype", "f32"), shape, kind, **more)


def op(name: str, inputs: list[TensorConfig], output: TensorConfig, *params: ParamConfig) -> OpConfig:
    return OpConfig(name, tuple(inputs), params, (output,))


SCALE = ParamConfig("operation", "u32", 13)  # MULTIPLY
CHAIN = (
    op("FullyConnected", [t("x", 2, 4), t("w", 6, 4, kind="STATIC", data=WEIGHT)], t("h", 2, 6)),
    op("Softmax", [t("h", 2, 6)], t("p", 2, 6)),
    op("ElementWiseBinary", [t("p", 2, 6), t("h", 2, 6)], t("y", 2, 6), SCALE),
)


def wanted(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    h = x.astype(np.float64) @ WEIGHT.T
    e = np.exp(h - h.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True) * h


def test_a_chain_is_a_graph(cpu: Backend) -> None:
    graph = graph_of(CHAIN, name="chain", target=CPU)
    assert [(e.name, e.type) for e in graph.tensors.values()] == [
        ("x", "APP_WRITE"), ("w", "STATIC"), ("h", "NATIVE"), ("p", "NATIVE"), ("y", "APP_READ")
    ]  # fmt: skip
    x = RNG.normal(size=(2, 4)).astype(np.float32)
    with cpu.prepare(graph) as prepared:
        np.testing.assert_allclose(prepared.execute({"x": x})["y"], wanted(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("outputs", [None, ("y", "h"), ("p",)])
def test_outputs_are_unread_or_named_tensors(outputs: tuple[str, ...] | None) -> None:
    graph = graph_of(CHAIN, outputs=outputs)
    assert tuple(e.name for e in graph.outputs) == (outputs or ("y",))
    kept = replace(CHAIN[1], outputs=(t("p", 2, 6, kind="APP_READ"),))
    assert [e.name for e in graph_of([CHAIN[0], kept, CHAIN[2]]).outputs] == ["p", "y"]


def test_an_op_runs_on_kernels_between_two_graphs(cpu: Backend) -> None:
    plan = partition(graph_of(CHAIN), CPU, host_ops=["Softmax"])
    assert [s.name for s in plan.segments] == ["qnn_0", "kernels_1", "qnn_2"]
    with Dispatcher(plan, cpu) as dispatcher:
        for _ in range(3):
            x = RNG.normal(size=(2, 4)).astype(np.float32)
            np.testing.assert_allclose(dispatcher.run([x])["y"], wanted(x), rtol=1e-5, atol=1e-6)
        report = dispatcher.report()
    assert [(c.kind, c.tensor) for c in report.copies] == [("in", "x"), ("out", "y")]
    assert [(s.tensor, s.source, s.to) for s in report.shared] == [
        ("h", "qnn_0", "kernels_1"), ("p", "kernels_1", "qnn_2"), ("h", "qnn_0", "qnn_2")
    ]  # fmt: skip


def test_unsupported_ops_are_an_error_or_go_to_the_kernels(cpu: Backend) -> None:
    mod = ParamConfig("operation", "u32", 12)  # MOD: QNN CPU documents it for integers
    chain = [*CHAIN, op("ElementWiseBinary", [t("y", 2, 6), t("d", 2, 6)], t("z", 2, 6), mod)]
    nothing = op("NoSuchOp", [t("z", 2, 6)], t("n", 2, 6))
    with pytest.raises(PlanError) as error:
        graph_of([*chain, nothing], target=CPU)
    first, second = error.value.problems
    assert first.startswith("ElementWiseBinary_3 (ElementWiseBinary): ElementWiseBinary.P5: ")
    assert second == "NoSuchOp_4 (NoSuchOp): opdb has no spec of the op NoSuchOp"
    with pytest.raises(PlanError, match=r"1 of 5 nodes .*\n  NoSuchOp_4 .*no spec"):
        partition(graph_of([*chain, nothing]), CPU, unsupported="host")
    with pytest.raises(OpdbError, match="host='torch': a graph of op configs has no PyTorch nodes"):
        partition(graph_of(chain), CPU, host="torch")
    x, d = RNG.normal(size=(2, 4)).astype(np.float32), np.full((2, 6), 0.25, np.float32)
    with Dispatcher(partition(graph_of(chain), CPU, unsupported="host"), cpu) as dispatcher:
        got = dispatcher.run({"x": x, "d": d})["z"]
    np.testing.assert_allclose(got, np.mod(wanted(x), d), rtol=1e-4, atol=1e-4)


H = t("h", 2, 6)
FAULTS: dict[str, tuple[list[OpConfig], str]] = {
    "no name": ([op("Relu", [t("", 2)], t("y", 2))], r"ops\[0\] \(Relu\).inputs\[0\]: the tensor has no name"),
    "two shapes": (
        [CHAIN[0], op("Relu", [t("h", 3, 6)], t("y", 3, 6))],
        r"ops\[1\] \(Relu\).inputs\[0\]: 'h' is f32 \[3, 6\], but f32 \[2, 6\] in ops\[0\]",
    ),
    "two encodings": (
        [
            op("Relu", [t("x", 2, dtype="uq8", quant=Quant("SCALE_OFFSET", (0.1,), (0,)))], t("y", 2)),
            op("Relu", [t("x", 2, dtype="uq8", quant=Quant("SCALE_OFFSET", (0.2,), (0,)))], t("z", 2)),
        ],
        "'x' is uq8",
    ),
    "written twice": ([CHAIN[0], CHAIN[0]], r"writes 'h' already"),
    "read first": ([CHAIN[1], CHAIN[0]], "'h' is read before; put the op that writes it first"),
    "an output nobody writes": ([op("Relu", [t("x", 2, kind="APP_READ")], t("y", 2))], "no op before writes it"),
    "a written input": ([op("Relu", [t("x", 2)], t("y", 2, kind="APP_WRITE"))], "cannot write a tensor of type"),
    "static without data": ([op("Relu", [t("x", 2, kind="STATIC")], t("y", 2))], "'x' has no data"),
    "static and not": (
        [op("Relu", [t("x", 2)], t("y", 2)), op("Relu", [t("x", 2, kind="STATIC")], t("z", 2))],
        "'x' is STATIC, but NATIVE in",
    ),
    "one id twice": ([replace(CHAIN[0], id="a"), replace(CHAIN[1], id="a")], "an op has the id 'a' already"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_name_their_place(fault: str) -> None:
    configs, words = FAULTS[fault]
    with pytest.raises(ConfigError, match=words):
        graph_of(configs)


def test_an_unknown_output_is_an_error() -> None:
    with pytest.raises(ConfigError, match="no op writes the output 'q'"):
        graph_of(CHAIN, outputs=["q"])


def test_a_json_config_may_omit_inputs(cpu: Backend) -> None:
    """LayerNorm without gamma, read from the JSON of op configs."""
    raw = {
        "op": "LayerNorm",
        "inputs": [
            {"name": "x", "dtype": "FLOAT_32", "shape": [2, 8]},
            {"type": "NULL"},
            {"name": "b", "dtype": "FLOAT_32", "shape": [8], "type": "STATIC", "data": [0.5] * 8},
        ],
        "params": {
            "epsilon": {"dtype": "FLOAT_32", "value": 1e-5},
            "axes": {"dtype": "UINT_32", "shape": [1], "data": [1]},
        },
        "outputs": [{"name": "y", "dtype": "FLOAT_32", "shape": [2, 8]}],
    }
    graph = graph_of([from_json(json.loads(json.dumps(raw)))])
    assert graph.ops[0].inputs == ("x", None, "b")
    x = RNG.normal(size=(2, 8)).astype(np.float32)
    norm = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) + 0.5
    plan = partition(graph, CPU, host_ops=["LayerNorm"])
    with Dispatcher(plan) as dispatcher:
        np.testing.assert_allclose(dispatcher.run([x])["y"], norm, rtol=1e-5, atol=1e-5)


def test_plans_need_no_torch_and_no_fixed_hash_seed() -> None:
    program = """
import sys, numpy as np
from opdb.execute.dispatch import Dispatcher, graph_of, partition
from opdb.core.op_config import OpConfig, TensorConfig
from opdb.runtime.qnn.backend import Backend
from opdb.catalog.targets.target import Target
def add(a, b, y):
    x, y = [TensorConfig(n, "f32", (3,)) for n in (a, b)], TensorConfig(y, "f32", (3,))
    return OpConfig("ElementWiseAdd", tuple(x), (), (y,))
relu = OpConfig("Relu", (TensorConfig("e", "f32", (3,)),), (), (TensorConfig("f", "f32", (3,)),))
graph = graph_of([add("a", "b", "c"), add("c", "d", "e"), relu, add("f", "b", "g"), add("g", "c", "h")])
plan = partition(graph, Target("CPU"), host_ops=["Relu"])
with Backend.open("CPU") as backend, Dispatcher(plan, backend) as d:
    x = np.array([-1, 2, 3], np.float32)
    print(d.run([x, x, -4 * x])["h"].tolist(), "torch" in sys.modules)
    print(plan.to_json(), [list(g.tensors) for g in plan.graphs], d.report().shared)
"""
    said = []
    for seed in "1", "2", "3":
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True,
            env=os.environ | {"PYTHONHASHSEED": seed},
        )  # fmt: skip
        said.append(done.stdout)
    # a + b + d = -2x, relu 2 for -1; then + b + c = 3x
    assert said[0].splitlines()[0] == "[-1.0, 6.0, 9.0] False"
    assert said[0] == said[1] == said[2]
