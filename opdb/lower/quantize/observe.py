"""Observes the range of every tensor of a float graph by running it with all intermediates as outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from opdb.core.errors import OpdbError
from opdb.core.graph import QnnGraph
from opdb.lower.quantize.encodings import Range
from opdb.lower.quantize.masks import floor_of, softmax_axes
from opdb.lower.quantize.observers import BY_ENDS, Observation, Observer

#: Runs a graph: arrays by the name of the input -> arrays by the name of the output.
Run = Callable[[QnnGraph, Mapping[str, Any]], Mapping[str, Any]]


class Kept(Protocol):
    """State carried from one run to the next: an output that is the next run's input, which starts as ``initial``."""

    @property
    def input(self) -> str: ...
    @property
    def output(self) -> str: ...
    @property
    def initial(self) -> Any: ...


def observe(
    graph: QnnGraph,
    calibration: Iterable[Mapping[str, Any]],
    run: Run,
    states: Sequence[Kept] = (),
    floors: dict[str, float] | None = None,
    watched: Callable[[str], tuple[Observation, str]] = lambda tensor: (BY_ENDS, ""),
) -> dict[str, Range]:
    """Returns the range of each tensor over all of ``calibration``: real arrays by the name of the input.

    ``states``: their inputs are in no sample, unless one restarts.  ``run`` computes the float graph;
    e.g. opdb.runtime.kernels.run_graph, or VendorWorker for QNN CPU.  ``floors`` gets the lowest value that the encoding of each
    softmax's input must reach (opdb.lower.quantize.masks).  ``watched``: how the range of a tensor follows from its values, and its wanted
    type.
    Raises OpdbError if there is no calibration data, and for values that are not finite.
    """
    debug = graph.with_intermediates()
    softmaxes = softmax_axes(graph)
    observers: dict[str, Observer] = {}

    def see(name: str, values: Any, what: str) -> None:
        array = np.asarray(values)
        if not np.isfinite(array).all():
            raise OpdbError(f"{graph.name}: the tensor {name} has a value that is not finite{what}")
        if name not in observers:
            observers[name] = Observer(*watched(name))
        observers[name].see(array)

    real = [t.name for t in graph.tensors.values() if t.dtype in ("f32", "f16") and t.type == "STATIC"]
    for name in real:
        see(name, graph.tensors[name].data, "")
    batches = 0
    kept = {s.input: s.initial for s in states}
    for batches, sample in enumerate(calibration, 1):
        inputs = {**kept, **sample}
        made = run(debug, inputs)
        kept = {s.input: made[s.output] for s in states}
        for name, values in {**inputs, **made}.items():
            see(name, values, f", with calibration input {batches}")
            if floors is not None and (floor := floor_of(softmaxes.get(name), values)) is not None:
                floors[name] = min(floor, floors.get(name, floor))
    if not batches:
        raise OpdbError(
            f"{graph.name}: ranges come from running the graph; give at least one calibration input"
        )
    return {name: observer.range() for name, observer in observers.items()}
