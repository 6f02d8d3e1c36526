"""Mappings against ATen's schemas: allowed contents, and mandatory decisions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from opdb.catalog.facts import aten_schema
from opdb.spec.catalog import Catalog, retired_of, socs_of
from opdb.spec.compiler import compile_op
from opdb.spec.definitions import CompileError, Fault
from opdb.spec.family import families_of
from opdb.spec.files import read_folder
from opdb.spec.lang.nodes import INTS, TENSOR, TENSORS
from opdb.spec.lang.printer import to_text
from opdb.spec.mapping import (
    CompiledMapping,
    compile_decomposition,
    compile_mapping,
    plain_type,
    torch_scope,
    type_of_output,
    unaccounted,
)
from opdb.spec.model import Decomposition, OpDef, TorchMapping

OP = OpDef.model_validate(
    {
        "op": "Norm",
        "inputs": {"x": ["S..."], "gamma": {"shape": ["_"], "optional": True}, "beta": {"shape": ["_"]}},
        "params": {"epsilon": "f32 = 0.001", "axes": "u32[]", "mode": "enum {FAST: 0, EXACT: 4} = FAST"},
        "outputs": {"y": ["S..."]},
    }
)
TARGET = "aten.native_layer_norm.default"
GOOD = {
    "when": "present(bias) and eps > 0",
    "inputs": {"x": "input", "gamma": "weight", "beta": "bias"},
    "params": {"epsilon": "eps", "axes": "range(len(normalized_shape))", "mode": "EXACT"},
    "outputs": {"y": 0},
}


def compiled(changes: dict[str, object], target: str = TARGET) -> CompiledMapping:
    mapping = TorchMapping.model_validate({**GOOD, **changes})
    return compile_mapping(compile_op(OP), target, mapping, aten_schema(target))


def faults_of(changes: dict[str, object], target: str = TARGET) -> list[Fault]:
    with pytest.raises(CompileError) as caught:
        compiled(changes, target)
    return caught.value.faults


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    s = read_folder(Path(__file__).parents[2] / "specs")
    return Catalog(
        s.own, s.bases, families_of(s.families, s.ops), s.backends, socs_of(s.socs), retired_of(s.retired)
    )


def test_schema_types_are_mapped() -> None:
    assert plain_type("Tensor(a -> *)") == ("Tensor", False)
    assert plain_type("Tensor(a!)?") == ("Tensor", True)
    assert plain_type("int[1]?") == ("int[]", True)
    names = torch_scope(aten_schema("aten.mean.dim")).names
    assert (names["self"].type, names["dim"].type, names["dim"].optional) == (TENSOR, INTS, True)
    assert names["dim"].range == (-(2**63), 2**63 - 1)
    assert torch_scope(aten_schema("aten.cat.default")).names["tensors"].type == TENSORS


def test_a_mapping_is_typed_and_follows_the_ops_order() -> None:
    m = compiled({"inputs": {"beta": "bias", "x": "input"}})
    assert list(m.inputs) == ["x", "beta"] and list(m.params) == ["epsilon", "axes", "mode"]
    assert m.when is not None and to_text(m.when) == "present(bias) and eps > 0.0"
    assert to_text(m.outputs["y"]) == "results[0]"
    assert unaccounted(compiled({}), aten_schema(TARGET)) == []


@pytest.mark.parametrize(
    ("changes", "at", "words"),
    [
        (
            {"inputs": {"x": "inpt", "beta": "bias"}},
            ("inputs", "x"),
            "unknown name 'inpt'; did you mean 'input'?",
        ),
        ({"inputs": {"xx": "input"}}, ("inputs", "xx"), "Norm has no input 'xx'; known: x, gamma, beta"),
        (
            {"inputs": {"x": "eps", "beta": "2"}},
            ("inputs",),
            "Norm reads numbers only; work them out under 'let'",
        ),
        ({"when": "eps > 0"}, ("inputs", "beta"), "'bias' may be None, and Norm needs 'beta'"),
        ({"when": "eps", "inputs": {"x": "input"}}, ("when",), "expected bool, got float"),
        ({"absent": {"x": "ones([2])"}}, ("absent", "x"), "'x' is always given"),
        (
            {"inputs": {"x": "input", "beta": "bias"}, "absent": {"gamma": "ones([2])"}},
            ("absent", "gamma"),
            "not under 'inputs'",
        ),
        (
            {"params": {"scale": "eps"}},
            ("params", "scale"),
            "Norm has no parameter 'scale'; known: epsilon, axes, mode",
        ),
        ({"params": {"axes": "eps"}}, ("params", "axes"), "expected ints, got float"),
        ({"params": {"mode": "SLOW"}}, ("params", "mode"), "unknown name 'SLOW'"),
        (
            {"outputs": {"y": 3}},
            ("outputs", "y"),
            "the target has 3 results, counted from 0; there is no number 3",
        ),
        ({"outputs": {"z": 0}}, ("outputs", "z"), "Norm has no output 'z'; known: y"),
        ({"outputs": {"y": "results"}}, ("outputs", "y"), "expected tensor, got tensors"),
    ],
)
def test_faults_are_reported_with_their_place(
    changes: dict[str, object], at: tuple[str, ...], words: str
) -> None:
    (fault,) = faults_of(changes)
    assert fault.at == ("torch", TARGET, *at)
    assert words in fault.message


def test_a_list_result_is_mapped_as_a_whole() -> None:
    changes = {
        "when": None,
        "inputs": {"x": "self", "beta": "self"},
        "params": {"axes": "split_sizes"},
        "outputs": {"y": 0},
    }
    (fault,) = faults_of(changes, "aten.split_with_sizes.default")
    assert "returns a list of tensors; write 'results'" in fault.message


def test_a_required_parameter_needs_a_value_for_none_too() -> None:
    changes = {"when": None, "inputs": {"x": "self", "beta": "self"}, "params": {"axes": "dim"}}
    (fault,) = faults_of(changes, "aten.mean.dim")
    assert fault.at[-2:] == ("params", "axes") and "write ... if present(dim) else ..." in fault.message
    given = {**changes, "params": {"axes": "dim if present(dim) else range(self.rank)"}}
    assert compiled(given, "aten.mean.dim").params["axes"].type == INTS


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"params": {"axes": "normalized_shape"}, "when": "present(bias)"},
            "the argument 'eps' of aten.native_layer_norm.default is neither",
        ),
        (
            {"params": {"axes": "normalized_shape"}, "when": "present(bias)", "ignored": {"eps": " "}},
            "the argument 'eps'",
        ),
        ({"ignored": {"eps": "It is small."}}, "'eps' is read, so it is not ignored"),
        ({"ignored": {"esp": "No such argument."}}, "has no argument 'esp'"),
        ({"inputs": {"beta": "bias", "gamma": "weight"}}, "Norm needs the input 'x'"),
        ({"params": {"epsilon": "eps"}}, "Norm needs the parameter 'axes'"),
        ({"outputs": {}}, "Norm needs the output 'y'"),
    ],
)
def test_incomplete_mappings_are_rejected(changes: dict[str, object], words: str) -> None:
    found = unaccounted(compiled(changes), aten_schema(TARGET))
    assert any(words in f.message for f in found), found


def test_mappings_of_all_specs_account_for_every_argument(catalog: Catalog) -> None:
    for name, op in catalog.ops.items():
        for target, mapping in op.torch.items():
            schema = aten_schema(target)
            assert (
                unaccounted(compile_mapping(catalog.compiled(name), target, mapping, schema), schema) == []
            ), (name, target)


@dataclass
class Steps:
    """A decomposition of addmm into MatMul and ElementWiseAdd, with changes."""

    catalog: Catalog

    def faults(self, **changes: object) -> list[Fault]:
        ops = {name: self.catalog.compiled(name) for name in self.catalog.ops}
        data = {
            "decomposition": "add_product",
            "summary": "A product and a sum.",
            "torch": "aten.addmm.default",
            "when": "beta == 1 and alpha == 1",
            "ops": [
                {"op": "MatMul", "inputs": {"a": "mat1", "b": "mat2"}, "outputs": {"y": "product"}},
                {"op": "ElementWiseAdd", "inputs": {"a": "product", "b": "self"}, "outputs": {"y": "result"}},
            ],
        }
        definition = Decomposition.model_validate({**data, **changes})
        schema = aten_schema("aten.addmm.default")
        try:
            return unaccounted(compile_decomposition(definition, "aten.addmm.default", ops, schema), schema)
        except CompileError as error:
            return error.faults


def test_faulty_decompositions_are_rejected(catalog: Catalog) -> None:
    steps = Steps(catalog)
    assert steps.faults() == []
    matmul = {"op": "MatMul", "inputs": {"a": "mat1", "b": "mat2"}, "outputs": {"y": "product"}}
    add = {"op": "ElementWiseAdd", "inputs": {"a": "product", "b": "self"}, "outputs": {"y": "result"}}
    cases: list[tuple[dict[str, object], tuple[str | int, ...], str]] = [
        ({"ops": [add, matmul]}, ("ops", 0, "inputs", "a"), "'product' is read before an op writes it"),
        ({"ops": [matmul, matmul, add]}, ("ops", 1, "outputs", "y"), "'product' is written twice"),
        (
            {"tensors": {"more": {"like": "f32"}}},
            ("tensors", "more"),
            "no op writes 'more'",
        ),
        ({"ops": [{**matmul, "op": "MatMull"}, add]}, ("ops", 0, "op"), "no spec of an op 'MatMull'"),
        ({"let": {"mat1": "1"}}, ("let", "mat1"), "'mat1' is the name of something else already"),
        ({"let": {"more": "1"}}, ("let", "more"), "nothing reads 'more'"),
        (
            {"ops": [{"op": "Cast", "inputs": {"x": "mat1"}, "outputs": {"y": "whole"}}, matmul, add]},
            ("ops", 0, "outputs", "y"),
            "the type of 'whole' does not follow; state it: tensors: {whole: {like: f32}}",
        ),
        (
            {"ops": [{"op": "Reshape", "inputs": {"x": "mat1"}, "outputs": {"y": "flat"}}, matmul, add]},
            ("ops", 0, "outputs", "y"),
            "Reshape infers no shape; state it: tensors: {flat: {shape: ...}}",
        ),
        ({"when": "beta == 1"}, (), "the argument 'alpha' of aten.addmm.default is neither read nor ignored"),
        ({"ops": [{**matmul, "inputs": {"a": "mat1"}}, add]}, ("ops", 0), "MatMul needs the input 'b'"),
    ]
    for changes, at, words in cases:
        assert any(f.at == at and words in f.message for f in steps.faults(**changes)), (
            changes,
            steps.faults(**changes),
        )


def test_a_guard_reads_names_of_let_as_what_they_stand_for(catalog: Catalog) -> None:
    let = {"rows": "self.shape[0]", "many": "all(s > rows for s in mat2.shape)"}
    definition = Decomposition.model_validate(
        {
            "decomposition": "product",
            "summary": "A product.",
            "torch": "aten.mm.default",
            "when": "many and rows > 1",
            "let": let,
            "ops": [{"op": "MatMul", "inputs": {"a": "self", "b": "mat2"}, "outputs": {"y": "result"}}],
        }
    )
    schema = aten_schema("aten.mm.default")
    made = compile_decomposition(
        definition, "aten.mm.default", {"MatMul": catalog.compiled("MatMul")}, schema
    )
    assert made.when is not None
    assert to_text(made.when) == "all(s > self.shape[0] for s in mat2.shape) and self.shape[0] > 1"
    assert Steps(catalog).faults(let={"more": "1"}, when="beta == 1 and alpha == 1 and more == 1") == []


@pytest.mark.parametrize(
    ("op", "slot", "source"),
    [
        ("ElementWiseLess", "y", "bool8"),  # its rows
        ("ElementWiseAdd", "y", ("a", "b")),
        ("ElementWiseSelect", "y", ("if_true", "if_false")),
        ("ReduceMean", "y", ("x",)),  # a rule
        ("ScatterNd", "y", ("updates",)),
        ("TopK", "values", ("x",)),
        ("Cast", "y", ()),
    ],
)
def test_outputs_get_a_type(catalog: Catalog, op: str, slot: str, source: str | tuple[str, ...]) -> None:
    found = type_of_output(catalog.compiled(op), slot)
    assert found == source if isinstance(source, str) else found[: len(source)] == source
