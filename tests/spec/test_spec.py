"""Specs as YAML: YAML -> model -> YAML is the identity, short and long spellings mean the same, positions are right."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opdb.core.dtypes import BY_SHORT, LISTS
from opdb.core.errors import SpecError
from opdb.spec.document import parse_document
from opdb.spec.family import FamilyDef
from opdb.spec.files import dump, gather, load, read_folder
from opdb.spec.model import BaseDef, OpDef, ParamDef
from opdb.spec.rules import dump_data

SPECS = Path(__file__).parents[2] / "specs"
FILES = (
    sorted(SPECS.glob("ops/*.yaml")) + sorted(SPECS.glob("bases/*.yaml")) + sorted(SPECS.glob("torch/*.yaml"))
)
MODELS: dict[str, Any] = {"ops": OpDef, "bases": BaseDef, "torch": FamilyDef}


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_yaml_survives_a_round_trip_through_the_model(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    model = load(MODELS[file.parent.name], parse_document(text, file.name))
    assert dump(model) == "".join(line + "\n" for line in text.splitlines() if not line.startswith("#"))
    assert load(MODELS[file.parent.name], parse_document(dump(model), file.name)) == model


def rules(value: Any, at: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """The guards and rules in the data of a file, by their place."""
    if isinstance(value, list):
        value = {str(i): v for i, v in enumerate(value)}
    for key, part in value.items() if isinstance(value, dict) else ():
        if isinstance(part, str) and (
            key in ("when", "unless", "require", "expect") or at[-1:] == ("constraints",)
        ):
            yield ".".join((*at, key)), part
        yield from rules(part, (*at, key))


@pytest.mark.parametrize("folder", ["ops", "bases", "torch", "errata"])
def test_guards_and_rules_can_be_read(folder: str) -> None:
    """A longer one has a name for its parts under ``let``, or a function for what others say too."""
    for file in sorted((SPECS / folder).rglob("*.yaml")):
        for place, text in rules(parse_document(file.read_text(encoding="utf-8"), file.name).data):
            assert len(text) <= 200, (file.name, place, text)


def test_a_base_is_merged_and_named() -> None:
    specs = read_folder(SPECS)
    relu = specs.ops["Relu"]
    assert relu.extends == "elementwise_unary" and specs.own["Relu"].inputs == {}
    assert relu.inputs == specs.bases["elementwise_unary"].inputs
    assert list(relu.constraints) == ["C1", "C2"]
    assert relu.summary == "Element-wise maximum of x and zero."  # the op's own wins


@pytest.mark.parametrize(("short", "long"), [
    ("inputs:\n  x: [N, 4]", "inputs:\n  x:\n    shape: [N, '4']"),
    ("inputs:\n  x: {dtype: i32}", "inputs:\n  x:\n    dtype: [i32]"),
    ("params:\n  p: u32 = 3", "params:\n  p:\n    type: u32 = 3\n    kind: scalar"),
    ("constraints:\n  C1: true", "constraints:\n  C1:\n    require: 'true'"),
    ("let:\n  a: 3", "let:\n  a: '3'"),
])  # fmt: skip
def test_short_and_long_spellings_are_equivalent(short: str, long: str) -> None:
    head = "op: Made\noutputs:\n  y: any\n"
    a, b = (load(OpDef, parse_document(head + text + "\n", "x.yaml")) for text in (short, long))
    assert a == b and dump(a) == dump(b)


ROWS = """op: Made
inputs:
  x: [S...]
outputs:
  y: [S...]
backends:
  HTP:
    dtypes:
      A:
        - {x: f32, y: f32}
%s"""
LONG = """      B:
        - {x: [f16, f32, bf16, sq8, sq16, uq8, uq16], y: f16}
      C:
        - {x: u8, y: u8}
      D:
        - {x: i8, y: i8}
    configurations:
      B: {since: '2.47', source: probe}
      C: {since: '2.47', source: probe}
      D: {until: '2.40'}
"""
SHORT = """    versions:
      - since: '2.47'
        source: probe
        dtypes:
          B:
            - {x: real, y: f16}
          C:
            - {x: u8, y: u8}
      - until: '2.40'
        dtypes:
          D:
            - {x: i8, y: i8}
