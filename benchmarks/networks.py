"""Real networks through ExecuTorch's Qualcomm flow with opdb's builders, run on HTP's emulation, beside PyTorch.

    python benchmarks/networks.py [NAME ...] [--recipe fp16|8a8w|16a8w|16a4w] [--builders opdb|stock] [--soc SM8650]

For each network: nodes delegated of all, the seconds to compile and to run, the largest error over the largest
reference value and the signal-to-noise ratio of the first output, against PyTorch in float32; of a quantized network
also against PyTorch's own run of the quantized module.  Needs the extra ``suite``.  Names: _networks.py.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
RECIPES = ("fp16", "8a8w", "16a8w", "16a4w")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--recipe", action="append", choices=RECIPES, help="all but 16a4w by default")
    parser.add_argument("--builders", choices=("opdb", "stock"), default="opdb")
    parser.add_argument("--soc", default="SM8650")
    parser.add_argument("--json", type=Path, help="file that gets a line for each network and recipe")
    asked = parser.parse_args()
    sys.path.insert(0, str(HERE))
    from _networks import NETWORKS

    print(f"{'network':24} {'recipe':6} {'delegated':>10} {'compile':>8} {'run':>7}  against PyTorch")
    bad = 0
    for name in asked.names or NETWORKS:
        for recipe in asked.recipe or RECIPES[:3]:
            line = one(name, recipe, asked.builders, asked.soc)
            bad += "failed" in line
            print(text(line), flush=True)
            if asked.json:
                with asked.json.open("a") as out:
                    out.write(json.dumps(line) + "\n")
    return 1 if bad else 0


def one(name: str, recipe: str, builders: str, soc: str) -> dict[str, Any]:
    from opdb.core.errors import OpdbError
    from opdb.plugins.executorch import env, process

    line: dict[str, Any] = {"network": name, "recipe": recipe, "builders": builders, "soc": soc}
    try:
        line |= process.call(
            "networks:measure",
            name,
            recipe,
            builders,
            soc,
            environment=env.prepare(),
            timeout=1800.0,
            path=[HERE],
        )
    except OpdbError as error:
        line["failed"] = str(error)
    return line


def measure(name: str, recipe: str, builders: str, soc: str) -> dict[str, Any]:
    """The child's side of ``one``."""
    import torch
    from _networks import NETWORKS
    from torch.utils._pytree import tree_leaves

    import opdb.plugins.executorch
    from opdb.plugins.executorch import flow, quantize

    module, inputs = NETWORKS[name]()
    with torch.no_grad():
        wanted = [o.numpy() for o in tree_leaves(module(*inputs))]
    quantized = recipe != "fp16"
    if builders == "opdb":
        opdb.plugins.executorch.register(execution="emulator")
    ready = quantize.quantize(module, inputs, soc, recipe) if quantized else module
    simulated = [o.detach().numpy() for o in tree_leaves(ready(*inputs))] if quantized else None
    began = time.perf_counter()
    compiled = flow.compile_module(ready, inputs, soc, "quantized" if quantized else "fp16")
    seconds = time.perf_counter() - began
    began = time.perf_counter()
    got = [np.asarray(o) for o in flow.run_pte(compiled.pte, inputs)]
    return {
        "nodes": len(compiled.delegated) + len(compiled.not_delegated),
        "delegated": len(compiled.delegated),
        "left": {n: [r.message for r in compiled.reasons.get(n, ())] for n in compiled.not_delegated},
        "compile": seconds,
        "run": time.perf_counter() - began,
        "float": [compared(g, w) for g, w in zip(got, wanted, strict=True)],
        "simulated": [compared(g, w) for g, w in zip(got, simulated, strict=True)] if simulated else None,
        "quantization": [compared(g, w) for g, w in zip(simulated, wanted, strict=True)]
        if simulated
        else None,
    }


def compared(got: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> tuple[float, float]:
    """The largest error over the largest value, and the signal-to-noise ratio in dB."""
    g, w = got.astype(np.float64).reshape(wanted.shape), wanted.astype(np.float64)
    noise = float(((g - w) ** 2).sum())
    ratio = 10 * np.log10(float((w**2).sum()) / noise) if noise else np.inf
    return float(np.abs(g - w).max() / (np.abs(w).max() or 1.0)), float(ratio)


def text(line: dict[str, Any]) -> str:
    start = f"{line['network']:24} {line['recipe']:6}"
    if "failed" in line:
        return f"{start} failed: {line['failed'].strip().splitlines()[-1][:300]}"
    said = [f"float {line['float'][0][0]:.2g}, {line['float'][0][1]:.1f} dB"]
    if line["simulated"]:
        said += [
            f"quantized module {line['simulated'][0][0]:.2g}, {line['simulated'][0][1]:.1f} dB",
            f"(the module itself {line['quantization'][0][1]:.1f} dB)",
        ]
    counts = f"{line['delegated']}/{line['nodes']}"
    return f"{start} {counts:>10} {line['compile']:7.1f}s {line['run']:6.1f}s  {'; '.join(said)}"


if __name__ == "__main__":
    sys.exit(main())
