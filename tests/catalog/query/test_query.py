"""Questions: stable keys, filters, the five statuses, coverage; and the --where expression."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import inspect, text

from opdb.catalog import migrate
from opdb.catalog.evidence import Cell, Evidence, Outcome
from opdb.catalog.evidence import Run as EvidenceRun
from opdb.catalog.query import QUESTIONS, Filters, ask
from opdb.catalog.query.pivot import pivot
from opdb.catalog.query.rows import View
from opdb.catalog.query.where import condition, parse_where
from opdb.catalog.schema.views import ABOUT
from opdb.catalog.store import (
    CaseRecord,
    ExecutorRecord,
    LibraryRecord,
    ProbeRecord,
    ProbeRunRecord,
    ResultRecord,
    RunRecord,
    Store,
)
from opdb.core.errors import OpdbError

MINI = Path(__file__).parents[2] / "data" / "mini"
HTP = LibraryRecord("onnxruntime-qnn", "2.3.0", "b", "ab", "HTP", "2.47.0", emulated=True)
QNN_HTP = ExecutorRecord("qnn-htp", "2.47.0", "HTP", HTP)
QNN_CPU = ExecutorRecord(
    "qnn-cpu", "2.47.0", "CPU", LibraryRecord("onnxruntime-qnn", "2.3.0", "c", "cd", "CPU", "2.47.0")
)
PYTHON, NATIVE = ExecutorRecord("python", "0.1.0"), ExecutorRecord("c", "0.1.0")


def case(name: str, kind: str, row: str, soc: str = "", rules: tuple[str, ...] = ()) -> CaseRecord:
    op, backend = name.partition("-")[0], row.partition(".")[0]
    return CaseRecord(name, op, kind, "{}", backend, soc, "2.47.0", row, rules)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The mini catalog and one run: Relu and LayerNorm on two SoCs and on the CPU."""
    return filled(str(tmp_path_factory.mktemp("query") / "opdb.db"))


def filled(url: str) -> Store:
    migrate.upgrade(url)
    store = Store(url)
    store.sync(MINI)
    yes = ("yes", "yes", "yes", "yes", "yes")
    relu = case("Relu-0-HTP.FP16.1-SM8650", "positive", "HTP.FP16.1", "SM8650")
    more = case("Relu-1-HTP.FP16.1-SM8650", "positive", "HTP.FP16.1", "SM8650")
    norm = case("LayerNorm-0-HTP.FP16.2-SM8550", "positive", "HTP.FP16.2", "SM8550")
    cpu = case("Relu-0-CPU.fp32.1", "positive", "CPU.fp32.1")
    bad = case("LayerNorm-C4-CPU.fp32.1", "negative", "CPU.fp32.1", "", ("C4",))
    run = store.begin_run(RunRecord("0.1.0", "x"))
    store.record_results(
        run,
        [
            ResultRecord(relu, QNN_HTP, "SM8650", *yes),
            ResultRecord(more, QNN_HTP, "SM8650", "yes", "yes", "yes", "yes", "no"),
            ResultRecord(norm, QNN_HTP, "SM8550", "yes", "yes", "crashed"),
            ResultRecord(
                cpu, QNN_CPU, "", "yes", "no", "not-applicable", "not-applicable", "not-applicable", code=3110
            ),
            ResultRecord(cpu, PYTHON, "", "yes", "yes"),
            ResultRecord(bad, PYTHON, "", "no", "no", rules=("C4",)),
            ResultRecord(bad, NATIVE, "", "no", "no", rules=("LayerNorm.C4",)),
            ResultRecord(bad, QNN_CPU, "", "no", "yes"),
        ],
    )
    # A later run: the last result of a case is the one that counts.
    again = store.begin_run(RunRecord("0.1.0", "x"))
    store.record_results(again, [ResultRecord(more, QNN_HTP, "SM8650", *yes)])
    probe = store.begin_probe_run(RunRecord("0.1.0", "x"), HTP)
    row = ProbeRecord(
        "Relu", "HTP", "2.47.0", "{}", "SM8750", "HTP.INT8.1", "yes", "no", code=6999, log="too large"
    )
    store.record_probes(probe, [row])
    old, new = (ProbeRunRecord("0.1.0", h, op="Relu", soc="SM8650") for h in ("old", "new"))
    for record in (old, new):  # only the sweep with the last definition counts
        sweep, _ = store.continue_probe_run(record, HTP)
        said = [("accept", "yes"), ("reject", "no"), ("accept", "no"), ("reject", "yes"), ("unknown", "no"),
                ("accept", "crashed"), ("reject", "crashed"), ("reject", "unknown")]  # fmt: skip
        made = [ProbeRecord("Relu", "HTP", "2.47", "{}", "SM8650", validates=v, ours=o) for o, v in said]
        store.record_probes(sweep, made)
    store.record_implications([("LayerNorm.C2", "LayerNorm.C3", "no axis")])
    asked = EvidenceRun("HTP", "2.47", "SM8650", "emulator", "onnxruntime-qnn", "2.3.0", "v2.47.0", "ab" * 32, "2026-11-27",
                        "Linux x86_64", "opdb 1", flow="ExecuTorch 1.5.1")  # fmt: skip
    outcome = Outcome("0123456789ab", 1, ({"yes": 1},) * 4, "matches", "relu")
    store.record_merged(Evidence.of([Cell("torch", "aten.relu.default", "float", asked, outcome)]))
    return store


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_row_has_every_key_in_order(store: Store, question: str) -> None:
    rows = ask(store, question)
    assert rows or question == "errata"  # the mini catalog has none; tests/cli asks about those of the specs
    for row in rows:
        assert tuple(row) == QUESTIONS[question].columns
        assert all(v is None or isinstance(v, (str, int, float, bool)) for v in row.values())


