"""The generated tests of a kernel library, compiled with gtest and run: `make breadth`, with the older ExecuTorch."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from opdb.plugins.executorch import env
from opdb.plugins.executorch.codegen.glue import NoForm
from opdb.plugins.executorch.portable_kernels import kernels
from opdb.plugins.executorch.portable_kernels.out_variants import Kernels
from opdb.spec.catalog import Catalog

pytestmark = [
    pytest.mark.executorch,
    pytest.mark.gtest,
    pytest.mark.breadth,
    pytest.mark.skipif("OPDB_TEST_GTEST" not in os.environ, reason="tools/with-gtest sets it"),
    pytest.mark.slow,
]
#: Floats; floats and whole numbers; a constant in temporary memory; a list of tensors of any type, bytes too; two
#: results; an op of quantized tensors, which the runtime does not have.
WORDS = ["aten::gelu.out", "aten::add.out", "aten::mul.Scalar_out", "Concat", "TopK", "Quantize"]
#: The header of ExecuTorch that the tests include, below the package.
FACTORY = "include/executorch/runtime/core/exec_aten/testing_util/tensor_factory.h"
#: Types that the library is restricted to.
HELD = {"aten::gelu.out": frozenset({"f32"})}


@dataclass(frozen=True)
class Ran:
    """A folder whose tests were run: the names of passed and failed tests."""

    folder: Path
    passed: frozenset[str]
    failed: frozenset[str]
    log: str


def need_factory() -> None:
    """Skips a test where ExecuTorch's wheel lacks the headers; the oldest release has them."""
    spec = find_spec("executorch")
    assert spec is not None and spec.submodule_search_locations is not None
    version = metadata.version("executorch").partition("+")[0]
    if not any(Path(p, FACTORY).exists() for p in spec.submodule_search_locations):
        assert version != env.RELEASES[0]
        pytest.skip(
            f"the wheel of executorch {version} has no {FACTORY}; make breadth runs it with {env.RELEASES[0]}"
        )


def run(folder: Path, timeout: int = 900) -> Ran:
    need_factory()
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    command = ["make", "test", f"PYTHON={sys.executable}", "MAKEFLAGS="]
    environment = os.environ | {"GTEST_OUTPUT": f"json:{report}"}
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=timeout, env=environment, check=False
    )
    assert report.exists(), done.stderr[-3000:]
    tests = [
        (f"{s['name']}.{t['name']}", t)
        for s in json.loads(report.read_text())["testsuites"]
        for t in s["testsuite"]
    ]
    failed = frozenset(name for name, t in tests if "failures" in t)
    assert (done.returncode == 0) == (not failed), done.stderr[-3000:]
    return Ran(folder, frozenset(name for name, _ in tests) - failed, failed, done.stdout + done.stderr)


