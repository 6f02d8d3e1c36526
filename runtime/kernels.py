"""Runs a QnnGraph on the C kernels: numpy in, numpy out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError
from opdb.core.graph import GraphTensor, QnnGraph
from opdb.runtime import native

if TYPE_CHECKING:
    import numpy as np


def run_graph(graph: QnnGraph, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the outputs of ``graph`` by name for ``inputs`` by name; row-major, as QNN stores them.

    Every op goes through its generated shim, which validates first.  Raises OpdbError for a missing input,
    KernelError for an op without a kernel for its data types.
    """
    import numpy

    given = {}
    for tensor in graph.inputs:
        if tensor.name not in inputs:
            raise OpdbError(
                f"{graph.name}: the input '{tensor.name}' is missing; inputs are {', '.join(t.name for t in graph.inputs)}"
            )
        given[tensor.name] = numpy.ascontiguousarray(inputs[tensor.name], dtype=_stored(tensor))
    return PreparedGraph(graph, given).run()


class PreparedGraph:
    """A QnnGraph on the C kernels with bound arrays, for repeated runs by one thread at a time.

    ``ends``: contiguous arrays by tensor name, as QNN stores them: every input, and any outputs to write in
    place.  All other tensors are allocated once.  Raises OpdbError for a missing or mismatched array,
    KernelError for an op without a kernel.
    """

    def __init__(self, graph: QnnGraph, ends: Mapping[str, np.ndarray]) -> None:
        import numpy

        values: dict[str, np.ndarray] = {}
        for tensor in graph.tensors.values():
            if tensor.name in ends:
                values[tensor.name] = ends[tensor.name]
            elif tensor.type == "STATIC":
                data = numpy.asarray(tensor.data, dtype=_stored(tensor)).reshape(tensor.shape)
                values[tensor.name] = numpy.ascontiguousarray(data).reshape(tensor.shape)
            elif tensor.type == "APP_WRITE":
                raise OpdbError(f"{graph.name}: there is no array for the input '{tensor.name}'")
            else:
                values[tensor.name] = numpy.empty(tensor.shape, _stored(tensor))
        self.graph = graph
        self.outputs = {t.name: values[t.name] for t in graph.outputs}
        self._ops = [
            native.Prepared(
                graph.op_config(op),
                [None if name is None else values[name] for name in op.inputs],
                [values[name] for name in op.outputs],
            )
            for op in graph.ops
        ]

    def run(self) -> dict[str, np.ndarray]:
        """Runs all ops and returns ``outputs``.  Raises KernelError."""
        for op in self._ops:
            op.run()
        return self.outputs


def _stored(tensor: GraphTensor) -> str:
    storage = BY_SHORT[tensor.dtype].numpy
    if storage is None:
        raise OpdbError(
            f"{tensor.name}: {BY_SHORT[tensor.dtype].qnn} has no whole-byte elements; the C kernels do not take it"
        )
    return storage
