"""TensorFlow Lite files: the verdict for each operator, and HTP's results on this machine beside TFLite's interpreter.

    python benchmarks/tflite_files.py FILE.tflite...

The files of docs/results/tflite.md are in the wheel mediapipe 0.10.21 (`pip download --no-deps mediapipe==0.10.21`, unzip it).  For
each: operators in the file, nodes, nodes on the CPU, seconds of `check` and of compiling, decibels of each result (its power over
the error's), and the largest error relative to the largest value.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter

from opdb.catalog.targets.target import Target
from opdb.checks.file_names import with_names
from opdb.checks.verdicts import check_program
from opdb.execute.compile.model import lowered
from opdb.execute.compile.model_io import Ends
from opdb.execute.libraries.client import VendorWorker
from opdb.programs.load import load_program
from opdb.programs.onnx.files import ends
from opdb.programs.tflite.file import read

TARGET = Target("HTP", "SM8650", execution="emulator")


def interpreted(path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Random inputs between 0 and 1, and the results of TFLite's interpreter; the same inputs for equal shapes."""
    interpreter, rng = Interpreter(path), np.random.default_rng(0)
    interpreter.allocate_tensors()
    inputs = {}
    for detail in interpreter.get_input_details():
        inputs[detail["name"]] = rng.random(detail["shape"]).astype(detail["dtype"])
        interpreter.set_tensor(detail["index"], inputs[detail["name"]])
    interpreter.invoke()
    return inputs, {d["name"]: interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()}


def compared(got: Any, want: Any) -> str:
    error = got.astype(np.float64) - want.astype(np.float64)
    power = float((want.astype(np.float64) ** 2).mean())
    decibels = 10 * np.log10(power / max(float((error**2).mean()), 1e-30))
    return f"{decibels:.0f} dB, {np.abs(error).max() / max(np.abs(want).max(), 1e-30):.1e}"


def line(path: str) -> str:
    operators = len(read(path)[0].operators)
    started = time.monotonic()
    coverage = check_program(load_program(path), TARGET)
    checked = time.monotonic() - started
    left = [r for r in with_names(coverage, path).rows if r.verdict != "supported"]
    start = f"| {Path(path).name} | {operators} | {len(coverage.rows)} | {len(left)} | {checked:.0f} |"
    if left:
        names = sorted({r.target.removeprefix("tflite.") for r in left})
        return f"{start} | falls back: {', '.join(names)} |"
    started = time.monotonic()
    _, graph = lowered(load_program(path), TARGET, "tflite", ends=Ends(*ends(path)))
    assert graph is not None
    built = time.monotonic() - started
    inputs, wanted = interpreted(path)
    with VendorWorker("HTP", TARGET.soc) as vendor:
        result = vendor.run(graph, {t.name: inputs[t.name] for t in graph.inputs})
    if result.stage != "done":
        return f"{start} {built:.0f} | ends at {result.stage}: {result.node} |"
    return f"{start} {built:.0f} | {'; '.join(compared(result.outputs[n], w) for n, w in wanted.items())} |"


if __name__ == "__main__":
    print(
        "| file | operators | nodes | on the CPU | check, s | lower, s | results on HTP |\n|---|---|---|---|---|---|---|"
    )
    for name in sys.argv[1:]:
        print(line(name), flush=True)