@pytest.mark.parametrize("question", QUESTIONS)
def test_rows_come_in_one_order_and_filters_narrow(store: Store, question: str) -> None:
    every = ask(store, question)
    assert every == ask(store, question)
    for name, value in {
        "op": "Relu",
        "backend": "HTP",
        "soc": "SM8650",
        "sdk": "2.47",
        "dtype": "uq8",
    }.items():
        if name not in QUESTIONS[question].filters:
            continue
        some = ask(store, question, Filters(**{name: value}))
        if question != "support":  # `support` makes rows of its own for the SDK or SoC of the filter
            assert [r for r in every if r in some] == some
        if name in ("op", "backend", "soc") and name in QUESTIONS[question].columns:
            assert {r[name] for r in some} <= {value, None} if question == "rules" else {value}
        assert len(some) <= len(every)


def test_agreement_counts_both_ways(store: Store) -> None:
    (row,) = ask(store, "agreement")
    counts = {k: row[k] for k in list(row)[4:12]}
    assert counts == {
        "n": 5, "both_accept": 1, "both_reject": 1, "we_accept_it_rejects": 1, "we_reject_it_accepts": 1,
        "undecided": 1, "crashed": 2, "percent": 40.0,
    }  # fmt: skip
    assert ask(store, "agreement", Filters(backend="CPU")) == []


def test_census_tells_the_furthest_stage(store: Store) -> None:
    (row,) = ask(store, "census")
    assert (row["op"], row["asked"], row["validates"], row["finalizes"], row["executes"]) == (
        "Relu",
        8,
        2,
        0,
        0,
    )
    assert (row["furthest"], row["stopped"], row["config"]) == ("validates", None, "{}")
    assert ask(store, "census", Filters(backend="CPU")) == []


def test_every_disagreement_is_listed(store: Store) -> None:
    """A crash on a config that we reject does not count; neither does a config the library could not be asked about."""
    rows = ask(store, "runs", Filters(disagree=True))
    assert [(r["ours"], r["validates"]) for r in rows] == [
        ("accept", "no"), ("reject", "yes"), ("unknown", "no"), ("accept", "crashed")
    ]  # fmt: skip
    with pytest.raises(OpdbError, match="'ops' cannot be filtered by --disagree"):
        ask(store, "ops", Filters(disagree=True))


def test_inherited_rules_name_their_base(store: Store) -> None:
    relu = {r["rule"]: r for r in ask(store, "rules", Filters(op="Relu"))}
    assert list(relu) == [
        *(f"Relu.{r}" for r in ("INPUTS", "OUTPUTS", "UNKNOWN_PARAMS", "SHAPE_y", "C1", "C2", "C3")),
        *("Relu.TYPES_CPU", "Relu.H1", "Relu.TYPES_HTP"),
    ]
    assert relu["Relu.C1"]["inherited"] == "elementwise_unary" and relu["Relu.C3"]["inherited"] is None
    assert relu["Relu.C3"]["strength"] == "expect"
    op = ask(store, "ops", Filters(op="Relu"))[0]
    assert (op["inputs"], op["outputs"], op["extends"]) == ("x", "y", "elementwise_unary")


