"""``opdb.catalog.query.diff``: how the specs and measurements of two SDKs, SoCs or backends differ."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opdb.catalog import migrate
from opdb.catalog.query.diff import COLUMNS, Side, diff, failing, residual, side
from opdb.catalog.store import (
    CaseRecord,
    ExecutorRecord,
    LibraryRecord,
    ProbeRecord,
    ResultRecord,
    RunRecord,
    Store,
)
from opdb.core.errors import OpdbError

MINI = Path(__file__).parents[2] / "data" / "mini"
#: In Relu.yaml: a row that came, one that went, one in other words; rules of some SDKs; and an op that came to HTP.
RELU = """
    constraints:
      H1: x.rank <= 5
      H2: {when: x.dtype == f16, require: arch >= 73}
      H3: {when: sdk < 2040, require: x.rank <= 4}
      H4: {when: sdk >= 2047 and x.dtype == sq8, require: x.symmetric}
      H5: {require: "x.rank <= (4 if sdk < 2047 else 3)"}
      H6: {when: sdk >= 2047, expect: x.rank <= 2}
    dtypes:
      FP16:
        - {x: f16, y: f16}
        - {x: f32, y: f32}
      INT16:
        - {x: [uq16, sq16], y: [uq16, sq16]}
      INT8:
        - {x: uq8, y: uq8}
      INT8_2_47:
        - {x: sq8, y: sq8}
        - {x: uq8, y: uq8}
      INT16_2_47:
        - {x: uq16, y: uq16}
      INT32:
        - {x: i32, y: i32}
    configurations:
      INT8_2_47: {since: "2.47", source: probe HTP 2.47.0}
      INT16_2_47: {since: "2.47", source: probe HTP 2.47.0}
      INT16: {until: "2.40"}
      INT32: {until: "2.40"}
