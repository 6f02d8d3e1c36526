"""The judgement of outputs, and other code that the suites' plugins share."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch

#: Largest error of a float graph over the range of the reference; of a quantized one in output steps.
FLOAT_TOLERANCE = 1e-2
STEPS = 3


def honest(outputs: Sequence[Any], reference: Sequence[Any], steps: Sequence[float | None] | None) -> str:
    """Returns "" if the outputs are right, else the error.

    Float: the largest error is at most 1e-2 of the range of the reference.  Quantized: at most 3 steps from
    the reference, which PyTorch computed with the same quantized module.  Integers and bools are equal.
    ``steps``: the scales of a quantized module's outputs.
    """
    for i, (got, wanted) in enumerate(zip(outputs, reference, strict=True)):
        if wanted.dtype == torch.bool or not wanted.dtype.is_floating_point:
            if not torch.equal(got.to(torch.float64), wanted.to(torch.float64)):
                return f"output {i}: {int((got != wanted).sum())} of {got.numel()} differ"
            continue
        finite = torch.isfinite(wanted)
        if not torch.equal(torch.isfinite(got), finite):
            return f"output {i}: not finite elsewhere than the reference"
        if not finite.any():
            continue
        error = float((got[finite].double() - wanted[finite].double()).abs().max())
        span = float(wanted[finite].abs().max()) or 1.0
        allowed = STEPS * steps[i] if steps and steps[i] else FLOAT_TOLERANCE * span
        if error > allowed * (1 + 1e-4):
            return f"output {i}: error {error:.3g}, allowed {allowed:.3g} (reference up to {span:.3g})"
    return ""


def output_steps(module: Any) -> list[float | None]:
    """The scale of each output of a quantized module; None if it does not end in a dequantize node."""
    output = next(n for n in module.graph.nodes if n.op == "output")
    values = output.args[0]
    values = values if isinstance(values, (list, tuple)) else [values]
    scales: list[float | None] = []
    for value in values:
        per_tensor = "dequantize_per_tensor" in str(getattr(value, "target", ""))
        scales.append(float(value.args[1]) if per_tensor and isinstance(value.args[1], float) else None)
    return scales


def left_out() -> str:
    """The reasons for which opdb's builders left nodes out since the last call."""
    if os.environ["OPDB_SUITE_BUILDERS"] != "opdb":
        return ""
    import opdb.plugins.executorch

    left = opdb.plugins.executorch.reasons()
    opdb.plugins.executorch.forget()
    return "".join(f" [{n}: {'; '.join(f'{r.rule} {r.message}' for r in why)}]" for n, why in left.items())