"""


def test_rows_of_a_version_and_lists_by_name() -> None:
    long, short = (load(OpDef, parse_document(ROWS % text, "x.yaml")) for text in (LONG, SHORT))
    assert long == short and long.model_dump() == short.model_dump()
    assert list(short.backends["HTP"].dtypes) == ["A", "B", "C", "D"]
    assert short.backends["HTP"].dtypes["B"][0]["x"] == list(LISTS["real"])
    assert dump(long) == ROWS % SHORT


def test_rows_before_others_stay_where_they_are() -> None:
    """The first row that fits counts, so that no spelling may move one."""
    text = ROWS % LONG.replace("      D: {until: '2.40'}\n", "")
    model = load(OpDef, parse_document(text, "x.yaml"))
    assert list(model.backends["HTP"].dtypes) == ["A", "B", "C", "D"]
    assert "versions" not in dump(model) and "configurations" in dump(model)
    assert load(OpDef, parse_document(dump(model), "x.yaml")) == model


def test_names_of_lists_are_no_types() -> None:
    assert not LISTS.keys() & BY_SHORT.keys()
    assert len(set(LISTS.values())) == len(LISTS)
    for types in LISTS.values():
        assert set(types) <= BY_SHORT.keys() and len(set(types)) == len(types)


def test_numbers_stay_numbers() -> None:
    op = load(
        OpDef,
        parse_document("op: Made\ninputs:\n  x: [3, N]\noutputs:\n  y: [3, N]\nlet: {a: 1.5}\n", "x.yaml"),
    )
    assert op.inputs["x"].shape == ["3", "N"] and op.let == {"a": "1.5"}
    assert "x: [3, N]" in dump(op) and "a: 1.5" in dump(op)


@pytest.mark.parametrize(("text", "base", "dims", "optional", "default", "enum"), [
    ("u32", "u32", (), False, None, {}),
    ("u32[]", "u32", (None,), False, None, {}),
    ("u32[2][2] = [[0, 0], [0, 0]]", "u32", (2, 2), False, "[[0, 0], [0, 0]]", {}),
    ("f32?", "f32", (), True, None, {}),
    ("f32 = 1 if x.rank == 2 else 0.5", "f32", (), False, "1 if x.rank == 2 else 0.5", {}),
    ("enum {A: 0, B: 7} = B", "u32", (), False, "B", {"A": 0, "B": 7}),
    ("enum {A: 0}?", "u32", (), True, None, {"A": 0}),
    ("enum i32 {A: 0, B: 7} = B", "i32", (), False, "B", {"A": 0, "B": 7}),
])  # fmt: skip
def test_parameter_types_are_parsed(
    text: str, base: str, dims: Any, optional: bool, default: Any, enum: dict[str, int]
) -> None:
    p = ParamDef.model_validate(text)
    assert (p.base, p.dims, p.optional, p.default, p.enum) == (base, dims, optional, default, enum)


# -- documents


def test_every_value_has_a_position() -> None:
    document = parse_document("op: A\nlist: [1, \"two\"]\nmap: {k: 'v'}\ndeep:\n  - x: 1\n", "a.yaml")
    assert document.data == {"op": "A", "list": [1, "two"], "map": {"k": "v"}, "deep": [{"x": 1}]}
    assert document.places[("op",)] == (1, 5)
    assert document.places[("list", 0)] == (2, 8)
    assert document.places[("list", 1)] == (2, 12)  # inside the quotes
    assert document.places[("map", "k", "__key__")] == (3, 7)
    assert document.places[("map", "k")] == (3, 11)
    assert document.places[("deep", 0, "x")] == (5, 8)
    assert (
        str(document.problem(("deep", 0, "x", "y"), "wrong", 2)) == "a.yaml:5:10: wrong"
    )  # the nearest that has a place
    assert str(document.problem(("nowhere",), "wrong")) == "a.yaml:1:1: wrong"


@pytest.mark.parametrize(("text", "value"), [
    ("yes", "yes"), ("no", "no"), ("on", "on"), ("true", True), ("null", None), ("~", None), ("12", 12), ("012", 12),
    ("0o14", 12), ("1e-05", 1e-05), ("2024-01-01", "2024-01-01"), ("12:30", "12:30"), ("'12'", "12"),
    (".5", 0.5), ("=", "="), ("S...", "S..."), ("x.rank >= 1", "x.rank >= 1"),
])  # fmt: skip
def test_scalars_follow_yaml_1_2(text: str, value: Any) -> None:
    found = parse_document(f"k: {text}\n", "a.yaml").data["k"]
    assert (found, type(found)) == (value, type(value))


plain_text = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]))
data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | plain_text,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text("abcXYZ_- 1", min_size=1, max_size=5), inner, max_size=4)
    ),
    max_leaves=15,
)


@given(st.dictionaries(st.sampled_from(["op", "samples", "quant", "torch", "x"]), data, min_size=1))
def test_data_survive_a_round_trip_through_yaml(value: dict[str, Any]) -> None:
    assert parse_document(dump_data(value), "a.yaml").data == value


PIECES = (
    "op: A\n", "  x: [", "]", "{", "}", "'", '"', "&a ", "*a", "!t ", "<<: ", "- ", ": ", "\n", "\t", "|", ">",
    "%YAML 1.1\n", "---\n", "...\n", "# c\n", "? ", "\0", "é",
)  # fmt: skip


@given(st.text(max_size=60) | st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_any_text_is_read_or_refused_with_a_position(text: str) -> None:
    try:
        document = parse_document(text, "a.yaml")
    except SpecError as error:
        assert all(str(p).startswith("a.yaml:") and "\n" not in str(p) for p in error.problems)
    else:
        assert document.path == "a.yaml"


def test_known_files_are_not_read_again(tmp_path: Path) -> None:
    whole, problems = gather(SPECS)
    assert problems == []
    known = {f"ops/{n}.yaml": op for n, op in whole.own.items()}
    again, problems = gather(SPECS, known)
    assert problems == [] and again.ops == whole.ops
    assert not any(name.startswith("ops/") for name in again.documents)
