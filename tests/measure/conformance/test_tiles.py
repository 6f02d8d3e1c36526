"""Tiles of kernels: which tiles there are, the data they read, and detection of faulty tilings."""

from __future__ import annotations

import ctypes
import faulthandler
import multiprocessing
from dataclasses import replace

import numpy as np
import pytest

from opdb.core.errors import OpdbError
from opdb.measure.conformance import tiles
from opdb.measure.conformance.tiles import Guarded, Tile
from opdb.spec.catalog import Catalog
from opdb.spec.tiling import Tiling

pytestmark = pytest.mark.native


def test_each_tile_equals_the_whole_result(catalog: Catalog) -> None:
    found = list(tiles.check(catalog, "DequantizeAdd"))
    assert len(found) == len(catalog.ops["DequantizeAdd"].samples)
    assert all(f.fault == "" for f in found) and sum(f.tiles for f in found) > 100


def changed(catalog: Catalog, **inputs: list[object]) -> Catalog:
    """The catalog with other ``inputs`` in the tiling of DequantizeAdd."""
    op = catalog.own["DequantizeAdd"]
    assert op.kernel is not None
    tiling = Tiling.model_validate({"axes": ["any...", "any"], "inputs": inputs})
    kernel = op.kernel.model_copy(update={"tiling": tiling})
    own = dict(catalog.own) | {op.op: op.model_copy(update={"kernel": kernel})}
    return replace(catalog, own=own)


@pytest.mark.parametrize(
    ("inputs", "fault"),
    [
        ({"x": ["same...", "same"], "bias": ["whole"]}, "the kernel refuses it"),
        ({"x": ["same...", {"before": 1}], "bias": ["same"]}, "reads x"),
        ({"x": ["same...", {"of": -2}], "bias": ["same"]}, "tile ["),
    ],
)
def test_a_wrong_tiling_is_detected(catalog: Catalog, inputs: dict[str, list[object]], fault: str) -> None:
    found = [f.fault for f in tiles.check(changed(catalog, **inputs), "DequantizeAdd")]
    assert any(fault in f for f in found), found


def test_an_op_without_a_tiling_is_an_error(catalog: Catalog) -> None:
    with pytest.raises(OpdbError, match=r"Relu\.yaml: kernel: it has no 'tiling'"):
        next(tiles.check(catalog, "Relu"))


def test_tiles_cover_the_output() -> None:
    tiling = Tiling.model_validate({"axes": ["whole", "any", {"multiple": 4}]})
    made = list(tiles._tiles(tiling, (2, 3, 10)))
    assert Tile((0, 0, 0), (2, 1, 4)) in made and Tile((0, 2, 8), (2, 1, 2)) in made
    covered = np.zeros((2, 3, 10), int)
    for tile in made:
        covered[tuple(slice(a, a + n) for a, n in zip(tile.start, tile.size, strict=True))] += 1
    assert len(set(covered.ravel())) == 1  # each grid covers each element once


@pytest.mark.parametrize("behind", [True, False])
def test_memory_next_to_a_tile_is_protected(behind: bool) -> None:
    array = Guarded.copy(np.arange(5, dtype=np.float32), behind).array
    assert array.tolist() == [0, 1, 2, 3, 4]

    def touch() -> None:
        faulthandler.disable()
        place = array.ctypes.data + (array.nbytes if behind else -1)
        ctypes.c_char.from_address(place).value  # noqa: B018

    child = multiprocessing.get_context("fork").Process(target=touch)
    child.start()
    child.join()
    assert child.exitcode == -11