"""


def library(backend: str, sdk: str) -> LibraryRecord:
    return LibraryRecord("onnxruntime-qnn", sdk, "b", f"{backend}{sdk}", backend, sdk)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("diff")
    specs = folder / "specs"
    shutil.copytree(MINI, specs)
    relu = specs / "ops" / "Relu.yaml"
    text = relu.read_text()
    head, source, _ = text.partition("    source: HtpOpDefSupplement.html@2.25.0#Relu\n")
    tail = text[text.index("quant:") :]
    relu.write_text(head + source + RELU.lstrip("\n") + tail)
    concat = specs / "ops" / "Concat.yaml"
    concat.write_text(re.sub(r"since: .*\n\s*until: .*", "since: '2.47'", concat.read_text()))
    socs = specs / "socs.yaml"
    socs.write_text(re.sub("SM8550(.*)htp_arch: 73", r"SM8450\1htp_arch: 69", socs.read_text(), flags=re.S))
    url = str(folder / "opdb.db")
    migrate.upgrade(url)
    store = Store(url)
    store.sync(specs)
    for sdk, said in (
        ("2.46.0", ("yes", "no", "yes", "unknown")),
        ("2.47.0", ("no", "crashed", "yes", "yes")),
    ):
        run = store.begin_probe_run(RunRecord("0.1.0", "x"), library("HTP", sdk))
        store.record_probes(run, [
            ProbeRecord("Relu", "HTP", sdk, json.dumps({"op": "Relu", "n": i}), "SM8650", "HTP.FP16.1", validates=v)
            for i, v in enumerate(said)
        ])  # fmt: skip
    run = store.begin_run(RunRecord("0.1.0", "x"))
    results = []
    for soc, matches in (("SM8450", "yes"), ("SM8650", "no")):
        config = json.dumps({"id": soc, "op": "LayerNorm"})
        case = CaseRecord(
            f"LayerNorm-0-{soc}", "LayerNorm", "positive", config, "HTP", soc, "2.47.0", "HTP.FP16.2"
        )
        executor = ExecutorRecord("qnn-htp", "2.47.0", "HTP", library("HTP", "2.47.0"))
        results.append(ResultRecord(case, executor, soc, "yes", "yes", "yes", "yes", matches))
    store.record_results(run, results)
    return store


def told(rows: list[dict[str, Any]], *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(r[c] for c in columns) for r in rows]


def test_two_sdks_differ_in_rows_and_rules(store: Store) -> None:
    rows = diff(store, Side("HTP", "SM8650", "2.25"), Side("HTP", "SM8650", "2.47"))
    assert all(tuple(r) == COLUMNS for r in rows)
    assert told(rows, "part", "change", "op", "name", "before", "after", "regression") == [
        ("op", "added", "Concat", "Concat", None, None, False),
        ("type row", "removed", "Relu", "HTP.INT16.1", "x: uq16|sq16, y: uq16|sq16", None, True),
        ("type row", "removed", "Relu", "HTP.INT32.1", "x: i32, y: i32", None, True),
        ("type row", "added", "Relu", "HTP.INT8_2_47.1", None, "x: sq8, y: sq8", False),
        ("rule", "removed", "Relu", "Relu.H3", "x.rank <= 4", None, False),
        ("rule", "added", "Relu", "Relu.H4", None, "if x.dtype == sq8: x.symmetric", True),
        ("rule", "changed", "Relu", "Relu.H5", "x.rank <= 4", "x.rank <= 3", True),
        ("rule", "added", "Relu", "Relu.H6", None, "x.rank <= 2", False),
    ]
    back = diff(store, Side("HTP", "SM8650", "2.47"), Side("HTP", "SM8650", "2.25"))
    assert sum(r["change"] == "added" for r in back) == sum(r["change"] == "removed" for r in rows)


def test_a_row_worded_differently_is_not_a_change(store: Store) -> None:
    """INT16_2_47 repeats a part of INT16: only its name is new, and so is only the name of uq8 in INT8_2_47."""
    names = {r["name"] for r in diff(store, Side("HTP", None, "2.25"), Side("HTP", None, "2.47"))}
    assert not names & {"HTP.INT16_2_47.1", "HTP.INT8_2_47.2"}


def test_two_socs_differ_in_rules_and_verdicts(store: Store) -> None:
    rows = diff(store, Side("HTP", "SM8450"), Side("HTP", "SM8650"))
    rules = [r for r in rows if r["part"] == "rule"]
    assert told(rules, "change", "name", "before", "soc") == [
        ("removed", "LayerNorm.H3", "not (present(gamma) and gamma.dtype in (uq16, sq16))", "SM8450"),
        ("removed", "Relu.H2", "not x.dtype == f16", "SM8450"),
    ]
    (verdict,) = [r for r in rows if r["part"] == "verdict"]
    assert (verdict["name"], verdict["before"], verdict["after"]) == ("HTP.FP16.2 matches", "yes", "no")
    assert (verdict["regression"], verdict["example"]) == (True, "LayerNorm-0-SM8650")


def test_two_backends_differ_in_rows_and_rules(store: Store) -> None:
    rows = diff(store, Side("CPU"), Side("HTP", "SM8650"), "LayerNorm")
    assert ("type row", "added", "HTP.FP16.1") in told(rows, "part", "change", "name")
    assert not [
        r for r in rows if r["part"] == "type row" and r["change"] == "removed"
    ]  # CPU's are a part of HTP's
    assert {r["name"] for r in rows if r["part"] == "rule"} == {
        "LayerNorm.H1",
        "LayerNorm.H2",
        "LayerNorm.H4",
        "LayerNorm.H5",
    }


def test_verdicts_count_questions_put_to_both_sides(store: Store) -> None:
    rows = diff(store, Side(None, None, "2.46"), Side(None, None, "2.47"))
    verdicts = [r for r in rows if r["part"] == "verdict"]
    assert told(verdicts, "op", "backend", "soc", "name", "before", "after", "count", "regression") == [
        ("Relu", "HTP", "SM8650", "HTP.FP16.1 validates", "no", "crashed", 1, True),
        ("Relu", "HTP", "SM8650", "HTP.FP16.1 validates", "yes", "no", 1, True),
    ]


def test_failing_depends_on_the_direction_of_the_diff(store: Store) -> None:
    up = diff(store, Side("HTP", "SM8450"), Side("HTP", "SM8650"), "Relu")
    down = diff(store, Side("HTP", "SM8650"), Side("HTP", "SM8450"), "Relu")
    assert [failing(rows, ["regression"]) for rows in (up, down)] == [False, True]
    assert [failing(up, [w]) for w in ("removed", "changed")] == [True, False]
    assert not failing(down, [])


@pytest.mark.parametrize(("text", "more", "expected"), [
    ("2.47", (), Side(None, None, "2.47")),
    ("2.47", ("HTP", "SM8650"), Side("HTP", "SM8650", "2.47")),
    ("htp:sm8650", (None, None, "2.25"), Side("HTP", "SM8650", "2.25")),
    ("CPU@2.47.0", (None, None, "2.25"), Side("CPU", None, "2.47.0")),
])  # fmt: skip
def test_a_side_is_parsed(text: str, more: tuple[str | None, ...], expected: Side) -> None:
    assert side(text, *more) == expected


@pytest.mark.parametrize(("a", "b", "message"), [
    ("HTP:", "CPU", "'HTP:': not BACKEND:SOC; e.g. HTP:SM8650"),
    ("HTP@", "CPU", "'HTP@': an SDK version belongs behind the @, e.g. HTP:SM8650@2.47"),
    ("HTP@two", "CPU", "'two' is not an SDK version; e.g. 2.47"),
    ("HPT", "CPU", "no backend 'HPT' in the catalog; did you mean 'HTP'?"),
    ("HTP:SM865", "CPU", "unknown SoC 'SM865'; did you mean 'SM8650'? ('opdb query socs' lists them)"),
    ("HTP", "HTP", "both sides are HTP; nothing can differ"),
    ("HTP", "2.47", "HTP and 2.47 cannot be compared: only one of them names its backend"),
    ("HTP", "HTP:SM8650", "HTP and HTP:SM8650 cannot be compared: only one of them names its soc"),
])  # fmt: skip
def test_bad_sides_are_rejected(store: Store, a: str, b: str, message: str) -> None:
    with pytest.raises(OpdbError) as caught:
        diff(store, side(a), side(b))
    assert str(caught.value) == message


NAMES = ("arch", "sdk", "x", "y")
ATOMS = st.builds(
    "{} {} {}".format, st.sampled_from(NAMES), st.sampled_from(["<", "<=", "==", "!=", ">", ">="]),
    st.sampled_from([*NAMES, "0", "1", "2"]),
) | st.builds("{} {} ({}, 2)".format, st.sampled_from(NAMES), st.sampled_from(["in", "not in"]), st.sampled_from(["0", "1"])) \
  | st.builds("{} < {} <= {}".format, *[st.sampled_from([*NAMES, "1"])] * 3)  # fmt: skip
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda e: st.builds("({} and {})".format, e, e) | st.builds("({} or {})".format, e, e)
    | st.builds("(not {})".format, e) | st.builds("({} if {} else {})".format, e, e, e),
    max_leaves=6,
)  # fmt: skip


@given(
    when=st.none() | EXPRESSIONS,
    require=EXPRESSIONS,
    known=st.fixed_dictionaries(
        {"arch": st.none() | st.integers(0, 2), "sdk": st.none() | st.integers(0, 2)}
    ),
    values=st.fixed_dictionaries({n: st.integers(0, 2) for n in NAMES}),
)
def test_a_residual_rule_is_equivalent_to_the_original(
    when: str | None, require: str, known: dict[str, int | None], values: dict[str, int]
) -> None:
    values |= {k: v for k, v in known.items() if v is not None}
    holds = not eval(when or "True", {}, values) or eval(require, {}, values)
    left = residual(when, require, known)
    if left is None:
        assert holds
        return
    assert not {k for k, v in known.items() if v is not None} & set(re.findall(r"\w+", left))
    guard, found, asks = left.removeprefix("if ").partition(": ")
    again = eval(left, {}, values) if not found else not eval(guard, {}, values) or eval(asks, {}, values)
    assert bool(again) == bool(holds)


@pytest.mark.parametrize(("when", "require", "known", "left"), [
    ("x.dtype == f16", "arch >= 73", {"arch": 68}, "not x.dtype == f16"),
    ("x.dtype == f16", "arch >= 73", {"arch": 75}, None),
    ("x.dtype == f16", "arch >= 73", {"arch": None}, "if x.dtype == f16: arch >= 73"),
    ("sdk >= 2047 and x.rank > 1", "y.rank == 1", {"sdk": 2047}, "if x.rank > 1: y.rank == 1"),
    (None, "arch in (68, 73) or\n  x.rank == 1", {"arch": 69}, "x.rank == 1"),
    (None, "sdk < 2047", {"sdk": 2047}, "False"),
])  # fmt: skip
def test_a_residual_drops_known_values(
    when: str | None, require: str, known: dict[str, int | None], left: str | None
) -> None:
    assert residual(when, require, known) == left