def test_parameters_and_slots_are_listed(store: Store) -> None:
    assert [r["inputs"] for r in ask(store, "ops")] == ["xs...", "a, b", "x, gamma?, beta?", "x"]
    epsilon, axes = ask(store, "params", Filters(op="LayerNorm"))
    assert (epsilon["type"], epsilon["default"], axes["dims"], axes["kind"]) == (
        "f32 = 0.001",
        "0.001",
        "[]",
        "axes",
    )


def test_types_can_be_filtered_by_dtype_and_sdk(store: Store) -> None:
    rows = ask(store, "types", Filters(op="LayerNorm", dtype="SFIXED_POINT_32"))
    assert [r["type_row"] for r in rows] == ["CPU.int8.1", "HTP.INT16.1", "HTP.INT8.1"]
    assert rows[0]["cells"] == "x: uq8, gamma: uq8, beta: uq8|sq32, y: uq8"
    assert ask(store, "types", Filters(op="Concat", backend="HTP", sdk="2.40"))
    assert not ask(store, "types", Filters(op="Concat", backend="HTP", sdk="2.47"))
    with pytest.raises(OpdbError, match=r"unknown SDK '2.9': .*; known: 2.13, 2.25, 2.40, 2.47"):
        ask(store, "types", Filters(op="Concat", backend="HTP", sdk="2.9"))


def test_torch_operators_list_ops_and_decompositions(store: Store) -> None:
    rows = ask(store, "torch", Filters(torch_op="aten._add_relu"))
    assert [(r["form"], r["ops"], r["decomposition"]) for r in rows] == [
        ("decomposition", "ElementWiseAdd, Relu", "add_relu")
    ]
    assert {r["op"] for r in ask(store, "types", Filters(torch_op="aten._add_relu.Tensor"))} == {
        "ElementWiseAdd",
        "Relu",
    }
    norm = ask(store, "torch", Filters(op="LayerNorm"))
    assert [r["torch_op"] for r in norm] == ["aten.layer_norm.default", "aten.native_layer_norm.default"]
    assert norm[0]["inputs"] == "x: input; gamma: weight; beta: bias" and "cudnn_enable" in norm[0]["ignored"]


STATUSES = ("declared", "validates", "finalizes", "executes", "matches")


def statuses(store: Store, **filters: str) -> list[str]:
    rows = ask(store, "support", Filters(**filters))
    return [" ".join([r["type_row"], r["soc"] or "-", r["sdk"], *(r[s] for s in STATUSES)]) for r in rows]


def test_support_is_five_statuses_for_each_soc_and_sdk(store: Store) -> None:
    found = statuses(store, op="Relu", soc="SM8650")
    assert found[:2] == [
        "HTP.FP16.1 SM8650 2.47.0 yes yes yes yes yes",  # the later run
        "HTP.FP16.2 SM8650 2.47.0 yes unknown unknown unknown unknown",
    ]
    assert all(" SM8650 " in f for f in found)
    assert statuses(store, op="Relu", backend="CPU") == [
        "CPU.fp32.1 - 2.47.0 yes no not-applicable not-applicable not-applicable",
        "CPU.int8.1 - 2.47.0 yes unknown unknown unknown unknown",
    ]
    assert "HTP.INT8.1 SM8750 2.47.0 yes yes no unknown unknown" in statuses(store, op="Relu")  # a probe
    assert "HTP.FP16.2 SM8550 2.47.0 yes yes crashed unknown unknown" in statuses(store, op="LayerNorm")
    # Each SoC has rows of its own: a measurement on one does not count for another.
    rows = ask(store, "support", Filters(op="Relu", backend="HTP"), "type_row = 'HTP.FP16.1'")
    assert [(r["soc"], r["validates"]) for r in rows] == [
        ("SM8550", "unknown"),
        ("SM8650", "yes"),
        ("SM8750", "unknown"),
    ]


def test_support_of_another_sdk_is_unknown(store: Store) -> None:
    """Documented from 2.13 to 2.40; 2.47 means the measured 2.47.0."""
    unknown = " unknown" * 4
    assert statuses(store, op="Concat", soc="SM8650", sdk="2.25")[0] == "HTP.FP16.1 SM8650 2.25 yes" + unknown
    assert (
        statuses(store, op="Concat", soc="SM8650", sdk="2.47")[0] == "HTP.FP16.1 SM8650 2.47.0 no" + unknown
    )


