"""examples/llama: the 17 ops of mllm's LLaMAPackage as specs; ops with a kernel run in one HTP package."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opdb.author.own_ops import trials
from opdb.catalog.store import read_catalog
from opdb.execute.libraries.client import VendorWorker
from opdb.execute.packages import package
from opdb.judge.lint import lint
from opdb.spec.catalog import Catalog
from opdb.spec.paths import kernel_files

from .llama_references import REAL, STORED, reference

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[3] / "examples" / "llama"
WITHOUT = {"RoPE", "IRoPE", "KVCache", "WNop"}
SOC = "SM8650"
#: Lines of mllm's package, XML and C++, counted at mllm@b9c3070.
LINES_OF_MLLM = 10_505


@pytest.fixture(scope="module")
def llama() -> Catalog:
    return read_catalog(FOLDER)


def test_all_17_ops_have_specs(llama: Catalog) -> None:
    assert len(llama.ops) == 17 and {op.package for op in llama.ops.values()} == {"LLaMAPackage"}
    assert {n for n, op in llama.ops.items() if op.kernel is None} == WITHOUT
    assert {*REAL, *STORED} == llama.ops.keys() - WITHOUT
    assert lint(FOLDER) == []
    for name in WITHOUT:
        assert "\n# Without a kernel: " in (FOLDER / "ops" / f"{name}.yaml").read_text()


def test_the_specs_take_a_tenth_of_mllms_lines() -> None:
    files = [*FOLDER.glob("ops/*.yaml"), *kernel_files(FOLDER)]
    lines = sum(len(f.read_text().splitlines()) for f in files)
    assert 10 * lines <= LINES_OF_MLLM


@pytest.fixture(scope="module")
def worker(
    llama: Catalog, tmp_path_factory: pytest.TempPathFactory, libraries: object
) -> Iterator[VendorWorker]:
    ops = [n for n, op in llama.ops.items() if op.kernel is not None]
    made = package.write(
        llama, ops, tmp_path_factory.mktemp("llama"), kernels=kernel_files(FOLDER), backend="HTP"
    )
    with VendorWorker("HTP", SOC, op_packages=[package.build(made)]) as opened:
        yield opened


@pytest.mark.vendor
@pytest.mark.native
@pytest.mark.parametrize("op", [*REAL, *STORED])
def test_ops_on_htp_match_numpy(llama: Catalog, worker: VendorWorker, op: str) -> None:
    found = trials.run(llama, op, worker, SOC, reference)
    assert len(found) == len(llama.ops[op].samples) * len(llama.ops[op].kernel.dtypes)  # type: ignore[union-attr]
    assert [(t.name, t.text) for t in found if t.outcome != "right"] == []
