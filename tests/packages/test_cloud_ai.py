"""Custom-op packages of Cloud AI in three generations: functions, tiles, kernels for host and card, build files."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opdb import package
from opdb.codegen import aic
from opdb.conformance import cloud_ai, tiles
from opdb.conformance.data import inputs as data_of
from opdb.errors import OpdbError
from opdb.importers import cloud_ai as importer
from opdb.op_config import OpConfig, ParamConfig, Quant, TensorConfig
from opdb.runtime import native
from opdb.samples import kernel_types, sample_config
from opdb.spec.catalog import Catalog
from opdb.store import read_catalog

from .conftest import BLUR, BLUR_C

pytestmark = pytest.mark.native
#: Kernels of tests need no clones.
QUICK = "CFLAGS=" + " ".join((*(f for f in aic.CFLAGS if f != "-O3"), "-O1", "-DOPDB_NO_CLONES"))
STACK = 12288
Loaded = Callable[..., Any]


@pytest.fixture(scope="session")
def test_specs(mix_specs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Specs of Mix, which has every kind of argument, and of Blur, whose tiles overlap."""
    folder = tmp_path_factory.mktemp("cloud_ai") / "specs"
    shutil.copytree(mix_specs, folder)
    (folder / "ops" / "Blur.yaml").write_text(BLUR)
    (folder / "blur.c").write_text(BLUR_C)
    return folder


