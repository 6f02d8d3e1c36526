"""The folder of an op package: its files, refusals, and reproducible builds."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from opdb.catalog.store import read_catalog
from opdb.codegen import c_sources, package_folder, packages
from opdb.core.c_compiler import compiler_command
from opdb.core.errors import OpdbError, SpecError
from opdb.execute.packages import package
from opdb.execute.packages.package import PackageFolder
from opdb.spec.catalog import Catalog

from .conftest import MIX

pytestmark = pytest.mark.slow


def with_op(folder: Path, text: str) -> Catalog:
    (folder / "ops").mkdir(parents=True, exist_ok=True)
    name = text.split("op: ")[1].split("\n")[0]
    (folder / "ops" / f"{name}.yaml").write_text(text)
    (folder / "backends").mkdir(exist_ok=True)
    cpu = "backend: CPU\nabout: the CPU\nletter: P\nop_packages: {by: opdb, made: C, types: [i8, i32, u8, u32, f32, bool8, uq8]}\n"
    (folder / "backends" / "CPU.yaml").write_text(cpu)
    (folder / "backends" / "HTP.yaml").write_text("backend: HTP\nabout: the HTP\nletter: H\n")
    return read_catalog(folder)


@pytest.mark.native
def test_the_library_exports_only_the_provider(custom: PackageFolder) -> None:
    done = subprocess.run(
        ["nm", "-D", "--defined-only", custom.library], capture_output=True, text=True, check=True
    )
    assert [line.split()[-1] for line in done.stdout.splitlines()] == ["OpdbCustomInterfaceProvider"]


@pytest.mark.native
def test_builds_are_reproducible_in_any_folder_and_with_make(
    custom: PackageFolder, catalog: Catalog, tmp_path: Path
) -> None:
    again = package.write(catalog, ["DequantizeAdd"], tmp_path / "elsewhere")
    built = package.build(again).read_bytes()
    assert built == custom.library.read_bytes()
    again.library.unlink()
    subprocess.run(["make", "-s", "-C", again.folder, "CC=gcc"], check=True)
    if compiler_command()[0].endswith("gcc"):
        assert again.library.read_bytes() == built


def test_the_package_has_only_the_ops_files(custom: PackageFolder) -> None:
    assert {p for p in custom.files if p.startswith("src/kernels/")} == {
        "src/kernels/dequantize_add.c",
        "src/kernels/kernel.h",
    }
    ops = (custom.folder / "include/opdb/ops.h").read_text()
    assert "opdb_validate_DequantizeAdd(" in ops and "opdb_validate_Relu(" not in ops


@pytest.mark.native
def test_qnn_ops_can_be_packed_under_another_name(catalog: Catalog, tmp_path: Path) -> None:
    """The package has the helpers that their kernels include, and a file that also has kernels of other ops."""
    made = package.write(catalog, ["GroupNorm", "MatMul", "Softmax"], tmp_path, package="Mine")
    assert made.package == "Mine" and made.ops == ("GroupNorm", "MatMul", "Softmax")
    package.build(made)
    assert made.library.name == "libQnnMine.so"
    assert '"GroupNorm", "MatMul", "Softmax"' in " ".join((tmp_path / "src/Mine.c").read_text().split())


def test_helpers_of_kernels_are_included() -> None:
    known = {"a.c": '#include "b.h"\n', "b.h": '#include "c.h"\n', "b.c": "", "c.h": "", "d.c": ""}
    assert c_sources.included(["a.c"], known) == {"a.c", "b.h", "b.c", "c.h"}


def test_changed_files_are_not_overwritten(catalog: Catalog, tmp_path: Path) -> None:
    made = package.write(catalog, ["DequantizeAdd"], tmp_path)
    package.write(catalog, ["DequantizeAdd"], tmp_path)
    kernel = tmp_path / "src/kernels/dequantize_add.c"
    kernel.write_text("/* mine */\n")
    before = (tmp_path / package.MANIFEST).read_bytes()
    with pytest.raises(OpdbError, match=r"dequantize_add\.c: changed since opdb wrote it.*--force"):
        package.write(catalog, ["DequantizeAdd"], tmp_path)
    assert kernel.read_text() == "/* mine */\n" and (tmp_path / package.MANIFEST).read_bytes() == before
    package.write(catalog, ["DequantizeAdd"], tmp_path, force=True)
    assert "opdb_dequantize_add" in kernel.read_text()
    assert sorted(json.loads(before)["files"]) == sorted(made.files)


def test_a_foreign_folder_is_not_changed(catalog: Catalog, tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("all:\n")
    with pytest.raises(OpdbError, match="Makefile: changed since opdb wrote it, or not opdb's"):
        package.write(catalog, ["DequantizeAdd"], tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["Makefile"]
    (tmp_path / package.MANIFEST).write_text("[]")
    with pytest.raises(OpdbError, match="cannot be read; choose another folder"):
        package.write(catalog, ["DequantizeAdd"], tmp_path)


def test_obsolete_files_are_removed(catalog: Catalog, tmp_path: Path) -> None:
    package.write(catalog, ["Relu", "Softmax"], tmp_path, package="Mine")
    package.write(catalog, ["Relu"], tmp_path, package="Mine")
    assert not (tmp_path / "src/ops/concat.c").exists() and (tmp_path / "src/ops/relu.c").exists()


@pytest.mark.native
def test_a_kernel_that_does_not_compile_is_reported(mix_specs: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.c"
    bad.write_text("opdb_status opdb_mix(int x) { return x; }\n")
    made = package.write(read_catalog(mix_specs), ["Mix"], tmp_path / "out", kernels=[bad])
    with pytest.raises(OpdbError, match=r"the op package OpdbTest was not built: .*bad\.c:1:1: error"):
        package.build(made)
    assert list((tmp_path / "out" / "libs" / "cpu").iterdir()) == []


def test_a_missing_compiler_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler -O2")
    with pytest.raises(OpdbError, match="no C compiler: 'no-such-compiler' is not on PATH; install one"):
        compiler_command()


def test_ops_that_cannot_be_packed_are_rejected(catalog: Catalog, mix_specs: Path, tmp_path: Path) -> None:
    with pytest.raises(OpdbError, match=r"Relu: in QNN's own package qti\.aisw"):
        package_folder.folder(catalog, ["Relu"])
    with pytest.raises(OpdbError, match="in QNN's own package"):
        package_folder.folder(catalog, ["DequantizeAdd"], "qti.aisw")
    with pytest.raises(SpecError, match=r"package: 'a-b' must be a name in C"):
        package_folder.folder(catalog, ["DequantizeAdd"], "a-b")
    with pytest.raises(
        OpdbError, match=r"one package at a time: Relu \(qti\.aisw\), DequantizeAdd \(OpdbCustom\)"
    ):
        package_folder.folder(catalog, ["Relu", "DequantizeAdd"])
    with pytest.raises(OpdbError, match="Mix: no C file defines its kernel opdb_mix"):
        package_folder.folder(read_catalog(mix_specs), ["Mix"])
    with pytest.raises(OpdbError, match=r"none\.c: cannot read this kernel: No such file"):
        package_folder.folder(read_catalog(mix_specs), ["Mix"], kernels=[tmp_path / "none.c"])
    bare = with_op(tmp_path, "op: Bare\npackage: Mine\ninputs: {x: [S...]}\noutputs: {y: [S...]}\n")
    with pytest.raises(OpdbError, match=r"Bare\.yaml: kernel: the op has none"):
        package_folder.folder(bare, ["Bare"])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("package: OpdbTest", "package: my.package", "package: 'my.package' must be a name in C"),
        ("whole: i32", "whole: i64", "params.whole: i64: an op package takes a scalar of i8, i16"),
        ("list: u32[]", "list: i64[]", "params.list: i64: an op package takes a list of i8, i32"),
        (
            "kernel:",
            "backends:\n  CPU:\n    dtypes:\n      all:\n        - {x: [f32, i16], a: f32, b: f32, y: f32}\nkernel:",
            "backends.CPU.dtypes: CPU.all.1: x: QNN's CPU backend shows op packages no tensors of i16; it shows i8",
        ),
    ],
)
def test_specs_unsupported_by_packages_are_rejected(tmp_path: Path, old: str, new: str, message: str) -> None:
    """Generating anything from the specs reports it."""
    catalog = with_op(tmp_path, MIX.replace(old, new))
    with pytest.raises(SpecError) as caught:
        list(packages.c(catalog))
    assert f"specs/ops/Mix.yaml: {message}" in str(caught.value)


def test_the_generated_file_names_ops_without_a_kernel(tmp_path: Path) -> None:
    with_op(tmp_path, MIX)
    catalog = with_op(tmp_path, "op: Bare\npackage: OpdbTest\ninputs: {x: [S...]}\noutputs: {y: [S...]}\n")
    (artifact,) = packages.c(catalog)
    assert artifact.path == "generated/c/packages/OpdbTest.c"
    assert "Not included, for lack of a kernel: Bare." in artifact.text
    assert "opdb_run_Bare" not in artifact.text and "opdb_run_Mix" in artifact.text


def test_other_backends_are_refused_with_the_reason() -> None:
    for backend, words in (
        ("DSP", "Hexagon"),
        ("GPU", "Adreno"),
        ("XPU", "CPU and HTP have"),
    ):
        with pytest.raises(OpdbError, match=words):
            package.check_backend(backend)
