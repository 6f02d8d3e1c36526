"""The range of every tensor of a float graph, from running it with all intermediates as outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from opdb.errors import OpdbError
from opdb.graph import QnnGraph
from opdb.quantize.encodings import Range

#: Runs a graph: arrays by the name of the input -> arrays by the name of the output.
Run = Callable[[QnnGraph, Mapping[str, Any]], Mapping[str, Any]]


def observe(graph: QnnGraph, calibration: Iterable[Mapping[str, Any]], run: Run) -> dict[str, Range]:
    """The ranges by tensor over all of ``calibration``: real arrays by the name of the input.

    ``run`` computes the float graph; e.g. opdb.runtime.kernels.run_graph, or VendorWorker for QNN CPU.
    Raises OpdbError where there is no calibration data, and for values that are not finite.
    """
    debug = graph.with_intermediates()
    ranges: dict[str, Range] = {}

    def see(name: str, values: Any, what: str) -> None:
        array = np.asarray(values)
        if not np.isfinite(array).all():
            raise OpdbError(f"{graph.name}: the tensor {name} has a value that is not finite{what}")
        ranges[name] = ranges.get(name, Range()) | Range.of(array)

    real = [t.name for t in graph.tensors.values() if t.dtype in ("f32", "f16") and t.type == "STATIC"]
    for name in real:
        see(name, graph.tensors[name].data, "")
    batches = 0
    for batches, inputs in enumerate(calibration, 1):
        for name, values in {**inputs, **run(debug, inputs)}.items():
            see(name, values, f", with calibration input {batches}")
    if not batches:
        raise OpdbError(
            f"{graph.name}: ranges come from running the graph; give at least one calibration input"
        )
    return ranges