@pytest.fixture(scope="module")
def written(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a library that is not compiled."""
    known = Kernels(catalog)
    chosen = kernels.select(known, WORDS)
    narrowed = replace(chosen, dtypes={**chosen.dtypes, **HELD})
    folder = tmp_path_factory.mktemp("gtest") / "library"
    return kernels.write(known, narrowed, folder).folder


@pytest.fixture(scope="module")
def ran(written: Path, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return run(shutil.copytree(written, tmp_path_factory.mktemp("ran") / "library"))


def test_the_generated_tests_pass(ran: Ran) -> None:
    assert not ran.failed, ran.log[-4000:]
    assert len(ran.passed) > 100
    assert {name.split(".")[0] for name in ran.passed} == {
        "OpGeluOutTest", "OpAddOutTest", "OpMulScalarOutTest", "OpQnnConcatOutTest", "OpQnnTopkOutTest",
        "OpQnnQuantizeOutTest",
    }  # fmt: skip


def test_each_type_and_refusal_has_a_test(ran: Ran) -> None:
    assert {"OpGeluOutTest.Float", "OpGeluOutTest.DoubleIsRefused", "OpAddOutTest.Long", "OpAddOutTest.BoolIsRefused",
            "OpMulScalarOutTest.UInt16", "OpQnnConcatOutTest.Byte", "OpQnnTopkOutTest.BFloat16",
            "OpQnnQuantizeOutTest.ByteIsRefused",
            "OpGeluOutTest.DynamicShapeUpperBoundLargerThanExpected",
            "OpGeluOutTest.MismatchedShapeOfTheResultIsRefused"} <= ran.passed  # fmt: skip


def test_excluded_types_are_overrides_checked_by_the_tests(ran: Ran) -> None:
    every = yaml.safe_load((ran.folder / "test/supported_features.yaml").read_text())
    own = {e["namespace"]: e for e in every}
    assert own["op_gelu_out"]["dtype_half"] == {
        "type": "bool", "default": True, "docstring": "True if the kernel of aten::gelu.out takes Half",
    }  # fmt: skip
    assert own["op_gelu_out"]["dtype_double"]["default"] is False
    assert own["global"]["is_aten"]["default"] is False
    overrides = yaml.safe_load((ran.folder / "test/supported_features_def.yaml").read_text())
    assert overrides == [{"namespace": "op_gelu_out", "dtype_half": False, "dtype_bfloat16": False}]
    assert "OpGeluOutTest.Half" in ran.passed
    assert re.search(r"aten::gelu\.out: Gelu: this library has no kernel for these data types", ran.log)


def wrong_number(folder: Path) -> str:
    return edited(folder / "src/kernels/gelu.c", "= real_geluf(x)", "= real_geluf(x) * 1.0001f")


def wrong_op(folder: Path) -> str:
    return edited(folder / "src/executorch/op_add_out.cpp", "call.input(other);", "call.input(self_);")


def types_that_it_does_not_have(folder: Path) -> str:
    return edited(
        folder / "test/supported_features.cpp",
        "op_gelu_out_dtype_half = false",
        "op_gelu_out_dtype_half = true",
    )


def nothing_refused(folder: Path) -> str:
    return edited(folder / "src/executorch/op_call.cpp", "context_.fail(error);", "")


def edited(file: Path, old: str, new: str) -> str:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    return file.name


@pytest.mark.parametrize(
    ("damage", "failing"),
    [
        (wrong_number, {"OpGeluOutTest.Float", "OpGeluOutTest.FloatCase2"}),
        (wrong_op, {"OpAddOutTest.Float", "OpAddOutTest.Byte", "OpAddOutTest.Long"}),
        (types_that_it_does_not_have, {"OpGeluOutTest.Half"}),
        (nothing_refused, {"OpGeluOutTest.MismatchedShapeOfTheResultIsRefused", "OpGeluOutTest.Half"}),
    ],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_damaged_kernels_fail_their_tests(
    ran: Ran, tmp_path: Path, damage: Callable[[Path], str], failing: set[str]
) -> None:
    folder = shutil.copytree(ran.folder, tmp_path / "library")
    damage(folder)
    broken = run(folder)
    assert failing <= broken.failed
    assert "OpQnnConcatOutTest.Float" in broken.passed


def make_test(folder: Path, *variables: str) -> list[str]:
    """What `make test` says, line by line, where something is missing."""
    done = subprocess.run(
        ["make", "test", f"PYTHON={sys.executable}", *variables],
        cwd=folder, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode != 0 and "op_tests" not in done.stdout
    return done.stderr.splitlines()


def test_make_names_the_missing_gtest_packages(written: Path, tmp_path: Path) -> None:
    compiler = tmp_path / "none-c++"
    compiler.write_text("#!/bin/sh\nexit 1\n")
    compiler.chmod(0o755)
    said, end = make_test(written, f"CXX={compiler}")
    assert said == (
        f"make: no gtest and gmock for {compiler}; install them (Debian: apt-get install libgtest-dev libgmock-dev)"
    )
    assert end.startswith("make: *** [")


def test_make_names_the_missing_headers_of_executorch(written: Path, tmp_path: Path) -> None:
    said, end = make_test(written, f"EXECUTORCH={tmp_path}")
    assert said == (
        "make: the tests include executorch/runtime/core/exec_aten/testing_util/tensor_factory.h, which this ExecuTorch does not "
        "have; take 1.4.1, whose wheel has it: make test PYTHON=/its/bin/python"
    )
    assert end.startswith("make: *** [")


@pytest.mark.sweep
def test_the_tests_of_every_kernel_pass(catalog: Catalog, tmp_path: Path) -> None:
    known = Kernels(catalog)
    names = []
    for variant in known.every():
        with contextlib.suppress(NoForm):
            known.forms(variant)
            names.append(variant.name)
    done = run(kernels.write(known, kernels.select(known, names), tmp_path / "library").folder, timeout=7200)
    assert not done.failed, done.log[-4000:]
    assert len({name.split(".")[0] for name in done.passed}) == len(names) > 200
