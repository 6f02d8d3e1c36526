"""opdb aic check on whole packages: correct ones have no findings; each fault of public packages, and each planted one, has its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from opdb.core.errors import OpdbError
from opdb.plugins.cloud_ai import aic_package
from opdb.plugins.cloud_ai.check import host
from opdb.plugins.cloud_ai.check.check import Checked, Tried, check
from opdb.plugins.cloud_ai.check.trials import Asked
from opdb.plugins.cloud_ai.codegen.aic import Choice
from opdb.spec.catalog import Catalog

from .packages import SHARE_AIC, SHARE_FUNCTIONS, SHARE_YAML, first, gelu, host_only, norm, share, write

pytestmark = pytest.mark.slow


def ids(done: Checked) -> set[str]:
    return {f.id for f in done.findings}


def found(done: Checked, id_: str) -> str:
    """The only finding with this id, as printed."""
    (one,) = [f for f in done.findings if f.id == id_]
    return str(one)


def replaced(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)


def test_a_correct_package_has_no_findings(tmp_path: Path) -> None:
    done = check(share(tmp_path), Asked())
    assert done.findings == ()
    assert done.ops["Share"] == Tried("1.17", 3, ("ShareInterpreter", "ShareAIC"))


def test_the_first_format_without_sources_is_checked(tmp_path: Path) -> None:
    """Each op has its own document; the strings that verify compares a parameter with are discovered."""
    done = check(first(tmp_path), Asked())
    assert done.findings == ()
    assert {op: t.kernels for op, t in done.ops.items()} == {"Reverse": ("reverse",), "Add": ("add",)}


def test_faults_of_a_public_norm_are_found(tmp_path: Path) -> None:
    """The faults of the norm of quic/efficient-transformers: small files of its structure, interface 5.0.0."""
    done = check(norm(tmp_path), Asked())
    assert ids(done) == {"verify-name", "select-unknown", "no-return", "unwritten", "path"}
    assert "verify asks for a parameter epsilon; the YAML calls it eps; renamed, verify is true" in found(
        done, "verify-name"
    )
    assert f"{tmp_path}/op.yaml:14: error" in found(done, "verify-name")
    assert "'CustomReluInterpreter' for Interpreter, which has no implementation" in found(
        done, "select-unknown"
    )
    assert f"{tmp_path}/CustomNorm/src/norm_functions.cpp:22: error" in found(done, "no-return")
    assert "64 of 96 elements of y unwritten" in found(done, "unwritten")
    assert "it computes only the first of dimension 0, the batch" in found(done, "unwritten")
    assert "CustomNorm/src/norm_lib.so" in found(done, "path")


def test_unfinished_generator_output_is_reported(tmp_path: Path) -> None:
    """Interface 1.21: a placeholder version, a library of another name, empty functions and kernels."""
    done = check(gelu(tmp_path), Asked())
    assert ids(done) == {"yaml-version", "path", "stub", "select-nothing"}
    assert "customop_lib.so, which is there" in found(done, "path")
    said = [f.message for f in done.findings]
    assert "CustomGeluAIC is empty" in said and "CustomGeluInterpreter is empty" in said
    assert "customOpInferShape is always false" in said
    assert sum("select names no kernel" in s for s in said) == 2


def test_an_sdk_library_without_sources_is_read_but_not_called(tmp_path: Path) -> None:
    """Its layouts are not public, and the report says that it was not called; faults in the YAML and the kernel are still found."""
    folder = gelu(tmp_path) / "CustomGelu" / "src"
    (folder / "customop_lib.so").rename(folder / "customgelu_lib.so")
    for name in ("functions", "interpreter"):
        (folder / f"customgelu_{name}.cpp").unlink()
    done = check(tmp_path, Asked())
    assert ids(done) == {"yaml-version", "stub", "not-run"}
    assert done.ops["CustomGelu"] == Tried("1.21", 0, ())
    assert [f.id for f in done.findings][-2:] == ["not-run", "not-run"]


#: Replacement in the AIC kernel -> the findings, the line of the first, its words.
KERNEL_FAULTS = {
    "no barrier": ("    ctx->syncThread(threadID);\n", "", {"race", "depends"}, "share_aic.c:17: error: Share: ShareAIC has a data race"),
    "a barrier for three": (
        "    ctx->syncThread(threadID);\n", "    if (threadID != 3)\n        ctx->syncThread(threadID);\n",
        {"barrier", "race", "depends"}, "calls syncThread 0: 1, 1: 1, 2: 1, 3: 0 times by thread",
    ),
    "every thread computes all": (  # the same, so that no result shows it
        "i = begin; i < end; i++)\n        y[i]", "i = 0; i < n; i++)\n        y[i]",
        {"race"}, "share_aic.c:21: error: Share: ShareAIC has a data race",
    ),
    "another thread's id": ("syncThread(threadID)", "syncThread(0)", {"barrier"}, "the id of another thread"),
    "a rest is left": ("(n + 3) / 4", "n / 4", {"unwritten"}, "2 of 210 elements of y unwritten"),
    "behind the end": ("begin + part < n ? begin + part : n", "begin + part", {"out-of-bounds", "differs"}, "0 bytes behind the end of y"),
    "what scratch held": ("sums[threadID] = sum", "sums[threadID] += sum", {"depends"}, "held before"),
    "an input is written": ("= x[i] / all", "= ((float *)inputs[0].data)[i] /= all", {"input-changed"}, "writes to its input x"),
    "a thread is forgotten": (" + sums[3]", "", {"differs"}, "and ShareInterpreter"),
    "a shift by too much": ("float sum = 0;", "float sum = 1 << (threadID + 32);", {"undefined", "differs"}, "share_aic.c:14: error"),
}  # fmt: skip


@pytest.mark.parametrize("name", KERNEL_FAULTS)
def test_planted_kernel_faults_are_found(name: str, tmp_path: Path) -> None:
    old, new, wanted, said = KERNEL_FAULTS[name]
    done = check(share(tmp_path, aic=replaced(SHARE_AIC, old, new)), Asked())
    assert wanted >= ids(done) and done.errors
    assert any(said in str(f) for f in done.findings)


def test_a_too_small_scratch_buffer_is_found(tmp_path: Path) -> None:
    done = check(share(tmp_path, yaml=replaced(SHARE_YAML, "size: 16", "size: 12")), Asked())
    assert ids(done) == {"out-of-bounds"}
    assert "0 bytes behind the end of sums" in found(done, "out-of-bounds")


def test_an_endless_kernel_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "SECONDS", 2.0)
    endless = replaced(
        SHARE_AIC,
        "sums[threadID] = sum",
        "while (sum < 1e9f)\n        ((volatile float *)sums)[threadID] = 0",
    )
    assert "did not come back" in found(check(share(tmp_path, aic=endless), Asked()), "hang")


#: Replacement in verify, infer or select -> the finding, its words.
FUNCTION_FAULTS = {
    "a stale name": ('"ShareInterpreter" : NULL', '"ShareCpu" : NULL', "select-unknown", "select names 'ShareCpu' for Interpreter"),
    "nothing": ('"ShareInterpreter" : NULL', "NULL : NULL", "select-nothing", "the YAML has ShareInterpreter"),
    "no string": ('return "ShareAIC"', "return *(char **)8", "crash", "customOpSelectImpl crashed (SIGSEGV)"),
    "verify crashes": (
        "return inputs[0].dtype ==", "return inputs[0].dims[1 << 24] && inputs[0].dtype ==", "crash",
        "customOpVerify crashed (SIGSEGV) with x [2, 3, 4, 8] float, eps = 0.001",
    ),
    "a rank above maxDims": (
        "outputs[0].rank = inputs[0].rank", "outputs[0].rank = inputs[0].rank + 1", "infer-output", "maxDims is 4",
    ),
    "dims are not set": (
        "memcpy(outputs[0].dims,", "(void)(outputs[0].dims,", "infer-output", "gets the shape [0, 0, 0, 0]",
    ),
    "verify is false": ("return inputs[0].dtype == DTFloat32 &&", "return inputs[0].dtype == DTBool &&", "verify-never", "--shape INPUT"),
    "a parameter that is not there": (
        "numParams != 1 ||", 'numParams != 1 || strcmp(params[0].name, "axis") == 0 ||', "", "",
    ),
    "another name": ('"eps") != 0', '"epsilon") != 0', "verify-name", "renamed, verify is true"),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTION_FAULTS)
def test_planted_function_faults_are_found(name: str, tmp_path: Path) -> None:
    """The library has no source, so only calls can find them."""
    old, new, wanted, said = FUNCTION_FAULTS[name]
    done = check(host_only(tmp_path, replaced(SHARE_FUNCTIONS, old, new)), Asked())
    assert ids(done) == ({wanted} if wanted else set())
    assert all(said in str(f) for f in done.findings)


def test_given_samples_are_used(tmp_path: Path) -> None:
    """A sample given by the user must be accepted, and its size counts."""
    yaml = replaced(SHARE_YAML, "requiredFor: [sums]", "requiredFor: [sums, x]").replace(
        "size: 16", "size: 8388600"
    )
    done = check(share(tmp_path / "a", yaml=yaml), Asked({"x": (2, 3, 8)}, {"eps": (0.5,)}))
    assert ids(done) == {"memory-required"}
    assert "8,388,696 bytes in VTCM (sums 8,388,600 + x 96), which has 8,388,608" in found(
        done, "memory-required"
    )
    strict = replaced(
        SHARE_FUNCTIONS, "return inputs[0].dtype ==", "return inputs[0].rank == 1 && inputs[0].dtype =="
    )
    done = check(host_only(tmp_path / "b", strict), Asked({"x": (2, 3)}))
    assert ids(done) == {"verify-refuses"}
    for wrong in (Asked({"z": (1,)}), Asked({"x": (1,) * 5}), Asked(values={"mode": (1.0,)})):
        with pytest.raises(OpdbError, match=r"--(shape|param) "):
            check(tmp_path / "b", wrong)


@pytest.mark.parametrize("api", ["1.17", "5.0.0", "1.21"])
def test_generated_packages_have_no_findings(api: str, catalog: Catalog, tmp_path: Path) -> None:
    """Calls all libraries and both kernels of a package of each interface."""
    made = aic_package.write(catalog, ["DequantizeAdd"], Choice(api), tmp_path / "made")
    aic_package.build(made)
    done = check(made.folder, Asked())
    assert done.findings == ()
    assert done.ops["DequantizeAdd"].interface == api
    assert done.ops["DequantizeAdd"].kernels == ("DequantizeAddInterpreter", "DequantizeAddAIC")


def test_invalid_libraries_are_reported(tmp_path: Path) -> None:
    write(tmp_path, {"op.yaml": SHARE_YAML, "lib/share.so": "no library", "src/share_aic.c": SHARE_AIC})
    done = check(tmp_path, Asked())
    assert ids(done) == {"library-load"}
    (tmp_path / "lib" / "share.so").unlink()
    write(tmp_path / "src", {"empty.c": "int nothing;\n"})
    subprocess.run(["gcc", "-shared", "-fPIC", "src/empty.c", "-o", "lib/share.so"], cwd=tmp_path, check=True)
    done = check(tmp_path, Asked())
    assert ids(done) == {"library-symbol", "kernel-symbol"}
    assert "customOpVerify, customOpInferShape, customOpSelectImpl" in found(done, "library-symbol")


def opdb(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "opdb", "aic", "check", *args]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_the_command_prints_findings(tmp_path: Path) -> None:
    host_only(tmp_path / "right", SHARE_FUNCTIONS)
    done = opdb("right", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        done.stdout
        == "Share: interface 1.17, 3 samples, kernels run: ShareInterpreter\n0 errors, 0 warnings\n"
    )
    host_only(tmp_path / "wrong", replaced(SHARE_FUNCTIONS, '"eps") != 0', '"epsilon") != 0'))
    done = opdb("wrong/op.yaml", "--json", cwd=tmp_path)
    answer = json.loads(done.stdout)
    assert done.returncode == 1 and answer["errors"] == 1 and answer["ops"]["Share"]["samples"] == 3
    (one,) = answer["findings"]
    assert one == {
        "id": "verify-name",
        "severity": "error",
        "file": "wrong/op.yaml",
        "line": 10,
        "op": "Share",
        "message": "verify asks for a parameter epsilon; the YAML calls it eps; renamed, verify is true",
        "cure": "use one name in both: epsilon, or eps",
    }


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["nowhere"], "there is no such file or folder"),
        (["empty"], "no YAML with CustomOps"),
        (["bad.yaml"], "bad.yaml:2:1: not YAML"),
        (["op.yaml", "--op", "Other"], "--op Other: op.yaml has Share"),
        (["op.yaml", "--api", "2"], "--api 2: one of 1.17, 5.0.0, 1.21"),
        (["op.yaml", "--shape", "x"], "--shape x: write --shape NAME="),
        (["op.yaml", "--shape", "x=2,a"], "write whole numbers"),
    ],
)
def test_bad_arguments_are_rejected(args: list[str], said: str, tmp_path: Path) -> None:
    write(tmp_path, {"bad.yaml": "a: [\n", "op.yaml": SHARE_YAML})
    (tmp_path / "empty").mkdir()
    done = opdb(*args, cwd=tmp_path)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr
