"""Drafts compile and agree with the specs people wrote; LayerNorm matches what the documents alone say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import opdb.specs
from opdb.author.importers import phrases
from opdb.author.importers.draft import CONTEXT, draft
from opdb.author.importers.naming import names_of, snake
from opdb.author.importers.symbolic import Condition, translate
from opdb.catalog import facts
from opdb.catalog.store import read_catalog
from opdb.core.errors import OpdbError
from opdb.spec import files as spec
from opdb.spec import mapping
from opdb.spec.compiler import compile_op
from opdb.spec.definitions import CompiledOp
from opdb.spec.model import OpDef

pytestmark = pytest.mark.slow

FOLDER = Path(opdb.specs.__file__).parent
SEVERAL = [
    "ArgbToRgb", "BatchToSpace", "CollectRpnProposals", "Conv3d", "DepthWiseConv2d", "ElementWiseMultiply",
    "ElementWiseUnary", "Gather", "GroupQueryAttention", "IsNan", "Lstm", "OneHot", "Pad", "PoolMax2d", "Resize",
    "RmsNorm", "Tile", "TransposeConv2d",
]  # fmt: skip


def compiled(text: str, name: str) -> CompiledOp:
    return compile_op(spec.load(OpDef, spec.parse_document(text, f"ops/{name}.yaml")), CONTEXT)


@pytest.mark.parametrize("targets", [None, ["aten.native_layer_norm.default"]])
def test_layer_norm_draft_matches_the_spec_except_probed_rules(targets: list[str] | None) -> None:
    ours = spec.read_folder(FOLDER).ops["LayerNorm"]
    theirs = compiled(draft("LayerNorm", targets), "LayerNorm").definition
    drafted, kept = documented(theirs), documented(ours)
    mappings = read_catalog(FOLDER).mappings("LayerNorm")  # those of families too
    kept["torch"] = {target: mappings[target].model_dump(mode="json") for target in drafted["torch"]}
    kept["torch"]["aten.native_layer_norm.default"].pop("ignored")  # what only layer_norm has
    drafted.pop("kernel"), kept.pop("kernel")  # how opdb computes it is in no document
    samples = kept.pop("samples")
    assert samples and all(s in samples for s in drafted.pop("samples"))
    # The rules of GPU are two for gamma and beta in the document, and one about the axes in the spec.
    assert drafted["backends"].pop("GPU")["dtypes"] == kept["backends"].pop("GPU")["dtypes"]
    assert drafted == kept
    assert kept["backends"]["HTP"]["constraints"]


def wordless(op: OpDef) -> OpDef:
    """The spec without the sentences about slots and parameters, which people write."""
    kinds = ("inputs", "params", "outputs")
    bare = {k: {n: d.model_copy(update={"doc": None}) for n, d in getattr(op, k).items()} for k in kinds}
    return op.model_copy(update=bare)


def documented(op: OpDef) -> dict[str, Any]:
    """The spec from ``wordless`` minus rules and type rows learned by probing a library."""
    data = wordless(op).model_dump(mode="json")
    for backend in data["backends"].values():
        measured = backend.pop("configurations", {})
        backend["unchecked"] = {}
        backend["dtypes"] = {c: rows for c, rows in backend["dtypes"].items() if c not in measured}
        backend["constraints"] = _documented_rules(backend.get("constraints", {}))
    data["constraints"] = _documented_rules(data.get("constraints", {}))
    return data


def _documented_rules(rules: dict[str, Any]) -> dict[str, Any]:
    return {
        ident: rule
        for ident, rule in rules.items()
        if not (isinstance(rule, dict) and str(rule.get("source")).startswith("probe"))
    }


@pytest.mark.parametrize(
    ("op", "backend", "rules"),
    [
        ("BatchToSpace", "GPU", ["crops[0][0] == crops[0][1]", "crops[1][0] == crops[1][1]"]),
        ("Concat", "HTA", ["all(x.rank <= 4 for x in xs)", "axis == xs[0].rank - 1"]),
        ("InstanceNorm", "DSP", ["x.rank <= 4", "mode == MU_SIGMA", "region == ACROSS_SPATIAL"]),
        ("MatMul", "LPAI", ["a.rank <= 3", "sum(1 if d != 1 else 0 for d in a.shape) <= 2"]),
        ("PoolAvg2d", "LPAI", ["rounding_mode == FLOOR"]),
    ],
)
def test_a_draft_has_rules_of_every_backend(op: str, backend: str, rules: list[str]) -> None:
    text = draft(op)
    found = compiled(text, op).backend_rules[backend]
    assert [r.text for r in found][: len(rules)] == rules


def test_gaps_in_a_definition_become_comments() -> None:
    text = draft("Gather")
    assert "# not expressed: DSP: in[2] (i32): the op definition has no such slot\n" in text
    text = draft("Lstm")
    assert (
        "# not expressed: LPAI: input_gate: the table leaves out its types; sq8, uq8 stand for them\n" in text
    )


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("0 in axes => size(axes) == 1", "contains(axes, 0) => size(axes) == 1"),
        ("N > 3 => multiples[0..N-4] == 1", "N > 3 => all(multiples[i] == 1 for i in range(N - 3))"),
        ("any channel % 32 != 0 => sum(channels) <= 4096",
         "any(t.shape[-1] % 32 != 0 for t in x) => sum(t.shape[-1] for t in x) <= 4096"),
        ("rank == 5 => not broadcast(in[0], in[1])", "(a.rank == 5 or b.rank == 5) => a.shape == b.shape"),
        ("no slicing across batch dims beyond 4", "no slicing across batch dims beyond 4"),
    ],
)  # fmt: skip
def test_phrases_of_documents_become_expressions(text: str, plain: str) -> None:
    names = names_of(facts.documented_op("ElementWiseAdd"))
    assert phrases.plain(text, names, "x", "x[0]") == plain


def _check(name: str) -> None:
    op = compiled(draft(name), name)
    for target, m in op.definition.torch.items():
        schema = facts.aten_schema(target)
        assert mapping.unaccounted(mapping.compile_mapping(op, target, m, schema), schema) == []


@pytest.mark.parametrize("name", SEVERAL)
def test_drafts_of_selected_ops_compile(name: str) -> None:
    _check(name)


@pytest.mark.sweep
@pytest.mark.parametrize("name", [n for n in facts.documented_ops() if n != "If"])
def test_every_draft_compiles(name: str) -> None:
    _check(name)


@pytest.mark.parametrize(
    "name",
    ["Relu", "ElementWiseAdd", "Softmax", "ReduceMean", "Transpose", "Split", "MatMul"],
)
def test_a_draft_agrees_with_the_finished_spec(name: str) -> None:
    """Same shapes, parameters and type rows; every mapping in the draft is in the spec."""
    catalog = read_catalog(FOLDER)
    ours, mappings = wordless(catalog.ops[name]), catalog.mappings(name)
    theirs = compiled(draft(name), name).definition
    assert theirs.params == ours.params
    assert {s: t.shape for s, t in theirs.slots.items()} == {s: t.shape for s, t in ours.slots.items()}
    rows = [{b: e["dtypes"] for b, e in documented(op)["backends"].items()} for op in (theirs, ours)]
    assert rows[0] == rows[1]
    for target, m in theirs.torch.items():
        kept = mappings[target]
        assert (m.inputs, m.params, m.outputs) == (kept.inputs, kept.params, kept.outputs)


def test_facts_without_an_expression_become_comments() -> None:
    text = draft("Relu")
    assert text.endswith("# not expressed: y: sparse(self) == sparse(in[0])\n")
    assert (
        "# not expressed: HTP: y (INT16, INT8): dtype == sq16 => scale == 1/32768 and offset == 0"
        in draft("Tanh")
    )


def test_rules_of_a_supplement_hold_under_their_configurations() -> None:
    rules = compiled(draft("ReduceMean"), "ReduceMean").definition.backends["HTP"].constraints
    assert [(r.when, r.require) for r in rules.values()] == [
        ("x.dtype in (f16, f32)", "x.rank <= 4"),
        ("x.dtype in (uq16, uq8, sq8)", "x.rank <= 5"),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("LayrNorm",), "did you mean 'LayerNorm'"),
        (("LayerNorm", ["aten.layer_nrm.default"]), "did you mean 'aten.layer_norm.default'"),
        (("If",), "If has no output tensors"),
    ],
)
def test_undraftable_requests_fail_with_one_clear_error(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(OpdbError, match=message):
        draft(*arguments)  # type: ignore[arg-type]


def test_a_draft_can_be_based_on_another_op() -> None:
    like = spec.read_folder(FOLDER).ops["Softmax"]
    op = compiled(draft("SparseMax", ["aten.softmax.int"], like), "SparseMax")
    assert op.name == "SparseMax"
    assert list(op.definition.params) == ["axis", "beta"]
    assert op.definition.constraints == like.constraints
    assert list(op.definition.torch) == ["aten.softmax.int"]
    assert op.definition.backends == {}
    assert op.definition.samples == like.samples


@pytest.mark.parametrize(
    ("op", "own", "text", "require", "when"),
    [
        ("LayerNorm", "axes", "all(axes) in [0, N-1]", "all(0 <= a < x.rank for a in axes)", None),
        ("LayerNorm", "axes", "0 < size(self) <= rank(in[0])", "0 < len(axes) <= x.rank", None),
        ("Conv2d", "stride", "all(self) > 0", "all(s > 0 for s in stride)", None),
        ("Conv2d", "filter", "channel_in % group == 0", "C % group == 0", None),
        ("MatMul", "b", "m1 == n0 if not transpose_in0", "M1 == N0", "not transpose_in0"),
        ("Softmax", "axis", "rank(in[0]) == 5 => self == N-1", "axis == x.rank-1", "x.rank == 5"),
        (
            "ElementWiseNeuron",
            "alpha",
            "operation in {ELU, HARD_SIGMOID}",
            "operation in (ELU, HARD_SIGMOID)",
            None,
        ),
        ("Split", "split_index", "split_index[i+1] > split_index[i]", "increasing(split_index)", None),
    ],
)
def test_facts_become_expressions(op: str, own: str, text: str, require: str, when: str | None) -> None:
    names = names_of(facts.documented_op(op))
    assert translate(text, names, own) == Condition(require, text, when)


def test_op_names_become_snake_case() -> None:
    assert [snake(n) for n in ("LayerNorm", "Conv2d", "MatMul", "Nv12ToRgb", "L2Norm")] == [
        "layer_norm", "conv2d", "mat_mul", "nv12_to_rgb", "l2_norm",
    ]  # fmt: skip
