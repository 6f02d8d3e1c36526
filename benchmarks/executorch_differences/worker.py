"""Runs in a child process with the prepared environment: lowerings side by side, programs on the emulation.

Each result is a JSON line of a file as soon as it is known; ``.running`` beside it names the current job, so that a job
that kills the process is known.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from executorch_differences.cases import Case, Plain, cases

import opdb.plugins.executorch
from opdb.catalog.targets.target import Target
from opdb.lower import select
from opdb.plugins.executorch import env, flow, quantize
from opdb.plugins.executorch.builder import builder_differences as compared
from opdb.plugins.executorch.builder.view import FxNodeView
from opdb.plugins.executorch.edge import edge_program
from opdb.plugins.executorch.tools.differences import of_program
from opdb.runtime.forms import Lowered, NodeView, Rejected

SOC = "SM8650"
TARGET = Target("HTP", SOC, "2.47", execution="emulator")
DEVICE = Target("HTP", SOC, "2.47", execution="device")
RECIPE = "8a8w"
STEPS = 3  # of the output's scale, the allowed error of a quantized program


class Left(Exception):
    """A case that cannot be compared; its text is the reason."""


def record(jobs: Sequence[tuple[str, str]], results: str) -> None:
    """Writes the differences of each (case, precision)."""
    known = cases()
    _each(jobs, results, lambda at, name, precision: _recorded(known[name], precision))


def prove(jobs: Sequence[tuple[Any, ...]], results: str) -> None:
    """Writes the numbers of both kinds of builders for each (case, precision, ATen targets that differ, runs so far)."""
    known = cases()
    _each(jobs, results, lambda at, name, *job: _proof(known[name], at, *job))


At = Callable[[str, dict[str, Any]], None]


def _each(jobs: Iterable[tuple[Any, ...]], results: str, work: Callable[..., dict[str, Any]]) -> None:
    """Runs all jobs.  ``work`` receives a function that records its current stage and results so far, and a job."""
    logging.disable(logging.WARNING)
    path = Path(results)
    running = path.with_suffix(".running")
    for job in jobs:
        line = {"case": job[0], "precision": job[1]}

        def at(stage: str, has: dict[str, Any], line: dict[str, Any] = line) -> None:
            running.write_text(json.dumps({**line, **has, "stage": stage}))

        at("", {})
        start = time.perf_counter()
        line |= work(at, *job)
        line["seconds"] = round(time.perf_counter() - start, 2)
        with path.open("a") as out:
            out.write(json.dumps(line) + "\n")
    running.unlink(missing_ok=True)


# -- lowerings


def _recorded(case: Case, precision: str) -> dict[str, Any]:
    noted: dict[str, Lowered] = {}
    try:
        module, inputs = _module(case, precision)
        with _beside_stock(TARGET, noted), torch.no_grad():
            program = edge_program(module, inputs, env.chipset(SOC)).whole
            noted.clear()  # drop the operators that are asked about before decomposition
            found = of_program(program)
        with _beside_stock(DEVICE, {}):
            device = {d.node: d.own for d in of_program(program)}
    except Exception as e:  # PyTorch, the quantizer and the passes raise anything
        return {"left": _words(e)}
    return {
        "equal": sorted({d.edge for d in found if not d.lines}),
        "differences": [_plain(d, device[d.node], noted.get(d.node)) for d in found if d.lines],
    }


@contextlib.contextmanager
def _beside_stock(target: Target, noted: dict[str, Lowered]) -> Iterator[None]:
    """Registers opdb's builders for ``target`` beside ExecuTorch's; ``noted`` gets the last lowering of each node."""

    def lower(view: NodeView, target: Target) -> Lowered | Rejected:
        made = select.lower(view, target)
        if isinstance(made, Lowered) and isinstance(view, FxNodeView):
            noted[view.name] = made
        return made

    opdb.plugins.executorch.register(keep_stock=True, target=target, lower=lower)
    try:
        yield
    finally:
        opdb.plugins.executorch.unregister()


def _plain(d: compared.Difference, device: compared.Side, made: Lowered | None) -> dict[str, Any]:
    """``device``: opdb's ops of the node for a device; ``avoided``: the errata that shaped ``made``;
    ``passed``: the candidates that were passed over, with the rules that did not hold.
    """
    sides = {
        side: {"ops": [op.kind for op in made.ops], "refusal": made.refusal, "raised": made.raised}
        for side, made in (("theirs", d.stock), ("ours", d.own), ("device", device))
    }
    lines = [[line.place, line.what, line.stock, line.own] for line in d.lines]
    avoided = [] if made is None else list(made.avoided)
    passed = [] if made is None else [[r.form, r.rule, r.message] for r in made.notes if not r.warning]
    why = {"avoided": avoided, "passed": passed}
    return {"node": d.node, "edge": d.edge, "target": d.target, **sides, **why, "lines": lines}


def _module(case: Case, precision: str) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """The module and its inputs; quantized by ExecuTorch's own quantizer."""
    module, inputs = case.build(), tuple(t.contiguous() for t in case.inputs())
    with torch.no_grad():
        returned = module(*inputs)
    if isinstance(returned, tuple) and type(returned) is not tuple:
        module = Plain(module).eval()
    if precision == "fp16":
        return module, inputs
    if not any(t.is_floating_point() for t in inputs):
        raise Left("no input of floats")
    quantized = quantize.quantize(module, inputs, SOC, RECIPE)
    if not any("quantize" in str(n.target) for n in quantized.graph.nodes):
        raise Left("the quantizer leaves it as it is")
    return quantized, inputs


