"""YAML -> SQL -> YAML is the identity, for every spec file and for generated ops.

SQL has the meaning of families: their variants are expanded, their formulas are steps.
"""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opdb.catalog import migrate
from opdb.catalog.schema.names import TABLES
from opdb.catalog.store import Store, families, read_catalog
from opdb.catalog.store.load import load_catalog
from opdb.catalog.store.write import Rows
from opdb.core.dtypes import BY_SHORT
from opdb.spec import files as spec
from opdb.spec.backend import Backend
from opdb.spec.catalog import Catalog, retired_of, socs_of
from opdb.spec.family import FamilyDef, families_of
from opdb.spec.model import STRENGTHS, BaseDef, OpDef

pytestmark = pytest.mark.slow

MINI = Path(__file__).parents[2] / "data" / "mini"
REAL = Path(__file__).parents[3] / "specs"


@pytest.mark.parametrize("folder", [MINI, REAL], ids=["mini", "specs"])
def test_every_spec_file_survives_a_round_trip(store: Store, folder: Path) -> None:
    report = store.sync(folder)
    catalog = store.load_catalog()
    assert len(report.added) == len(spec.spec_files(folder)) >= 10
    assert catalog.hash == report.hash == store.catalog_hash() == read_catalog(folder).hash
    models: dict[str, Any] = {f"ops/{n}.yaml": m for n, m in catalog.own.items()}
    models |= {f"bases/{n}.yaml": m for n, m in catalog.bases.items()}
    models |= {f"backends/{n}.yaml": b for n, b in catalog.backends.items()}
    models |= {spec.spec_name("errata", n): m for n, m in catalog.errata.items()}
    for name, model in models.items():
        document = spec.parse_document((folder / name).read_text(), name)
        dumped = spec.dump(model)
        assert dumped == spec.dump(spec.load(type(model), document)), name
        assert spec.parse_document(dumped, name).data == document.data, name
    read = spec.read_folder(folder)
    assert families_of(read.families, read.ops) == catalog.families
    paths = [f"torch/{n}.yaml" for n in catalog.families]
    side = {
        "socs.yaml": [s.data() for s in catalog.socs.values()],
        "retired.yaml": {k: list(v) for k, v in catalog.retired.items()},
    }
    for name, data in side.items():
        assert data == spec.parse_document((folder / name).read_text(), name).data, name
    assert {*models, *paths, *side} == set(report.added)


BACKENDS: list[dict[str, Any]] = [
    {"backend": "HTP", "about": "the HTP", "id": 6, "letter": "H", "context": {"arch": "u32", "fp16": "bool8"},
     "fields": {"arch": "htp_arch"}, "needs": {"FP16": {"has": "fp16", "why": "none"}}, "floats": "f16",
     "library": {"file": "libQnnHtp.so", "x86": "emulates"}, "measured": {"sdk": "2.47", "soc": "SM8650"}},
    {"backend": "CPU", "about": "the CPU", "letter": "P", "op_packages": {"by": "opdb", "made": "C", "types": ["f32"]}},
    {"backend": "NPU", "about": "a card", "letter": "N", "chips": ["A"], "programs": ["context"], "preference": 3},
]  # fmt: skip


