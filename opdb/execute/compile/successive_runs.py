"""Runs a graph several times in a row: its states pass from each run to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opdb.core.graph import GraphTensor
    from opdb.execute.compile.states import State
    from opdb.execute.libraries.client import VendorWorker
    from opdb.execute.libraries.results import ExecuteResult
    from opdb.runtime.qnn.execution import Array


def given_inputs(
    tensors: Sequence[GraphTensor], states: Sequence[State], specs: Sequence[str]
) -> list[GraphTensor]:
    """The inputs that --inputs must provide: a state's input only if --inputs names it."""
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
    """Returns the last run, or the first that fails, with the times of all; and every output of all runs, stacked along a new first axis.

    ``fed``: the arrays of ``given``, from opdb.execute.compile.inputs.feed for that many steps.
    """
    from opdb.execute.compile.inputs import at_step

    values = {s.input: s.initial for s in states}
    results: list[ExecuteResult] = []
    for step in range(steps):
        now = at_step(fed, given, step)
        results.append(worker.execute(graph, values | now if step == 0 else now | values))
        if results[-1].stage != "done":
            return results[-1], {}
        values = {s.input: results[-1].outputs[s.output] for s in states}
    seconds = tuple(s for r in results for s in r.seconds)
    every = {name: np.stack([r.outputs[name] for r in results]) for name in results[-1].outputs}
    return replace(results[-1], seconds=seconds), every
