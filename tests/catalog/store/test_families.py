"""Families are rows: what they say comes back, and what the rows say is what is loaded and asked about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opdb.catalog.query import Filters, ask
from opdb.catalog.store import Store
from opdb.core.errors import SpecError
from opdb.spec.family import Candidate, families_of
from opdb.spec.files import read_folder
from opdb.spec.model import Decomposition

from ...repository_specs import SPECS

SUMS = """family: add_relu
summary: Candidates of _add_relu.
candidates:
  - summary: $op of the sum.
    variants:
      relu_of_sum: {torch: [aten._add_relu.Tensor], values: {op: Relu, limit: 1.0}}
      relu_of_sum_out: {torch: [aten._add_relu.out, aten._add_relu_.Tensor], values: {op: Relu, limit: alpha + 1.0}}
    when: alpha < $limit
    let: {one: 1}
    tensors: {sum: {shape: self.shape}, relu_2: {shape: [one, 2], like: self}}
    expression: |
      sum = self + other
      $op($op(sum))
    ignored: {alpha: It is 1.}
    avoids: [HTP-0001, HTP-0002]
  - variants:
      plain: {torch: [aten._add_relu.Scalar]}
      twice: {torch: [aten._add_relu_.Scalar]}
    summary: Steps that one variant leaves out.
    ops:
      - {op: ElementWiseAdd, inputs: {a: self, b: other}, outputs: {y: sum}}
      - {op: Relu, inputs: {x: sum}, outputs: {y: sum}, only: twice}
      - {op: Relu, inputs: {x: sum}, absent: {x: self}, params: {p: 1}, outputs: {y: result}}
  - torch: [mine.op.default, mine.op.out]
    signature: op(Tensor x) -> Tensor
    when: alpha == 1.0
    why: The rest is not known.
    op: Relu
    inputs: {x: x}
    absent: {x: "ones([1])"}
    outputs: {y: 0}
    source: Pages@1.0#relu
