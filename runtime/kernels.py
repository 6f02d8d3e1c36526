"""Runs a QnnGraph on the C kernels: numpy in, numpy out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from opdb.dtypes import BY_SHORT
from opdb.errors import OpdbError
from opdb.graph import QnnGraph
from opdb.runtime import native

if TYPE_CHECKING:
    import numpy as np


def run_graph(graph: QnnGraph, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs of ``graph`` by name, for ``inputs`` by name; float32, row-major.

    Every op goes through its generated shim, which validates first.  Raises OpdbError for a missing input,
    KernelError for an op without a kernel for its data types.
    """
    import numpy

    values: dict[str, np.ndarray] = {}
    for tensor in graph.tensors.values():
        if tensor.type == "STATIC":
            values[tensor.name] = numpy.asarray(tensor.data, dtype=BY_SHORT[tensor.dtype].numpy).reshape(
                tensor.shape
            )
        elif tensor.type == "APP_WRITE":
            if tensor.name not in inputs:
                raise OpdbError(
                    f"{graph.name}: the input '{tensor.name}' is missing; inputs are {', '.join(t.name for t in graph.inputs)}"
                )
            values[tensor.name] = inputs[tensor.name]
    for op in graph.ops:
        arrays = [None if name is None else values[name] for name in op.inputs]
        values.update(zip(op.outputs, native.run(graph.op_config(op), arrays), strict=True))
    return {t.name: values[t.name] for t in graph.outputs}
