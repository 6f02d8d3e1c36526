"""Recipes: the contents of a file, and the effect of its rules on a graph."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from opdb.catalog.targets.target import Target
from opdb.core.errors import OpdbError, SpecError
from opdb.core.graph import QnnGraph
from opdb.execute.compile.model import lowered
from opdb.execute.compile.sources import sources_of
from opdb.execute.libraries.client import VendorWorker
from opdb.lower.quantize import named, quantize
from opdb.lower.quantize.recipe import names, parsed
from opdb.lower.quantize.recipe_types import asked
from opdb.lower.quantize.weights import WeightType, of_weight
from opdb.runtime.kernels import run_graph
from opdb.runtime.qnn.real_numbers import quantized, to_real, to_stored
from opdb.spec.rules import dump_data

HTP = Target("HTP", "SM8650", execution="emulator")
OLD = Target("HTP", "QCM6490", execution="emulator")


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 128), nn.Linear(128, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.second(torch.relu(self.first(x)))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(Block(), Block())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.blocks(x), -1)


def graph_of(target: Target = HTP) -> tuple[QnnGraph, Any, dict[str, Any]]:
    torch.manual_seed(0)
    x = torch.randn(2, 5, 64) * 3
    program = torch.export.export(Net().eval(), (x,))
    coverage, graph = lowered(program, target, "g", to_quantize=True)
    assert graph is not None
    return graph, sources_of(coverage.rows), {graph.inputs[0].name: x.numpy()}


@pytest.mark.parametrize("name", names())
def test_shown_recipes_can_be_read(name: str) -> None:
    assert parsed(dump_data(named(name).spelled()), "own.yaml") == named(name)


def test_a_name_may_have_underscores() -> None:
    assert named("16a4w_block") == named("16a4w-block")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("base: 8a8w\nactivation: {bits: 8}", r"own.yaml:2:1: unknown field 'activation'; did you mean 'activations'\?"),
        ("base: 8a8w\nrules:\n  - module: a\n    weights: {bit: 8}", r"own.yaml:4:15: unknown field 'bit'; did you mean 'bits'\?"),
        ("base: 8a8w\nrules:\n  - {float: true}", "own.yaml:3:5: a rule names its nodes; give module, operator, node or pattern"),
        ("base: 8a8w\nrules:\n  - {module: a}", "own.yaml:3:5: a rule says either float: true, or activations or weights"),
        ("base: 7a7w", "own.yaml:1:7: base: '7a7w' is not one of 8a8w, "),
        ("activations: {bits: 9}\nweights: {bits: 8}", "own.yaml:1:21: 9 is not one of 8, 16"),
        ("activations: {bits: 8}", "own.yaml:1:1: the field 'activations' or 'weights' is missing"),
        ("base: 8a8w\nweights: {block: 32}", "own.yaml:2:10: QNN has blocks of weights of 4 bits only"),
        ("base: 8a8w\nrules:\n  - {module: a, weights: {block: 32}}", "rule 1: QNN has blocks of weights of 4 bits only"),
        ("base: 16a4w\nweights: {symmetric: false}", "QNN's weights of 4 bits have zero in the middle"),
        ("base: 8a8w\nweights: {rounding: adaround}", "own.yaml:2:10: rounding: adaround is for weights of 4 bits"),
        ("base: 16a4w-block\nweights: {rounding: adaround}", "adaround is for weights of 4 bits with a scale per channel"),
        ("base: 16a4w\nweights: {rounding: up}", "own.yaml:2:21: 'up' is not one of 'nearest', 'adaround'"),
        ("base: 8a8w\nactivations: {observer: kl}", "own.yaml:2:25: 'kl' is not one of 'min-max', 'percentile', 'mse', 'entropy'"),
        ("float: true\nweights: {bits: 8}", "with float: true nothing is quantized"),
        ("- 8a8w", "own.yaml:1:1: expected a mapping"),
    ],
)  # fmt: skip
def test_errors_in_a_file_name_their_place(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        parsed(text, "own.yaml")


def test_unknown_recipes_are_rejected() -> None:
    with pytest.raises(OpdbError, match="--quantize 8a9w: no such recipe; give one of 8a8w, 16a8w, "):
        named("8a9w")
    with pytest.raises(OpdbError, match=r"--quantize none\.yaml: No such file or directory"):
        named("none.yaml")


def types(text: str) -> dict[str, str]:
    """The types of the results, by the node that makes them, after quantizing the net with a recipe."""
    graph, sources, given = graph_of()
    made = quantize(graph, [given], target=HTP, recipe=parsed(text, "own.yaml"), sources=sources)
    computing = [op for op in made.ops if op.op not in ("Convert", "Quantize", "Dequantize")]
    return {op.origin: made.tensors[op.outputs[0]].dtype for op in computing}


def test_rules_select_nodes_by_module_operator_and_name() -> None:
    of_block = types("base: 8a8w\nrules:\n  - module: blocks.1\n    activations: {bits: 16}")
    assert {of_block[n] for n in ("linear", "relu", "add")} == {"uq8"}
    assert {of_block[n] for n in ("linear_2", "relu_1", "add_1")} == {"uq16"}
    of_qnn = types("base: 8a8w\nrules:\n  - operator: FullyConnected\n    activations: {bits: 16}")
    of_aten = types("base: 8a8w\nrules:\n  - operator: linear\n    activations: {bits: 16}")
    assert {of_qnn[n] for n in ("linear", "linear_3")} == {"uq16"} and of_qnn["add"] == "uq8"
    assert of_aten["linear"] == "uq16"
    of_node = types("base: 8a8w\nrules:\n  - node: add_*\n    activations: {bits: 16}")
    assert of_node["add_1"] == "uq16" and of_node["add"] == "uq8"


def test_the_last_matching_rule_wins() -> None:
    found = types(
        "base: 8a8w\nrules:\n  - {operator: linear, float: true}\n  - {module: blocks.0.*, activations: {bits: 16}}\n"
    )
    assert found["linear"] == "uq16" and found["linear_2"] == "f32"


def test_an_unmatched_rule_is_reported() -> None:
    graph, sources, given = graph_of()
    told: list[str] = []
    recipe = parsed("base: 8a8w\nrules:\n  - {module: block.1, float: true}", "own.yaml")
    quantize(graph, [given], target=HTP, recipe=recipe, sources=sources, told=told)
    assert told == [
        "rule 1 of the recipe (module: block.1) fits no node; the nearest names: blocks.1, blocks.0"
    ]


def test_float_rules_are_refused_on_an_integer_chip() -> None:
    graph, sources, given = graph_of(OLD)
    recipe = parsed("base: 8a8w\nrules:\n  - {operator: softmax, float: true}", "own.yaml")
    with pytest.raises(
        OpdbError, match=r"softmax.*compute in floats \(the recipe says so\), which the target"
    ):
        quantize(graph, [given], target=OLD, recipe=recipe, sources=sources)


def with_weights(graph: QnnGraph, weight: WeightType) -> QnnGraph:
    """The float graph with its linear layers' weights replaced by their quantized values."""
    tensors = dict(graph.tensors)
    for op in graph.ops:
        if op.op == "FullyConnected":
            held = tensors[op.inputs[1] or ""]
            dtype = weight.dtype
            quant = of_weight(np.asarray(held.data), dtype, True, 0, weight)
            stored = replace(
                held, dtype=dtype, quant=quant, data=quantized(np.asarray(held.data), dtype, quant, "w")
            )
            tensors[held.name] = replace(held, data=to_real(stored, stored.data))
    return QnnGraph(graph.name, tensors, list(graph.ops))


