"""The optimizer's gain on blocks and networks: QNN 2.51's estimate for SA8255 before and after its passes, and its time.

    python benchmarks/optimizer_cost.py [NAME ...] [--quantize 8a8w|16a8w]

Columns: ops, us, and MB spilled before and after; seconds of lowering the exported program, the first time in the process, which
imports the builders that it needs, and again; of the passes; of QnnGraph_finalize of their result; and the shares of lowering
again and of the passes relative to finalization.  "Again" and the passes are medians of five.  Images have their channels last.
By default transformer blocks, ViT-B/16 and a small U-Net; ViT-B/16 needs torchvision.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from torch.export import ExportedProgram

from opdb.catalog.targets.target import Target
from opdb.checks.graph import build_graph
from opdb.checks.verdicts import check_nodes, read_program
from opdb.core.graph import QnnGraph
from opdb.lower.passes import channels_last, optimize
from opdb.lower.quantize.default_ranges import quantized
from opdb.lower.quantize.recipe import named
from opdb.measure.cost import Estimate, NotEstimated, Simulator
from opdb.programs.torch.export import export
from opdb.runtime.qnn import SIMULATING

T = TypeVar("T")
SOC, QNN = "SA8255", "2.51"
RUNS = 5
DEFAULT = ("decoder_t1", "decoder_t128", "bert_layers", "vit_b_16", "unet")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--quantize", choices=("8a8w", "16a8w"))
    asked = parser.parse_args()
    print("| network | ops | us | MB spilled | lowering s: first, again | passes s | finalize s | shares |")
    print("|---|---|---|---|---|---|---|---|")
    with Simulator(SOC, libraries=QNN) as simulator:
        for name in asked.names or DEFAULT:
            print(row(simulator, name, asked.quantize), flush=True)
    return 0


def row(simulator: Simulator, name: str, scheme: str | None) -> str:
    sys.path.insert(0, str(Path(__file__).parent))
    from _blocks import BLOCKS
    from _vision import NETWORKS

    target = Target(SIMULATING, SOC, simulator.sdk)
    program = export(*(dict(NETWORKS) | BLOCKS)[name](), name)
    first, _ = timed(lambda: lowered(program, target, name))
    lowering, graph = typical(lambda: lowered(program, target, name))
    if name not in BLOCKS or name == "unet":
        graph = channels_last(graph, target)
    passes, made = typical(lambda: optimize(graph, target).graph)
    if scheme:
        graph, made = (quantized(g, named(scheme), target) for g in (graph, made))
    after = simulator.estimate(made)
    try:
        before: Estimate | None = simulator.estimate(graph)
    except NotEstimated:
        before = None
    us = [f"{e.us:,.0f}{'+' * bool(e.missing)}" if e else "refused" for e in (before, after)]
    spilled = [f"{e.spilled_bytes / 1e6:.1f}" if e else "" for e in (before, after)]
    shares = [f"{s / after.seconds:.0%}" for s in (lowering, passes)]
    return (
        f"| {name} | {len(graph.ops)} -> {len(made.ops)} | {us[0]} -> {us[1]} | {spilled[0]} -> {spilled[1]} "
        f"| {first:.2f}, {lowering:.2f} | {passes:.2f} | {after.seconds:.2f} | {', '.join(shares)} |"
    )


def lowered(program: ExportedProgram, target: Target, name: str) -> QnnGraph:
    read = read_program(program, "f32", False)
    return build_graph(read, check_nodes(read, target).lowered, name)


def typical(work: Callable[[], T]) -> tuple[float, T]:
    """The median time of a few runs, and the result: a run of 30 ms takes twice as long if it is interrupted."""
    runs = [timed(work) for _ in range(RUNS)]
    return sorted(seconds for seconds, _ in runs)[RUNS // 2], runs[-1][1]


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """CPU seconds and the result."""
    began = time.process_time()
    made = work()
    return time.process_time() - began, made


if __name__ == "__main__":
    sys.exit(main())