"""


@pytest.fixture
def sums(specs: Path) -> Path:
    """Specs with a family that has one of everything, but for what needs errata."""
    text = SUMS.replace("    avoids: [HTP-0001, HTP-0002]\n", "")
    (specs / "torch/add_relu.yaml").write_text(text)
    return specs


def run(store: Store, sql: str, **values: Any) -> None:
    with store.database.changing() as writer:
        writer.run(sql, **values)


def chain(store: Store, name: str) -> Decomposition:
    definition = candidate(store, name).definition
    assert isinstance(definition, Decomposition)
    return definition


def candidate(store: Store, name: str) -> Candidate:
    (found,) = (c for c in store.load_catalog().candidates if c.name == name)
    return found


def assert_read(store: Store, folder: Path) -> None:
    """Each family in SQL equals the one that its file compiles to."""
    store.sync(folder)
    files, catalog = read_folder(folder), store.load_catalog()
    expected = families_of(files.families, files.ops)
    assert list(catalog.families) == sorted(expected)
    for name, family in expected.items():
        assert catalog.families[name] == family, name
        assert catalog.families[name].digest == family.digest
        assert store.snapshot().family_hash(name) == catalog.family_hash(name)


@pytest.mark.slow
def test_every_family_comes_back_as_it_is_compiled(store: Store) -> None:
    assert_read(store, SPECS)


def test_a_family_with_variants_and_a_formula_comes_back(store: Store, sums: Path) -> None:
    assert_read(store, sums)
    found = store.load_catalog().families["add_relu"].candidates
    assert [(c.name, c.variant, c.entry) for c in found] == [
        ("relu_of_sum", "relu_of_sum", 0),
        ("relu_of_sum_out", "relu_of_sum_out", 0),
        ("plain", "plain", 1),
        ("twice", "twice", 1),
        ("Relu", None, 2),
    ]
    assert found[1].definition.when == "alpha < (alpha + 1.0)"
    assert found[0].lines == ("sum = self + other", "Relu(Relu(sum))", "Relu(Relu(sum))")
    assert (found[2].steps, found[3].steps) == ((0, 2), (0, 1, 2))
    assert found[4].op == "Relu" and found[4].torch == ("mine.op.default", "mine.op.out")


def test_errata_that_cannot_show_come_back(store: Store, specs: Path) -> None:
    (specs / "torch/add_relu.yaml").write_text(SUMS)
    (specs / "errata/htp").mkdir(parents=True)
    for ident in ("HTP-0001", "HTP-0002"):
        (specs / f"errata/htp/{ident}.yaml").write_text(
            f"erratum: {ident}\ntitle: Wrong.\nop: Relu\neffect: wrong-result\nworkaround: reject\n"
        )
    assert_read(store, specs)
    assert candidate(store, "relu_of_sum").avoids == ("HTP-0001", "HTP-0002")


STEP = """UPDATE candidate_step SET op = 'Concat' WHERE position = 1 AND candidate_id IN
(SELECT id FROM candidate WHERE name = 'add_relu')"""


def test_a_changed_row_is_what_is_loaded_and_asked_about(store: Store, specs: Path) -> None:
    store.sync(specs)
    before = candidate(store, "add_relu")
    assert before.ops == ("ElementWiseAdd", "Relu")
    run(store, STEP)
    assert candidate(store, "add_relu").ops == ("ElementWiseAdd", "Concat")
    (row,) = ask(store, "torch", Filters(torch_op="aten._add_relu.Tensor"))
    assert row["ops"] == "ElementWiseAdd, Concat"
    run(store, "UPDATE candidate SET guard = @when WHERE name = 'add_relu'", when="alpha == 2.0")
    assert chain(store, "add_relu").when == "alpha == 2.0"
    run(store, "UPDATE step_binding SET expression = 'other' WHERE expression = 'sum'")
    assert chain(store, "add_relu").ops[1].inputs == {"x": "other"}
    store.sync(specs, full=True)
    assert candidate(store, "add_relu") == before


@pytest.mark.parametrize(
    ("table", "read"),
    [
        ("candidate_target", lambda c: c.torch),
        ("candidate_name", lambda c: {**c.definition.let, **c.definition.ignored}),
        ("candidate_tensor", lambda c: c.definition.tensors),
        ("candidate_step", lambda c: c.definition.ops),
        ("step_binding", lambda c: [text for s in c.definition.ops for text in s.inputs.values()]),
    ],
)
def test_a_deleted_row_is_not_loaded(store: Store, sums: Path, table: str, read: Any) -> None:
    store.sync(sums)
    before = read(candidate(store, "relu_of_sum"))
    of = {"step_binding": "kind = 'inputs'", "candidate_step": "line IS NOT NULL"}.get(table, "1 = 1")
    run(store, f"DELETE FROM {table} WHERE {of}")
    assert before and not read(candidate(store, "relu_of_sum"))


def test_a_family_whose_row_goes_is_gone(store: Store, specs: Path) -> None:
    store.sync(specs)
    run(store, "DELETE FROM family WHERE name = 'relu'")
    catalog = store.load_catalog()
    assert "relu" not in catalog.families and catalog.mappings("Relu") == {}
    assert [r["torch_op"] for r in ask(store, "torch", Filters(op="Relu"))] == ["aten._add_relu.Tensor"]


def test_a_formula_means_what_the_slots_of_its_ops_are_now(store: Store, sums: Path) -> None:
    """The file of the family is as it was, and its steps are not."""
    store.sync(sums)
    assert chain(store, "relu_of_sum").ops[0].inputs == {"a": "self", "b": "other"}
    base = sums / "bases/elementwise_binary.yaml"
    text = base.read_text()
    assert "inputs:\n  a: [A...]\n  b: [B...]\n" in text
    base.write_text(text.replace("  a: [A...]\n  b: [B...]\n", "  b: [B...]\n  a: [A...]\n"))
    assert store.sync(sums).changed == ("bases/elementwise_binary.yaml",)
    assert chain(store, "relu_of_sum").ops[0].inputs == {"b": "self", "a": "other"}
    assert_read(store, sums)


def test_a_formula_whose_op_goes_is_a_fault(store: Store, sums: Path) -> None:
    store.sync(sums)
    (sums / "ops/ElementWiseAdd.yaml").unlink()
    (sums / "torch/add.yaml").unlink()
    with pytest.raises(SpecError, match=r"torch/add_relu.yaml:11:17: no op 'ElementWiseAdd' in ops/"):
        store.sync(sums)
