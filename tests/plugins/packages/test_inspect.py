"""opdb package inspect: real package files, and invalid files."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from opdb.core.errors import OpdbError
from opdb.execute.packages import elf, package
from opdb.execute.packages.check import ask
from opdb.execute.packages.package import PackageFolder
from opdb.plugins.packages import ort_package
from opdb.runtime.qnn import libraries
from opdb.spec.catalog import Catalog

pytestmark = pytest.mark.slow


def library(made: PackageFolder) -> Path:
    return package.build(made)


def test_a_cpu_package_is_recognized(custom: PackageFolder) -> None:
    found = elf.read(library(custom))
    assert (found.kind, found.bits, found.machine) == ("QNN package for CPU", 64, "x86-64")
    assert found.providers == ("OpdbCustomInterfaceProvider",) and "libQnnHtp.so" not in found.needs
    assert found.loadable


def test_an_htp_package_is_recognized(custom_htp: PackageFolder) -> None:
    found = elf.read(library(custom_htp))
    assert (found.kind, found.providers) == ("QNN package for HTP (QHPI)", ("OpdbCustomInterfaceProvider",))
    assert "libQnnHtp.so" in found.needs


@pytest.mark.vendor
def test_qnn_lists_the_ops(custom: PackageFolder, mix: PackageFolder) -> None:
    if not any("CPU" in one.present for one in libraries.discover()):
        pytest.skip("no QNN library for CPU")
    for made, ops in ((custom, ("DequantizeAdd",)), (mix, ("Mix",))):
        built = library(made)
        loaded = ask(built, elf.read(built), "SM8650")
        assert (loaded.ops, loaded.why) == (ops, "") and loaded.by.startswith("QNN 2.47")


@pytest.mark.vendor
def test_a_renamed_file_is_reported(custom: PackageFolder, tmp_path: Path) -> None:
    other = shutil.copy(library(custom), tmp_path / "libmine.so")
    loaded = ask(other, elf.read(other), "SM8650")
    assert not loaded.ops and "mineInterfaceProvider" in loaded.why


def test_onnx_runtime_custom_ops_are_recognized(catalog: Catalog, tmp_path: Path) -> None:
    root, _ = ort_package.write(catalog, ["DequantizeAdd"], "opdb", tmp_path / "ort", domain="com.opdb")
    found = elf.read(ort_package.build(root, "opdb"))
    assert found.kind == "custom ops of ONNX Runtime" and "RegisterCustomOps" in found.exports


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("int customOpSelectImpl(void) { return 0; }", "functions library of Cloud AI"),
        ("int SnpeUdo_getRegInfo(void) { return 0; }", "registration library of SNPE (UDO)"),
        ("int _ZN4hnnx3addEv(void); int MineInterfaceProvider(void) { return _ZN4hnnx3addEv(); }",
         "QNN package for HTP (C++)"),
        ("static int customOpSelectImpl(void) { return 0; } int f(void) { return customOpSelectImpl(); }",
         "no library of custom ops that opdb knows"),
    ],
)  # fmt: skip
def test_the_kind_follows_from_the_symbols(source: str, kind: str, tmp_path: Path) -> None:
    assert elf.read(compiled(tmp_path, source, "-shared")).kind == kind


def test_a_hexagon_file_is_read_but_not_loaded(custom: PackageFolder, tmp_path: Path) -> None:
    """The header of Hexagon v73 before the tables of a file for this machine."""
    content = bytearray(library(custom).read_bytes())
    struct.pack_into("<H", content, 18, 164)  # e_machine: EM_HEXAGON
    struct.pack_into("<I", content, 48, 0x73)  # e_flags of ELF64
    other = tmp_path / "libQnnOpdbCustom.so"
    other.write_bytes(content)
    found = elf.read(other)
    assert (found.machine, found.loadable) == ("Hexagon v73", False)
    assert ask(other, found, "SM8650").why == "only a Hexagon v73 machine can load it"


def test_files_that_are_not_shared_libraries_are_rejected(tmp_path: Path, custom: PackageFolder) -> None:
    text, cut, empty = tmp_path / "a.so", tmp_path / "cut.so", tmp_path / "empty.so"
    text.write_text("hello")
    empty.write_bytes(b"")
    for path in (text, empty):
        with pytest.raises(OpdbError, match=rf"{path.name}: not a shared library in ELF"):
            elf.read(path)
    whole = library(custom).read_bytes()
    for size in (*range(4, 64, 5), *range(64, len(whole), len(whole) // 60)):
        cut.write_bytes(whole[:size])
        with pytest.raises(OpdbError, match=r"cut\.so: "):
            elf.read(cut)
    with pytest.raises(OpdbError, match=r"ET_REL, no shared library; link it with -shared"):
        elf.read(compiled(tmp_path, "int f(void) { return 0; }", "-c"))
    with pytest.raises(OpdbError, match=r"none\.so: there is no such file; `opdb package qnn"):
        elf.read(tmp_path / "none.so")


def test_the_command_prints_text_and_json(custom: PackageFolder) -> None:
    built = str(library(custom))
    lines = said(built).splitlines()
    assert (
        lines[0] == "libQnnOpdbCustom.so: QNN package for CPU"
        and lines[-1] == "ops       not asked: --no-load"
    )
    found = json.loads(said(built, "--json"))
    assert found["providers"] == ["OpdbCustomInterfaceProvider"] and found["loaded"]["why"] == "--no-load"


def said(*arguments: str) -> str:
    command = [sys.executable, "-m", "opdb", "package", "inspect", "--no-load", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def compiled(folder: Path, source: str, *options: str) -> Path:
    (folder / "made.c").write_text(source)
    made = folder / "made.so"
    subprocess.run(["gcc", "-fPIC", *options, "-o", str(made), str(folder / "made.c")], check=True)
    return made
