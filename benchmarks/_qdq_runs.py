"""The outcome of one quantized ONNX file: checked and run by opdb, run by ONNX Runtime on the CPU, placed by its QNN provider."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from _qdq_files import inputs
from onnx import numpy_helper

from opdb.catalog.targets.target import Target
from opdb.checks.coverage import Coverage
from opdb.checks.file_names import with_names
from opdb.checks.graph import build_graph
from opdb.checks.notes import unsaid
from opdb.checks.verdicts import read_and_check
from opdb.execute.libraries.client import VendorWorker
from opdb.lower.passes import optimize
from opdb.programs.load import load_program
from opdb.runtime.qnn.real_numbers import to_real, to_stored

#: Allowed error relative to the largest float result: float graphs are computed in half precision.
IN_FLOATS = 0.02


@dataclass
class Outcome:
    """``steps``: the largest distance from ONNX Runtime's CPU, which runs the file as written, in steps of the output's scale; for a
    float output ``off``, as a fraction of the largest result.  ``default``: the same distance between ONNX Runtime running it as
    written and with default optimizations.  ``provider``: how many nodes its QNN provider takes, leaves, or its error.
    """

    form: str
    graph: str
    verdict: str = ""  # accepted, left, or why the file is not read
    left: str = ""  # the ONNX operators of nodes without a form
    quantized: int = 0  # nodes with quantized tensors
    said: int = 0  # nodes that the report says compute in floats, or with wider weights
    silent: int = 0  # float nodes beside quantized tensors that the report does not mention
    compiles: bool = False
    runs: bool = False
    steps: float | None = None
    off: float | None = None
    default: float | None = None
    why: str = ""
    provider: str = ""


def outcome(
    form: str, graph: str, path: Path, target: Target, vendor: VendorWorker, seed: int = 7
) -> Outcome:
    made = Outcome(form, graph)
    given = inputs(path, seed)
    wanted, default = (_by_cpu(path, given, raw) for raw in (True, False))
    scale = _step(path)
    made.default = _distance(default, wanted, scale)
    try:
        program, coverage = read_and_check(load_program(str(path)), target)
    except Exception as error:
        made.verdict, made.why = "not read", f"{type(error).__name__}: {error}"[:200]
        return made
    _verdict(made, program, with_names(coverage, str(path)))
    if made.verdict == "accepted":
        _run(made, program, coverage, target, vendor, given, (wanted, scale))
    return made


def _verdict(made: Outcome, program: Any, coverage: Coverage) -> None:
    made.verdict = "accepted" if coverage.complete else "left"
    made.left = ", ".join(
        sorted({r.line.rpartition(": ")[2] or r.target for r in coverage.rows if r.verdict != "supported"})
    )
    made.said = sum(bool(r.said) for r in coverage.rows)
    made.silent = sum(1 for _ in unsaid(program, coverage))
    made.quantized = sum(_quantized(found) for found in coverage.lowered.values())


def _quantized(lowered: Any) -> bool:
    ops = getattr(lowered, "ops", ())
    return any("q" in t.dtype for op in ops for t in (*op.inputs, *op.outputs) if t is not None)


def _run(
    made: Outcome,
    program: Any,
    coverage: Coverage,
    target: Target,
    vendor: VendorWorker,
    given: dict[str, Any],
    wanted: Any,
) -> None:
    graph = optimize(build_graph(program, coverage.lowered, "qdq"), target).graph
    ends = {
        t.name: to_stored(t, np.asarray(v).reshape(t.shape))
        for t, v in zip(graph.inputs, given.values(), strict=True)
    }
    result = vendor.run(graph, ends)
    made.compiles, made.runs = result.stage in ("done", "execute"), result.stage == "done"
    if not made.runs:
        made.why = f"{result.stage}: {result.node} {' '.join(result.log[-2:])}"[:300]
        return
    (end,) = graph.outputs
    value, scale = wanted
    found = _distance(to_real(end, result.outputs[end.name]).reshape(value.shape), value, scale)
    made.steps, made.off = (found, None) if scale is not None else (None, found)


def _distance(got: Any, wanted: Any, scale: float | None) -> float:
    apart = float(np.abs(got.astype(np.float64) - wanted).max())
    return apart / (scale if scale is not None else float(np.abs(wanted).max()))


def _by_cpu(path: Path, given: dict[str, Any], raw: bool) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if raw:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, given)[0].astype(np.float64)


def _step(path: Path) -> float | None:
    """The scale of the output; None for a float output that nothing quantized."""
    graph = onnx.load(str(path)).graph
    values = {w.name: w for w in graph.initializer}
    last = next(n for n in graph.node if graph.output[0].name in n.output)
    if last.op_type != "DequantizeLinear" or last.input[1] not in values:
        return None
    return float(numpy_helper.to_array(values[last.input[1]]).reshape(-1)[0])


def row(made: Outcome) -> str:
    return json.dumps(asdict(made))
