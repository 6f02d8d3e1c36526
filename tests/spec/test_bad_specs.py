"""Invalid or hostile specs: each file of tests/data/bad, and its exact error messages (``<name>.errors``).

All of them are in one folder together with the valid specs, and are read at once.  A file is an op unless its
first line gives another location (``# at: bases/x.yaml``).  OPDB_UPDATE_BAD=1 rewrites the .errors files.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from opdb.catalog import migrate
from opdb.catalog.store import Store, read_catalog
from opdb.core.errors import Problem, SpecError
from opdb.spec.document import MAX_BYTES

BAD = Path(__file__).parents[1] / "data/bad"
SPECS = Path(__file__).parents[2] / "specs"
FILES = sorted(BAD.glob("*.yaml"))


def place_of(file: Path) -> str:
    first = file.read_text(encoding="utf-8").partition("\n")[0]
    return first.removeprefix("# at: ") if first.startswith("# at: ") else f"ops/{file.name}"


def problems_of(folder: Path) -> tuple[Problem, ...]:
    with pytest.raises(SpecError) as caught:
        read_catalog(folder)
    return caught.value.problems


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bad") / "specs"
    shutil.copytree(SPECS, folder)
    (folder / "retired.yaml").write_text("ops: []\nrules: [retired_rule.C7]\n")
    for file in FILES:
        shutil.copy(file, folder / place_of(file))
    return folder


@pytest.fixture(scope="module")
def problems(folder: Path) -> tuple[Problem, ...]:
    found = problems_of(folder)
    if os.environ.get("OPDB_UPDATE_BAD"):
        for file in FILES:
            lines = "".join(f"{p}\n" for p in found if p.path == place_of(file))
            file.with_suffix(".errors").write_text(lines, encoding="utf-8")
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_each_bad_file_has_the_expected_errors(problems: tuple[Problem, ...], file: Path) -> None:
    said = "".join(f"{p}\n" for p in problems if p.path == place_of(file))
    assert said == file.with_suffix(".errors").read_text(encoding="utf-8")
    assert said != ""


def test_all_faults_are_reported_together_in_order(problems: tuple[Problem, ...]) -> None:
    assert len(FILES) >= 100
    assert {p.path for p in problems} == {place_of(f) for f in FILES}
    assert list(problems) == sorted(problems)
    for problem in problems:
        assert re.fullmatch(r"[a-z]+/\w+\.yaml:\d+:\d+: .{5,220}", str(problem)), problem
        assert problem.line >= 1 and problem.column >= 1


def test_every_reported_position_is_in_the_file(problems: tuple[Problem, ...], folder: Path) -> None:
    for problem in problems:
        lines = (folder / problem.path).read_text(encoding="utf-8").split("\n")
        assert problem.line <= len(lines)
        assert problem.column <= len(lines[problem.line - 1]) + 1, problem


def test_the_database_is_not_changed(folder: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'opdb.db'}"
    migrate.upgrade(url)
    store = Store(url)
    store.sync(SPECS)
    before = store.catalog_hash()
    with pytest.raises(SpecError):
        store.sync(folder)
    assert store.catalog_hash() == before == store.load_catalog().hash


@pytest.mark.parametrize(("content", "message"), [
    (b"op: Large\nsummary: " + b"x" * MAX_BYTES, "ops/Large.yaml: a spec file has at most 256 KiB"),
    (b"op: Large\nsummary: \xff\xfe\n",
     "ops/Large.yaml: cannot read: 'utf-8' codec can't decode byte 0xff in position 19: invalid start byte"),
    (b"op: Large\nsummary: \x07bell\n",
     "ops/Large.yaml:1:1: not YAML: unacceptable character #x0007: control characters are not allowed"),
    (b"op: Large\nquant: " + b"{a: " * 3000 + b"1" + b"}" * 3000, "ops/Large.yaml:2:104: nested deeper than 24 levels"),
])  # fmt: skip
def test_unreadable_files_are_rejected(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops/Large.yaml").write_bytes(content)
    assert [str(p) for p in problems_of(tmp_path)] == [message]


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    missing = tmp_path / "specs"
    (problem,) = problems_of(missing)
    assert str(problem) == f"{missing}: no such folder; give the folder that holds ops/ and backends/"


def test_a_fault_of_a_base_names_the_bases_file(tmp_path: Path) -> None:
    for kind in ("ops", "bases"):
        (tmp_path / kind).mkdir()
    (tmp_path / "bases/family.yaml").write_text(
        "base: family\ninputs:\n  x: [S...]\nconstraints:\n  C1: x.rnk > 0\n"
        "backends:\n  HTP:\n    unchecked:\n      C2: probe\n"
    )
    (tmp_path / "backends").mkdir()
    (tmp_path / "backends/HTP.yaml").write_text("backend: HTP\nabout: the HTP\nletter: H\n")
    (tmp_path / "ops/Own.yaml").write_text("op: Own\nextends: family\noutputs:\n  y: [T...]\n")
    assert [str(p) for p in problems_of(tmp_path)] == [
        "bases/family.yaml:5:7: tensor has no attribute 'rnk'; did you mean 'rank'?: x.rnk > 0",
        "bases/family.yaml:9:7: no rule 'C2' of the op; known: C1, UNKNOWN_PARAMS",
        "ops/Own.yaml:4:6: the shape symbol 'T' is not bound by any input",
    ]
