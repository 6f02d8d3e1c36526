"""Runs the modules of ``every_module`` through ExecuTorch's whole flow with opdb's builders; reports delegation and accuracy.

``fp16``: a module as it is, compared with PyTorch's run.  Else a recipe of the quantizer, calibrated on the module's inputs
and compared with PyTorch's run of the quantized module, in steps of each output's encoding, or with the module itself if
that is nearer (HTP rounds nothing where a Quantize and a Dequantize meet; e.g. asin of 1).

* ``right``: delegated whole, and near enough: floats within 1e-2 of the largest value, quantized results within three
  steps (in 16 bits within 5e-3 of the largest value, if that is more: HTP computes some in fp16), integers and booleans
  equal;
* ``partly``: right, and some nodes run on the CPU;
* ``wrong``: further off;
* ``ends``: quantizing, exporting or running raised; e.g. ExecuTorch's runtime has no kernel for an op left to the CPU;
* ``floats``: no output is quantized, though a recipe was requested; e.g. comparisons of integers.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import torch
from every_module import CASES
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import opdb.plugins.executorch
from opdb.plugins.executorch import flow, quantize

STEPS, PART, FLOATS = 3.01, 5e-3, 1e-2


def measure(names: list[str], recipe: str, soc: str) -> list[dict[str, Any]]:
    """The work of a child process: a line for each module."""
    sys.path.append(str(Path(__file__).parents[2] / "tests"))
    from spare_time import spare_time

    spare_time()
    opdb.plugins.executorch.register(execution="emulator")
    try:
        return [_measured(name, recipe, soc) for name in names]
    finally:
        opdb.plugins.executorch.unregister()


def _measured(name: str, recipe: str, soc: str) -> dict[str, Any]:
    case = next(c for c in CASES if c.id == name)
    line: dict[str, Any] = {"name": name, "left": {}, "error": 0.0}
    try:
        inputs = [i.contiguous() for i in case.inputs()]  # as ExecuTorch's runtime wants them
        module, precision, scales = case.build(), "fp16", None
        if recipe != "fp16":
            module, precision = quantize.quantize(module, inputs, soc, recipe), "quantized"
            scales = _scales(module)
            if not any(scales):
                return line | {"outcome": "floats"}
        wanted = [torch.as_tensor(w) for w in tree_leaves(module(*_copied(inputs)))]
        exact = [torch.as_tensor(w) for w in tree_leaves(case.build()(*_copied(inputs)))]
        compiled = flow.compile_module(module, inputs, soc, precision)
        line["left"] = {
            n: "; ".join(r.message for r in compiled.reasons.get(n, ()))[:300] for n in compiled.not_delegated
        }
        got = tree_leaves(flow.run_pte(compiled.pte, inputs))
        line["error"], right = _compared(got, wanted, exact, scales or [None] * len(wanted))
        return line | {"outcome": ("partly" if line["left"] else "right") if right else "wrong"}
    except Exception as error:
        return line | {"outcome": "ends", "why": " ".join(str(error).split())[:400]}


def _copied(inputs: Any) -> Any:
    """Copies the inputs, because modules may write into them."""
    return [i.clone() for i in inputs]


def _scales(quantized: Any) -> list[float | None]:
    """The scale of each result; None for a result that is not quantized."""
    ends = tree_leaves(next(n for n in quantized.graph.nodes if n.op == "output").args[0])
    known = [_is_dequantize(n) and isinstance(n.args[1], float) for n in ends]
    return [n.args[1] if k else None for n, k in zip(ends, known, strict=True)]


def _is_dequantize(node: Any) -> bool:
    return "dequantize_per_tensor" in str(getattr(node, "target", ""))


def _compared(got: Any, wanted: Any, exact: Any, scales: list[float | None]) -> tuple[float, bool]:
    """The largest error, in steps for quantized results, else relative to the largest value; and True if all are near."""
    largest, right = 0.0, True
    for g, w, e, scale in zip(got, wanted, exact, scales, strict=True):
        if g.shape != w.shape:
            return math.inf, False
        if not w.is_floating_point():
            right &= torch.equal(g.to(w.dtype), w)
            continue
        errors = _off(g, w) if scale is None else torch.minimum(_off(g, w), _off(g, e))
        off = float(errors.max()) if w.numel() else 0.0
        span = float(w[w.isfinite()].abs().max()) if bool(w.isfinite().any()) else 0.0
        largest = max(largest, off / (scale or max(span, 1e-6)))
        right &= off <= (max(STEPS * scale, PART * span) if scale else FLOATS * span)
    return round(largest, 4), right


def _off(got: Any, wanted: Any) -> Any:
    same = (got == wanted) | (got.isnan() & wanted.isnan())
    return (got.double() - wanted.double()).abs().masked_fill(same, 0.0).nan_to_num(torch.inf)


def operators() -> dict[str, list[str]]:
    """The work of a child process: module -> the ATen operators in it, as exported and as PyTorch calls them."""
    return {case.id: _operators(case) for case in CASES if "HTP" in case.backends}


def _operators(case: Any) -> list[str]:
    try:
        program = torch.export.export(case.build(), case.inputs())
    except Exception:  # a module that PyTorch does not export has no operators
        return []
    module, inputs = case.build(), _copied(case.inputs())
    with _Called() as called:
        module(*inputs)
    exported = [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
    return list(dict.fromkeys([*exported, *called.names]))


class _Called(TorchDispatchMode):
    """Records the operators that PyTorch's own functions call."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))