def test_backends_without_a_library_are_not_applicable(tmp_path: Path) -> None:
    """GPU, DSP, HTA and LPAI are declared only, in the document's SDK and in other SDKs given as filters."""
    shutil.copytree(MINI, tmp_path / "specs")
    file = tmp_path / "specs" / "ops" / "Relu.yaml"
    section = "  DSP: {source: DspOpDefSupplement.html@2.25.0#Relu, dtypes: {All: [{x: uq8, y: uq8}]}}\n"
    file.write_text(file.read_text().replace("backends:\n", f"backends:\n{section}"))
    migrate.upgrade(url := f"sqlite:///{tmp_path / 'opdb.db'}")
    made = Store(url)
    made.sync(tmp_path / "specs")
    nothing = " yes" + " not-applicable" * 4
    assert statuses(made, op="Relu", backend="DSP") == ["DSP.All.1 - 2.25.0" + nothing]
    assert statuses(made, op="Relu", backend="DSP", sdk="2.47") == ["DSP.All.1 - 2.47" + nothing]
    assert not any("not-applicable" in row for row in statuses(made, op="Relu", backend="CPU"))


def test_coverage_counts_cases_of_each_rule(store: Store) -> None:
    rows = {r["rule"]: r for r in ask(store, "coverage")}
    assert len(rows) == len(ask(store, "rules"))
    keys = ("stated", "python", "c", "positive", "negative", "executed", "implied_by")
    assert [rows["LayerNorm.C4"][k] for k in keys] == [1, 1, 1, 1, 1, 4, None]
    assert [rows["LayerNorm.C2"][k] for k in keys] == [1, 0, 0, 1, 0, 1, "LayerNorm.C3"]
    assert [rows["Relu.H1"][k] for k in keys[3:5]] == [
        2,
        0,
    ]  # the case for the CPU does not try a rule of HTP


@pytest.mark.parametrize(
    ("question", "filters", "message"),
    [
        ("opps", {}, "no question 'opps'; did you mean 'ops'?"),
        ("ops", {"op": "LayerNrom"}, "no op 'LayerNrom' in the catalog; did you mean 'LayerNorm'?"),
        ("ops", {"backend": "HTTP"}, "no backend 'HTTP' in the catalog; did you mean 'HTP'?"),
        (
            "support",
            {"soc": "SM8651"},
            "unknown SoC 'SM8651'; did you mean 'SM8650'? ('opdb query socs' lists them)",
        ),
        ("types", {"dtype": "float13"}, "no data type 'float13' in the catalog; "),
        ("params", {"soc": "SM8650"}, "'params' cannot be filtered by --soc; it takes --op, --dtype"),
    ],
)
def test_unknown_names_are_rejected(
    store: Store, question: str, filters: dict[str, str], message: str
) -> None:
    with pytest.raises(OpdbError) as caught:
        ask(store, question, Filters(**filters))
    assert str(caught.value).startswith(message)


def test_imports_stay_small() -> None:
    """A query does not wait for heavy imports."""
    code = "import sys, opdb.catalog.query, opdb.core.settings; print(*sys.modules)"
    loaded = set(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
    )
    assert not loaded & {
        "sqlalchemy",
        "pydantic",
        "ruamel.yaml",
        "alembic",
        "torch",
        "numpy",
        "executorch",
        "opdb.spec.model",
        "platformdirs",
    }


# -- --where

ROW = {
    "op": "LayerNorm",
    "code": 3110,
    "ulp": 1.5,
    "log": "rank > 4",
    "soc": None,
    "emulated": True,
    "o'k": 1,
}