def test_a_rule_can_exempt_weights_from_adaround() -> None:
    text = "base: 16a4w\nweights: {rounding: adaround}\nrules:\n  - {node: a, weights: {bits: 8}}"
    recipe = parsed(text, "own.yaml")
    assert recipe.weights is not None and recipe.weights.rounding == "adaround"
    weights = recipe.of(recipe.rules[0])[1]
    assert (weights.bits, weights.rounding) == (8, "nearest")
    assert parsed(dump_data(recipe.spelled()), "own.yaml") == recipe


@pytest.mark.vendor
@pytest.mark.parametrize("soc", ["SM8650", "QCM6490"])
@pytest.mark.parametrize(
    ("recipe", "at_least"),
    [("8a8w", 25), ("16a8w", 45), ("16a16w", 45), ("16a4w", 45), ("16a4w-block", 45), ("8a4w", 25)],
)
def test_each_recipe_reaches_its_signal_to_noise(recipe: str, at_least: float, soc: str) -> None:
    """Compares the emulation with the float graph that has the same weights."""
    target = Target("HTP", soc, execution="emulator")
    graph, sources, given = graph_of(target)
    made = quantize(graph, [given], target=target, recipe=recipe, sources=sources)
    weights = [t for t in made.tensors.values() if t.type == "STATIC" and t.dtype in ("sq8", "sq16")]
    if recipe == "16a16w" and soc == "QCM6490":
        assert {t.dtype for t in weights} == {"sq8"}  # v68 has no weights of 16 bits
        at_least = 40
    weight = asked(named(recipe), graph, sources).weights
    if weight.bits is not None:
        kind = "BLOCKWISE_EXPANSION" if weight.block else "BW_AXIS_SCALE_OFFSET"
        assert [t.quant and t.quant.encoding for t in weights] == [kind] * 4
    stored = {t.name: to_stored(t, given[t.name]) for t in made.inputs}
    with VendorWorker("HTP", soc) as worker:
        result = worker.run(made, stored)
    assert result.stage == "done", (result.node, result.log)
    (y,) = made.outputs
    want = run_graph(with_weights(graph, weight), given)[y.name].astype(np.float64)
    noise = to_real(y, result.outputs[y.name]) - want
    assert 10 * np.log10((want**2).sum() / (noise**2).sum()) > at_least
