"""The modules of tests/coverage, quantized by ExecuTorch's quantizer with opdb's builders: what is delegated, and right.

    python benchmarks/quantized.py [NAME ...] [--recipe 8a8w] [--soc SM8650] [--json FILE]

Each module (about 750, one for each way in which a mapped ATen target is used) is calibrated on its inputs, compiled
and run on the emulation; PyTorch's run of the quantized module judges, in steps of each output's encoding.

* ``right``: delegated whole, within three steps (in 16 bits within 1e-3 of the range, where that is more);
* ``partly``: right, and some nodes run on the CPU;
* ``wrong``: more steps off;
* ``ends``: quantizing, exporting or running raised; ex) ExecuTorch's runtime has no kernel for what was left to the CPU;
* ``floats``: nothing in it is quantized; ex) comparisons of whole numbers.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
COVERAGE = HERE.parent / "tests" / "coverage"
CHUNK = 12  # modules to a child process
STEPS, PART = 3.01, 1e-3


def measure(names: list[str], recipe: str, soc: str) -> list[dict[str, Any]]:
    """What a child process does: a line for each module."""
    import opdb.executorch

    opdb.executorch.register()
    return [_measured(name, recipe, soc) for name in names]


def _measured(name: str, recipe: str, soc: str) -> dict[str, Any]:
    from every_module import CASES
    from torch.utils._pytree import tree_leaves

    from opdb.executorch import flow

    case = next(c for c in CASES if c.id == name)
    line: dict[str, Any] = {"name": name, "left": {}, "steps": 0.0}
    try:
        inputs = case.inputs()
        quantized = flow.quantize(case.build(), inputs, soc, recipe)
        ends = list(tree_leaves(next(n for n in quantized.graph.nodes if n.op == "output").args[0]))
        scales = [n.args[1] if _is_dequantize(n) and isinstance(n.args[1], float) else None for n in ends]
        if not any(scales):
            return line | {"outcome": "floats"}
        compiled = flow.compile_module(quantized, inputs, soc, "quantized")
        line["left"] = {
            n: "; ".join(r.message for r in compiled.reasons.get(n, ()))[:300] for n in compiled.not_delegated
        }
        got, wanted = tree_leaves(flow.run_pte(compiled.pte, inputs)), tree_leaves(quantized(*inputs))
        line["steps"], right = _compared(got, wanted, scales)
        return line | {"outcome": ("partly" if line["left"] else "right") if right else "wrong"}
    except Exception as error:
        return line | {"outcome": "ends", "why": " ".join(str(error).split())[:400]}


def _is_dequantize(node: Any) -> bool:
    return "dequantize_per_tensor" in str(getattr(node, "target", ""))


def _compared(got: Any, wanted: Any, scales: list[float | None]) -> tuple[float, bool]:
    """The largest error in steps, and whether each output is near enough."""
    steps, right = 0.0, True
    for g, w, scale in zip(got, wanted, scales, strict=True):
        g, w = g.double(), w.double()
        error = float((g - w).abs().max()) if w.numel() else 0.0
        span = float(w.abs().max()) if w.numel() else 0.0
        steps = max(steps, error / scale) if scale else steps
        right &= error <= (max(STEPS * scale, PART * span) if scale else 1e-2 * max(span, 1.0))
    return round(steps, 2), right


def lines_of(names: list[str], recipe: str, soc: str) -> list[dict[str, Any]]:
    """A module that takes its process down is measured alone."""
    from opdb.executorch import env, process

    try:
        found: list[dict[str, Any]] = process.call(
            "quantized:measure", names, recipe, soc, environment=env.prepare(), path=[HERE, COVERAGE],
            timeout=120.0 * len(names),
        )  # fmt: skip
    except process.ChildError as error:
        if len(names) == 1:
            why = str(error).splitlines()[0]
            return [{"name": names[0], "outcome": "ends", "left": {}, "steps": 0.0, "why": why}]
        return [line for name in names for line in lines_of([name], recipe, soc)]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="modules, or beginnings of their names; default all")
    parser.add_argument("--recipe", default="8a8w")
    parser.add_argument("--soc", default="SM8650")
    parser.add_argument("--json", type=Path, help="write all lines to this file")
    asked = parser.parse_args()
    sys.path.insert(0, str(COVERAGE))
    from every_module import CASES

    names = [
        c.id
        for c in CASES
        if "HTP" in c.backends and (not asked.names or any(map(c.id.startswith, asked.names)))
    ]
    lines: list[dict[str, Any]] = []
    for i in range(0, len(names), CHUNK):
        lines += lines_of(names[i : i + CHUNK], asked.recipe, asked.soc)
        for line in lines[i:]:
            told = line.get("why") or "; ".join(f"{n}: {why}" for n, why in line["left"].items())
            print(f"{line['outcome']:7} {line['name']:44} {line['steps']:8.2f} steps  {told}", flush=True)
        if asked.json:
            asked.json.write_text(json.dumps(lines, indent=1))
    print(
        f"{len(lines)} modules in {asked.recipe} on {asked.soc}:", dict(Counter(x["outcome"] for x in lines))
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
