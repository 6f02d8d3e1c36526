"""Custom-op packages of Cloud AI in three generations: functions, tiles, kernels for host and card, build files."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opdb.catalog.store import read_catalog
from opdb.core import c_compiler
from opdb.core.errors import OpdbError
from opdb.core.op_config import OpConfig, ParamConfig, Quant, TensorConfig
from opdb.judge.samples import kernel_types, sample_config
from opdb.measure.conformance import tiles
from opdb.measure.conformance.data import inputs as data_of
from opdb.plugins.cloud_ai import aic_package, conformance
from opdb.plugins.cloud_ai.codegen import aic
from opdb.runtime import native
from opdb.spec.catalog import Catalog

from .conftest import QUICK

pytestmark = [pytest.mark.native, pytest.mark.slow]
STACK = 12288
Loaded = Callable[..., Any]


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


def loaded(aic_made: tuple[str, Path], op: str) -> conformance.Package:
    return conformance.Package(aic_made[1], aic_made[0], op)


def test_both_kernels_receive_every_argument(aic_made: tuple[str, Path]) -> None:
    """C7, C8, C9, C15, C20 to C23: arrays and counts, or a context, in the order of the configuration."""

    def ran() -> None:
        mix, config = loaded(aic_made, "Mix"), mixed()
        assert mix.verify(config) == (True, "")
        assert mix.infer(config) == ([("DTFloat32", (2, 3))], "")
        x, a, b = (np.arange(6, dtype=np.float32).reshape(2, 3) * s for s in (1, 10, 100))
        wanted = x + 2 * a + 4 * b + np.float32(0.25 - 7 + 1000 + 200 + 6 + 100)
        for answer in (mix.on_host(config, [x, a, b]), mix.on_card(config, [x, a, b])):
            assert answer.outputs[0].tobytes() == wanted.tobytes() and answer.log == ""
        stored = [pixels((2, 3)) for _ in range(3)]
        copied = mix.on_card(mixed("uq8"), stored)
        assert np.array_equal(copied.outputs[0], stored[0])

    conformance.in_child(ran)


def test_a_refusal_logs_its_reason(aic_made: tuple[str, Path]) -> None:
    """C7, C32."""

    def ran() -> None:
        mix = loaded(aic_made, "Mix")
        bad = mixed()
        for config, reason in (
            (mixed(mode=3), "Mix.PARAMS: every enum parameter must have a value of its enum; got mode = 3"),
            (replace(bad, outputs=(replace(bad.outputs[0], shape=(3, 2)),)), "the shape of y must be S"),
            (mixed("i32"), "Mix: there is no kernel for these data types"),
            (
                replace(bad, params=(*bad.params, ParamConfig("other", "i32", 1))),
                "Mix: a parameter is none of its spec",
            ),
            (
                replace(bad, params=(ParamConfig("whole", "f32", 0.5),)),
                "Mix: a parameter has another type than its spec",
            ),
            (mixed(list=()), "Mix: a parameter has another type than its spec, or none or too many values"),
        ):
            good, log = mix.verify(config)
            assert not good and reason in log
        shapes, log = mix.infer(replace(bad, inputs=bad.inputs[1:], outputs=bad.outputs * 2))
        assert shapes is None and "it has 1 output here, not 2" in log
        assert conformance.unfit(mix.entry, [], mixed(list=())).startswith("list: a list without values")

    conformance.in_child(ran)


def test_select_returns_existing_kernels(aic_made: tuple[str, Path]) -> None:
    """C9, C22, C23: select returns a type of the configuration, and a symbol of its library."""

    def ran() -> None:
        mix = loaded(aic_made, "Mix")
        for backend, library in (("Interpreter", mix.host), ("AIC", mix.card)):
            name = mix.select(mixed(), backend)
            assert name == mix.entry.kernels[backend][0] and hasattr(library, name)
        assert mix.select(mixed(), "GPU") is None and mix.select(mixed("i32"), "AIC") is None

    conformance.in_child(ran)


def test_tiles_read_only_their_inputs_and_equal_the_whole(
    aic_made: tuple[str, Path], aic_specs: Path
) -> None:
    """C26, C27: each tile runs in four threads with copies of exactly the data it may read."""

    def ran() -> int:
        blur, config = loaded(aic_made, "Blur"), blurred()
        x = pixels(config.inputs[0].shape)
        whole = blur.on_card(config, [x]).outputs[0]
        assert np.array_equal(whole, blur_of(x))
        assert np.array_equal(blur.on_host(config, [x]).outputs[0], whole)
        free = {0: 1, 1: 1, 2: 1}
        assert blur.tile_axes(config) == (free if aic_made[0] == "5.0.0" else free | {3: 4})
        spec = read_catalog(aic_specs).ops["Blur"].kernel
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

    assert conformance.in_child(ran) > 100


def test_thread_order_does_not_matter_and_barriers_are_met_once(aic_made: tuple[str, Path]) -> None:
    """C25, C31."""

    def ran() -> None:
        blur, config = loaded(aic_made, "Blur"), blurred((3, 7, 2, 8), "uq8")
        x = pixels(config.inputs[0].shape)
        for order in itertools.permutations(range(conformance.THREADS)):
            answer = blur.on_card(config, [x], order)
            assert np.array_equal(answer.outputs[0], blur_of(x)) and answer.syncs == [1, 1, 1, 1]

    conformance.in_child(ran)


def test_real_ops_match_the_python_kernels(aic_real: Path, catalog: Catalog) -> None:
    """C35, C36: floats of 32 and 16 bits and quantized types, bit for bit."""

    def ran(name: str) -> int:
        op, of = catalog.compiled(name), conformance.Package(aic_real, "1.21", name)
        equal = 0
        for number, dtype in itertools.product(
            range(len(op.definition.samples)), op.definition.kernel.dtypes
        ):
            config = held(sample_config(op, number, kernel_types(op, dtype)))
            if conformance.unfit(of.entry, aic.rows(op), config):
                continue
            inputs = data_of(f"{name}-{number}-{dtype}", config)
            wanted = native.run(config, inputs)
            assert of.verify(config) == (True, "")
            for answer in (of.on_host(config, inputs), of.on_card(config, inputs)):
                assert [a.tobytes() for a in answer.outputs] == [w.tobytes() for w in wanted]
            equal += 1
        return equal

    for name, least in (("DequantizeAdd", 4), ("MatMul", 10), ("Softmax", 20)):
        assert conformance.in_child(ran, name) >= least


def test_elementwise_ops_are_tiled_automatically(catalog: Catalog, tmp_path: Path) -> None:
    """C25, C26: the spec needs no entry; a broadcast input keeps the op whole."""
    aic_package.write(catalog, ["ElementWiseAdd"], aic.Choice("1.21"), tmp_path)
    c_compiler.make(tmp_path, "the package", QUICK, "all", "card")

    def ran() -> None:
        add = conformance.Package(tmp_path, "1.21", "ElementWiseAdd")
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

    conformance.in_child(ran)


def held(config: OpConfig) -> OpConfig:
    """The config with parameters rounded to floats."""
    return replace(
        config,
        params=tuple(
            replace(p, value=float(np.float32(p.value))) if p.dtype == "f32" else p for p in config.params
        ),
    )


def test_insufficient_scratch_is_refused(aic_real: Path) -> None:
    """C16, C28."""
    big = OpConfig(
        "Softmax",
        (TensorConfig("x", "f16", (1, 20000)),),
        (ParamConfig("axis", "u32", 1),),
        (TensorConfig("y", "f16", (1, 20000)),),
    )
    good, log = conformance.in_child(lambda: conformance.Package(aic_real, "1.21", "Softmax").verify(big))
    assert not good
    assert (
        "Softmax: it needs 160000 bytes of scratch and has 65536; make the package with --scratch 160000"
        in log
    )


def test_ops_are_not_tiled_with_qualcomms_headers(aic_specs: Path, tmp_path: Path) -> None:
    """Qualcomm's headers have no OPDB_CLOUD_AI_STAND_IN: non-public parts are then omitted."""
    aic_package.write(
        read_catalog(aic_specs), ["Blur"], aic.Choice("1.21"), tmp_path, kernels=[aic_specs / "blur.c"]
    )
    vendor = tmp_path / "vendor"
    shutil.copytree(tmp_path / "include/cloud_ai", vendor)
    types = vendor / "CustomOpStandIn.h"
    types.write_text(types.read_text().replace("#define OPDB_CLOUD_AI_STAND_IN 1\n", ""))
    c_compiler.make(tmp_path, "the package", QUICK, "AIC_INC=vendor", "all", "card")

    def ran() -> None:
        blur, config = conformance.Package(tmp_path, "1.21", "Blur"), blurred()
        x = pixels(config.inputs[0].shape)
        assert blur.tile_axes(config) == {} and blur.map_tile(config, (0, 0, 0, 0), (1, 1, 1, 4)) is None
        assert np.array_equal(blur.on_card(config, [x]).outputs[0], blur_of(x))

    conformance.in_child(ran)


def test_a_crashing_package_is_an_error() -> None:
    import os

    with pytest.raises(OpdbError, match="the package ended the process with"):
        conformance.in_child(os.abort)
