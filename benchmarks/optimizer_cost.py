"""What the optimizer is worth on blocks and networks: QNN 2.51's estimate for SA8255 before and after its passes, and its time.

    python benchmarks/optimizer_cost.py [NAME ...] [--quantize 8a8w|16a8w]

Columns: ops, us, and MB spilled before and after; seconds of lowering (of the exported program), of the passes, and of
QnnGraph_finalize of what they made; the first two over the third.  Images have their channels last.  By default blocks of
transformers, ViT-B/16 and a small U-Net; ViT-B/16 needs torchvision.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from opdb.cost import Estimate, NotEstimated, Simulator
from opdb.cost.made_up import quantized
from opdb.coverage.check import check_nodes, read_program
from opdb.coverage.graph import build_graph
from opdb.coverage.load import export
from opdb.optimize import channels_last, optimize
from opdb.runtime.qnn import SIMULATING
from opdb.targets.target import Target

SOC, QNN = "SA8255", "2.51"
DEFAULT = ("decoder_t1", "decoder_t128", "bert_layers", "vit_b_16", "unet")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--quantize", choices=("8a8w", "16a8w"))
    asked = parser.parse_args()
    print("| network | ops | us | MB spilled | lowering s | passes s | finalize s | share |")
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
    began = time.process_time()
    read = read_program(program, "f32", False)
    coverage = check_nodes(read, target)
    graph = build_graph(read, coverage.lowered, name)
    lowering = time.process_time() - began
    if name not in BLOCKS or name == "unet":
        graph = channels_last(graph, target)
    began = time.process_time()
    made = optimize(graph, target).graph
    passes = time.process_time() - began
    if scheme:
        graph, made = (quantized(g, scheme, target) for g in (graph, made))
    after = simulator.estimate(made)
    try:
        before: Estimate | None = simulator.estimate(graph)
    except NotEstimated:
        before = None
    us = [f"{e.us:,.0f}{'+' * bool(e.missing)}" if e else "refused" for e in (before, after)]
    spilled = [f"{e.spilled_bytes / 1e6:.1f}" if e else "" for e in (before, after)]
    share = (lowering + passes) / after.seconds
    return (
        f"| {name} | {len(graph.ops)} -> {len(made.ops)} | {us[0]} -> {us[1]} | {spilled[0]} -> {spilled[1]} "
        f"| {lowering:.2f} | {passes:.2f} | {after.seconds:.2f} | {share:.0%} |"
    )


if __name__ == "__main__":
    sys.exit(main())
