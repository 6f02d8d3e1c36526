"""Fixtures and settings of all tests."""

from __future__ import annotations

import ast
import gc
import os
import re
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

import opdb
from opdb.core.errors import MissingExtra
from opdb.measure.conformance.cases import CaseSet, cases
from opdb.runtime.qnn.libraries import Libraries, installed
from opdb.spec.catalog import Catalog

from .repository_specs import SPECS, repository_catalog
from .spare_time import spare_time
from .usual_ops import FEW, USUAL

ROOT = Path(__file__).parents[1]

#: Tests omitted from a run, by reason; and the seconds of executed tests, by file.
LEFT_OUT: Counter[str] = Counter()
SECONDS: Counter[str] = Counter()
NOT_RUN = {
    "slow": "slow ones (make slow)",
    "files": "files of slow ones (make slow)",
    "breadth": "of every op and module (make breadth)",
    "sweep": "long ones (make sweep)",
    "-m, -k": "not asked for",
}

#: `make sanitize` names the tree that must be under test; another opdb would make its pass worthless.
EXPECTED_TREE = os.environ.get("OPDB_EXPECT_TREE")
POSTGRES_URL = os.environ.get("OPDB_TEST_POSTGRES_URL")
NO_POSTGRES = "OPDB_TEST_POSTGRES_URL is not set; `tools/with-postgres pytest` sets it"

# Where the machine is slow, lines about progress would be among the messages that tests compare.
os.environ.setdefault("OPDB_PROGRESS", "0")

# The same examples on every run; HYPOTHESIS_PROFILE=random looks for new ones.
settings.register_profile("fixed", deadline=None, derandomize=True, database=None)
settings.register_profile("random", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


def pytest_configure(config: pytest.Config) -> None:
    if EXPECTED_TREE and not Path(opdb.__file__).is_relative_to(EXPECTED_TREE):
        raise pytest.UsageError(f"the tests import opdb from {opdb.__file__}, not from {EXPECTED_TREE}")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skips importing fully slow files in a run without slow tests, since that takes a minute."""
    if (
        not collection_path.match("test_*.py")
        or "not slow" not in config.option.markexpr
        or "slow" not in marks_of(collection_path)
    ):
        return None
    LEFT_OUT["files"] += 1
    return True


@cache
def marks_of(path: Path) -> frozenset[str]:
    """The marks of all tests of a file, its ``pytestmark``, read from the text: the file is not imported."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            return frozenset(re.findall(r"pytest\.mark\.(\w+)", ast.unparse(node.value)))
    return frozenset()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests by their op, and moves those of one op's cases together to the end.

    They are short, so with ``-n --no-loadscope-reorder`` no process waits long for another.
    """
    for item in items:
        op = slow_op(item) if item.get_closest_marker("slow_by_op") else derived_op(item.nodeid)
        if op and op not in USUAL:
            item.add_marker("breadth")
        if op and op not in FEW:
            item.add_marker("slow")
    items.sort(key=lambda item: derived_op(item.nodeid))


def pytest_collection_finish() -> None:
    spare_time()


def slow_op(item: pytest.Item) -> str:
    """The op of a test marked ``slow_by_op``: its first parameter."""
    return str(next(iter(item.callspec.params.values())))  # type: ignore[attr-defined]


def derived_op(nodeid: str) -> str:
    """The op whose derived cases are read by a test of a file marked ``by_op``, or ''."""
    path, _, test = nodeid.partition("::")
    if "by_op" not in marks_of(ROOT / path):
        return ""
    given = test.partition("[")[2].removesuffix("]").split("-")  # e.g. Relu, qnn-htp
    return next((name for name in given if (SPECS / "ops" / f"{name}.yaml").is_file()), "")


class ByOp(LoadFileScheduling):  # type: ignore[misc]
    """Sends a file's tests to one process, and all tests of an op's derived cases, whatever their files."""

    def _split_scope(self, nodeid: str) -> str:
        return derived_op(nodeid) or str(super()._split_scope(nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByOp:
    """Schedules for `-n`: the cases of an op take seconds to derive, so one process reads them for all tests."""
    return ByOp(config, log)


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    """The catalog of the repository's specs."""
    return repository_catalog()


@pytest.fixture(scope="session")
def case_set(catalog: Catalog) -> Callable[[str], CaseSet]:
    """The cases of an op, computed once per process."""
    return lambda op: cases(catalog, op)


@pytest.fixture(scope="session")
def libraries() -> Libraries:
    """QNN's libraries of the qnn extra; tests that use them are skipped without it."""
    try:
        return installed()
    except MissingExtra as missing:
        pytest.skip(str(missing))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Prints the name of a failed test at once, since an aborted `-n` run shows no summary."""
    SECONDS[report.nodeid.partition("::")[0]] += report.duration
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        sys.stderr.write(f"\nfailed: {report.nodeid}\n")
        sys.stderr.flush()


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        LEFT_OUT[
            "sweep"
            if item.get_closest_marker("sweep")
            else "breadth"
            if item.get_closest_marker("breadth")
            else "slow"
            if item.get_closest_marker("slow")
            else "-m, -k"
        ] += 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):  # a process of -n; all of them deselect the same tests
        session.config.workeroutput["left_out"] = dict(LEFT_OUT)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    LEFT_OUT.update(getattr(node, "workeroutput", {}).get("left_out", {}) if not LEFT_OUT else {})


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Prints the tests that did not run, so that nobody takes this run for all tests; and where the time went."""
    left = [f"{LEFT_OUT[key]} {what}" for key, what in NOT_RUN.items() if LEFT_OUT[key]]
    if skipped := len(terminalreporter.stats.get("skipped", ())):
        left.append(f"{skipped} skipped (see above)")
    terminalreporter.write_line(f"did not run: {', '.join(left) or 'nothing'}")
    if os.environ.get("CI"):
        slow = ", ".join(f"{path} {seconds:.0f}" for path, seconds in SECONDS.most_common(80))
        terminalreporter.write_line(f"slowest files, of {SECONDS.total():.0f} s in all: {slow}")


@pytest.fixture(scope="module", autouse=True)
def _collected() -> None:
    """Collects the last file's garbage: a suspended torch.no_grad() collected during an export would change its graph."""
    gc.collect()


@pytest.fixture(scope="session", autouse=True)
def _forked_children() -> Iterator[None]:
    """Forks the children of ``opdb.plugins.executorch.process``; tests/plugins/executorch/test_process.py also starts them."""
    from opdb.plugins.executorch import process

    from . import forked

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "_run", forked.run)
        yield


def pytest_report_header(config: pytest.Config) -> list[str]:
    return [f"opdb: {Path(opdb.__file__).parent}", f"postgres: {POSTGRES_URL or NO_POSTGRES}"]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def tmp_db_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database of the test's own; once per database system."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'opdb.db'}"
    elif POSTGRES_URL is None:
        pytest.skip(NO_POSTGRES)
    else:
        yield from _postgres_database(POSTGRES_URL)


def _postgres_database(server: str) -> Iterator[str]:
    name = f"opdb_{uuid.uuid4().hex}"
    engine = sqlalchemy.create_engine(server, isolation_level="AUTOCOMMIT", poolclass=sqlalchemy.NullPool)
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text(f"CREATE DATABASE {name}"))
    try:
        yield sqlalchemy.make_url(server).set(database=name).render_as_string(hide_password=False)
    finally:
        with engine.connect() as connection:
            connection.execute(sqlalchemy.text(f"DROP DATABASE {name} WITH (FORCE)"))
