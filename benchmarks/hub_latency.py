"""Estimates of 24 public networks beside latencies that Qualcomm measured on a device.

    python benchmarks/hub_latency.py [NAME ...] [--precision fp16|8a8w|16a8w] [--page FILE] [-o FILE]

Each network is compiled as by `opdb compile`, with the channels of its image last and its normalization in the graph, and
estimated by QNN 2.51 for SA8255 five times: by default; with errata ignored; with errata avoided; with each erratum that makes a
difference ignored alone, which gives its price; and without the passes that Qualcomm's converter lacks, which is the graph that was
measured.  hub_latency.json holds the measured latencies, and estimates of graphs that were changed by hand.
The rows are added to a .jsonl file one by one; an interrupted run continues where it stopped.  Needs torchvision and timm.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy import stats

from opdb.catalog.targets.target import Target
from opdb.checks.coverage import Coverage
from opdb.core.errors import OpdbError
from opdb.core.graph import QnnGraph
from opdb.execute.compile.model import lowered
from opdb.lower.quantize.default_ranges import quantized
from opdb.lower.quantize.recipe import named
from opdb.measure.cost import Estimate, Simulator
from opdb.measure.cost.errata import prices
from opdb.programs.torch.export import export
from opdb.runtime.qnn import SIMULATING

HERE = Path(__file__).parent
FACTS = HERE / "hub_latency.json"
OUTPUT = HERE.parent / "build" / "hub_latency.jsonl"
SOC, QNN = "SA8255", "2.51"
PRECISIONS = ("fp16", "8a8w", "16a8w")
Row = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--precision", action="append", choices=PRECISIONS, help="all by default")
    parser.add_argument("--page", type=Path, help="write the table as Markdown, e.g. docs/results/latency.md")
    parser.add_argument("-o", "--output", type=Path, default=OUTPUT, help=f"[{OUTPUT.name} in build]")
    asked = parser.parse_args()
    facts: list[Row] = json.loads(FACTS.read_text())["rows"]
    if unknown := {*asked.names} - {f["network"] for f in facts}:
        parser.error(f"no network {', '.join(unknown)}; one of {', '.join({f['network']: 0 for f in facts})}")
    found = {(r["network"], r["precision"]): r for r in _read(asked.output)}
    wanted = [f for f in facts if not asked.names or f["network"] in asked.names]
    with Simulator(SOC, libraries=QNN) as simulator:
        for fact in wanted:
            key = fact["network"], fact["precision"]
            if key not in found and key[1] in (asked.precision or PRECISIONS):
                found[key] = {**fact, **estimated(simulator, *key)}
                with asked.output.open("a") as out:
                    out.write(json.dumps(found[key]) + "\n")
                print(line(found[key]), flush=True)
    rows = [found[k] for f in wanted if (k := (f["network"], f["precision"])) in found]
    print("\n".join(summary(rows)))
    if asked.page:
        asked.page.write_text(page(rows))
    return 1 if any("failed" in r for r in rows) else 0


def _read(file: Path) -> Iterable[Row]:
    return map(json.loads, file.read_text().splitlines()) if file.exists() else ()


def estimated(simulator: Simulator, name: str, precision: str) -> Row:
    """Estimates each way in ``WAYS``: us, nodes, bytes spilled, ops without a price, seconds; or ``failed``.  ``prices``: erratum -> us."""
    sys.path.insert(0, str(HERE))
    from _vision import normalized

    one = Network(simulator, precision, name, export(*normalized(name), name))
    row: Row = {way: one.way(*how) for way, how in WAYS.items()}
    different = "us" in row["avoid"] and row["avoid"]["us"] != row["ignore"].get("us")
    return row | {"prices": one.prices() if different else {}}


#: Name in a row -> the policy on errata, None for a device's default, and the passes that are left out.
WAYS: dict[str, tuple[str | None, tuple[str, ...]]] = {
    "default": (None, ()),
    "ignore": ("ignore", ()),
    "avoid": ("avoid", ()),
    "converter": (None, ("fold-normalization", "merge-scalings", "divide-by-product")),
}


@dataclass(frozen=True)
class Network:
    """One network in one precision."""

    simulator: Simulator
    precision: str
    name: str
    program: Any  # torch.export.ExportedProgram

    def way(self, errata: str | None, without: tuple[str, ...]) -> Row:
        began = time.perf_counter()
        try:
            graph = self._graph(self._target(errata), without)
            took = time.perf_counter() - began
            return figures(self.simulator.estimate(graph), took)
        except OpdbError as error:
            return {"failed": str(error)}

    def prices(self) -> dict[str, float]:
        """Cost of avoiding each erratum while the others are avoided: erratum -> us; errata that cost nothing are left out."""
        target = self._target("avoid")
        met, own = self._lowered(target, ())[0].errata(), self.simulator.estimate(self._graph(target, ()))
        found = prices(own, met, target, lambda t: self._graph(t, ()), self.simulator.estimate)
        return {p.erratum: round(p.us, 1) for p in found if p.us is not None and round(p.us, 1)}

    def _target(self, errata: str | None) -> Target:
        return Target(SIMULATING, self.simulator.soc, self.simulator.sdk, errata=errata)

    def _lowered(self, target: Target, without: tuple[str, ...]) -> tuple[Coverage, QnnGraph]:
        coverage, graph = lowered(self.program, target, self.name, without=without, io_layout="nhwc")
        if graph is None:
            bad = next(r for r in coverage.rows if r.verdict != "supported")
            raise OpdbError(f"{bad.node}: {bad.reasons[0]['message'] if bad.reasons else bad.verdict}")
        return coverage, graph

    def _graph(self, target: Target, without: tuple[str, ...]) -> QnnGraph:
        graph = self._lowered(target, without)[1]
        return graph if self.precision == "fp16" else quantized(graph, named(self.precision), target)


def figures(found: Estimate, lowering: float) -> Row:
    return {
        "us": round(found.us, 1),
        "nodes": found.nodes,
        "spilled": found.spilled_bytes,
        "missing": found.missing_ops,
        "lowering_s": round(lowering, 2),
        "finalize_s": round(found.seconds, 2),
    }


HEADER = (
    "network", "precision", "measured", "by hand", "as the converter", "ratio to measured", "opdb", "ratio to by hand",
    "errata ignored", "errata avoided", "nodes: converter, as the converter, opdb",
)  # fmt: skip


def cells(row: Row) -> list[str]:
    """A row of the table; times in us."""

    def us(way: str) -> str:
        return f"{row[way]['us']:,.0f}" + "+" * bool(row[way]["missing"]) if "us" in row[way] else "refused"

    def ratio(way: str, to: str) -> str:
        return f"{row[way]['us'] / row[to]:.2f}" if "us" in row[way] else ""

    nodes = (row["converter_nodes"], *(row[way].get("nodes", "") for way in ("converter", "default")))
    return [
        row["network"], row["precision"], f"{row['measured_us']:,}", f"{row['by_hand_us']:,}",
        us("converter"), ratio("converter", "measured_us"), us("default"), ratio("default", "by_hand_us"),
        us("ignore"), us("avoid"), ", ".join(map(str, nodes)),
    ]  # fmt: skip


def line(row: Row) -> str:
    return "  ".join(
        f"{h}: {c}" if i > 1 else c for i, (h, c) in enumerate(zip(HEADER, cells(row), strict=True))
    )


def summary(rows: Iterable[Row]) -> list[str]:
    """The rows summarized, a line for each set."""
    lines = []
    for precision in (None, *PRECISIONS):
        chosen = [r for r in rows if precision in (None, r["precision"]) and "us" in r["converter"]]
        if len(chosen) < 3:
            continue
        ratios = [r["converter"]["us"] / r["measured_us"] for r in chosen]
        hand = [r["default"]["us"] / r["by_hand_us"] for r in chosen if "us" in r["default"]]
        rank = stats.spearmanr([r["converter"]["us"] for r in chosen], [r["measured_us"] for r in chosen])
        lines.append(
            f"{precision or 'all'}: {len(chosen)} rows, Spearman {rank.statistic:.3f}, estimate over measured {min(ratios):.2f} "
            f"to {max(ratios):.2f}, median {statistics.median(ratios):.2f}; opdb over by hand {min(hand):.2f} to "
            f"{max(hand):.2f}, median {statistics.median(hand):.2f}"
        )
    totals: dict[str, list[float]] = {}
    for row in rows:
        for erratum, price in row["prices"].items():
            totals.setdefault(erratum, []).append(price)
    for erratum, costs in sorted(totals.items(), key=lambda t: -sum(t[1])):
        lines.append(
            f"avoiding {erratum} costs {sum(costs):,.0f} us in {len(costs)} rows, at most {max(costs):,.0f}"
        )
    return lines


def page(rows: Iterable[Row]) -> str:
    """The table as Markdown."""
    rows = [*rows]
    table = [HEADER, ["---"] * len(HEADER), *map(cells, rows)]
    told = [f"- {text}" for text in summary(rows)]
    return "\n".join([PAGE, *("| " + " | ".join(r) + " |" for r in table), "", *told]) + "\n"


PAGE = """# Estimates and measured latency of 24 networks

Written by `python benchmarks/hub_latency.py --page docs/results/latency.md`. Times in us, `+` after those that lack the price of an op.

- *measured*: AI Hub Models 0.65.0, Dragonwing IQ-9075, runtime qnn_dlc.
- *by hand*: QNN 2.51's estimate for SA8255 of a graph that was changed by hand into what Qualcomm's converter makes.
- *as the converter*: the same estimate of opdb's graph without the passes `fold-normalization`, `merge-scalings` and
  `divide-by-product`. Those take most of the normalization of the image out of the graph, which the measured networks compute: only
  this column can be compared with *measured*.
- *opdb*: what `opdb compile` makes by default; then with all errata ignored, and with all avoided.

Torchvision's definitions, random weights, the image's normalization in the graph, its channels last (`--io-layout nhwc`).
EfficientNet-lite4 is timm's and has no normalization, as the graph by hand; with it, its estimates as the converter are 4,944 and
1,364. About 150 to 250 us of each call are measured but not estimated ([cost.md](../guides/cost.md)).
"""


if __name__ == "__main__":
    sys.exit(main())
