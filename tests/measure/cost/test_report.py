"""Rows by module and kind, notes, and the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from opdb.measure.cost import Estimate, Simulator
from opdb.measure.cost.report import text as words
from opdb.measure.cost.report.html import BARS, page
from opdb.measure.cost.report.rows import BY, TOP, rows

from .nets import SOC, conv_relu, uncosted

pytestmark = pytest.mark.vendor
MODULES = {"first": "body.conv1", "relu": "body.relu1", "second": "body.conv2", "last": "tail"}


@pytest.fixture(scope="module")
def simulator() -> Iterator[Simulator]:
    with Simulator(SOC) as opened:
        yield opened


@pytest.fixture(scope="module")
def traced(simulator: Simulator) -> Estimate:
    return simulator.estimate(conv_relu(size=64), trace=True)


@pytest.mark.parametrize("by", BY)
def test_rows_sum_to_the_whole_time_longest_first(traced: Estimate, by: str) -> None:
    found = rows(traced, by, MODULES)
    assert sum(r.us for r in found) == pytest.approx(traced.us, rel=0.01)
    assert sum(r.nodes for r in found) == 4
    assert [r.us for r in found] == sorted((r.us for r in found), reverse=True)
    assert len({r.what for r in found}) == len(found)


def test_a_group_belongs_to_its_innermost_common_module(traced: Estimate) -> None:
    group = traced.groups[0]
    cases = {
        ("first", "relu"): "body", ("first",): "body.conv1", ("first", "last"): TOP, ("new",): TOP,
        ("relu", "relu"): "body.relu1",
    }  # fmt: skip
    for origins, module in cases.items():
        one = replace(traced, groups=(replace(group, origins=origins),))
        assert [r.what for r in rows(one, "module", MODULES)] == [module]


def test_notes_explain_the_figures(simulator: Simulator, traced: Estimate) -> None:
    said = " | ".join(words.notes(traced))
    assert f"simulated by Qualcomm's library ({traced.build_id}) for SA8255 at 1,497.6 MHz" in said
    assert "not measured" in said
    assert "a fixed 150 to 250 us per call is left out" in said
    assert "not a confidence interval" in said
    assert "at least" not in said
    assert words.headline(traced).startswith("net on SA8255: ")
    assert "not per-node costs" in " ".join(words.notes(traced, grouped=True))
    assert "made-up ranges" in " ".join(words.notes(traced, made_up=True))
    missing = simulator.estimate(uncosted())
    assert words.headline(missing).startswith("net on SA8255: at least ")
    assert re.search(
        r"at least: the library has no cost for \d+ ops?, counted as nothing: norm",
        " ".join(words.notes(missing)),
    )
    other = replace(traced, soc="SA8797")
    assert "estimates for SA8797 have not been compared with a device" in " ".join(words.notes(other))
    assert words.named([f"n{i}" for i in range(10)]) == "n0, n1, n2, n3, n4, n5, n6, n7 and 2 more nodes"


class Closed(HTMLParser):
    """Records tags that are not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)
        if tag not in ("meta", "link", "wbr"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_has_charts_and_a_timeline(traced: Estimate) -> None:
    text = page(traced, MODULES, "models/<net>.pt2")
    parser = Closed()
    parser.feed(text)
    assert parser.open == []
    assert "script" not in parser.seen
    assert "<title>Cost of models/&lt;net&gt;.pt2 on SA8255</title>" in text
    assert "http" not in text
    for lane in ("FG", "HVX 1", "DMA", "VTCM used"):
        assert f">{lane}</text>" in text
    assert re.search(r"<title>last \([^<]*Relu\)</title>", text)
    assert "<th scope=row>body" in text or "<th scope=row>tail" in text
    xs = [float(x) for x in re.findall(r'<rect x="([\d.]+)"', text)]
    assert xs
    assert min(xs) >= 90
    assert max(xs) < 1200


def test_a_deep_model_shows_only_as_many_bars_as_fit(traced: Estimate) -> None:
    group = next(g for g in traced.groups if g.nodes)
    many = [replace(group, node=f"n{i}", nodes=(f"n{i}",), origins=(f"o{i}",)) for i in range(60)]
    modules = {f"o{i}": f"net.layer{i // 10}.{i}" for i in range(60)}
    text = page(replace(traced, groups=tuple(many)), modules, "deep")
    chart = text.partition("Time by module")[2].partition("</table>")[0].replace("<wbr>", "")
    assert re.findall(r"<th scope=row>(.*?)</th>", chart) == [f"net.layer{i}" for i in range(6)]
    flat = {f"o{i}": f"m{i}" for i in range(60)}
    chart = (
        page(replace(traced, groups=tuple(many)), flat, "flat")
        .partition("Time by module")[2]
        .partition("</table>")[0]
    )
    assert chart.count("<tr>") == BARS + 1
    assert "36 more" in chart
