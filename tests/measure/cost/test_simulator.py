"""Estimates by the real library: repeatable, complete, and refused if meaningless."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from opdb.catalog.targets.target import Target
from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.lower.quantize import named
from opdb.lower.quantize.default_ranges import quantized
from opdb.measure.cost import Estimate, NotEstimated, Simulator, compare, estimate
from opdb.measure.cost.chips import simulated
from opdb.measure.cost.groups import IDLE, REST
from opdb.runtime.qnn.graph import GraphOptions

from .nets import SOC, conv_relu, uncosted

pytestmark = [pytest.mark.vendor, pytest.mark.slow]


@pytest.fixture(scope="module")
def simulator() -> Iterator[Simulator]:
    with Simulator(SOC) as opened:
        yield opened


@pytest.fixture(scope="module")
def traced(simulator: Simulator) -> Estimate:
    return simulator.estimate(conv_relu(), trace=True)


def test_equal_graphs_cost_the_same_cycles_in_any_process(simulator: Simulator, traced: Estimate) -> None:
    plain = replace(traced, groups=(), busy={})
    assert simulator.estimate(conv_relu()) == plain
    assert estimate(conv_relu(), "SA8255-AA") == plain


def test_an_estimate_has_plausible_figures(traced: Estimate) -> None:
    assert (traced.soc, traced.sdk, traced.precision, traced.nodes) == (SOC, "2.51", "fp16", 4)
    assert (traced.chip.name, traced.chip.base, traced.chip.mhz) == ("SA8255", "Kailua", 1497.6)
    assert (traced.chip.hvx_threads, traced.chip.vtcm_bytes) == (4, 8 << 20)
    assert 0 < traced.cycles_lower < traced.cycles < traced.cycles_upper
    assert 0 < traced.us_lower < traced.us < traced.us_upper
    assert traced.us == traced.cycles / 1497.6
    image, weights = (
        4 * 32 * 32 * 32,
        2 * 9 * 32 * 32 * 2,
    )  # in float32 at the ends, weights in float16 or packed
    assert image < traced.read_bytes < image + 1.1 * weights
    assert traced.written_bytes == image
    assert (traced.spilled_bytes, traced.filled_bytes) == (0, 0)
    assert (traced.at_least, traced.missing) == (False, ())


def test_groups_cover_all_time_and_every_node_once(traced: Estimate) -> None:
    assert sum(g.us for g in traced.groups) == pytest.approx(traced.cycles / traced.chip.mhz, rel=0.01)
    assert sum(g.share for g in traced.groups) == pytest.approx(1)
    assert sorted(n for g in traced.groups for n in g.nodes) == ["first", "last", "relu", "second"]
    assert all(0 <= g.dma_wait_us <= g.us for g in traced.groups)
    without = [g.node for g in traced.groups if not g.nodes]
    assert set(without) <= set(REST)
    assert without == [name for name in REST if name in without]
    fused = next(g for g in traced.groups if "first" in g.nodes)
    assert fused.origins == fused.nodes
    assert set(traced.busy) == {"DMA", "HMX", "HVX"}
    assert all(0 < share < 1 for share in traced.busy.values())


def test_the_trace_is_a_chrome_trace_in_microseconds(traced: Estimate) -> None:
    trace = json.loads(json.dumps(traced.trace))
    slices = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert max(e["ts"] + e["dur"] for e in slices) == pytest.approx(traced.us, abs=1)
    assert {e["args"]["node"] for e in slices if "node" in e["args"]} <= {"first", "relu", "second", "last"}
    last = next(e["args"] for e in slices if e["args"].get("node") == "last")
    assert (last["kind"], last["origin"]) == ("Relu", "last")
    assert "not measured" in trace["otherData"]["note"]
    assert all(e["args"]["cycles"] == pytest.approx(e["dur"] * 1497.6, abs=1) for e in slices)


def test_no_files_are_left_in_the_current_folder(
    simulator: Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Simulator(SOC) as opened:
        opened.estimate(conv_relu(), trace=True)
    assert os.listdir(tmp_path) == []


def test_an_op_without_a_cost_makes_the_estimate_a_lower_limit(simulator: Simulator) -> None:
    found = simulator.estimate(uncosted(), trace=True)
    assert found.at_least
    assert found.missing == ("norm",)
    assert found.missing_ops >= 1
    assert [g.missing for g in found.groups if "norm" in g.nodes] == [True]
    assert not any(g.missing for g in found.groups if not g.nodes)


def test_a_difference_compares_two_whole_graphs(simulator: Simulator, traced: Estimate) -> None:
    small = simulator.estimate(conv_relu(size=16), trace=True)
    found = compare(traced, small)
    assert found.cycles == small.cycles - traced.cycles < 0
    assert found.us == small.us - traced.us
    assert found.ratio == small.cycles / traced.cycles < 0.98
    assert not found.noise
    assert found.same_simulator
    changes = found.by_ops()
    assert sum(c.us for c in changes) == pytest.approx(found.cycles / traced.chip.mhz, rel=0.02)
    assert [abs(c.us) for c in changes] == sorted((abs(c.us) for c in changes), reverse=True)
    assert compare(traced, traced).noise
    without = simulator.estimate(conv_relu(between=False))
    assert compare(traced, without).by_ops()[0].after == 0.0  # without a trace there are no groups


def test_quantized_graphs_cost_less(simulator: Simulator, traced: Estimate) -> None:
    target = Target("HTP", SOC, "2.51")
    found = {
        scheme: simulator.estimate(quantized(conv_relu(), named(scheme), target))
        for scheme in ("8a8w", "16a8w")
    }
    assert found["8a8w"].precision is None
    assert found["8a8w"].cycles < traced.cycles
    assert found["8a8w"].cycles < found["16a8w"].cycles
    assert (found["8a8w"].written_bytes, found["16a8w"].written_bytes) == (32 * 32 * 32, 2 * 32 * 32 * 32)


def test_an_older_library_gives_estimates() -> None:
    found = estimate(conv_relu(), SOC, libraries="2.47", trace=True)
    assert (found.sdk, found.chip.vtcm_bytes) == ("2.47", 4 << 20)
    assert found.us == pytest.approx(found.cycles / 1497.6)
    assert found.us_lower < found.us < found.us_upper
    assert sum(g.us for g in found.groups) == pytest.approx(found.us, rel=0.01)
    assert any(g.node != IDLE and g.us > 1 for g in found.groups)


@pytest.mark.parametrize("soc", ["SM8650", "SM8750", "QCS6490"])
def test_unsimulated_chips_are_refused_with_the_simulated_ones(soc: str) -> None:
    chips = "AIC100, QCS9100, SA8255, SA8540, SA8787, SA8797, SAR2230P"
    with (
        Simulator(soc) as opened,
        pytest.raises(
            OpdbError, match=f"{soc}: QNN 2.51 does not simulate this chip; it does simulate {chips}"
        ),
    ):
        opened.check_chip()


@pytest.mark.parametrize(
    ("sdk", "soc"), [(sdk, soc) for sdk in ("2.47", "2.51") for soc in simulated("2.51")]
)
def test_the_list_of_simulated_chips_is_correct(sdk: str, soc: str) -> None:
    with Simulator(soc, libraries=sdk) as opened:
        if soc in simulated(sdk):
            opened.check_chip()
        else:
            with pytest.raises(OpdbError, match=f"{soc}: QNN {sdk} does not simulate this chip"):
                opened.check_chip()


def test_the_lowest_effort_is_refused(simulator: Simulator) -> None:
    with pytest.raises(
        OpdbError, match="optimization level 1: the library's estimates are meaningless at this level"
    ):
        simulator.estimate(conv_relu(), GraphOptions(optimization=1))
    assert simulator.estimate(conv_relu(), GraphOptions("fp16", 2)) == simulator.estimate(conv_relu())


def test_overflowed_figures_are_refused(simulator: Simulator, tmp_path: Path) -> None:
    """The library gave bounds near 2**64 for EfficientNet-B0 at level 1; that level is refused earlier, so the test bypasses it."""
    result = simulator._worker.simulate(conv_relu(), tmp_path, GraphOptions("fp16"))
    wrong = replace(result, figures={**result.figures, "cycles_upper": 18446744071806668745})
    with pytest.raises(OpdbError, match=r"net: the library's figures overflowed \(18446744071806668745\)"):
        simulator._read(conv_relu(), GraphOptions("fp16"), wrong)


def test_a_refused_graph_is_reported_and_the_child_survives(simulator: Simulator) -> None:
    x, y = GraphTensor("x", "f32", (2, 3), "APP_WRITE"), GraphTensor("y", "f32", (2, 3), "APP_READ")
    graph = QnnGraph("wrong", {"x": x, "y": y}, [GraphOp("op", "NoSuchOp", ("x",), (), ("y",))])
    with pytest.raises(
        NotEstimated, match=r"wrong: finalize: no: error: .*NoSuchOp: 1002 .*; see opdb explain 1002"
    ) as caught:
        simulator.estimate(graph)
    assert caught.value.outcome.code
    assert simulator.estimate(conv_relu()).cycles > 0  # the child continues


def test_unknown_libraries_and_chips_are_refused() -> None:
    with pytest.raises(OpdbError, match=r"no QNN libraries of version 1\.2 are here"):
        Simulator(SOC, libraries="1.2")
    with pytest.raises(OpdbError, match="unknown SoC 'SA8256'; did you mean"):
        Simulator("SA8256")
