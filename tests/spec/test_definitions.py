"""An op after compilation: rules derived from shapes, bindings, inferences, and type rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opdb.spec.catalog import Catalog
from opdb.spec.compiler import compile_op
from opdb.spec.definitions import CompiledOp, CompileError, TypeRow, expand_row, overlap, some_of_row
from opdb.spec.lang.nodes import Node
from opdb.spec.lang.printer import to_text
from opdb.spec.model import OpDef

SPECS = Path(__file__).parents[2] / "specs"


def made(**parts: Any) -> CompiledOp:
    return compile_op(
        OpDef.model_validate({"op": "Made", "inputs": {"x": ["S..."]}, "outputs": {"y": "any"}} | parts)
    )


def rules(op: CompiledOp) -> dict[str, str]:
    """id -> the whole condition as text."""

    def text(require: Node, when: Node | None) -> str:
        return to_text(require) if when is None else f"{to_text(require)} if {to_text(when)}"

    return {r.id: text(r.require, r.when) for r in (*op.ranks, *op.rules)}


# -- shapes


@pytest.mark.parametrize(("inputs", "outputs", "want"), [
    ({"x": ["S..."]}, {"y": ["S..."]}, {"SHAPE_y": "y.shape == S"}),
    ({"x": ["N", "C"]}, {"y": ["N"]}, {"RANK_x": "x.rank == 2", "SHAPE_y": "y.shape == [N]"}),
    ({"x": ["A...", "M"]}, {"y": ["A...", "4"]}, {"RANK_x": "x.rank >= 1", "SHAPE_y": "y.shape == cat(A, [4])"}),
    ({"x": ["N", "N"]}, {"y": "any"}, {"RANK_x": "x.rank == 2", "SHAPE_x": "x.shape[1] == N"}),
    ({"x": ["N"], "z": ["N", "2 * N"]}, {"y": "any"},
     {"RANK_x": "x.rank == 1", "RANK_z": "z.rank == 2", "SHAPE_z": "z.shape[0] == N and z.shape[1] == 2 * N"}),
    ({"x": ["A...", "M"], "z": ["A...", "K"]}, {"y": "any"},
     {"RANK_x": "x.rank >= 1", "RANK_z": "z.rank >= 1", "SHAPE_z": "z.shape[:-1] == A"}),
    ({"x": ["S..."], "b": {"shape": ["S..."], "optional": True}}, {"y": "any"}, {"SHAPE_b": "b.shape == S if present(b)"}),
    ({"x": ["N"], "b": {"shape": ["_", "N"], "optional": True}}, {"y": "any"},
     {"RANK_x": "x.rank == 1", "SHAPE_b": "b.rank == 2 and b.shape[1] == N if present(b)"}),
    ({"x": ["S..."]}, {"y": ["S..."], "z": {"shape": ["S..."], "dtype": "i32", "optional": True}},
     {"SHAPE_y": "y.shape == S", "SHAPE_z": "z.shape == S if present(z)", "DTYPE_z": "z.dtype in (i32,) if present(z)"}),
    ({"x": ["S..."], "w": {"static": True, "dtype": ["f32", "f16"]}}, {"y": "any"},
     {"DTYPE_w": "w.dtype in (f32, f16)", "STATIC_w": "w.static"}),
    ({"x": ["S..."]}, {"ys": {"variadic": True, "count": "2", "index": "i", "shape": "replace(S, 0, i)"}},
     {"COUNT_ys": "len(ys) == 2", "SHAPE_ys": "all(ys[i].shape == replace(S, 0, i) for i in range(len(ys)))"}),
    ({"xs": {"variadic": True}}, {"y": "xs[0].shape"}, {"SHAPE_y": "y.shape == xs[0].shape"}),
])  # fmt: skip
def test_rules_are_derived_from_shapes(inputs: Any, outputs: Any, want: dict[str, str]) -> None:
    assert rules(made(inputs=inputs, outputs=outputs)) == want


def test_bindings_read_only_required_tensors() -> None:
    op = made(inputs={"b": {"shape": ["N"], "optional": True}, "x": ["A...", "N", "C"], "z": ["C", "D"]})
    assert {b.symbol: to_text(b.value) for b in op.binds} == {
        "N": "x.shape[-2]", "C": "x.shape[-1]", "A": "x.shape[:-2]", "D": "z.shape[1]",
    }  # fmt: skip
    assert rules(op)["SHAPE_b"] == "b.shape == [N] if present(b)"


def test_output_shapes_are_inferred() -> None:
    op = made(outputs={"y": ["S...", "2"], "z": "any", "w": "S[1:]"})
    assert {i.output: to_text(i.shape) for i in op.inferences} == {"y": "cat(S, [2])", "w": "S[1:]"}


# -- parameters


def test_parameters_have_types_and_defaults() -> None:
    op = made(params={"a": "u32", "b": "f32 = 1", "c": "bool8?", "d": "u32[] = [1, 2]", "e": "u32[2][2]",
                      "f": "i32 = x.rank - 1", "g": "enum {A: 0, B: 3} = B"})  # fmt: skip
    found = {p.name: (p.type, p.required, p.optional, p.default and to_text(p.default)) for p in op.params}
    assert found == {
        "a": ("int", True, False, None),
        "b": ("float", False, False, "1.0"),
        "c": ("bool", False, True, None),
        "d": ("ints", False, False, "[1, 2]"),
        "e": ("rows", True, False, None),
        "f": ("int", False, False, "x.rank - 1"),
        "g": ("enum:g", False, False, "B"),
    }
    assert {n for n, k in op.scope.names.items() if k.absent} == {"c", "f"}
    assert {n for n, k in op.scope.names.items() if k.sure} == {"b", "d", "g"}


def test_named_expressions_may_use_earlier_ones() -> None:
    op = made(let={"half": "x.rank // 2", "more": "half + 1"}, constraints={"C1": "more > 1"})
    assert [(n, to_text(node)) for n, node in op.lets] == [("half", "x.rank // 2"), ("more", "half + 1")]


# -- faults


def test_all_faults_are_reported_together() -> None:
    with pytest.raises(CompileError) as caught:
        made(
            params={"p": "u32 = 0.5", "len": "u32"},
            let={"a": "b"},
            outputs={"y": "x.rank", "z": ["T..."]},
            constraints={"C1": "x.rank", "C2": {"when": "x.rnk > 1", "require": "true"}},
        )
    faults = {(".".join(map(str, f.at)), f.message, f.column) for f in caught.value.faults}
    assert faults == {
        ("params.p.type", "expected int, got float: 0.5", 6),
        ("params.len", "'len' already has a meaning in the rule language; choose another name", 0),
        ("let.a", "unknown name 'b': b", 0),
        ("outputs.y", "expected ints, got int: x.rank", 0),
        ("outputs.z", "the shape symbol 'T' is not bound by any input", 0),
        ("constraints.C1.require", "expected bool, got int: x.rank", 0),
        ("constraints.C2.when", "tensor has no attribute 'rnk'; did you mean 'rank'?: x.rnk > 1", 0),
    }


def test_backend_rules_may_read_the_context() -> None:
    definition = OpDef.model_validate({
        "op": "Made", "inputs": {"x": ["S..."]}, "outputs": {"y": "any"},
        "backends": {"HTP": {"constraints": {"H1": "arch >= 73"}}, "CPU": {"constraints": {"P1": "sdk >= 2025"}}},
    })  # fmt: skip
    op = compile_op(definition, {"HTP": {"arch": "u32"}})
    assert [r.id for rules in op.backend_rules.values() for r in rules] == ["H1", "P1"]
    with pytest.raises(CompileError, match="unknown name 'arch'"):
        compile_op(definition)


# -- the fourteen ops


def test_rule_ids_are_unique_and_in_order(catalog: Catalog) -> None:
    for name in catalog.ops:
        ids = catalog.compiled(name).rule_ids()
        assert len(set(ids)) == len(ids), name
        params = ("PARAMS",) if catalog.compiled(name).params else ()
        assert ids[: 3 + len(params)] == ("INPUTS", *params, "OUTPUTS", "UNKNOWN_PARAMS")


def test_layer_norm_has_the_expected_rule_ids(catalog: Catalog) -> None:
    assert catalog.compiled("LayerNorm").rule_ids() == (
        "INPUTS", "PARAMS", "OUTPUTS", "UNKNOWN_PARAMS", "SHAPE_gamma", "SHAPE_beta", "SHAPE_y", "C1", "C2", "C3", "C4", "C5",
        "TYPES_CPU", "H1", "H2", "H3", "H4", "H5", "TYPES_HTP", "G1", "TYPES_GPU", "D1", "D2", "TYPES_DSP",
    )  # fmt: skip


def test_type_rows_are_compiled(catalog: Catalog) -> None:
    rows = {r.id: r.cells for r in catalog.compiled("LayerNorm").type_rows["HTP"]}
    assert rows["HTP.INT8.1"] == {"x": ("uq8",), "gamma": ("uq8",), "beta": ("uq8", "sq32"), "y": ("uq8",)}
    assert expand_row(TypeRow("r", {"x": ("f16", "f32"), "y": ("f16",)})) == [
        {"x": "f16", "y": "f16"},
        {"x": "f32", "y": "f16"},
    ]


def test_a_sample_of_a_large_row_shows_every_type() -> None:
    row = TypeRow("r", {f"x{i}": ("f16", "f32") for i in range(30)} | {"y": ("bool8",)})
    some = some_of_row(row)
    assert len(some) == 32 == len({tuple(c.items()) for c in some})
    assert [{c[s] for c in some} for s in row.cells] == [set(cell) for cell in row.cells.values()]
    assert {c["x0"] for c in some if len(set(c.values())) == 2} == {"f16", "f32"}, (
        "one type in all of its cells"
    )
    small = TypeRow("r", {"x": ("f16", "f32"), "y": ("f16",)})
    assert some_of_row(small) == expand_row(small) and len(some_of_row(small, 1)) == 2


def test_rows_overlap_if_they_share_a_combination() -> None:
    one, two = (
        TypeRow("r", {"x": ("f16", "f32"), "y": ("f16",)}),
        TypeRow("s", {"x": ("f32",), "y": ("f16",)}),
    )
    assert overlap(one, two) and overlap(two, one)
    assert not overlap(one, TypeRow("t", {"x": ("f32",), "y": ("f32",)}))


def test_every_rule_is_written_in_canonical_form(catalog: Catalog) -> None:
    """The specs use the canonical spelling of the rule language."""
    for name in catalog.ops:
        op = catalog.compiled(name)
        for rule in (*op.rules, *(r for group in op.backend_rules.values() for r in group)):
            assert rule.text in ("", to_text(rule.require)), f"{name}.{rule.id}"