# -- generated definitions: any text stands for an expression, SQL does not judge it

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20).map(
    lambda s: f"e{s}"
)
maybe = st.none() | texts
dtypes = st.lists(st.sampled_from(sorted(BY_SHORT)), max_size=3)
sources = st.none() | st.builds(
    lambda d, v, at: f"{d}@{v}" + (f"#{at}" if at else ""),
    st.text(string.ascii_letters, min_size=1, max_size=6),
    st.from_regex(r"[0-9]\.[0-9]{1,2}", fullmatch=True),
    st.text(string.ascii_letters + " #@", max_size=5).map(str.strip),
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


def record(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A mapping as in a file: keys with None are left out."""
    return st.fixed_dictionaries(fields).map(lambda d: {k: v for k, v in d.items() if v is not None})


def named(value: st.SearchStrategy[Any], prefix: str, most: int = 3) -> st.SearchStrategy[dict[str, Any]]:
    """Names unique across groups, in any order."""
    return st.dictionaries(names.map(lambda n: f"{prefix}_{n}"), value, max_size=most)


tensors = record(
    shape=st.none() | texts | st.lists(texts, max_size=4),
    dtype=dtypes,
    optional=st.booleans(),
    static=st.booleans(),
    variadic=st.booleans(),
    min=st.integers(0, 5),
    count=maybe,
    index=st.none() | names,
    layout=maybe,
    doc=maybe,
)
types = st.one_of(
    st.tuples(
        st.sampled_from(sorted(BY_SHORT)),
        st.sampled_from(["", "[]", "[2]", "[2][2]", "?", " = 1", "[2] = [1, 1]"]),
    )
    .map("".join)
    .filter(lambda t: not (t.startswith("str") and "?" in t)),
    st.dictionaries(names, st.integers(0, 2**32), min_size=1, max_size=3)
    .filter(lambda d: len(set(d.values())) == len(d))
    .map(lambda d: "enum {" + ", ".join(f"{k}: {v}" for k, v in d.items()) + "}"),
)
params = record(
    type=types, kind=st.sampled_from(["axis", "axes", "perm", "shape", "pads", "scalar"]), doc=maybe
)
strengths = st.sampled_from(STRENGTHS)
rules = st.tuples(strengths, texts, record(when=maybe, why=maybe, source=sources)).map(
    lambda r: {r[0]: r[1]} | r[2]
)


def bodies() -> dict[str, st.SearchStrategy[Any]]:
    rows = st.lists(st.dictionaries(names, dtypes.filter(bool), max_size=3), max_size=3)
    backend = record(
        source=sources,
        since=maybe,
        until=maybe,
        constraints=named(rules, "B"),
        # Ids of rules are unique within an op, and these are rules of the op.
        unchecked=named(
            sources.filter(bool) | record(source=sources.filter(bool), since=maybe, until=maybe, why=maybe),
            "C",
        ),
        dtypes=st.dictionaries(names, rows, max_size=2),
    )
    binding = st.dictionaries(names, texts, max_size=2)
    mapping = record(
        when=maybe,
        why=maybe,
        inputs=binding,
        absent=binding,
        params=binding,
        outputs=binding,
        ignored=binding,
        source=sources,
    )
    tolerance = record(ulp=texts, abs=st.floats(0, 1e300))
    return {
        "summary": maybe,
        "source": sources,
        "inputs": named(tensors, "i"),
        "params": named(params, "p"),
        "let": named(texts, "l"),
        "outputs": named(tensors, "o"),
        "constraints": named(rules, "C"),
        # Ids of rules are unique within an op: one backend at most.
        "backends": st.dictionaries(st.sampled_from(["HTP", "CPU"]), backend, max_size=1),
        "torch": st.dictionaries(texts, mapping, max_size=2),
        "quant": st.dictionaries(texts, values, max_size=2),
        "kernel": st.none()
        | record(function=st.from_regex(r"opdb_[a-z0-9_]{1,12}", fullmatch=True), dtypes=dtypes),
        "tolerance": st.dictionaries(st.sampled_from(["f32", "f16"]), tolerance, max_size=2),
        "samples": st.lists(st.dictionaries(names, values, max_size=3), max_size=2),
    }


shapes = record(shape=texts | st.lists(texts, max_size=3), like=names)
bindings = {k: st.dictionaries(names, texts, max_size=2) for k in ("inputs", "absent", "params", "outputs")}
steps = record(op=names, **bindings)
targets = st.lists(st.sampled_from(["aten.a.default", "aten.b.out", "c"]), min_size=1, unique=True)
errata = st.lists(st.sampled_from(["HTP-0001", "HTP-0002"]), max_size=2)
head = {"when": maybe, "why": maybe, "ignored": named(texts, "i"), "avoids": errata}
chains = record(
    candidate=st.just("chain"),
    summary=texts,
    torch=targets,
    let=named(texts, "l"),
    tensors=named(shapes, "t"),
    ops=st.lists(steps, min_size=1, max_size=3),
    **head,
)
direct = record(torch=targets, op=st.just("Any"), signature=maybe, source=sources, **head, **bindings)
groups = record(family=st.just("parts"), summary=texts, candidates=st.tuples(chains, direct).map(list))


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Store:
    url = f"sqlite:///{tmp_path_factory.mktemp('identity') / 'opdb.db'}"
    migrate.upgrade(url)
    return Store(url)


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(
    op=record(op=st.just("Any"), package=texts, extends=st.none() | st.just("family"), **bodies()),
    base=record(base=st.just("family"), **bodies()),
    parts=groups,
)
def test_generated_definitions_survive_a_round_trip(
    scratch: Store, op: dict[str, Any], base: dict[str, Any], parts: dict[str, Any]
) -> None:
    group = FamilyDef.model_validate(parts)
    catalog = Catalog(
        {"Any": OpDef.model_validate(op)},
        {"family": BaseDef.model_validate(base)},
        families_of({"parts": group}, {}),
        {b["backend"]: Backend.model_validate(b) for b in BACKENDS},
        socs_of([{"chip": "SM8650", "htp_arch": 75}, {"chip": "A", "more": {"b": None}}]),
        retired_of({"rules": ["Any.C9", {"name": "Any.C8"}]}),
    )
    with scratch.database.changing() as writer:
        for table in reversed(TABLES):
            writer.run(f"DELETE FROM {table}")
        rows = Rows(writer)
        rows.add_backends(catalog.backends.values())
        rows.add_socs(catalog.socs.values(), models=False)
        rows.add_retired(catalog.retired)
        rows.add_base(catalog.bases["family"])
        rows.add_op(catalog.own["Any"], catalog.op_hash("Any"))
        families.add(rows, catalog.families["parts"])
        rows.flush()
        found = load_catalog(writer)
    assert found == catalog and found.hash == catalog.hash
    for before, after in (
        (catalog.own["Any"], found.own["Any"]),
        (catalog.bases["family"], found.bases["family"]),
    ):
        assert before == after
        assert list(before.model_dump(mode="json")) == list(after.model_dump(mode="json"))
        assert spec.dump(before) == spec.dump(after)
    assert found.families["parts"] == catalog.families["parts"]
    assert found.ops["Any"] == catalog.ops["Any"]
