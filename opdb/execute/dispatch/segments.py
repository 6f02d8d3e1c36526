"""Runs the segments of a plan: prepared once, on arrays that they share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from opdb.checks.graph import Part
from opdb.core.dtypes import BY_SHORT
from opdb.core.op_config import ConfigError
from opdb.execute.dispatch.plan import Plan, Segment
from opdb.execute.dispatch.report import Copy
from opdb.execute.dispatch.source import Array, Key
from opdb.runtime.kernels import PreparedGraph

if TYPE_CHECKING:
    import torch

    from opdb.execute.dispatch.program import ProgramSource
    from opdb.runtime.qnn.graph import Graph
    from opdb.runtime.qnn.profile import Profile


class Runner(Protocol):
    """``layout``: the layout changes at the inputs and outputs of its graph, made in every run."""

    layout: tuple[Copy, ...]

    def run(self, values: Values) -> None: ...


class Values:
    """The tensors of one run: preallocated arrays, the caller's inputs, and PyTorch's results.

    Every copy is reported to ``log``.
    """

    def __init__(
        self,
        plan: Plan,
        buffers: Mapping[Key, Array],
        given: Mapping[Key, Array],
        log: Callable[[Copy], None],
    ) -> None:
        self.plan, self.buffers, self.given, self.log = plan, buffers, given, log
        self.eager: dict[Key, torch.Tensor] = {}

    def tensor(self, key: Key, source: ProgramSource, reader: Segment, maker: str) -> torch.Tensor:
        """A tensor for PyTorch: a view of the array if it is stored in the same way."""
        if key not in self.eager:
            array = self.given.get(key)
            array = self.buffers[key] if array is None else array
            tensor = source.to_torch(key, array)
            if tensor.numel() and tensor.data_ptr() != array.ctypes.data:
                why = f"{array.dtype} to {tensor.dtype}"
                kind = "in" if key in self.given else "between"
                self.log(Copy(kind, self.plan.name(key), maker, reader.name, tensor.nbytes, why))
            self.eager[key] = tensor
        return self.eager[key]


class QnnRunner:
    """A finalized graph of the library, bound to the arrays."""

    def __init__(
        self, segment: Segment, graph: Graph, buffers: Mapping[Key, Array], profile: Profile | None
    ) -> None:
        part = _part(segment)
        self.layout = tuple(layout_copies(part, segment.name))
        inputs = {name: buffers[key] for key, name in part.inputs.items()}
        outputs = {name: buffers[key] for key, name in part.outputs.items()}
        self.execution = graph.bind(inputs, outputs, profile=profile)

    def run(self, values: Values) -> None:
        self.execution.run()


class KernelRunner:
    """A graph on the C kernels, bound to the arrays."""

    def __init__(self, segment: Segment, buffers: Mapping[Key, Array]) -> None:
        part = _part(segment)
        self.layout = tuple(layout_copies(part, segment.name))
        ends = {name: buffers[key] for key, name in (*part.inputs.items(), *part.outputs.items())}
        self.prepared = PreparedGraph(part.graph, ends)

    def run(self, values: Values) -> None:
        self.prepared.run()


class TorchRunner:
    """Runs nodes in PyTorch eager, one after the other.

    ``makers``, ``readers``: the segment that makes each tensor, and the first graph that reads it.
    """

    layout: tuple[Copy, ...] = ()

    def __init__(
        self,
        segment: Segment,
        plan: Plan,
        buffers: Mapping[Key, Array],
        makers: Mapping[Key, str],
        readers: Mapping[Key, str],
    ) -> None:
        from opdb.execute.dispatch.program import ProgramSource

        assert isinstance(plan.source, ProgramSource)
        self.segment, self.source, self.makers = segment, plan.source, makers
        #: Results that a graph reads: PyTorch computes into its own memory, so these are copied.
        self.stored = [
            Copy("between", plan.name(k), segment.name, readers[k], buffers[k].nbytes, "PyTorch's own memory")
            for k in segment.makes
            if k in readers
        ]
        self.keys = [k for k in segment.makes if k in readers]
        self.dead = self._dead()

    def _dead(self) -> dict[str, list[Key]]:
        """The tensors that are no longer needed after each node."""
        nodes = {n.name: n for n in self.source.nodes}
        own = {k for name in self.segment.nodes for k in nodes[name].makes} - set(self.segment.makes)
        last = {k: name for name in self.segment.nodes for k in (*nodes[name].makes, *nodes[name].reads)}
        return {name: [k for k in own if last[k] == name] for name in self.segment.nodes}

    def run(self, values: Values) -> None:
        def value(key: Key) -> torch.Tensor:
            return values.tensor(key, self.source, self.segment, self.makers.get(key, "caller"))

        for name in self.segment.nodes:
            values.eager.update(self.source.run(name, value))
            for key in self.dead[name]:
                values.eager.pop(key, None)
        for key, copy in zip(self.keys, self.stored, strict=True):
            store(values.buffers[key], self.source.to_array(values.eager[key]), copy.tensor)
            values.log(copy)


def store(buffer: Array, given: Array, where: str) -> None:
    """Writes ``given`` into ``buffer``; numbers are converted if no value changes its meaning, reals are rounded.

    Raises ConfigError for another shape ([1] equals a scalar), another kind of number, or an integer that
    does not fit.
    """
    fits(given, buffer.dtype, buffer.shape, where)
    given = given.reshape(buffer.shape)
    if buffer.dtype.kind in "iu" and given.dtype != buffer.dtype and given.size:
        info = np.iinfo(buffer.dtype)
        if int(given.min()) < info.min or int(given.max()) > info.max:
            raise ConfigError(f"{where}: {given.min()} to {given.max()} do not fit {buffer.dtype}")
    np.copyto(buffer, given, casting="unsafe")


def fits(given: Array, dtype: np.dtype[Any], shape: tuple[int, ...], where: str) -> None:
    """Raises ConfigError for an array of another shape or kind of number."""
    scalars = ((), (1,))
    if given.shape != shape and not (given.shape in scalars and shape in scalars):
        raise ConfigError(f"{where}: wants the shape {list(shape)}, got {list(given.shape)}")
    kinds = {"f": "fiu", "c": "fiuc"}.get(dtype.kind, "iub")
    if given.dtype != dtype and given.dtype.kind not in kinds:
        raise ConfigError(f"{where}: values of type {given.dtype} do not go into {dtype}")


def layout_copies(part: Part, segment: str) -> Iterator[Copy]:
    """Yields the ops of a graph that only change the layout of a tensor."""
    names = set(part.layout_ops)
    for op in part.graph.ops:
        if op.name in names:
            made = part.graph.tensors[op.outputs[0]]
            size = math.prod(made.shape) * BY_SHORT[made.dtype].bits // 8
            why = f"{op.op} to {list(made.shape)}"
            yield Copy("layout", str(op.inputs[0]), segment, segment, size, why)


def _part(segment: Segment) -> Part:
    assert segment.part is not None
    return segment.part
