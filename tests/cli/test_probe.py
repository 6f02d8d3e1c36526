"""opdb probe: its output, its rows in SQL, its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import ROOT, Run, one_line

pytestmark = pytest.mark.slow

MINI = str(ROOT / "tests" / "data" / "mini")
SMALL = (
    "probe",
    "--specs",
    MINI,
    "--op",
    "Relu",
    "--backend",
    "cpu",
    "--count",
    "40",
    "--execute",
    "0",
    "--jobs",
    "1",
)


@pytest.mark.vendor
def test_probe_reports_and_resumes(opdb: Run, libraries: object, tmp_path: Path) -> None:
    done = opdb(*SMALL)
    assert (done.returncode, done.stderr) == (0, "")
    head, relu, total, *rest = done.stdout.splitlines()
    assert head.split()[:3] == ["op", "where", "n"] and relu.split()[:4] == ["Relu", "CPU", "2.47", "40"]
    assert total.startswith("1 op ")
    assert rest[0].startswith("40 configs asked in ") and rest[0].endswith("0 had an answer before")
    assert rest[1].startswith("evidence ")

    again = opdb(*SMALL, "--json", "--min-agreement", "100")
    found = json.loads(again.stdout)
    assert (found["asked"], found["kept"], found["left"]) == (0, 40, 0)
    (row,) = found["agreement"]
    assert found["evidence"].startswith(rest[1].split()[1].rstrip(";"))
    assert again.returncode == (1 if row["percent"] < 100 else 0) and bool(found["below"]) == (
        row["percent"] < 100
    )

    table = json.loads(opdb("query", "agreement", "--json").stdout)
    assert [(r["op"], r["n"], r["percent"]) for r in table] == [("Relu", 40, row["percent"])]
    listed = json.loads(opdb("query", "runs", "--disagree", "--json").stdout)
    assert len(listed) == row["we_accept_it_rejects"] + row["we_reject_it_accepts"] + row["undecided"]
    report = opdb("conformance", "report")
    assert report.returncode == 0 and report.stdout.splitlines()[1].split()[:4] == [
        "Relu",
        "CPU",
        "2.47",
        "40",
    ]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--op", "Rely"), "unknown op 'Rely'; did you mean 'Relu'?"),
        (("--op", "Relu", "--soc", "SM8651"), "unknown SoC 'SM8651'; did you mean"),
        (("--op", "Relu", "--backend", "NPU"), "unknown backend 'NPU'"),
        (("--qnn", "9.99"), "no QNN libraries of version 9.99"),
        (("--budget", "0"), "--budget 0: give a number of seconds above 0"),
        (("--jobs", "2", "--dask", "tcp://127.0.0.1:9"), "--jobs and --dask: give one"),
        (
            ("--op", "Relu", "--dask", "127.0.0.1:none"),
            "--dask 127.0.0.1:none: not the address of a Dask",
        ),
    ],
)
def test_bad_arguments_are_rejected(
    opdb: Run, libraries: object, args: tuple[str, ...], message: str
) -> None:
    assert message in one_line(opdb("probe", "--specs", MINI, *args))


@pytest.mark.breadth
def test_a_missing_dask_scheduler_is_reported(opdb: Run) -> None:
    asked = ("conformance", "run", "--specs", MINI, "--op", "Relu", "--executor", "python")
    assert "--jobs and --dask: give one" in one_line(
        opdb(*asked, "--jobs", "2", "--dask", "tcp://127.0.0.1:9")
    )
    found = one_line(opdb(*asked, "--dask", "tcp://127.0.0.1:9"))
    assert (
        found.startswith("opdb: --dask tcp://127.0.0.1:9: no Dask scheduler answers there")
        and "dask scheduler" in found
    )


def test_disagreements_need_evidence(loaded: Run) -> None:
    assert "'ops' cannot be filtered by --disagree" in one_line(loaded("query", "ops", "--disagree"))
