"""Families: variants are expanded, and errors in one are reported at their place in the file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from opdb.catalog.store import read_catalog
from opdb.core.errors import SpecError
from opdb.judge.lint import lint
from opdb.spec.family import Candidate, FamilyDef, expand
from opdb.spec.files import dump, load, parse_document
from opdb.spec.model import Decomposition, TorchMapping

MINI = Path(__file__).parents[1] / "data" / "mini"
HEAD = "family: sums\nsummary: Sums.\ncandidates:\n"
CHAIN = """\
  - summary: $summary
    variants:
      sum_of_all:
        torch: [aten.sum.default]
        values:
          summary: The sum of all elements.
      sum_twice:
        torch: [aten.sum.dim_IntList]
        values:
          summary: The sum of some.
          axes: dim if present(dim) else []
    tensors:
      part:
        shape: reduced(self.shape, [a % self.rank for a in $axes], true)
        like: self
        only: [sum_twice]
    ops:
      - op: ReduceSum
        inputs:
          x: self
        params:
          axes: $axes
        outputs:
          y: part
        only: [sum_twice]
      - op: Relu
        inputs:
          x: self
        outputs:
          y: result
"""


def family(text: str) -> FamilyDef:
    return load(FamilyDef, parse_document(HEAD + text, "torch/sums.yaml"))


def chain(candidate: Candidate) -> Decomposition:
    assert isinstance(candidate.definition, Decomposition)
    return candidate.definition


def test_variants_become_plain_candidates() -> None:
    candidates, faults = expand(family(CHAIN))
    assert not faults
    assert [(c.name, c.torch, c.op) for c in candidates] == [
        ("sum_of_all", ("aten.sum.default",), None),
        ("sum_twice", ("aten.sum.dim_IntList",), None),
    ]
    first, second = map(chain, candidates)
    assert first.summary == "The sum of all elements."
    assert [s.op for s in first.ops] == ["Relu"] and not first.tensors
    assert [s.op for s in second.ops] == ["ReduceSum", "Relu"]
    assert second.ops[0].params == {"axes": "dim if present(dim) else []"}  # a whole text is unchanged
    inside = "reduced(self.shape, [a % self.rank for a in (dim if present(dim) else [])], true)"
    assert second.tensors["part"].shape == inside  # in a longer one: in brackets
    assert "$" not in dump(first) + dump(second)


def test_a_candidate_of_one_op_is_named_after_it() -> None:
    text = "  - torch: [aten.relu.default, aten.relu_.default]\n    op: Relu\n    inputs: {x: self}\n    outputs: {y: 0}\n"
    (candidate,), faults = expand(family(text))
    assert not faults and candidate.name == candidate.op == "Relu"
    assert isinstance(candidate.definition, TorchMapping) and candidate.definition.outputs == {"y": "0"}


@pytest.mark.parametrize(
    ("old", "new", "at", "message"),
    [
        ("$summary", "$text", ("variants", "sum_of_all"), "gives no value for '$text'; it gives summary"),
        ("          summary: The sum of all", "          more: 1\n          summary: The sum of all",
         ("variants", "sum_of_all", "values", "more"), "no text of the candidate reads '$more'"),
        ("only: [sum_twice]\n    ops", "only: [sum_thrice]\n    ops", ("tensors", "part", "only"),
         "no variant 'sum_thrice'; known: sum_of_all, sum_twice"),
    ],
)  # fmt: skip
def test_faulty_variants_are_rejected(old: str, new: str, at: tuple[str, ...], message: str) -> None:
    assert old in CHAIN
    _, faults = expand(family(CHAIN.replace(old, new, 1)))
    assert any(f.at == ("candidates", 0, *at) and message in f.message for f in faults), faults


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("  - op: Relu\n", "either 'torch', its targets, or 'variants'"),
        ("  - torch: [a]\n", "one of 'op' (one op), 'expression' and 'ops' (chains)"),
        ("  - {torch: [a], op: Relu, let: {n: 1}}\n", "'let' and 'tensors' belong to a chain"),
        ("  - {torch: [a], summary: A., ops: [{op: Relu, outputs: {y: result}}]}\n", "a chain needs a name"),
        ("  - {candidate: c, torch: [a], ops: [{op: Relu, outputs: {y: result}}]}\n", "a chain needs a 'summary'"),
        ("  - {candidate: c, torch: [a], inputs: {x: self}, ops: [{op: Relu, outputs: {y: result}}]}\n",
         "belong to 'op'; those of a chain stand in its 'expression' or 'ops'"),
    ],
)  # fmt: skip
def test_faulty_candidates_are_rejected(text: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        family(text)
    (problem,) = caught.value.problems
    assert message in problem.message and (problem.path, problem.line) == ("torch/sums.yaml", 4)


@pytest.fixture
def specs(tmp_path: Path) -> Path:
    return shutil.copytree(MINI, tmp_path / "specs")


def told(specs: Path) -> list[str]:
    try:
        return [str(p) for p in lint(specs)]
    except SpecError as error:
        return [str(p) for p in error.problems]


def test_a_fault_in_a_chain_is_reported_with_its_line(specs: Path) -> None:
    path = specs / "torch" / "add_relu.yaml"
    path.write_text(path.read_text().replace("a: self", "aa: self"))
    line = next(i for i, text in enumerate(path.read_text().splitlines(), 1) if "aa: self" in text)
    assert any(p.startswith(f"torch/add_relu.yaml:{line}:") and "no input 'aa'" in p for p in told(specs)), (
        told(specs)
    )


def test_a_target_may_be_in_only_one_family(specs: Path) -> None:
    relu = specs / "ops" / "Relu.yaml"
    before = relu.read_text()
    mapping = "torch:\n  aten.relu.default:\n    inputs: {x: self}\n    outputs: {y: 0}\n"
    relu.write_text(before + mapping)
    cure = "move this one to torch/relu.yaml, as a candidate with 'torch: [aten.relu.default]' and 'op: Relu'"
    assert any(p.startswith("ops/Relu.yaml:") and cure in p for p in told(specs)), told(specs)
    relu.write_text(before.replace("op: Relu\n", "op: Relu\npackage: MyOps\n") + mapping)
    assert any("aten.relu.default has candidates in torch/relu.yaml; move this" in p for p in told(specs))
    relu.write_text(before)
    one = "  - torch: [aten._add_relu.Tensor]\n    op: Relu\n    inputs: {x: self}\n    outputs: {y: 0}\n"
    (specs / "torch" / "sums.yaml").write_text(HEAD + one)
    assert told(specs)[0].startswith("torch/sums.yaml:4:")
    assert (
        "aten._add_relu.Tensor has candidates in torch/add_relu.yaml; move this one there" in told(specs)[0]
    )


def test_candidates_keep_the_order_of_the_family(specs: Path) -> None:
    path = specs / "torch" / "add_relu.yaml"
    one = "  - {torch: [aten._add_relu.Tensor], op: ElementWiseAdd, inputs: {a: self, b: other}, outputs: {y: 0}}\n"
    head, mark, chains = path.read_text().partition("candidates:\n")
    path.write_text(head + mark + one + chains)
    catalog = read_catalog(specs)
    names = [c.name for c in catalog.candidates if c.family == "add_relu"]
    assert names == ["ElementWiseAdd", "add_relu"]
    assert "aten._add_relu.Tensor" in catalog.mappings("ElementWiseAdd")
    assert catalog.op_hash("ElementWiseAdd") != read_catalog(MINI).op_hash("ElementWiseAdd")
    assert catalog.op_hash("Relu") == read_catalog(MINI).op_hash("Relu")
