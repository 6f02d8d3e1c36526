"""The files of custom-op packages of Cloud AI: configuration, libraries, the source for the card, build files."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from opdb.catalog.store import read_catalog
from opdb.core.errors import OpdbError
from opdb.plugins.cloud_ai import aic_package, conformance, importer
from opdb.plugins.cloud_ai.codegen import aic
from opdb.spec.catalog import Catalog

pytestmark = [pytest.mark.native, pytest.mark.slow]
STACK = 12288


def test_the_configuration_can_be_read(aic_made: tuple[str, Path], aic_real: Path) -> None:
    """C10 to C19, C29, C30."""
    (collection,) = importer.read(aic_real / "custom_op_config.yaml")
    assert [op.name for op in collection.ops] == [
        "DequantizeAdd",
        "MatMul",
        "Softmax",
    ] and collection.domain == "com.opdb"
    text = (aic_made[1] / "custom_op_config.yaml").read_text()
    assert f"version: {aic.VERSIONS[aic_made[0]]}\n" in text and ("\n    name: Mix\n" in text) == (
        aic_made[0] == "1.17"
    )
    entry = conformance.entries(aic_made[1])["Mix"]
    assert entry.inputs == (("x", 5), ("a", 5), ("b", 5)) and entry.outputs == (("y", 5),)
    assert "      - name: mode\n        dataType: int # 1 ONE, 2 TWO\n        scalar: true\n" in text
    assert (
        "      - name: flag\n        dataType: bool\n" in text
        and "      - name: list\n        dataType: int\n        scalar: false\n" in text
    )
    assert "VTCM: [opdb_node, x, a, b, y]\n          requiredFor: [opdb_node]\n" in text
    assert "compilerArgs: -std=c11 -O3 -ffp-contract=off" in text
    assert entry.functions.exists() and all(path.exists() for _, path in entry.kernels.values())


def test_libraries_export_exactly_the_interface(aic_made: tuple[str, Path]) -> None:
    def symbols(path: Path) -> set[str]:
        done = subprocess.run(
            ["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True
        )
        return {line.split()[-1] for line in done.stdout.splitlines() if not line.split()[-1].startswith("_")}

    api, folder = aic_made
    functions = {"customOpVerify", "customOpInferShape", "customOpSelectImpl", "customOpMapTiles"}
    functions |= {"customOpSetTileConfig"} if api == "1.17" else {"customOpSetProperties"}
    functions |= {"customOpDeallocateMemory"} if api == "1.21" else set()
    assert symbols(folder / aic.functions_library("Mix")) == functions
    assert symbols(folder / aic.interpreter_library("opdb")) == {"MixInterpreter", "BlurInterpreter"}
    assert symbols(folder / aic.card_library("Blur")) == {"BlurAIC"}


def test_the_card_source_is_self_contained_and_within_limits(aic_real: Path) -> None:
    """C24, C37: it includes no file of the package, allocates nothing, and its deepest calls fit in the stack."""
    for op in ("DequantizeAdd", "MatMul", "Softmax"):
        file = aic_real / aic.source(op, "aic.c")
        text = re.sub(r"/\*.*?\*/", "", file.read_text(), flags=re.DOTALL)
        assert not re.search(r'#include "(?!CustomOp)', text)
        assert not re.search(r"\b(malloc|calloc|realloc|free|fopen|printf|pthread_\w+|alloca)\s*\(", text)
        command = [
            "gcc",
            "-std=c11",
            "-O2",
            "-Wvla",
            "-Werror",
            "-DOPDB_NO_CLONES",
            "-DOPDB_SMALL_STACK",
            f"-I{aic_real / 'include/cloud_ai'}",
        ]
        subprocess.run(
            [*command, "-fcallgraph-info=su", "-c", str(file), "-o", str(aic_real / f"{op}.o")], check=True
        )
        assert deepest((aic_real / f"{op}.ci").read_text(), f"{op}AIC") <= STACK


def deepest(graph: str, start: str) -> int:
    """The maximum bytes of stack used by direct calls from ``start`` on."""
    own = {
        m[1]: int(m[2]) for m in re.finditer(r'node: \{ title: "([^"]+)" label: "[^"]*?\\n(\d+) bytes', graph)
    }
    calls: dict[str, set[str]] = {}
    for m in re.finditer(r'edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"', graph):
        calls.setdefault(m[1], set()).add(m[2])

    def of(name: str) -> int:
        return own.get(name, 0) + max((of(n) for n in calls.get(name, ()) if n in own), default=0)

    return of(next(n for n in own if n.split(":")[-1] == start))


def test_messages_have_at_most_ten_specifiers(aic_real: Path, tmp_path: Path) -> None:
    """C32, C33."""

    def built(statement: str, *flags: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "log.c").write_text(
            f'#include "CustomOpLog.h"\nint main(void) {{ const void *ctx = 0; {statement}; return 0; }}\n'
        )
        command = [
            "gcc",
            "-std=c11",
            "-Wall",
            "-Werror",
            *flags,
            f"-I{aic_real / 'include/cloud_ai'}",
            "log.c",
            "-o",
            "log",
        ]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    ten = ", ".join(map(str, range(10)))
    assert "ten format specifiers at most" in built(f'AIC_PRINT_INFO(ctx, "{"%d" * 11}", {ten}, 10)').stderr
    statement = f'AIC_PRINT_INFO(ctx, "{"%d" * 10}", {ten}); AIC_PRINT_ERROR(ctx, "0x" AIC_LOG64X_FMT, AIC_LOG64_DATA(0x1122334455667788))'
    for level, said in (("INFO", "0123456789\n0x1122334455667788\n"), ("ERROR", "0x1122334455667788\n")):
        assert (
            built(statement, f"-DAIC_CUSTOMOP_LOG_COMPILE_LEVEL=AIC_CUSTOMOP_LOG_LEVEL_{level}").returncode
            == 0
        )
        assert subprocess.run([tmp_path / "log"], capture_output=True, text=True, check=True).stdout == said


def test_builds_are_reproducible_and_work_with_cmake(aic_specs: Path, tmp_path: Path) -> None:
    catalog, kernels = read_catalog(aic_specs), [aic_specs / "blur.c"]
    first = aic_package.write(catalog, ["Blur"], aic.Choice("5.0.0"), tmp_path / "a", kernels=kernels)
    again = aic_package.write(catalog, ["Blur"], aic.Choice("5.0.0"), tmp_path / "b", kernels=kernels)
    for made in (first, again):
        aic_package.build(made)
    for one, other in zip(first.libraries, again.libraries, strict=True):
        assert one.read_bytes() == other.read_bytes()
    if shutil.which("cmake") is None:
        return
    for library in again.libraries:
        library.unlink()
    for step in (["-S", "b", "-B", "made"], ["--build", "made"]):
        subprocess.run(["cmake", *step], cwd=tmp_path, check=True, capture_output=True)
    assert all(p.exists() for p in again.libraries)


def test_unsupported_packages_are_rejected(catalog: Catalog, tmp_path: Path) -> None:
    def choice(**fields: Any) -> aic.Choice:
        return aic.Choice(**{"api": "1.21"} | fields)

    for ops, chosen, message in (
        (
            ["Relu"],
            choice(api="2.0"),
            "'2.0' is not a version of Cloud AI's interface; opdb knows 1.17, 5.0.0, 1.21",
        ),
        (["Relu", "Reshape"], choice(), "Reshape: the shape of y does not follow"),
        (["Relu"], choice(name="a-b"), "not a valid package name"),
        (["Relu"], choice(domain="a b"), "not a valid ONNX domain"),
        (["Relu"], choice(version="1.2"), "Major.Minor.Patch"),
        (["Relu"], choice(scratch=0), "0 bytes of scratch"),
        (["Relu"], choice(counts=aic.Counts(inputs={"Relu": 2})), "Relu: 2 tensors: it has 1"),
        (["Relu"], choice(counts=aic.Counts(inputs={"Concat": 2})), "Concat: not in the package"),
        (
            ["Conv2d"],
            choice(counts=aic.Counts(without=frozenset({"Conv2d.filter"}))),
            "filter cannot be left out",
        ),
        (
            ["Conv2d"],
            choice(counts=aic.Counts(without=frozenset({"Conv2d.stride"}))),
            "stride cannot be left out",
        ),
        (
            ["Conv2d"],
            choice(counts=aic.Counts(without=frozenset({"Conv2d.weight"}))),
            "Conv2d.weight: no input or parameter",
        ),
    ):
        with pytest.raises(OpdbError, match=message):
            aic_package.write(catalog, ops, chosen, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_user_chooses_counts_of_variadic_tensors(catalog: Catalog, tmp_path: Path) -> None:
    counts = aic.Counts({"Concat": 3}, {"Split": 2}, frozenset({"Conv2d.bias", "Conv2d.group"}))
    aic_package.write(catalog, ["Concat", "Conv2d", "Split"], aic.Choice("1.21", counts=counts), tmp_path)
    found = conformance.entries(tmp_path)
    assert len(found["Concat"].inputs) == 3 and len(found["Split"].outputs) == 2
    assert [n for n, _ in found["Conv2d"].inputs] == ["x", "filter"]
    assert "name: group" not in (tmp_path / "custom_op_config.yaml").read_text()


def test_the_page_lists_the_unsupported_ops(catalog: Catalog) -> None:
    page = (Path(__file__).parents[3] / "docs/guides/cloud-ai.md").read_text(encoding="utf-8")
    (found,) = re.findall(
        r"^(\d+) of the (\d+) ops .*?package\s+for: (.*?)\.$", page, re.MULTILINE | re.DOTALL
    )
    kernels = [catalog.compiled(n) for n, op in catalog.ops.items() if op.kernel]
    unfit = {op.name for op in kernels if aic.unfit(op)}
    assert set(re.split(r",\s+", found[2])) == unfit
    assert (int(found[0]), int(found[1])) == (len(kernels) - len(unfit), len(kernels))