def where(text: str) -> Callable[..., bool]:
    return parse_where(text, list(ROW))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("op = 'LayerNorm'", True),
        ("op <> 'LayerNorm' or code != 1", True),
        ("not op = 'Relu' and code in (1, 3110)", True),
        ("code not in (1, 2)", True),
        ("ulp > 1 and ulp < 2e0 and ulp >= 1.5 and ulp <= 1.5", True),
        ("log like 'RANK%' and log not like 'r_k'", True),
        ("log like 'rank > 4.'", False),
        ("op = 'Relu' or op = 'LayerNorm' and code = 1", False),
        ("(op = 'Relu' or op = 'LayerNorm') and code = 3110", True),
        ("soc is null and op is not null", True),
        ("soc = 'SM8650' or soc <> 'SM8650'", False),  # as in SQL: unknown
        ("not (soc = 'SM8650')", False),
        ("soc in ('SM8650') or op = 'LayerNorm'", True),
        ("code = '3110' and code < '9000' and not code = 'x'", False),
        ("emulated = true AND Not emulated = FALSE", True),
        ("'it''s' = 'it''s' and \"code\" = code", True),
        ("op = 'x''; DROP TABLE op; --'", False),
        ("code = -3110 or code = +3110", True),
    ],
)
def test_where_evaluates_expressions_like_sql(text: str, expected: bool) -> None:
    assert where(text)(ROW) is expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("opp = 'x'", "--where: column 1: no column 'opp'; did you mean 'op'?"),
        ("op = LayerNorm", "--where: column 6: no column 'LayerNorm'; "),
        ("op =", "--where: column 5: expected a column, a number or a 'text', found the end"),
        ("op", "--where: column 3: expected a comparison, found the end"),
        ("", "--where: column 1: expected a column"),
        ("op = 'x' op = 'y'", "--where: column 10: expected 'and', 'or' or the end, found 'op'"),
        ("op = 'x'; DROP TABLE op", "--where: column 9: cannot read '; DROP TABLE op'"),
        ("op = 'x' -- all", "--where: column 10: cannot read '-- all'"),
        ("(op = 'x'", "--where: column 10: expected ')', found the end"),
        ("op in ()", "--where: column 8: expected a column"),
        ("1 = (SELECT 1)", "--where: column 5: expected a column"),
        ("op = load_extension('x')", "--where: column 6: no column 'load_extension'"),
        ("op not = 'x'", "--where: column 8: expected 'in' or 'like'"),
        ("op = 'x", "--where: column 6: cannot read ''x'"),
        ("(" * 10_000 + "1 = 1" + ")" * 10_000, "--where: longer than 2000 characters"),
        ("(" * 99 + "1 = 1" + ")" * 99, "--where: nested deeper than 50 levels"),
    ],
)
def test_where_rejects_malformed_expressions(text: str, message: str) -> None:
    with pytest.raises(OpdbError) as caught:
        where(text)
    assert str(caught.value).startswith(message)


@given(st.text(max_size=60) | st.text("op =<>!()',and or not in like is null 1.e-\"", max_size=60))
def test_where_fails_only_with_its_own_error(text: str) -> None:
    try:
        assert where(text)(ROW) in (True, False)
    except OpdbError as error:
        assert str(error).startswith("--where: ")


@given(st.text())
def test_any_text_can_be_quoted_in_where(value: str) -> None:
    quoted = value.replace("'", "''")
    if len(quoted) < 1900:
        assert where(f"op = '{quoted}'")({**ROW, "op": value}) is True


# -- views

SOME: dict[str, Any] = {
    "op": ("Relu", "LayerNorm"), "backend": "HTP", "soc": "SM8650", "sdk": ["2.47", "2.25"], "dtype": "uq8",
    "torch_op": "aten._add_relu", "disagree": True,
}  # fmt: skip


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_view_has_the_rows_of_its_question(store: Store, question: str) -> None:
    columns = QUESTIONS[question].columns
    listed = ", ".join(f'"{c}"' for c in columns)
    with store.reading() as connection:
        rows = connection.execute(text(f"SELECT {listed} FROM {QUESTIONS[question].view}")).all()
    booleans = {c.name for c in ABOUT[QUESTIONS[question].view].columns if c.type == "boolean"}
    found = [
        {c: bool(v) if c in booleans and v is not None else v for c, v in zip(columns, r, strict=True)}
        for r in rows
    ]
    assert sorted(map(repr, found)) == sorted(map(repr, ask(store, question)))


def test_every_database_gives_the_same_answers(store: Store, tmp_db_url: str) -> None:
    other = filled(tmp_db_url)
    for question in QUESTIONS:
        for filters in (
            Filters(),
            *(Filters(**{f: v}) for f, v in SOME.items() if f in QUESTIONS[question].filters),
        ):
            mine, theirs = ([{k: v for k, v in r.items() if k not in ("run", "started", "measured")} for r in ask(s, question, filters)]
                            for s in (store, other))  # fmt: skip
            assert mine == theirs, (question, filters)
    for question, where in (
        ("runs", "disagrees = true and code is null"),
        ("support", "measurements > 1"),
    ):
        assert len(ask(store, question, where=where)) == len(ask(other, question, where=where)) > 0


