"""Simulated latency of networks through ExecuTorch's Qualcomm flow, with its builders and with opdb's.

    python benchmarks/executorch_cost.py [NAME ...] [--recipe fp16|8a8w] [--soc SA8255] [--ops] [--json FILE]

One line for each network and recipe: microseconds with ExecuTorch's builders and with opdb's, their ratio, and the QNN ops of
each.  The figures come from Qualcomm's own simulation at QnnGraph_finalize (docs/guides/cost.md), added up over the graphs of a
program; weights are random, which does not affect the figures.  ``--ops`` prints the kinds of ops in which the two
graphs differ.  Needs torchvision for most networks; exit 1 if opdb's is slower by more than 2 % or something failed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RECIPES = ("fp16", "8a8w")
BUILDERS = ("stock", "opdb")
#: SA8255 is simulated at this clock; QNN 2.47, which the flow uses, gives cycles only (trace of QNN 2.51).
MHZ = 1497.6
CYCLES, MISSING = "2006", "2017"  # QNN_HTP_PROFILE_EVENTTYPE_GRAPH_FINALIZE_PERF_ESTIMATE_...
TOLERATED = 1.02
VISION = (
    "mobilenet_v2",
    "mobilenet_v3_small",
    "resnet18",
    "efficientnet_b0",
    "regnet_y_800mf",
    "googlenet",
    "squeezenet1_1",
    "vit_b_16",
    "densenet121",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--recipe", action="append", choices=RECIPES, help="both by default")
    parser.add_argument("--builders", action="append", choices=BUILDERS, help="both by default")
    parser.add_argument("--soc", default="SA8255")
    parser.add_argument("--ops", action="store_true", help="print by which kinds of ops the graphs differ")
    parser.add_argument(
        "--json", type=Path, help="file that gets a line for each network, recipe and builders"
    )
    asked = parser.parse_args()
    sys.path.insert(0, str(HERE))
    known = networks()
    for name in asked.names:
        if name not in known:
            parser.error(f"no network {name!r}; one of {', '.join(known)}")
    print(f"{'network':20} {'recipe':6} {'ExecuTorch us':>14} {'opdb us':>9} {'ratio':>6}  QNN ops")
    bad = 0
    for name in asked.names or known:
        for recipe in asked.recipe or RECIPES:
            made = {b: one(name, recipe, b, asked.soc) for b in asked.builders or BUILDERS}
            bad += not told(name, recipe, made, asked.ops)
            if asked.json:
                with asked.json.open("a") as out:
                    for builders, line in made.items():
                        row = {"network": name, "recipe": recipe, "builders": builders, **line}
                        out.write(json.dumps(row) + "\n")
    return 1 if bad else 0


def networks() -> dict[str, Callable[[], Any]]:
    from _blocks import BLOCKS
    from _vision import NETWORKS

    return {n: NETWORKS[n] for n in VISION} | {
        n: BLOCKS[n] for n in ("bert_block", "decoder_t1", "decoder_t128", "dense_layer")
    }


def one(name: str, recipe: str, builders: str, soc: str) -> dict[str, Any]:
    """Returns us, graphs, ops by kind, nodes that fall back to the CPU, ops without a price; or ``failed``."""
    from opdb.core.errors import OpdbError
    from opdb.plugins.executorch import env, process

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "estimates")
        os.environ["OPDB_QNN_ESTIMATES"] = str(file)
        try:
            left = process.call(
                "executorch_cost:compiled", name, recipe, builders, soc,
                environment=env.prepare(), timeout=1800.0, path=[HERE],
            )  # fmt: skip
        except OpdbError as error:
            return {"failed": str(error)}
        lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    ops: Counter[str] = Counter()
    for line in lines:
        ops.update(line["ops"])
    if not lines or any(CYCLES not in line["events"] for line in lines):
        return {"failed": f"no estimate for {soc}: {lines}"}
    return {
        "us": sum(line["events"][CYCLES] for line in lines) / MHZ,
        "graphs": len(lines),
        "ops": dict(ops),
        "left": left,
        "missing": sum(line["events"].get(MISSING, 0) for line in lines),
    }


def compiled(name: str, recipe: str, builders: str, soc: str) -> list[str]:
    """The child's side of ``one``: the nodes that fall back to the CPU."""
    import torch

    import opdb.plugins.executorch
    from opdb.plugins.executorch import flow, quantize

    torch.manual_seed(0)
    module, inputs = networks()[name]()
    if builders == "opdb":
        opdb.plugins.executorch.register()
    quantized = recipe != "fp16"
    ready = quantize.quantize(module, inputs, soc, recipe) if quantized else module
    made = flow.compile_module(ready, inputs, soc, "quantized" if quantized else "fp16")
    return list(made.not_delegated)


def told(name: str, recipe: str, made: dict[str, dict[str, Any]], ops: bool) -> bool:
    """Prints a line; returns True if opdb's graph is as fast."""
    start = f"{name:20} {recipe:6}"
    failed = {b: line["failed"].strip().splitlines()[-1] for b, line in made.items() if "failed" in line}
    if failed:
        print(start, "; ".join(f"{b} failed: {why[:200]}" for b, why in failed.items()), flush=True)
        return "opdb" not in failed
    us = [made[b]["us"] if b in made else float("nan") for b in BUILDERS]
    ratio = us[1] / us[0]
    nodes = " and ".join(str(sum(line["ops"].values())) for line in made.values())
    more = "".join(
        f"; {b}: {what} {len(line[key]) if key == 'left' else line[key]}"
        for b, line in made.items()
        for key, what in (("left", "fall back to the CPU:"), ("missing", "without a price:"))
        if line[key]
    )
    print(f"{start} {us[0]:14.0f} {us[1]:9.0f} {ratio:6.2f}  {nodes}{more}", flush=True)
    if ops and len(made) == 2:
        theirs, ours = (made[b]["ops"] for b in BUILDERS)
        differ = [(k, theirs.get(k, 0), ours.get(k, 0)) for k in sorted({*theirs, *ours})]
        print("   " + ", ".join(f"{k} {a} -> {b}" for k, a, b in differ if a != b), flush=True)
    return not ratio > TOLERATED


if __name__ == "__main__":
    sys.exit(main())
