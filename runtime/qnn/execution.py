"""Arrays bound to the ends of a graph: what is executed again and again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from opdb.dtypes import BY_SHORT
from opdb.errors import OpdbError
from opdb.graph import GraphTensor
from opdb.op_config import ConfigError
from opdb.runtime.qnn.errors import QnnError
from opdb.runtime.qnn.native import CODE, Arena, CData, lib
from opdb.runtime.qnn.structs import array, set_data

if TYPE_CHECKING:
    from opdb.runtime.qnn.graph import Graph

Array = np.ndarray[Any, Any]


class Execution:
    """A graph with arrays at its ends; made by ``Graph.bind``.

    ``inputs`` and ``outputs`` are the arrays that the library reads and writes: write new values into
    ``inputs[name][...]``, call ``run``, read ``outputs``.  An execution is used by one thread at a time.
    """

    def __init__(
        self,
        graph: Graph,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Array],
        profile: CData,
        signal: CData,
    ) -> None:
        expected = [t.name for t in graph.inputs]
        if set(inputs) != set(expected):
            raise ConfigError(
                f"this graph has the inputs {', '.join(expected)}; got {', '.join(inputs) or 'none'}"
            )
        if unknown := set(outputs) - {t.name for t in graph.outputs}:
            raise ConfigError(f"this graph has no output {min(unknown)!r}")
        self.graph = graph
        self.inputs = {
            t.name: array(inputs[t.name], t.dtype, t.shape, f"input {t.name}") for t in graph.inputs
        }
        self.outputs = {t.name: _output(t, outputs.get(t.name)) for t in graph.outputs}
        arena = Arena()
        session = graph.session
        self._session, self._handle, self._arena = session, graph._handle, arena
        self._args = (
            session.interface,
            graph.pointer,
            _structs(arena, graph, self.inputs),
            len(self.inputs),
            _structs(arena, graph, self.outputs),
            len(self.outputs),
            profile,
            signal,
            session.log_number,
        )

    def run(self) -> dict[str, Array]:
        """Executes the graph once and returns ``outputs``.

        Raises QnnError when the library fails, OpdbError when the graph is closed.
        """
        with self._session.lock:
            if not self._handle.alive:
                raise OpdbError("this graph or its backend is closed; prepare it again")
            code = lib.opdb_qnn_execute(*self._args) & CODE
            if code:
                log = self._session.take_log()
                raise QnnError("execute the graph", code, log, self._session.message(code))
        return self.outputs


def _output(tensor: GraphTensor, given: Array | None) -> Array:
    if given is None:
        return array(None, tensor.dtype, tensor.shape, f"output {tensor.name}")
    stored = np.dtype(BY_SHORT[tensor.dtype].numpy or "uint8")
    if given.dtype != stored or given.shape != tensor.shape or not given.flags.c_contiguous:
        raise ConfigError(
            f"output {tensor.name}: wants a contiguous array of {stored} {list(tensor.shape)}, "
            f"got {given.dtype} {list(given.shape)}"
        )
    if not given.flags.writeable:
        raise ConfigError(f"output {tensor.name}: the array is read-only")
    return given


def _structs(arena: Arena, graph: Graph, values: Mapping[str, Array]) -> CData:
    memory = arena.new("Qnn_Tensor_t[]", len(values))
    for i, (name, value) in enumerate(values.items()):
        memory[i] = graph._state.structs[name][0]
        set_data(memory[i], arena, value)
    return memory
