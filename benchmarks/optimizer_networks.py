"""The effect of the optimizer's passes on the numbers of whole networks: opdb's C kernels and QNN's CPU library after each pass.

    python benchmarks/optimizer_networks.py [NAME ...] [--no-library] [--json FILE]

One line for each network and place: the ops before and after, and the largest difference from the graph before all passes, over the
largest value, of any result of any pass, with that pass.  ``kernels``: the graph for HTP of SA8255 in float32 on the C kernels;
``8 bits``: its quantized form on the C kernels, in steps of the output; ``CPU``: the graph for QNN CPU on Qualcomm's library.
Batch norms have the statistics of random images, so that nothing vanishes.  Needs torchvision and timm; exit 1 if a difference
is above 2e-4, or one step.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from opdb.catalog.targets.target import Target
from opdb.checks.graph import build_graph
from opdb.checks.verdicts import check_nodes, read_program
from opdb.core.errors import OpdbError
from opdb.core.graph import QnnGraph
from opdb.lower.passes import PASSES
from opdb.lower.passes.edit import Edit
from opdb.lower.passes.pipeline import ROUNDS
from opdb.lower.quantize import quantize
from opdb.programs.torch.export import export
from opdb.runtime.kernels import run_graph
from opdb.runtime.qnn.backend import Backend
from opdb.runtime.qnn.real_numbers import to_stored

HTP, CPU = Target("HTP", "SA8255", "2.51"), Target("CPU", execution="emulator")
#: ResNet101, with 104 folded batch norms, changes by 1.5e-4.
TOLERATED = {"kernels": 2e-4, "8 bits": 1.0, "CPU": 2e-4}
Arrays = Mapping[str, Any]
Run = Callable[[QnnGraph, Arrays], Arrays]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--no-library", action="store_true", help="the C kernels alone")
    parser.add_argument("--json", type=Path, help="file that gets a line for each network and place")
    asked = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent))
    from _blocks import BLOCKS
    from _vision import NETWORKS

    known = dict(NETWORKS) | BLOCKS
    places = [p for p in TOLERATED if p != "CPU" or not asked.no_library]
    bad = 0
    for name in asked.names or known:
        module, inputs = known[name]()
        settled(module, inputs)
        program = export(module, inputs, name)
        for place in places:
            try:
                row = one(program, inputs, name, place)
            except OpdbError as error:
                row = {"failed": str(error)}
            bad += "failed" in row or row["worst"] > TOLERATED[place]
            print(text(name, place, row), flush=True)
            if asked.json:
                with asked.json.open("a") as out:
                    out.write(json.dumps({"network": name, "place": place, **row}) + "\n")
    return 1 if bad else 0


def settled(module: nn.Module, inputs: tuple[Any, ...]) -> None:
    """Gives batch norms the statistics of random images and random factors and terms; replaces zero weights by random ones."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear) and not layer.weight.any():  # ViT's last layer
            nn.init.normal_(layer.weight, std=0.02)
    norms = [m for m in module.modules() if isinstance(m, nn.BatchNorm2d)]
    if not norms:
        return
    torch.manual_seed(1)
    for norm in norms:
        norm.momentum = 1.0
        nn.init.uniform_(norm.weight, 0.5, 1.5)
        nn.init.normal_(norm.bias, std=0.1)
    with torch.no_grad():
        module.train()(torch.rand(4, *inputs[0].shape[1:]))
    module.eval()


def one(program: Any, inputs: tuple[Any, ...], name: str, place: str) -> dict[str, Any]:
    """``ops`` before and after, ``worst`` and ``by``, the pass with the largest difference, of ``passes`` results compared."""
    target = CPU if place == "CPU" else HTP
    read = read_program(program, "f32", False)
    coverage = check_nodes(read, target)
    if not coverage.complete:
        refused = next(r for r in coverage.rows if r.verdict != "supported")
        raise OpdbError(f"{refused.node}: {refused.reasons[0]['message']}")
    graph = build_graph(read, coverage.lowered, name)
    given = {t.name: i.numpy() for t, i in zip(graph.inputs, inputs, strict=True)}
    if place == "8 bits":
        graph = quantize(graph, [given], target=target)
    if place == "CPU":
        with Backend.open("CPU") as backend:
            return compared(graph, given, target, on_library(backend))
    return compared(graph, given, target, run_graph)


def on_library(backend: Backend) -> Run:
    def run(graph: QnnGraph, given: Arrays) -> Arrays:
        prepared = backend.prepare(graph)
        try:
            return prepared.execute(given)
        finally:
            prepared.close()

    return run


def compared(graph: QnnGraph, given: Arrays, target: Target, run: Run) -> dict[str, Any]:
    if any(t.quant for t in graph.inputs):
        given = {t.name: to_stored(t, given[t.name]) for t in graph.inputs}
    wanted, worst, by, count, after = run(graph, given), 0.0, "", 0, graph
    for name, after in stages(graph, target):
        off = max(difference(graph, key, array, wanted[key]) for key, array in run(after, given).items())
        count += 1
        if off > worst:
            worst, by = off, name
    return {"ops": [len(graph.ops), len(after.ops)], "worst": worst, "by": by, "passes": count}


def stages(graph: QnnGraph, target: Target) -> Iterator[tuple[str, QnnGraph]]:
    """The graph after every pass that changed it, as opdb.lower.passes.optimize runs them."""
    edit = Edit(graph, target)
    for _ in range(ROUNDS):
        found = 0
        for each in PASSES:
            if changed := each.run(edit):
                found += changed
                yield each.name, edit.graph()
        if not found:
            return


def difference(graph: QnnGraph, name: str, got: Any, wanted: Any) -> float:
    """The difference over the largest value; in steps for quantized results."""
    tensor = graph.tensors[name]
    if tensor.quant:
        return float(np.abs(got.astype(np.int64) - wanted.astype(np.int64)).max())
    g, w = (v.astype(np.float64) for v in (got, wanted))
    return float(np.abs(g - w).max() / (np.abs(w).max() or 1.0)) if np.isfinite(g).all() else np.inf


def text(name: str, place: str, row: dict[str, Any]) -> str:
    start = f"{name:20} {place:8}"
    if "failed" in row:
        return f"{start} failed: {row['failed'].strip().splitlines()[-1][:200]}"
    before, after = row["ops"]
    where = f" after {row['by']}" if row["by"] else ""
    unit = " steps" if place == "8 bits" else ""
    return f"{start} {before:5} -> {after:4} ops  {row['worst']:.2g}{unit}{where} ({row['passes']} passes)"


if __name__ == "__main__":
    sys.exit(main())
