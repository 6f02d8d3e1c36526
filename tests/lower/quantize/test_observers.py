"""Observers against numpy: the values they clip, and the resulting error."""

from __future__ import annotations

import numpy as np
import pytest

from opdb.lower.quantize import Range
from opdb.lower.quantize.encodings import encoding
from opdb.lower.quantize.observers import Observation, Observer
from opdb.runtime.qnn.real_numbers import quantized

GENERATOR = np.random.default_rng(0)
#: Four samples of a distribution with one outlier each.
SAMPLES = [np.append(GENERATOR.normal(size=20_000), 40.0).astype(np.float32) for _ in range(4)]
ALL = np.concatenate(SAMPLES)


def seen(observer: str, dtype: str = "uq8", percentile: float = 99.99) -> Range:
    found = Observer(Observation(observer, percentile), dtype)
    for sample in SAMPLES:
        found.see(sample)
    return found.range()


def squared_error(values: Range) -> float:
    quant = encoding(values, "uq8", False)
    stored = quantized(ALL, "uq8", quant, "x").astype(np.float64)
    return float((((stored + quant.offset[0]) * quant.scale[0] - ALL) ** 2).mean())


def test_min_max_covers_all_values() -> None:
    assert seen("min-max") == Range(float(ALL.min()), 40.0)


@pytest.mark.parametrize("percentile", [99.0, 99.9])
def test_percentiles_match_numpy(percentile: float) -> None:
    values = seen("percentile", percentile=percentile)
    cut = (100 - percentile) / 2  # on each side
    want = np.percentile(ALL, [cut, 100 - cut])
    assert [values.low, values.high] == pytest.approx(want, abs=3 * 45 / 2048)  # bins of a histogram


def test_mse_is_at_least_as_accurate_as_min_max() -> None:
    assert squared_error(seen("mse")) <= squared_error(seen("min-max"))


@pytest.mark.parametrize("observer", ["percentile", "mse", "entropy"])
@pytest.mark.parametrize("dtype", ["uq8", "uq16"])
def test_ranges_include_zero_and_only_seen_values(observer: str, dtype: str) -> None:
    values = seen(observer, dtype)
    assert ALL.min() <= values.low < 0 < values.high <= 40
    positive = Observer(Observation(observer), dtype)
    positive.see(np.abs(ALL) + 1)
    assert positive.range().low == 0


@pytest.mark.parametrize("observer", ["min-max", "percentile", "mse", "entropy"])
def test_constant_and_empty_data_have_a_range(observer: str, capsys: pytest.CaptureFixture[str]) -> None:
    for value in (0.0, 3.0, -2.0):
        found = Observer(Observation(observer), "uq8")
        found.see(np.full(10, value, np.float32))
        assert found.range().low == pytest.approx(min(value, 0), abs=0.01)
        assert found.range().high == pytest.approx(max(value, 0), abs=0.01)
    empty = Observer(Observation(observer), "uq8")
    empty.see(np.zeros(0, np.float32))
    assert empty.range() == Range()
    assert capsys.readouterr().out == ""
