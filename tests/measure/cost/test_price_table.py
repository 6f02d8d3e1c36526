"""Making the table of prices: pairs of real finalizations, the fit, and the report on its accuracy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opdb.catalog.targets.target import Target
from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp
from opdb.lower.cost import Cost
from opdb.lower.prices import Kind, written
from opdb.measure.cost import Simulator
from opdb.measure.cost.price_fit.accuracy import checks, spearman
from opdb.measure.cost.price_fit.build import measured
from opdb.measure.cost.price_fit.fit import _non_negative, table
from opdb.measure.cost.price_fit.network_pairs import Network, bypassed
from opdb.measure.cost.price_fit.pairs import Pair, less, line, parsed, work_of_graph
from opdb.programs.torch.export import export

from .nets import SOC, conv_relu

torch = pytest.importorskip("torch")


class Net(torch.nn.Module):  # type: ignore[misc]
    """A depthwise filter, for which QNN has a special op, and a padded average pool."""

    def __init__(self) -> None:
        super().__init__()
        c = 32
        self.body = torch.nn.Sequential(
            torch.nn.Conv2d(c, c, 1), torch.nn.Conv2d(c, c, 3, padding=1, groups=c), torch.nn.AvgPool2d(5, 1, 2),
            torch.nn.Conv2d(c, c, 1), torch.nn.Sigmoid(), torch.nn.Conv2d(c, c, 1),
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        return self.body(x)


def program() -> Any:
    torch.manual_seed(0)
    return export(Net(), (torch.rand(1, 32, 28, 28),))


@pytest.fixture(scope="module")
def simulator() -> Iterator[Simulator]:
    with Simulator(SOC) as opened:
        yield opened


@pytest.fixture(scope="module")
def pairs(simulator: Simulator, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Pair], Path]:
    file = tmp_path_factory.mktemp("pairs") / "pairs.jsonl"
    return measured(simulator, [("net", program)], file, lambda text: None), file


def of(pairs: list[Pair], kind: str, precision: str = "fp16") -> list[Pair]:
    return [p for p in pairs if (p.kind, p.precision) == (kind, precision)]


@pytest.mark.vendor
@pytest.mark.torch
class TestMeasured:
    def test_a_whole_network_is_priced_against_nothing(
        self, pairs: tuple[list[Pair], Path], simulator: Simulator
    ) -> None:
        network = Network(simulator, Target("HTP", SOC, simulator.sdk), "net", program())
        (whole,) = of(pairs[0], "whole")
        assert (whole.before, whole.ops) == (0.0, work_of_graph(network.base))
        assert whole.after == round(simulator.estimate(network.base).us, 3)
        assert {k.numbers for k in of(pairs[0], "whole", "8a8w")[0].ops} == {"8 bits"}

    def test_candidates_are_compared_within_the_whole_graph(self, pairs: tuple[list[Pair], Path]) -> None:
        found = {p.forms: p for p in of(pairs[0], "candidate")}
        grouped = found["aten.conv2d.default", "DepthWiseConv2d", "Conv2d"]
        assert grouped.us > 0
        assert grouped.ops[Kind("DepthWiseConv2d", "fp16", "")].ops == -1
        assert grouped.ops[Kind("Conv2d", "fp16", "")].ops == 1
        assert grouped.more is not None and grouped.fewer is not None
        assert set(grouped.more) == {Kind("Conv2d", "fp16", "")}

    def test_errata_and_bypassed_ops_are_measured(self, pairs: tuple[list[Pair], Path]) -> None:
        assert [p.what for p in of(pairs[0], "erratum")] == ["HTP-0303"]
        without = of(pairs[0], "bypass")
        assert {k.op.partition(".")[0] for p in without for k in p.ops} >= {"Conv2d", "DepthWiseConv2d"}
        for p in without:
            (cost,) = p.ops.values()
            assert cost.ops == -int(p.what.split()[0])

    def test_measurement_resumes_from_a_file(
        self, pairs: tuple[list[Pair], Path], simulator: Simulator, tmp_path: Path
    ) -> None:
        def never() -> Any:
            raise AssertionError("it is in the file")

        assert measured(simulator, [("net", never)], pairs[1], print) == pairs[0]
        other = tmp_path / "other.jsonl"
        other.write_text(pairs[1].read_text().replace(SOC, "QCS9100"))
        with pytest.raises(OpdbError, match="pairs of QCS9100 by "):
            measured(simulator, [("net", never)], other, print)
        other.write_text('{"network": "net"}\n')
        with pytest.raises(OpdbError, match="no file of pairs"):
            measured(simulator, [("net", never)], other, print)

    def test_the_table_is_reproducible_and_compares_the_forms(self, pairs: tuple[list[Pair], Path]) -> None:
        made = table(pairs[0], SOC, "v2.51")
        again = table([parsed(line(p)) for p in pairs[0]], SOC, "v2.51")
        assert written(made) == written(again)
        assert ("aten.conv2d.default", "DepthWiseConv2d", "Conv2d", "fp16", "", "") in made.compared

    def test_a_single_network_cannot_be_left_out(self, pairs: tuple[list[Pair], Path]) -> None:
        found = {c.name: c for c in checks(pairs[0])}
        assert found["candidates"].left_out == (None, None)
        assert found["candidates"].table[0] is not None


def test_readers_of_bypassed_ops_read_their_inputs() -> None:
    graph = conv_relu()
    graph.ops.insert(2, GraphOp("again", "Relu", ("b",), (), ("d",)))
    graph.tensors["d"] = graph.tensors["b"]
    graph.ops[3] = GraphOp("second", "Conv2d", ("d", "w1"), graph.ops[3].params, ("c",))
    found = dict(bypassed(graph))
    without = found["2 Relu of (1, 32, 32, 32)"]
    assert [op.op for op in without.ops] == ["Conv2d", "Conv2d", "Relu"]
    assert without.ops[1].inputs[0] == "a" and "b" not in without.tensors
    assert less(work_of_graph(without), work_of_graph(graph)) == {
        Kind("Relu", "fp16", ""): Cost(-4 * 131072, 0, 0, -2)
    }


def test_the_fit_recovers_known_prices() -> None:
    """Differences computed from known prices, for 60 graphs of three kinds of ops."""
    rng = np.random.default_rng(5)
    truth = {"A": (4.0, 2.0, 0.0), "B": (0.0, 9.0, 0.0), "C": (1.0, 0.5, 300.0)}
    made = []
    for i in range(60):
        ops = {}
        for name in truth:
            products = int(rng.integers(0, 2e8)) * (name == "C")
            size, count = int(rng.integers(-8e6, 8e6)), int(rng.integers(-9, 9))
            ops[Kind(name, "fp16", "")] = Cost(size, products, 0, count)
        us = sum(float(np.dot(truth[k.op], (c.ops, c.bytes / 1e6, c.macs / 1e9))) for k, c in ops.items())
        made.append(Pair(f"net{i % 4}", "fp16", "bypass", "", 500.0, 500.0 + us, ops))
    found = table(made, SOC, "v2.51")
    for name, (us, per_mb, per_g) in truth.items():
        got = found.lines[Kind(name, "fp16", "")]
        assert got.us == pytest.approx(us, abs=0.7)
        assert got.us_per_mb == pytest.approx(per_mb, abs=0.7)
        assert name != "C" or got.us_per_g == pytest.approx(per_g, abs=40)
        assert got.pairs > 50
    (everything,) = (c for c in checks(made) if c.name == "all pairs")
    assert everything.pairs == 60
    assert everything.left_out[0] is not None and everything.left_out[0] > 0.95
    assert everything.left_out[1] is not None and everything.left_out[1] > 0.9


def test_non_negative_least_squares_match_scipy() -> None:
    from scipy.optimize import nnls

    rng = np.random.default_rng(2)
    for size in (3, 20, 60):
        a, b = rng.normal(size=(2 * size, size)), rng.normal(size=2 * size)
        assert _non_negative(a, b) == pytest.approx(nnls(a, b)[0], abs=1e-6)


def test_rank_correlation_matches_scipy() -> None:
    from scipy import stats

    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 9, 50).astype(float), rng.normal(size=50)
    assert spearman(a, b) == pytest.approx(stats.spearmanr(a, b).statistic)
    assert spearman(np.ones(5), b[:5]) is None


def test_wrongly_ranked_candidates_are_not_compared() -> None:
    kind = {name: Kind(name, "fp16", "") for name in ("PoolAvg2d", "MatMul")}

    def pair(us: float) -> Pair:
        work = [{k: Cost(0, 0, 0, 1)} for k in kind.values()]
        forms = ("aten.avg_pool2d.default", "PoolAvg2d", "avg_pool2d_products")
        ops = {kind["PoolAvg2d"]: Cost(0, 0, 0, -1), kind["MatMul"]: Cost(0, 0, 0, 1)}
        return Pair("net", "fp16", "candidate", "", 100.0, 100.0 + us, ops, forms, work[1], work[0])

    assert table([pair(50.0)], SOC, "v").compared == {
        ("aten.avg_pool2d.default", "PoolAvg2d", "avg_pool2d_products", "fp16", "", "")
    }
    assert not table([pair(50.0), pair(45.0), pair(-40.0)], SOC, "v").compared
