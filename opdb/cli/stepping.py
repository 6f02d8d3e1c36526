"""Runs of a graph one after the other: what it keeps goes from each to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opdb.compile.states import State
    from opdb.graph import GraphTensor
    from opdb.probe.client import VendorWorker
    from opdb.probe.results import ExecuteResult
    from opdb.runtime.qnn.execution import Array


def given_inputs(
    tensors: Sequence[GraphTensor], states: Sequence[State], specs: Sequence[str]
) -> list[GraphTensor]:
    """The inputs that --inputs has to name: a state's only where it is named there."""
    kept = {s.input for s in states}
    return [t for t in tensors if t.name not in kept or any(s.startswith(f"{t.name}=") for s in specs)]


def stepped(
    worker: VendorWorker,
    graph: str,
    fed: Mapping[str, Array],
    given: Sequence[GraphTensor],
    states: Sequence[State],
    steps: int,
) -> tuple[ExecuteResult, dict[str, Array]]:
    """The last run, or the first that fails, with the times of all; and every output of all runs, stacked in front.

    ``fed``: of ``given``, as opdb.compile.feed.feed gives it for so many steps.
    """
    from opdb.compile.feed import at_step

    values = {s.input: s.initial for s in states}
    outputs: dict[str, list[Array]] = {}
    seconds: tuple[float, ...] = ()
    step = 0
    while True:
        now = at_step(fed, given, step)
        result = worker.execute(graph, values | now if step == 0 else now | values)
        if result.stage != "done":
            return result, {}
        seconds, step = seconds + result.seconds, step + 1
        values = {s.input: result.outputs[s.output] for s in states}
        for name, array in result.outputs.items():
            outputs.setdefault(name, []).append(array)
        if step == steps:
            break
    return replace(result, seconds=seconds), {name: np.stack(arrays) for name, arrays in outputs.items()}