def test_every_column_of_every_view_is_documented(store: Store) -> None:
    with store.reading() as connection:
        found = {v: [c["name"] for c in inspect(connection).get_columns(v)] for v in ABOUT}
        assert set(inspect(connection).get_view_names()) == set(ABOUT)
    assert found == {name: [c.name for c in view.columns] for name, view in ABOUT.items()}
    for view in ABOUT.values():
        assert set(view.facets) <= {c.name for c in view.columns}


def test_filters_take_several_values(store: Store) -> None:
    some = ask(store, "types", Filters(op=("Relu", "Concat"), backend=["HTP"], dtype=("f16", "uq8")))
    assert {r["op"] for r in some} == {"Relu", "Concat"} and {r["backend"] for r in some} == {"HTP"}
    assert all(" f16" in r["cells"] or " uq8" in r["cells"] for r in some)
    chips = ask(store, "support", Filters(op="Relu", soc=["SM8650", "SM8750"]))
    assert {r["soc"] for r in chips} == {"SM8650", "SM8750"}
    with pytest.raises(OpdbError, match="no op 'Rel' in the catalog"):
        ask(store, "support", Filters(op=["Relu", "Rel"]))


@pytest.mark.parametrize(
    ("question", "where"),
    [
        ("runs", "validates = 'no' and not (backend = 'CPU' or code is null)"),
        ("runs", "code in (3110, 6999) or soc = 'SM8550'"),
        ("runs", "not (ours in ('accept', 'reject')) and log like '%LARGE%'"),
        ("runs", "disagrees = true and latest = true"),
        ("runs", "not (soc is null) and kind <> 'probe' or op = 'Relu' and ours is not null"),
        ("runs", "emulated <> false and code < 7e3 and op > 'M'"),
        ("support", "measurements > 0 and validates <> 'yes'"),
        ("agreement", "percent > 99"),
        ("types", "backend = 'HTP' and since is not null"),
        ("params", "optional = true"),
        ("coverage", "positive = 0 and implied_by is null"),
    ],
)
def test_where_in_sql_and_python_select_the_same_rows(store: Store, question: str, where: str) -> None:
    """The database narrows; Python alone, on all rows of the view, must give the same rows."""
    view = QUESTIONS[question].view
    keep = condition(where, {c.name: c.type for c in ABOUT[view].columns})
    with store.asking() as reader:
        every = View(reader, Filters()).read(view)
        narrowed = View(reader, Filters(), {view: keep.sql}).read(view) if keep.sql is not None else every
    kept = [row for row in every if keep.keeps(row)]
    assert [row for row in narrowed if keep.keeps(row)] == kept
    if keep.exact:
        assert narrowed == kept
    assert len(ask(store, question, where=where)) == len(kept) < len(every)


def test_disagreements_are_rows_of_the_view(store: Store) -> None:
    listed = ask(store, "runs", Filters(disagree=True))
    assert listed and listed == ask(store, "runs", where="disagrees = true and latest = true")


def test_pivot_has_a_line_per_op_and_kind(store: Store) -> None:
    found = pivot(ask(store, "support", Filters(soc=["SM8650", "SM8750"])), by_soc=True)
    assert found.columns == ["op", "types", "HTP:SM8650 2.47.0", "HTP:SM8750 2.47.0"]
    relu = {r["types"]: r for r in found.rows if r["op"] == "Relu"}
    assert relu["FP16"]["HTP:SM8650 2.47.0"] == "yes"
    assert str(relu["INT8"]["HTP:SM8750 2.47.0"]).startswith("no")
    merged = pivot(ask(store, "support"), by_soc=False)
    assert merged.columns == ["op", "types", "CPU 2.47.0", "HTP 2.47.0"]
    norm = {r["types"]: r for r in merged.rows if r["op"] == "LayerNorm"}
    assert norm["fp32"]["CPU 2.47.0"] == "not known"


def test_ops_of_a_data_type_come_from_a_plain_join(store: Store) -> None:
    with store.asking() as reader:
        rows = reader.rows("SELECT DISTINCT op FROM v_type_cells WHERE backend = 'HTP' AND dtype = 'f16'")
        found = {r["op"] for r in rows}
    assert found == {r["op"] for r in ask(store, "types", Filters(backend="HTP", dtype="f16"))} != set()
