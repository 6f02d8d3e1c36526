"""Generated builders read like their mapping, run, import little, and fit the generated tree."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from opdb.catalog.facts import aten_schema
from opdb.codegen import builders
from opdb.codegen.artifact import Artifact
from opdb.codegen.environment import render
from opdb.codegen.formatters import format_all
from opdb.core.op_config import ParamConfig
from opdb.generated.builders import TARGETS
from opdb.runtime.checks import Undecidable
from opdb.runtime.forms import Lowered, layout_ops, scalar, tensor_param
from opdb.runtime.tensors import Rejection, TensorRef, Transform
from opdb.spec.catalog import Catalog
from opdb.spec.compiler import compile_op
from opdb.spec.mapping import compile_mapping
from opdb.spec.model import OpDef, TorchMapping

ROOT = Path(__file__).parent.parent.parent

LAYER_NORM = '''
def layer_norm__aten_native_layer_norm(node: NodeView) -> Lowered:
    """aten.native_layer_norm.default -> LayerNorm."""
    input = node.arg("input")
    normalized_shape = node.arg("normalized_shape")
    weight = node.arg("weight")
    bias = node.arg("bias")
    eps = node.arg("eps")
    unused(node, 1, 2)
    return one_op(
        "LayerNorm",
        inputs={
            "x": input,
            "gamma": ones(normalized_shape, input) if weight is None else weight,
            "beta": bias,
        },
        params=[
            scalar("epsilon", "f32", eps),
            tensor_param("axes", "u32", indices(input.rank - len(normalized_shape), input.rank)),
        ],
        outputs={"y": node.result(0)},
    )
'''


@dataclass
class View:
    """A node as a builder sees it, from plain values."""

    args: Mapping[str, Any]
    shape: tuple[int, ...] = (2, 3)
    target: str = ""
    name: str = "node"
    elsewhere: bool = False
    used: set[int] = field(default_factory=lambda: {0})

    def arg(self, name: str) -> Any:
        return self.args[name]

    def result(self, index: int) -> TensorRef:
        return tensor("result", *self.shape)

    def results(self) -> list[TensorRef]:
        return [self.result(0)] * 2

    def result_used(self, index: int) -> bool:
        return index in self.used

    def between_views(self) -> bool:
        return False

    def read_in_ranks(self) -> set[int]:
        return set()

    def shown(self) -> set[tuple[int, ...]]:
        return set()

    def constant_source(self, t: TensorRef) -> TensorRef | None:
        return t if t.static else None


def tensor(key: str, *shape: int, dtype: str = "f32") -> TensorRef:
    return TensorRef(shape, dtype, key=key, base_shape=shape)


def artifacts(catalog: Catalog) -> list[Artifact]:
    own = [a for name in catalog.ops for a in builders.python(catalog, name)]
    families = [a for name in catalog.families for a in builders.python_family(catalog, name)]
    return [*own, *families, *builders.python_registry(catalog)]


def built(definition: Mapping[str, Any], target: str, mapping: Mapping[str, Any], view: View) -> Lowered:
    """Generates, formats and runs the builder of one mapping, and returns its result for ``view``."""
    op = compile_op(OpDef.model_validate(definition))
    compiled = compile_mapping(op, target, TorchMapping.model_validate(mapping), aten_schema(target))
    text = render(
        "builders.py.j2", **builders.module_view(op.name, "", [(builders.function_name(target), compiled)])
    )
    (text,) = format_all([Artifact("generated/python/one.py", text, ("specs/ops/One.yaml",), "python")])
    space: dict[str, Any] = {}
    exec(compile(text, "one.py", "exec"), space)
    lowered: Lowered = space[builders.function_name(target)](view)
    return lowered


def test_a_builder_reads_like_its_mapping(full: Catalog) -> None:
    (artifact,) = builders.python_family(full, "layer_norm")
    assert artifact.path == f"{builders.FOLDER}/families/layer_norm.py"
    (text,) = format_all([artifact])
    assert LAYER_NORM in text


def test_every_target_is_registered_in_order(full: Catalog) -> None:
    mapped = {t: [n] for n, op in full.ops.items() for t in op.torch}
    ranked: dict[str, list[str]] = {}
    for candidate in full.candidates:
        for target in candidate.torch:
            ranked.setdefault(target, []).append(candidate.name)
    assert not mapped.keys() & ranked.keys()
    assert {t: [f.name for f in forms] for t, forms in TARGETS.items()} == {**mapped, **ranked}
    assert [f.name for f in TARGETS["aten.native_layer_norm.default"]] == ["LayerNorm", "layer_norm_trailing"]


def test_the_texts_are_clean_and_import_little(full: Catalog, tmp_path: Path) -> None:
    made = artifacts(full)
    for a, text in zip(made, format_all(made), strict=True):
        (tmp_path / a.path.replace("/", "_")).write_text(text)
        imported = {n.module for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ImportFrom)}
        assert imported <= {
            "__future__",
            "opdb.runtime.arguments",
            "opdb.runtime.per_channel",
            "opdb.runtime.checks",
            "opdb.runtime.windows",
            "opdb.runtime.forms",
            "opdb.runtime.tensors",
        }
    options = "--isolated --select E,F,I,W,B,RUF,UP --ignore E501 --line-length 110 --target-version py311"
    command = [sys.executable, "-m", "ruff", "check", *options.split(), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_importing_the_registry_loads_no_builder() -> None:
    code = (
        "import sys, opdb.generated.builders as b; "
        "print(sorted(m for m in sys.modules if m.startswith(b.__name__ + '.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


UNARY: dict[str, Any] = {"op": "One", "inputs": {"x": ["S..."]}, "outputs": {"y": ["S..."]}}


def test_reserved_names_get_another_local_name() -> None:
    definition = {**UNARY, "params": {"low": "f32?", "high": "f32"}}
    mapping = {
        "when": "present(max)",
        "inputs": {"x": "self"},
        "params": {"low": "min", "high": "max(max, 0.5)"},
        "outputs": {"y": 0},
    }
    view = View({"self": tensor("x", 2, 3), "min": None, "max": 0.25})
    (op,) = built(definition, "aten.clamp.default", mapping, view).ops
    assert op.params == (ParamConfig("high", "f32", 0.5),)
    view = View({"self": tensor("x", 2, 3), "min": -1.0, "max": None})
    with pytest.raises(Rejection, match="max must be given"):
        built(definition, "aten.clamp.default", mapping, view)


def test_a_guard_is_checked_condition_by_condition() -> None:
    mapping = {"when": "alpha == 1.0 and self.rank > 2", "inputs": {"x": "self"}, "outputs": {"y": 0}}
    for alpha, got in ((2.0, "; got alpha = 2"), (1.0, "; got self.rank = 2")):
        view = View({"self": tensor("x", 2, 3), "alpha": alpha})
        with pytest.raises(Rejection) as caught:
            built(UNARY, "aten.add.Tensor", mapping, view)
        assert str(caught.value).endswith(got)


def test_values_that_cannot_be_computed_are_undecidable() -> None:
    mapping = {"inputs": {"x": "self"}, "params": {"n": "self.shape[dim] // dim"}, "outputs": {"y": 0}}
    definition = {**UNARY, "params": {"n": "u32"}}
    for dim in (5, 0):
        with pytest.raises(Undecidable):
            built(definition, "aten._softmax.default", mapping, View({"self": tensor("x", 2, 3), "dim": dim}))


def test_optional_tensors_get_defaults_or_are_omitted() -> None:
    definition = {
        "op": "One",
        "inputs": {
            "x": ["S..."],
            "a": {"shape": ["_"], "optional": True},
            "b": {"shape": ["_"], "optional": True},
        },
        "outputs": {"y": ["S..."]},
    }
    mapping = {
        "inputs": {"x": "permute(input, [1, 0])", "a": "reshape(weight, [3, 1])", "b": "bias"},
        "absent": {"b": "full([3], 2.5)"},
        "outputs": {"y": 0},
    }
    half = tensor("x", 2, 3, dtype="f16")
    target = "aten.linear.default"
    (op,) = built(
        definition, target, mapping, View({"input": half, "weight": tensor("w", 3), "bias": None})
    ).ops
    x, a, b = op.inputs
    assert x is not None and x.shape == (3, 2) and x.transforms == (Transform("permute", (1, 0)),)
    assert a is not None and a.transforms == (Transform("reshape", (3, 1)),)
    assert b is not None and (b.fill, b.dtype, b.static, b.shape) == (2.5, "f16", True, (3,))
    assert op.slots == ("x", "a", "b", "y")


def test_dropped_results_must_be_unused() -> None:
    mapping = {"inputs": {"x": "input"}, "outputs": {"y": 0}}
    args = {"input": tensor("x", 2, 3)}
    assert built(UNARY, "aten.native_layer_norm.default", mapping, View(args)).form == "One"
    with pytest.raises(Rejection, match="result 2 is used"):
        built(UNARY, "aten.native_layer_norm.default", mapping, View(args, used={0, 2}))


def test_values_must_fit_their_data_type() -> None:
    for dtype, value in (("u32", -1), ("u8", 256), ("i32", 2**31), ("f32", 1e39), ("f16", 70000.0)):
        with pytest.raises(Rejection, match="does not fit"):
            scalar("p", dtype, value)
    assert scalar("p", "f32", 1).value == 1.0 and scalar("p", "u32", 2**32 - 1).value == 2**32 - 1
    assert tensor_param("p", "u32", [[1, 2], [3, 4]]) == ParamConfig("p", "u32", (1, 2, 3, 4), (2, 2))
    assert tensor_param("p", "u32", []) == ParamConfig("p", "u32", (), (0,))
    with pytest.raises(Rejection, match="rows of one length"):
        tensor_param("p", "u32", [[1, 2], [3]])


def test_layout_ops_are_applied_and_undone() -> None:
    t = TensorRef(
        (4, 6),
        "f32",
        key="x",
        base_shape=(2, 3, 4),
        transforms=(Transform("permute", (2, 0, 1)), Transform("reshape", (4, 6))),
    )
    shapes = [(op.op, op.inputs[0] and op.inputs[0].shape, op.outputs[0].shape) for op in layout_ops(t)]
    assert shapes == [("Transpose", (2, 3, 4), (4, 2, 3)), ("Reshape", (4, 2, 3), (4, 6))]
    back = layout_ops(t, inverse=True)
    assert [(op.op, op.outputs[0].shape) for op in back] == [("Reshape", (4, 2, 3)), ("Transpose", (2, 3, 4))]
    assert back[1].params[0].value == (1, 2, 0)
