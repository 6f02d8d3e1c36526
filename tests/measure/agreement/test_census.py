"""Every op that a library reports: a config that it validates, finalizes and executes, or a reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from opdb.catalog import migrate
from opdb.catalog.query import Filters, Row, ask
from opdb.catalog.store import Store
from opdb.core.errors import OpdbError
from opdb.core.op_config import OpConfig
from opdb.execute.libraries.client import VendorWorker
from opdb.measure.sweeps.sweep import sweep
from opdb.runtime.qnn.libraries import Libraries, find

pytestmark = [pytest.mark.vendor, pytest.mark.slow]
ROOT = Path(__file__).parents[3]
#: Names that no client can use: other names of ops internal to QNN's CPU library (4005 in validation).
INTERNAL = ("_TFLITE", "_BUILTIN")
SPARSE = "a sparse tensor can only be inside a graph: 7004 for one at its ends"
#: Ops that have no spec, by backend.
WITHOUT_SPEC = {
    "CPU": {
        "DeformConv2d": "the validator does not know the name (4005), and nobody documents its tensors",
    },
    "HTP": {},
}
#: The furthest stage of the other ops by backend, and the reason they go no further.
SHORT_OF: dict[str, dict[str, tuple[str, str]]] = {
    "CPU": {
        "BboxTransform": ("validates", "6000 when the graph is finalized"),
        "Buffer": ("finalizes", "the library crashes when the graph is executed"),
        "CreateSparse": ("validates", SPARSE),
        "GetSparseIndices": ("validates", SPARSE),
        "GetSparseValues": ("validates", SPARSE),
        "If": (
            "validates",
            "the library crashes when the graph is finalized: there are no graphs of these names",
        ),
        "SparseToDense": ("validates", SPARSE),
    },
    "HTP": {
        "Buffer": ("finalizes", "the emulation crashes when the graph is executed"),
        "CreateSparse": ("validates", SPARSE),
        "ElementWiseMux": ("validates", "the library crashes when the graph is finalized"),
        "GetSparseIndices": ("validates", SPARSE),
        "GetSparseValues": ("validates", SPARSE),
        "SparseToDense": ("validates", SPARSE),
    },
}
#: Number of good configs to run of each op, and then of those not executed yet.
ROUNDS = (1, 8, 40)
#: A version of QNN that is unpacked beside the installed one; see docs/reference/qnn-libraries.md.
NEWEST = "2.51"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    url = f"sqlite:///{tmp_path / 'opdb.db'}"
    migrate.upgrade(url)
    made = Store(url)
    made.sync(ROOT / "specs")
    return made


def reported(backend: str, libraries: Libraries) -> set[str]:
    """The names that a client can use."""
    with VendorWorker(backend, "SM8650" if backend == "HTP" else None, libraries=libraries.folder) as worker:
        return {op for op in worker.supported_operations() if not op.endswith(INTERNAL)}


def counted(
    store: Store, libraries: Libraries, backend: str, ops: list[str], rounds: tuple[int, ...]
) -> dict[str, Row]:
    """The census of ``ops``: some good configs of each; every round runs more of the ops not executed yet."""
    catalog = store.load_catalog()
    for each in rounds:  # by the spec every fourth config is good, and all good ones are run
        rows = {r["op"]: r for r in ask(store, "census", Filters(backend=backend))}
        left = [op for op in ops if op not in rows or rows[op]["furthest"] != "executes"]
        if left:
            sweep(catalog, store, left, [backend], libraries=libraries, count=4 * each, execute=4)
    return {r["op"]: r for r in ask(store, "census", Filters(backend=backend))}


def with_spec(store: Store, libraries: Libraries, backend: str) -> list[str]:
    """The ops to count: all except WITHOUT_SPEC; each has a part for the backend in its spec."""
    ops, specs = reported(backend, libraries), store.load_catalog().ops
    assert {op for op in ops if op not in specs} == set(WITHOUT_SPEC[backend])
    assert [op for op in ops if op in specs and backend not in specs[op].backends] == []
    return sorted(ops & set(specs))


@pytest.mark.breadth
@pytest.mark.parametrize("backend", SHORT_OF)
def test_every_op_has_an_accepted_config(backend: str, store: Store, libraries: Libraries) -> None:
    """Uses the first sample of each spec in the first type row; all but a few are executed, too."""
    ops = with_spec(store, libraries, backend)
    rows = counted(store, libraries, backend, ops, rounds=(1,))
    assert set(rows) == set(ops)
    assert [op for op, row in rows.items() if not row["validates"] or not row["config"]] == []
    done = {op for op, row in rows.items() if row["furthest"] == "executes"}
    assert done & set(SHORT_OF[backend]) == set()
    assert len(done) >= 0.8 * len(ops)


def comes_as_far(
    backend: str, store: Store, libraries: Libraries, more: Mapping[str, tuple[str, str]] = {}
) -> None:
    """``more``: ops on which only this library stops early."""
    rows = counted(store, libraries, backend, with_spec(store, libraries, backend), ROUNDS)
    short = {op: row["furthest"] for op, row in rows.items() if row["furthest"] != "executes"}
    assert short == {op: stage for op, (stage, _) in {**SHORT_OF[backend], **more}.items()}


@pytest.mark.sweep
@pytest.mark.parametrize("backend", SHORT_OF)
def test_every_op_reaches_its_expected_stage(backend: str, store: Store, libraries: Libraries) -> None:
    comes_as_far(backend, store, libraries)


@pytest.mark.sweep
def test_every_op_of_the_newest_library_reaches_its_stage(store: Store) -> None:
    try:
        newest = find(NEWEST)
    except OpdbError as error:
        pytest.skip(str(error))
    comes_as_far(
        "HTP", store, newest, {"GroupQueryAttention": ("validates", "1002 when the graph is finalized")}
    )


@pytest.mark.parametrize("backend", WITHOUT_SPEC)
def test_ops_without_a_spec_are_unknown_to_the_validator(backend: str, libraries: Libraries) -> None:
    """A name that the validator knows would need a spec."""
    with VendorWorker(backend, "SM8650" if backend == "HTP" else None, libraries=libraries.folder) as worker:
        for op in WITHOUT_SPEC[backend]:
            assert worker.validate(OpConfig(op)).code == 4005
