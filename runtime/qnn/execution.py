"""Arrays bound to a graph's inputs and outputs for repeated execution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError
from opdb.core.graph import GraphTensor
from opdb.core.op_config import ConfigError
from opdb.runtime.qnn import handles
from opdb.runtime.qnn.errors import QnnError
from opdb.runtime.qnn.native import CODE, NULL, CData, ffi, lib
from opdb.runtime.qnn.structs import array

if TYPE_CHECKING:
    from opdb.runtime.qnn.graph import Graph
    from opdb.runtime.qnn.profile import Profile
    from opdb.runtime.qnn.session import Session
    from opdb.runtime.qnn.signal import Signal

Array = np.ndarray[Any, Any]


class Execution:
    """A graph with bound arrays, from ``Graph.bind``.

    ``inputs`` and ``outputs`` are the arrays that the library reads and writes: write new values into
    ``inputs[name][...]``, call ``run``, read ``outputs``.  Only one thread may use an execution at a time.
    """

    def __init__(
        self,
        graph: Graph,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Array],
        profile: Profile | None,
        signal: Signal | None,
    ) -> None:
        self.graph = graph
        self._call = Call(graph)
        self._profile, self._signal = profile, signal
        self.inputs, self.outputs = self._call.bind(inputs, outputs)

    def run(self) -> dict[str, Array]:
        """Executes the graph once and returns ``outputs``.

        Raises QnnError if the library fails, OpdbError if the graph, the profile, or the signal is closed.
        """
        self._call.run(self._profile, self._signal)
        return self.outputs


class Call:
    """The structs of ``QnnGraph_execute`` for one graph, to which arrays are bound repeatedly.

    It does not keep the graph alive.
    """

    def __init__(self, graph: Graph) -> None:
        self._session = session = graph.session
        self._handle = graph._handle
        self._state = graph._state  # the structs point into its memory
        self._inputs = [_End(graph, t, "input") for t in graph.inputs]
        self._outputs = [_End(graph, t, "output") for t in graph.outputs]
        self._names = {end.name for end in self._inputs}
        self._kept: list[CData] = []
        inputs, outputs = _structs(graph, self._inputs), _structs(graph, self._outputs)
        self._args = (session.interface, graph.pointer, inputs, len(inputs), outputs, len(outputs))

    def bind(
        self, inputs: Mapping[str, Any], outputs: Mapping[str, Array]
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        """Points the structs at arrays and keeps them alive; returns them, including newly created ones."""
        if inputs.keys() != self._names:
            names = ", ".join(end.name for end in self._inputs)
            raise ConfigError(f"this graph has the inputs {names}; got {', '.join(inputs) or 'none'}")
        if outputs and (unknown := set(outputs) - {end.name for end in self._outputs}):
            raise ConfigError(f"this graph has no output {min(unknown)!r}")
        read = {end.name: end.taken(inputs[end.name]) for end in self._inputs}
        written = {end.name: end.given(outputs.get(end.name)) for end in self._outputs}
        self._kept = [end.point(read[end.name]) for end in self._inputs]
        self._kept += [end.point(written[end.name]) for end in self._outputs]
        return read, written

    def unbind(self) -> None:
        """Releases the arrays; call ``bind`` again before ``run``."""
        self._kept = []

    def run(self, profile: Profile | None, signal: Signal | None) -> None:
        session = self._session
        with session.lock:
            if not self._handle.alive:
                raise OpdbError("this graph or its backend is closed; prepare it again")
            code = CODE & lib.opdb_qnn_execute(
                *self._args, pointer_of(profile, session), pointer_of(signal, session), session.log_number
            )
            # The library reads them again when it writes the context's binary (CPU 2.47, found by the sanitizer).
            self._state.bound = [*self._state.bound, *self._kept] if code else self._kept
            if code:
                raise QnnError("execute the graph", code, session.take_log(), session.message(code))
            if profile is not None:
                profile.record("execute", self._state.name, self._state.ops)
        if handles.dropped:
            handles.sweep()


class _End:
    """One input or output of a graph: its buffer, and the arrays that fit."""

    def __init__(self, graph: Graph, tensor: GraphTensor, side: str) -> None:
        self.name = tensor.name
        self.where = f"{side} {tensor.name}"
        self.dtype = tensor.dtype
        self.stored = np.dtype(BY_SHORT[tensor.dtype].numpy or "uint8")
        self.shape = tensor.shape
        self.buffer: CData = NULL  # its Qnn_ClientBuffer_t; set by _structs

    def fits(self, value: Any) -> bool:
        return (
            isinstance(value, np.ndarray)
            and value.dtype == self.stored
            and value.shape == self.shape
            and value.flags.c_contiguous
        )

    def taken(self, value: Any) -> Array:
        """``value`` as the library reads it; ``value`` itself if it is already stored that way."""
        return value if self.fits(value) else array(value, self.dtype, self.shape, self.where)

    def given(self, value: Array | None) -> Array:
        """An array to write to: ``value`` or a new one."""
        if value is None:
            return array(None, self.dtype, self.shape, self.where)
        if not self.fits(value):
            ndarray = isinstance(value, np.ndarray)
            raise ConfigError(
                f"{self.where}: wants a contiguous array of {self.stored} {list(self.shape)}, "
                f"got {f'{value.dtype} {list(value.shape)}' if ndarray else type(value).__name__}"
            )
        if not value.flags.writeable:
            raise ConfigError(f"{self.where}: the array is read-only")
        return value

    def point(self, value: Array) -> CData:
        """Points the struct at an array; returns an object that keeps the memory alive."""
        memory = ffi.from_buffer(value)
        self.buffer.data, self.buffer.dataSize = memory, value.nbytes
        return memory


def pointer_of(resource: Profile | Signal | None, session: Session) -> CData:
    """The pointer of a profile or a signal for a call.  Raises OpdbError if closed or from another backend."""
    if resource is None:
        return NULL
    if resource.session is not session:
        raise OpdbError(
            f"{resource.what} was given to a graph of another backend; make one of {session.what}"
        )
    return resource.pointer


def _structs(graph: Graph, ends: list[_End]) -> CData:
    memory = ffi.new("Qnn_Tensor_t[]", len(ends))
    for i, end in enumerate(ends):
        memory[i] = graph._state.structs[end.name][0]
        memory[i].u.v1.memType = lib.QNN_TENSORMEMTYPE_RAW
        end.buffer = memory[i].u.v1.u.clientBuf
    return memory