# -- numbers


def _proof(
    case: Case, at: At, precision: str, targets: Sequence[str], before: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """``runs``: with all builders exchanged ("theirs", "ours"); if these differ, also with one operator exchanged."""
    module, inputs = _module(case, precision)
    with torch.no_grad():
        reference = _flat(module(*inputs))
    allowed = _allowed(module, reference, case.tolerance, precision)
    runs = dict(before or {})

    def run(name: str, **how: Any) -> bool:
        if name not in runs:
            at(name, {"runs": runs})
            runs[name] = _run(module, inputs, reference, allowed, how)
        return bool(runs[name]["right"])

    ours, theirs = run("ours", keep_flow=True), run("theirs", keep_stock=True)
    if len(targets) > 1 and theirs != ours:
        for target in targets:  # from the state that is right, one operator goes to the other side
            how = {"without": [target]} if ours else {"targets": [target], "whole": ()}
            run(target, keep_flow=True, **how)
    return {"allowed": allowed, "runs": runs}


def _run(
    module: torch.nn.Module,
    inputs: tuple[torch.Tensor, ...],
    reference: list[torch.Tensor],
    allowed: list[float],
    how: dict[str, Any],
) -> dict[str, Any]:
    """``error``: the largest error over the reference's largest value; None if there are no numbers (``failure``)."""
    left: list[str] = []
    opdb.plugins.executorch.register(target=TARGET, **how)
    try:
        compiled = flow.compile_module(module, inputs, SOC)
        left = list(compiled.not_delegated)
        got = flow.run_pte(compiled.pte, inputs)
    except Exception as e:
        return {"right": False, "error": None, "failure": _words(e), "left": left}
    finally:
        opdb.plugins.executorch.unregister()
    errors = [error(g, w) for g, w in zip(got, reference, strict=True)]
    right = all(e <= a for e, a in zip(errors, allowed, strict=True))
    return {"right": right, "error": max(errors, default=0.0), "failure": "", "left": left}


def error(got: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest difference over the largest finite wanted value; infinite if shape or finiteness differ."""
    if got.numel() != wanted.numel():
        return float("inf")
    got, wanted = got.reshape(wanted.shape).double(), wanted.double()
    finite = torch.isfinite(wanted)
    same = torch.equal(got[~finite].nan_to_num(7.0), wanted[~finite].nan_to_num(7.0))
    if not same or not torch.isfinite(got[finite]).all():
        return float("inf")
    if not finite.any():
        return 0.0
    span = float(wanted[finite].abs().max()) or 1.0
    return float((got[finite] - wanted[finite]).abs().max()) / span


def _allowed(module: Any, reference: list[torch.Tensor], tolerance: float, precision: str) -> list[float]:
    """The allowed error of each output: 0 for integers, STEPS of its scale for a quantized output."""
    allowed = [tolerance if w.dtype.is_floating_point else 0.0 for w in reference]
    if precision != "fp16":
        (output,) = (n for n in module.graph.nodes if n.op == "output")
        for i, value in enumerate(_flat(output.args[0])):
            if "dequantize_per_tensor" in str(getattr(value, "target", "")) and isinstance(
                value.args[1], float
            ):
                span = float(reference[i].abs().max()) or 1.0
                allowed[i] = max(allowed[i], STEPS * value.args[1] / span * (1 + 1e-4))
    return allowed


def _flat(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (list, tuple)) else [values]


def _words(e: BaseException) -> str:
    lines = str(e).strip().splitlines()
    return f"{type(e).__name__}: {lines[0] if lines else ''}"[:300].rstrip(": ")


def both() -> list[str]:
    """Edge names for which both ExecuTorch and opdb have a builder."""
    taken = opdb.plugins.executorch.register(keep_stock=True, target=TARGET)
    opdb.plugins.executorch.unregister()
    return sorted(set(taken.builders) - set(taken.added))
