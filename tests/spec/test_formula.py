"""Formulas: the ops of each line, their order, and errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from opdb.catalog.store import read_catalog
from opdb.spec.catalog import Catalog
from opdb.spec.family import FamilyDef, expand
from opdb.spec.files import dump, load, parse_document
from opdb.spec.formula import FUNCTIONS, OPERATORS, read_formula
from opdb.spec.lang import element
from opdb.spec.lang.parse import ExpressionError
from opdb.spec.model import Decomposition


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return read_catalog(Path(__file__).parents[2] / "specs")


def steps(text: str, catalog: Catalog) -> list[str]:
    """Each step as ``outputs = op(inputs; params)``."""
    out = []
    for s in read_formula(text, catalog.ops).steps:
        inputs = [f"{t} or {s.absent[n]}" if n in s.absent else t for n, t in s.inputs.items()]
        params = [f"{n}={t}" for n, t in s.params.items()]
        outputs = ", ".join(s.outputs.values())
        out.append(f"{outputs} = {s.op}({', '.join(inputs)}{'; ' * bool(params)}{', '.join(params)})")
    return out


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("self + 1", ["result = ElementWiseAdd(self, 1)"]),
        ("x = -self\nx * -2.5", ["x = ElementWiseNeg(self)", "result = ElementWiseMultiply(x, -2.5)"]),
        ("0.5 * tanh(self - mean)", [
            "subtract_1 = ElementWiseSubtract(self, mean)", "tanh_2 = Tanh(subtract_1)",
            "result = ElementWiseMultiply(0.5, tanh_2)"]),
        ("self if self > 0 and not other else other", [
            "greater_1 = ElementWiseGreater(self, 0)", "not_2 = ElementWiseNot(other)",
            "and_3 = ElementWiseAnd(greater_1, not_2)", "result = ElementWiseSelect(and_3, self, other)"]),
        ("self * (weight if present(weight) else ones([1]))",
         ["result = ElementWiseMultiply(self, weight or ones([1]))"]),
        ("reshape(result, flat) = ReduceMean(reshape(abs(self), flat), axes=[a + 1 for a in dim], keep_dims=true)", [
            "abs_1 = ElementWiseAbs(self)",
            "reshape(result, flat) = ReduceMean(reshape(abs_1, flat); axes=[a + 1 for a in dim], keep_dims=true)"]),
        ("top, results[1] = TopK(self,\n    k=k)", ["top, results[1] = TopK(self; k=k)"]),
        ("LayerNorm(self, beta=bias, axes=axes)", ["result = LayerNorm(self, bias; axes=axes)"]),
        ("a and b and c", ["and_1 = ElementWiseAnd(a, b)", "result = ElementWiseAnd(and_1, c)"]),
    ],
)  # fmt: skip
def test_lines_become_ops(text: str, made: list[str], catalog: Catalog) -> None:
    assert steps(text, catalog) == made


def test_new_tensors_get_a_type(catalog: Catalog) -> None:
    assert read_formula("whole: i32 = Cast(self)\nwhole + other", catalog.ops).likes == {"whole": "i32"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("self", "a line is an op"),
        ("reshape(self, [1])", "a line is an op"),
        ("Tanhh(self)", "no op 'Tanhh' in ops/"),
        ("tanh(self, other)", "Tanh has 1 input: x"),
        (
            "ReduceMean(self, axis=1)",
            "ReduceMean has no input or parameter 'axis'; known: x, axes, keep_dims",
        ),
        ("a, b = tanh(self)", "Tanh has 1 output: y"),
        ("a = b = tanh(self)", "a line has one ' = '"),
        ("tanh(self", "a bracket is not closed"),
        ("tanh(self) +", "cannot parse"),
    ],
)
def test_faulty_formulas_are_rejected(text: str, message: str, catalog: Catalog) -> None:
    with pytest.raises(ExpressionError) as caught:
        read_formula(text, catalog.ops)
    assert message in caught.value.message


def test_operators_and_functions_match_ops_and_kernels(catalog: Catalog) -> None:
    assert {*OPERATORS.values(), *FUNCTIONS.values()} <= catalog.ops.keys()
    assert FUNCTIONS.keys() - element.FUNCTIONS.keys() == {"relu", "rsqrt", "sigmoid", "xor"}


def test_a_family_may_have_a_formula(catalog: Catalog) -> None:
    text = """\
family: halves
summary: Halves.
candidates:
  - summary: $op of one half.
    variants:
      sum_of_half: {torch: [aten.hardswish.default], values: {op: Relu, half: 1.0 / 2.0}}
    tensors: {part: {shape: self.shape}}
    expression: |
      part: result = $op(self)
      part + full([1], $half)
"""
    family = load(FamilyDef, parse_document(text, "torch/halves.yaml"))
    assert dump(family) == text
    (candidate,), faults = expand(family, catalog.ops)
    made = candidate.definition
    assert not faults and isinstance(made, Decomposition) and candidate.ops == ("Relu", "ElementWiseAdd")
    assert made.ops[1].inputs == {"a": "part", "b": "full([1], 1.0 / 2.0)"}
    assert made.tensors["part"].model_dump() == {"shape": "self.shape", "like": "result"}
    _, (fault,) = expand(family, {})
    assert fault.at == ("candidates", 0, "expression") and "no op 'Relu' in ops/" in fault.message
