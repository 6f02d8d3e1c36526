"""Runs a plan: prepared once, executed many times, every copy counted."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from opdb.catalog.targets.target import half
from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError
from opdb.core.names import counted
from opdb.core.op_config import ConfigError
from opdb.execute.dispatch.plan import QNN, TORCH, Plan, Segment
from opdb.execute.dispatch.report import Copy, Report, Shared, Times
from opdb.execute.dispatch.segments import KernelRunner, QnnRunner, Runner, TorchRunner, Values, fits, store
from opdb.execute.dispatch.source import Array, Key

if TYPE_CHECKING:
    from opdb.core.graph import QnnGraph
    from opdb.runtime.qnn.backend import Backend
    from opdb.runtime.qnn.context import ContextOptions
    from opdb.runtime.qnn.graph import Graph, GraphOptions
    from opdb.runtime.qnn.profile import Profile


class Dispatcher:
    """A prepared plan; a context manager.

    All QNN graphs are in one context of ``backend``, which the caller still owns and which may be None for a plan without
    QNN graphs.  The arrays between graphs are allocated once and shared: a QNN graph writes to the memory from which a kernel,
    PyTorch or the next graph reads.  The vendor's libraries run in this process, for speed; a graph that crashes one
    ends the process (opdb.execute.libraries.client.VendorWorker tries a graph in a child process first).

    Threads may share a dispatcher: its runs are serialized.  Raises OpdbError for a backend that is not
    the plan's; QnnError with the stage if the library refuses a graph.
    """

    def __init__(
        self,
        plan: Plan,
        backend: Backend | None = None,
        *,
        options: GraphOptions | None = None,
        context: ContextOptions | None = None,
        profile: Profile | None = None,
    ) -> None:
        """``options``: for every QNN graph; by default float32 is computed in float16 on HTP.

        ``profile``: collects the library's measurements in every run.
        """
        start = time.perf_counter_ns()
        self.plan, self.backend = plan, backend
        self._lock, self._held, self._closed = threading.Lock(), ExitStack(), False
        self._makers = {k: s.name for s in plan.segments for k in s.makes}
        self._readers = {
            k: s.name for s in reversed(plan.segments) if s.runs_on != TORCH for k in s.reads
        }  # the first graph that reads it
        self._eager_reads = {k for s in plan.segments if s.runs_on == TORCH for k in s.reads}
        self._buffers = self._allocate()
        self.graphs: dict[str, Graph] = {}
        with ExitStack() as undo:
            undo.push(self._held)
            self._prepare_graphs(options, context)
            self._runners: list[tuple[Runner, Times]] = [
                (self._runner(s, profile), Times(s.name, s.runs_on, len(s.nodes))) for s in plan.segments
            ]
            undo.pop_all()
        self._shared = tuple(self._passed())
        self._runs, self._copied, self._copied_bytes = 0, 0, 0
        self._copies: list[Copy] = []
        self._prepare_ms = (time.perf_counter_ns() - start) / 1e6

    # -- prepared once

    def _allocate(self) -> dict[Key, Array]:
        """Zeroed arrays: for the inputs and outputs of graphs as QNN stores them, for other inputs as the caller gives them."""
        source = self.plan.source
        ends = dict.fromkeys(
            k for s in self.plan.segments if s.runs_on != TORCH for k in (*s.reads, *s.makes)
        )
        buffers = {}
        for key in ends:
            tensor = source.tensor(key)
            buffers[key] = np.zeros(tensor.shape, BY_SHORT[tensor.dtype].numpy or "uint8")
        for key in source.inputs:
            if key not in buffers:
                dtype, shape = source.user(key)
                buffers[key] = np.zeros(shape, dtype)
        return buffers

    def _prepare_graphs(self, options: GraphOptions | None, context: ContextOptions | None) -> None:
        graphs = self.plan.graphs
        if not graphs:
            return
        target, backend = self.plan.target, self.backend
        if backend is None:
            raise OpdbError(
                f"the plan has {len(graphs)} QNN graphs; give an open backend: Backend.open({target.backend!r}, ...)"
            )
        if backend.name != target.backend or (backend.soc and target.soc and backend.soc != target.soc):
            here = f"{backend.name} {backend.soc or ''}".strip()
            raise OpdbError(f"the plan is for {target}, the backend is {here}; make a plan for it")
        made = self._held.enter_context(backend.create_context(context))
        for graph in graphs:
            self.graphs[graph.name] = made.add_graph(graph, options or _options(graph, backend.name))

    def _runner(self, segment: Segment, profile: Profile | None) -> Runner:
        if segment.runs_on == QNN:
            return QnnRunner(segment, self.graphs[segment.name], self._buffers, profile)
        if segment.runs_on == TORCH:
            return TorchRunner(segment, self.plan, self._buffers, self._makers, self._readers)
        return KernelRunner(segment, self._buffers)

    def _passed(self) -> list[Shared]:
        """Lists the tensors that pass between segments without a copy."""
        found = []
        sides = {s.name: s.runs_on for s in self.plan.segments}
        for s in self.plan.segments:
            for key in s.reads:
                maker, buffer = self._makers.get(key), self._buffers.get(key)
                if maker is None:
                    continue
                if s.runs_on == TORCH:
                    # a view of the array, if it is stored as in PyTorch; or PyTorch's own tensor
                    dtype, shape = self.plan.source.user(key)
                    if sides[maker] != TORCH and (buffer is None or buffer.dtype != dtype):
                        continue
                    size = int(np.prod(shape)) * dtype.itemsize
                elif sides[maker] == TORCH or buffer is None:
                    continue
                else:
                    size = buffer.nbytes
                found.append(Shared(self.plan.name(key), maker, s.name, size))
        return found

    # -- executed many times

    @property
    def inputs(self) -> dict[str, Array]:
        """The arrays that the inputs are read from, by name.

        Values written into them need no copy: ``run(dispatcher.inputs)``.
        """
        return {self.plan.name(k): self._buffers[k] for k in self.plan.source.inputs}

    def run(self, inputs: Mapping[str, Any] | Sequence[Any], *, copy: bool = True) -> dict[str, Array]:
        """Runs the plan on ``inputs``, by name or in the program's order; returns the outputs by name, in the program's order.

        Inputs are arrays or torch tensors with the program's types (bf16 as uint16 bits; integers and floats of another size
        are converted).  With ``copy=False`` an output may be the dispatcher's own array, which the next run
        overwrites.  Raises ConfigError for an input that does not fit, QnnError and KernelError if a segment
        fails, OpdbError if the dispatcher is closed.
        """
        with self._lock:
            if self._closed:
                raise OpdbError("this dispatcher is closed; make a new one")
            copies: list[Copy] = []
            values = Values(self.plan, self._buffers, self._given(inputs, copies), copies.append)
            for runner, times in self._runners:
                start = time.perf_counter_ns()
                runner.run(values)
                times.add((time.perf_counter_ns() - start) / 1e3)
                copies += runner.layout
            out = {self.plan.name(k): self._output(k, values, copy) for k in self.plan.source.outputs}
            self._copies = copies
            self._runs += 1
            self._copied += len(copies)
            self._copied_bytes += sum(c.bytes for c in copies)
            return out

    def _given(self, inputs: Mapping[str, Any] | Sequence[Any], copies: list[Copy]) -> dict[Key, Array]:
        """Converts the inputs to arrays, and copies those that graphs read into the buffers."""
        source, names = self.plan.source, self.plan.inputs
        if not isinstance(inputs, Mapping):
            if len(inputs) != len(names):
                raise ConfigError(
                    f"the inputs are {', '.join(names) or 'none'}; got {counted(len(inputs), 'value')}"
                )
            inputs = dict(zip(names, inputs, strict=True))
        if set(inputs) != set(names):
            raise ConfigError(
                f"the inputs are {', '.join(names) or 'none'}; got {', '.join(map(str, inputs)) or 'none'}"
            )
        given: dict[Key, Array] = {}
        for key, name in zip(source.inputs, names, strict=True):
            given[key] = self._own(key, _array(inputs[name]), name, copies)
        for key, name in zip(source.inputs, names, strict=True):
            array, buffer = given[key], self._buffers[key]
            if key in self._readers and array is not buffer:
                store(buffer, array, f"input {name}")
                why = "" if array.dtype == buffer.dtype else f"{array.dtype} to {buffer.dtype}"
                copies.append(Copy("in", name, "caller", self._readers[key], buffer.nbytes, why))
        return given

    def _own(self, key: Key, array: Array, name: str, copies: list[Copy]) -> Array:
        """``array``, or a copy of it if this run could write into it or PyTorch does not take it."""
        if array is self._buffers[key]:
            return array
        dtype, shape = self.plan.source.user(key)
        fits(array, dtype, shape, f"input {name}")
        why = ""
        if any(np.may_share_memory(array, b) for b in self._buffers.values()):
            why = "it is in the dispatcher's own memory"
        elif key in self._eager_reads and not (array.flags.c_contiguous and array.flags.writeable):
            why = "PyTorch takes contiguous, writable memory"
        if not why:
            return array
        copies.append(Copy("in", name, "caller", "caller", array.nbytes, why))
        return array.copy()

    def _output(self, key: Key, values: Values, copy: bool) -> Array:
        source, name = self.plan.source, self.plan.name(key)
        dtype, shape = source.user(key)
        constant = source.constant(key)
        maker = self._makers.get(key, "caller")
        if constant is not None:
            array, maker = constant, "constant"
        elif key in values.eager:
            array = _array(values.eager[key])
        elif key in self._makers:
            array = self._buffers[key]
        else:
            array = values.given[key]
        array = array.reshape(shape)
        if not copy and array.dtype == dtype:
            return array
        why = "" if array.dtype == dtype else f"{array.dtype} to {dtype}"
        values.log(Copy("out", name, maker, "caller", int(array.size) * dtype.itemsize, why))
        return np.array(array, dtype, order="C")

    def report(self) -> Report:
        """The times of the segments over all runs, and the copies of the last run."""
        with self._lock:
            return Report(
                self._runs,
                self._prepare_ms,
                sum(b.nbytes for b in self._buffers.values()),
                tuple(Times(**vars(times)) for _, times in self._runners),
                tuple(self._copies),
                self._shared,
                self._copied,
                self._copied_bytes,
            )

    def close(self) -> None:
        """Releases the QNN graphs and their context; safe to repeat, from any thread."""
        with self._lock:
            self._closed = True
            self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _options(graph: QnnGraph, backend: str) -> GraphOptions:
    from opdb.runtime.qnn.graph import GraphOptions

    floats = half(backend) and any(t.dtype == "f32" for t in graph.tensors.values())
    return GraphOptions(precision="fp16" if floats else None)


def _array(value: Any) -> Array:
    """The caller's value as a numpy array; a torch tensor keeps its memory."""
    if hasattr(value, "detach"):
        from opdb.execute.dispatch.program import as_array

        return as_array(value)
    return np.asarray(value)
