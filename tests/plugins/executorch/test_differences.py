"""ExecuTorch's builders and opdb's side by side (benchmarks/executorch_differences)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from opdb.plugins.executorch import env, process

pytestmark = [pytest.mark.executorch, pytest.mark.vendor, pytest.mark.slow]

HERE = Path(__file__).parent
BENCHMARKS = HERE.parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS))
from executorch_differences import kept_rows, rows, run  # noqa: E402

RIGHT: dict[str, Any] = {"right": True, "error": 1e-4, "failure": "", "left": []}
WRONG: dict[str, Any] = {**RIGHT, "right": False, "error": 0.5}


# -- kinds of differences


@pytest.fixture(scope="module")
def everything(environment: env.Environment, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = str(tmp_path_factory.mktemp("differences"))
    found: dict[str, Any] = process.call(
        "difference_cases:everything", folder, environment=environment, path=[HERE, BENCHMARKS]
    )
    return found


EPSILONS = "LayerNorm epsilon: 9.999999747378752e-06 (FLOAT_32) | 9.999999747378752e-05 (FLOAT_32)"


@pytest.mark.parametrize(
    ("fault", "cat", "norm"),
    [
        ("none", [], []),
        ("another op", ["ops: Concat | Pack"], []),
        (
            "inputs swapped",
            ["Concat inputs[0] tensor: x@0 | y@0", "Concat inputs[1] tensor: y@0 | x@0"],
            [
                "LayerNorm inputs[1] data: up to 1 | differs by up to 0.75",
                "LayerNorm inputs[2] data: up to 0.25 | differs by up to 0.75",
            ],
        ),
        ("a value", ["Concat axis: 1 (UINT_32) | 2 (UINT_32)"], [EPSILONS]),
        ("a type", ["Concat axis: 1 (UINT_32) | 1 (INT_32)"], []),
        (
            "a parameter less",
            ["Concat axis: 1 (UINT_32) | left out"],
            ["LayerNorm axes: (2,) (UINT_32[1]) | left out"],
        ),
        ("an input less", ["ops: Concat | Concat, Reshape"], ["LayerNorm inputs: 3 | 2"]),
        ("declined", ["ops: Concat | Concat.C1: a reason"], ["ops: LayerNorm | Concat.C1: a reason"]),
    ],
)
def test_a_planted_difference_is_found(
    everything: dict[str, Any], fault: str, cat: list[str], norm: list[str]
) -> None:
    assert everything["tampered"][fault] == {"aten.cat.default": cat, "aten.native_layer_norm.default": norm}


# -- how a difference is judged


def difference(theirs: str = "", ours: str = "", raised: bool = False) -> dict[str, Any]:
    sides = {
        "theirs": {"ops": ["Elu"], "refusal": theirs, "raised": raised},
        "ours": {"ops": ["Relu"], "refusal": ours, "raised": False},
    }
    return {"node": "elu", "target": "aten.elu.default", **sides}


@pytest.mark.parametrize(
    ("theirs", "ours", "judgement"),
    [
        (RIGHT, RIGHT, rows.EQUAL),
        (WRONG, RIGHT, rows.OURS),
        (RIGHT, WRONG, rows.THEIRS),
        (WRONG, WRONG, rows.NEITHER),
        (RIGHT | {"left": ["elu"]}, RIGHT, rows.OURS),
        (RIGHT, RIGHT | {"left": ["elu"]}, rows.THEIRS),
        (WRONG | {"error": None, "failure": "kills the process"}, RIGHT | {"left": ["elu"]}, rows.OURS),
    ],
)
def test_results_decide_which_builder_is_better(
    theirs: dict[str, Any], ours: dict[str, Any], judgement: str
) -> None:
    made = rows.outcomes(difference(), {"runs": {"theirs": theirs, "ours": ours}})
    assert rows.judge(*(side["status"] for side in made)) == judgement


def test_a_refusal_ranks_between_an_exception_and_right_results() -> None:
    runs = {"runs": {"theirs": RIGHT, "ours": RIGHT}}

    def judged(**how: Any) -> str:
        return rows.judge(*(side["status"] for side in rows.outcomes(difference(**how), runs)))

    assert judged(theirs="KeyError: 'x'", raised=True, ours="Elu.C1: no") == rows.OURS
    assert judged(ours="Elu.C1: no") == rows.THEIRS
    assert judged(theirs="declines") == rows.OURS


def test_a_single_exchanged_operator_is_judged_by_its_own_run() -> None:
    runs = {"theirs": WRONG, "ours": RIGHT, "aten.elu.default": RIGHT}
    theirs, ours = rows.outcomes(difference(), {"runs": runs})
    assert (theirs["status"], ours["status"]) == ("right", "right")


@pytest.mark.parametrize(
    ("ours", "more", "why"),
    [
        (["Relu"], {"passed": [["Elu", "Elu.H1", "no"]]}, ""),
        (["Relu", "Exp"], {}, "?"),
        (["Relu", "Exp"], {"avoided": ["HTP-0300"], "passed": [["Elu", "Elu.H1", "no"]]}, "HTP-0300"),
        (["Relu", "Exp"], {"passed": [["Elu", "Elu.H1", "no"]]}, "Elu.H1"),
        (["Relu", "Exp"], {"passed": [["Elu", "Elu.M_aten.elu.default", "no; got a = 1"]]}, "Elu: no"),
    ],
)
def test_additional_ops_are_explained_by_an_erratum_or_rule(
    ours: list[str], more: dict[str, Any], why: str
) -> None:
    sides = {side: {"ops": ours, "refusal": "", "raised": False} for side in ("ours", "device")}
    assert rows.why({"edge": "aten.elu.default", **difference(), **sides, **more}) == why


def test_rows_of_a_page_keep_their_numbers() -> None:
    record = {
        "case": "elu", "precision": "fp16", "equal": [],
        "differences": [{**difference(), "edge": "aten.elu.default", "lines": [["", "ops", "Elu", "Relu"]]}],
    }  # fmt: skip
    proof = {"case": "elu", "precision": "fp16", "runs": {"theirs": WRONG, "ours": RIGHT}}
    page = rows.page(rows.judged([record], [proof]), "told")
    kept = kept_rows.of_page(page)
    assert run.to_prove([record], [], kept) == []
    assert rows.page(kept_rows.added(rows.judged([record], [], kept), [record], kept), "told") == page
    assert rows.page(kept_rows.added([], [], kept), "told") == page


# -- real programs


@pytest.mark.parametrize(
    ("case", "differs", "judgement", "theirs"),
    [
        ("linear_rank_3", "FullyConnected keep_dims: left out → False (BOOL_8)", rows.EQUAL, "right"),
        ("logical_not_of_1", "ElementWiseNot → ElementWiseEqual", rows.OURS, "refused by QNN"),
        (
            "elu_scaled",
            "Elu → Relu, ElementWiseMinimum, ElementWiseMultiply, Elu, ElementWiseAdd, ElementWiseMultiply",
            rows.OURS,
            "wrong",
        ),
    ],
)
def test_differences_are_judged_on_the_emulation(
    everything: dict[str, Any], case: str, differs: str, judgement: str, theirs: str
) -> None:
    records = [r for r in everything["records"] if r["case"] == case]
    found = {"; ".join(r["differs"]): r for r in rows.judged(records, everything["proofs"])}
    row = found[differs]
    assert (row["judgement"], row["theirs"]["status"], row["ours"]["status"]) == (judgement, theirs, "right")
    assert row["ours"]["error"] < 5e-3


def test_equal_builders_are_not_run(everything: dict[str, Any]) -> None:
    (relu,) = (r for r in everything["records"] if r["case"] == "relu")
    assert relu["equal"] == ["aten.relu.default"]
    assert relu["differences"] == []
    assert "relu" not in {p["case"] for p in everything["proofs"]}


@pytest.mark.sweep
def test_executorchs_builders_are_better_only_for_known_reasons(tmp_path: Path) -> None:
    both = run.in_child("worker:both")
    records, proofs = run.compare(run.in_child("cases:names", both), tmp_path)
    found = rows.judged(records, proofs)
    assert len(set().union(*map(rows.targets_of, records))) >= 100
    theirs = {
        (r["precision"], r["target"], "; ".join(r["differs"])) for r in found if r["judgement"] == rows.THEIRS
    }
    assert theirs == rows.REASONS.keys()
    assert [r["case"] for r in found if r["judgement"] == rows.EQUAL and r["why"] == "?"] == []
