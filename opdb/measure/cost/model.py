"""Estimates a model's cost on a chip, by Qualcomm's simulation: ``opdb.cost``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opdb.catalog.targets.target import Target
from opdb.core.graph import QnnGraph
from opdb.execute.model import graph_of
from opdb.measure.cost.figures import Estimate
from opdb.measure.cost.simulator import estimate
from opdb.programs.model import Model


def cost(
    model: Model | QnnGraph,
    target: Target,
    inputs: tuple[Any, ...] | None = None,
    *,
    dims: Mapping[str, int] | None = None,
    trace: bool = False,
    timeout: float = 600.0,
) -> Estimate:
    """Estimates the latency and memory traffic of a model on an HTP chip by simulation; `opdb cost`.

    ``model``: as in ``opdb.compile``.  ``trace``: also the cost of each node.  ``timeout``: seconds for the library.

    Raises OpdbError if a node has no QNN op on ``target``, for a chip that the library does not simulate, and if it
    refuses the graph.

    >>> import opdb, torch
    >>> found = opdb.cost(torch.nn.Softmax(-1), opdb.Target("HTP", "SA8255"), (torch.randn(64, 256),))
    >>> found.us > 0
    True
    """
    graph = model if isinstance(model, QnnGraph) else graph_of(model, target, inputs, dims=dims)
    return estimate(graph, str(target.soc), trace=trace, timeout=timeout)