@pytest.fixture(scope="session", params=tuple(aic.GENERATIONS))
def made(
    request: pytest.FixtureRequest, test_specs: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """A generation, and the folder of its package with Mix and Blur, built."""
    choice = aic.Choice(request.param, scratch=4096)
    folder = tmp_path_factory.mktemp("aic")
    package.write_aic(
        read_catalog(test_specs),
        ["Mix", "Blur"],
        choice,
        folder,
        kernels=[test_specs / "mix.c", test_specs / "blur.c"],
    )
    package.make(folder, "the package", QUICK, "all", "card")
    return request.param, folder


@pytest.fixture(scope="session")
def real(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """DequantizeAdd, Softmax and MatMul for 1.21 as a user builds them."""
    written = package.write_aic(
        catalog,
        ["DequantizeAdd", "MatMul", "Softmax"],
        aic.Choice("1.21", scratch=65536),
        tmp_path_factory.mktemp("real"),
    )
    package.build_aic(written, card=True)
    return written.folder


def mixed(x: str = "f32", **params: Any) -> OpConfig:
    """Mix with three inputs and all parameters."""
    given = {
        "list": (1, 2, 3),
        "rows": (10, 20, 30, 40),
        "mode": 2,
        "flag": True,
        "whole": -7,
        "real": 0.25,
    } | params
    shapes = {"list": (len(given["list"]),), "rows": (len(given["rows"]) // 2, 2)}
    types = {"list": "u32", "rows": "i32", "mode": "u32", "flag": "bool8", "whole": "i32", "real": "f32"}
    quant = Quant("SCALE_OFFSET", (0.5,), (-3,)) if x == "uq8" else None
    return OpConfig(
        "Mix",
        tuple(TensorConfig(n, x, (2, 3), quant=quant) for n in ("x", "a", "b")),
        tuple(ParamConfig(n, types[n], v, shapes.get(n)) for n, v in given.items()),
        (TensorConfig("y", x, (2, 3), quant=quant),),
    )


def blurred(shape: tuple[int, ...] = (2, 9, 3, 10), dtype: str = "uq8") -> OpConfig:
    quant = Quant("SCALE_OFFSET", (0.5,), (-3,))
    n, h, w, c = shape
    return OpConfig(
        "Blur",
        (TensorConfig("x", dtype, shape, quant=quant),),
        (),
        (TensorConfig("y", dtype, (n, h - 2, w, c), quant=quant),),
    )


def blur_of(x: np.ndarray) -> np.ndarray:
    a, b, c = (x[:, i : x.shape[1] - 2 + i].astype(np.int32) for i in range(3))
    return ((a + 2 * b + c + 2) // 4).astype(np.uint8)


def pixels(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape, np.uint8)


def loaded(made: tuple[str, Path], op: str) -> cloud_ai.Package:
    return cloud_ai.Package(made[1], made[0], op)


def test_every_argument_arrives_in_both_kernels(made: tuple[str, Path]) -> None:
    """C7, C8, C9, C15, C20 to C23: arrays and counts, or a context, in the order of the configuration."""

    def ran() -> None:
        mix, config = loaded(made, "Mix"), mixed()
        assert mix.verify(config) == (True, "")
        assert mix.infer(config) == ([("DTFloat32", (2, 3))], "")
        x, a, b = (np.arange(6, dtype=np.float32).reshape(2, 3) * s for s in (1, 10, 100))
        wanted = x + 2 * a + 4 * b + np.float32(0.25 - 7 + 1000 + 200 + 6 + 100)
        for answer in (mix.on_host(config, [x, a, b]), mix.on_card(config, [x, a, b])):
            assert answer.outputs[0].tobytes() == wanted.tobytes() and answer.log == ""
        stored = [pixels((2, 3)) for _ in range(3)]
        copied = mix.on_card(mixed("uq8"), stored)
        assert np.array_equal(copied.outputs[0], stored[0])

    cloud_ai.in_child(ran)


def test_a_refusal_says_why_in_the_log(made: tuple[str, Path]) -> None:
    """C7, C32."""

    def ran() -> None:
        mix = loaded(made, "Mix")
        bad = mixed()
        for config, reason in (
            (mixed(mode=3), "Mix.PARAMS: every enum parameter must have a value of its enum; got mode = 3"),
            (replace(bad, outputs=(replace(bad.outputs[0], shape=(3, 2)),)), "the shape of y must be S"),
            (mixed("i32"), "Mix: there is no kernel for these data types"),
            (
                replace(bad, params=(*bad.params, ParamConfig("other", "i32", 1))),
                "Mix: a parameter is none of its spec",
            ),
            (mixed(whole=0.5), "Mix: a parameter has another type than its spec"),
        ):
            if "another type" in reason:
                config = replace(
                    bad,
                    params=(ParamConfig("whole", "f32", 0.5), *(p for p in bad.params if p.name != "whole")),
                )
            good, log = mix.verify(config)
            assert not good and reason in log
        shapes, log = mix.infer(replace(bad, inputs=bad.inputs[1:], outputs=bad.outputs * 2))
        assert shapes is None and "it has 1 outputs here, not 2" in log

    cloud_ai.in_child(ran)


def test_select_names_kernels_that_exist(made: tuple[str, Path]) -> None:
    """C9, C22, C23: what select answers is a type of the configuration, and a symbol of its library."""

    def ran() -> None:
        mix = loaded(made, "Mix")
        for backend, library in (("Interpreter", mix.host), ("AIC", mix.card)):
            name = mix.select(mixed(), backend)
            assert name == mix.entry.kernels[backend][0] and hasattr(library, name)
        assert mix.select(mixed(), "GPU") is None and mix.select(mixed("i32"), "AIC") is None

    cloud_ai.in_child(ran)


def test_tiles_read_what_the_spec_says_and_compute_what_the_whole_does(made: tuple[str, Path]) -> None:
    """C26, C27: each tile runs in four threads with copies of what it reads and nothing else."""

    def ran() -> int:
        blur, config = loaded(made, "Blur"), blurred()
        x = pixels(config.inputs[0].shape)
        whole = blur.on_card(config, [x]).outputs[0]
        assert np.array_equal(whole, blur_of(x))
        assert np.array_equal(blur.on_host(config, [x]).outputs[0], whole)
        free = {0: 1, 1: 1, 2: 1}
        assert blur.tile_axes(config) == (free if made[0] == "5.0.0" else free | {3: 4})
        spec = read_catalog_of_blur().definition.kernel
        assert spec is not None and spec.tiling is not None
        count = 0
        for tile in itertools.islice(tiles._tiles(spec.tiling, whole.shape), 0, 600, 3):
            end = [a + n for a, n in zip(tile.start, tile.size, strict=True)]
            (read,) = blur.map_tile(config, tile.start, end) or [()]
            part = replace(
                config,
                inputs=(replace(config.inputs[0], shape=x[read].shape),),
                outputs=(replace(config.outputs[0], shape=tile.size),),
            )
            wanted = whole[tuple(map(slice, tile.start, end))]
            assert (
                blur.on_card(part, [x[read]]).outputs[0].tobytes() == np.ascontiguousarray(wanted).tobytes()
            )
            count += 1
        assert blur.map_tile(config, (0, 6, 0, 0), (1, 8, 1, 1)) is None  # reads row 9 of 9
        return count

    def read_catalog_of_blur() -> Any:
        return read_catalog(SPECS["folder"]).compiled("Blur")

    assert cloud_ai.in_child(ran) > 100


SPECS: dict[str, Path] = {}


@pytest.fixture(autouse=True)
def _specs(test_specs: Path) -> None:
    SPECS["folder"] = test_specs


def test_threads_in_any_order_and_each_meets_the_others_once(made: tuple[str, Path]) -> None:
    """C25, C31."""

    def ran() -> None:
        blur, config = loaded(made, "Blur"), blurred((3, 7, 2, 8), "uq8")
        x = pixels(config.inputs[0].shape)
        for order in itertools.permutations(range(cloud_ai.THREADS)):
            answer = blur.on_card(config, [x], order)
            assert np.array_equal(answer.outputs[0], blur_of(x)) and answer.syncs == [1, 1, 1, 1]

    cloud_ai.in_child(ran)


def test_real_ops_compute_what_python_does(real: Path, catalog: Catalog) -> None:
    """C35, C36: floats of 32 and 16 bits and quantized types, bit by bit."""

    def ran(name: str) -> int:
        op, of = catalog.compiled(name), cloud_ai.Package(real, "1.21", name)
        equal = 0
        for number, dtype in itertools.product(
            range(len(op.definition.samples)), op.definition.kernel.dtypes
        ):
            config = held(sample_config(op, number, kernel_types(op, dtype)))
            if cloud_ai.unfit(of.entry, aic.rows(op), config):
                continue
            inputs = data_of(f"{name}-{number}-{dtype}", config)
            wanted = native.run(config, inputs)
            assert of.verify(config) == (True, "")
            for answer in (of.on_host(config, inputs), of.on_card(config, inputs)):
                assert [a.tobytes() for a in answer.outputs] == [w.tobytes() for w in wanted]
            equal += 1
        return equal

    for name, least in (("DequantizeAdd", 4), ("MatMul", 10), ("Softmax", 20)):
        assert cloud_ai.in_child(ran, name) >= least


def test_ops_that_compute_element_by_element_are_divided(catalog: Catalog, tmp_path: Path) -> None:
    """C25, C26: without a word in the spec; an input that is stretched keeps the op whole."""
    package.write_aic(catalog, ["ElementWiseAdd"], aic.Choice("1.21"), tmp_path)
    package.make(tmp_path, "the package", QUICK, "all", "card")

    def ran() -> None:
        add = cloud_ai.Package(tmp_path, "1.21", "ElementWiseAdd")
        for other, axes, mine in (((2, 6, 5), {0: 1, 1: 1, 2: 1}, 15), ((1, 6, 5), {}, 60)):
            config = OpConfig(
                "ElementWiseAdd",
                (TensorConfig("in0", "f32", (2, 6, 5)), TensorConfig("in1", "f32", other)),
                (),
                (TensorConfig("y", "f32", (2, 6, 5)),),
            )
            x, y = (
                np.random.default_rng(0).standard_normal(t.shape).astype(np.float32) for t in config.inputs
            )
            assert add.tile_axes(config) == axes
            assert np.array_equal(add.on_card(config, [x, y]).outputs[0], x + y)
            alone = add.on_card(config, [x, y], [0]).outputs[0]
            assert int((alone == x + y).sum()) == mine

    cloud_ai.in_child(ran)


def held(config: OpConfig) -> OpConfig:
    """With the numbers of parameters that a float holds."""
    return replace(
        config,
        params=tuple(
            replace(p, value=float(np.float32(p.value))) if p.dtype == "f32" else p for p in config.params
        ),
    )


def test_scratch_that_does_not_suffice_is_refused(real: Path) -> None:
    """C16, C28."""
    big = OpConfig(
        "Softmax",
        (TensorConfig("x", "f16", (1, 20000)),),
        (ParamConfig("axis", "u32", 1),),
        (TensorConfig("y", "f16", (1, 20000)),),
    )
    good, log = cloud_ai.in_child(lambda: cloud_ai.Package(real, "1.21", "Softmax").verify(big))
    assert not good
    assert (
        "Softmax: it needs 160000 bytes of scratch and has 65536; make the package with --scratch 160000"
        in log
    )


def test_the_configuration_is_what_readers_expect(made: tuple[str, Path], real: Path) -> None:
    """C10 to C19, C29, C30."""
    (collection,) = importer.read(real / "custom_op_config.yaml")
    assert [op.name for op in collection.ops] == [
        "DequantizeAdd",
        "MatMul",
        "Softmax",
    ] and collection.domain == "com.opdb"
    text = (made[1] / "custom_op_config.yaml").read_text()
    assert f"version: {aic.VERSIONS[made[0]]}\n" in text and ("\n    name: Mix\n" in text) == (
        made[0] == "1.17"
    )
    entry = cloud_ai.entries(made[1])["Mix"]
    assert entry.inputs == (("x", 5), ("a", 5), ("b", 5)) and entry.outputs == (("y", 5),)
    assert "      - name: mode\n        dataType: int # 1 ONE, 2 TWO\n        scalar: true\n" in text
    assert (
        "      - name: flag\n        dataType: bool\n" in text
        and "      - name: list\n        dataType: int\n        scalar: false\n" in text
    )
    assert "VTCM: [opdb_node, x, a, b, y]\n          requiredFor: [opdb_node]\n" in text
    assert "compilerArgs: -std=c11 -O3 -ffp-contract=off" in text
    assert entry.functions.exists() and all(path.exists() for _, path in entry.kernels.values())


def test_libraries_export_what_the_interface_has_and_nothing_else(made: tuple[str, Path]) -> None:
    def symbols(path: Path) -> set[str]:
        done = subprocess.run(
            ["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True
        )
        return {line.split()[-1] for line in done.stdout.splitlines() if not line.split()[-1].startswith("_")}

    api, folder = made
    functions = {"customOpVerify", "customOpInferShape", "customOpSelectImpl", "customOpMapTiles"}
    functions |= {"customOpSetTileConfig"} if api == "1.17" else {"customOpSetProperties"}
    functions |= {"customOpDeallocateMemory"} if api == "1.21" else set()
    assert symbols(folder / aic.functions_library("Mix")) == functions
    assert symbols(folder / aic.interpreter_library("opdb")) == {"MixInterpreter", "BlurInterpreter"}
    assert symbols(folder / aic.card_library("Blur")) == {"BlurAIC"}


def test_the_card_s_file_stands_alone_and_keeps_its_limits(real: Path) -> None:
    """C24, C37: it includes no file of the package, allocates nothing, and its deepest calls fit in the stack."""
    for op in ("DequantizeAdd", "MatMul", "Softmax"):
        file = real / aic.source(op, "aic.c")
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
            f"-I{real / 'include/cloud_ai'}",
        ]
        subprocess.run(
            [*command, "-fcallgraph-info=su", "-c", str(file), "-o", str(real / f"{op}.o")], check=True
        )
        assert deepest((real / f"{op}.ci").read_text(), f"{op}AIC") <= STACK


def deepest(graph: str, start: str) -> int:
    """The most bytes of stack that direct calls from ``start`` on take."""
    own = {
        m[1]: int(m[2]) for m in re.finditer(r'node: \{ title: "([^"]+)" label: "[^"]*?\\n(\d+) bytes', graph)
    }
    calls: dict[str, set[str]] = {}
    for m in re.finditer(r'edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"', graph):
        calls.setdefault(m[1], set()).add(m[2])

    def of(name: str) -> int:
        return own.get(name, 0) + max((of(n) for n in calls.get(name, ()) if n in own), default=0)

    return of(next(n for n in own if n.split(":")[-1] == start))


def test_messages_have_ten_specifiers_at_most(real: Path, tmp_path: Path) -> None:
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
            f"-I{real / 'include/cloud_ai'}",
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


def test_with_headers_that_do_not_say_how_tiles_are_told_ops_stay_whole(
    test_specs: Path, tmp_path: Path
) -> None:
    """Qualcomm's headers have no OPDB_CLOUD_AI_STAND_IN: what is not public is then left out."""
    package.write_aic(
        read_catalog(test_specs), ["Blur"], aic.Choice("1.21"), tmp_path, kernels=[test_specs / "blur.c"]
    )
    vendor = tmp_path / "vendor"
    shutil.copytree(tmp_path / "include/cloud_ai", vendor)
    types = vendor / "CustomOpStandIn.h"
    types.write_text(types.read_text().replace("#define OPDB_CLOUD_AI_STAND_IN 1\n", ""))
    package.make(tmp_path, "the package", QUICK, "AIC_INC=vendor", "all", "card")

    def ran() -> None:
        blur, config = cloud_ai.Package(tmp_path, "1.21", "Blur"), blurred()
        x = pixels(config.inputs[0].shape)
        assert blur.tile_axes(config) == {} and blur.map_tile(config, (0, 0, 0, 0), (1, 1, 1, 4)) is None
        assert np.array_equal(blur.on_card(config, [x]).outputs[0], blur_of(x))

    cloud_ai.in_child(ran)


def test_the_same_bytes_again_and_with_cmake(test_specs: Path, tmp_path: Path) -> None:
    catalog, kernels = read_catalog(test_specs), [test_specs / "blur.c"]
    first = package.write_aic(catalog, ["Blur"], aic.Choice("5.0.0"), tmp_path / "a", kernels=kernels)
    again = package.write_aic(catalog, ["Blur"], aic.Choice("5.0.0"), tmp_path / "b", kernels=kernels)
    for made in (first, again):
        package.build_aic(made)
    for one, other in zip(first.libraries, again.libraries, strict=True):
        assert one.read_bytes() == other.read_bytes()
    if shutil.which("cmake") is None:
        return
    for library in again.libraries:
        library.unlink()
    for step in (["-S", "b", "-B", "made"], ["--build", "made"]):
        subprocess.run(["cmake", *step], cwd=tmp_path, check=True, capture_output=True)
    assert all(p.exists() for p in again.libraries)


def test_what_no_package_can_have(catalog: Catalog, tmp_path: Path) -> None:
    def choice(**fields: Any) -> aic.Choice:
        return aic.Choice(**{"api": "1.21"} | fields)

    for ops, chosen, message in (
        (
            ["Relu"],
            choice(api="2.0"),
            "'2.0' is no generation of Cloud AI's interface; opdb knows 1.17, 5.0.0, 1.21",
        ),
        (["Relu", "Reshape"], choice(), "Reshape: the shape of y does not follow"),
        (["Relu"], choice(name="a-b"), "the name of a package"),
        (["Relu"], choice(domain="a b"), "no domain of ONNX"),
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
            package.write_aic(catalog, ops, chosen, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_open_numbers_of_tensors_are_said_by_the_user(catalog: Catalog, tmp_path: Path) -> None:
    counts = aic.Counts({"Concat": 3}, {"Split": 2}, frozenset({"Conv2d.bias", "Conv2d.group"}))
    package.write_aic(catalog, ["Concat", "Conv2d", "Split"], aic.Choice("1.21", counts=counts), tmp_path)
    found = cloud_ai.entries(tmp_path)
    assert len(found["Concat"].inputs) == 3 and len(found["Split"].outputs) == 2
    assert [n for n, _ in found["Conv2d"].inputs] == ["x", "filter"]
    assert "name: group" not in (tmp_path / "custom_op_config.yaml").read_text()


def test_a_package_that_ends_the_process_is_an_error() -> None:
    import os

    with pytest.raises(OpdbError, match="the package ended the process with"):
        cloud_ai.in_child(os.abort)
