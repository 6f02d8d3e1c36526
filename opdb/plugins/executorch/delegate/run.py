"""Runs lowered programs in Python, without ExecuTorch's runtime: delegates by their payload, the other nodes in PyTorch.

A graph for the C kernels runs in this process; QNN's libraries run in a child process, where a crash is an error.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from executorch.exir import EdgeProgramManager
from executorch.exir.delegate import executorch_call_delegate
from executorch.exir.lowered_backend_module import LoweredBackendModule
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from opdb.core.errors import OpdbError
from opdb.core.graph import GraphTensor
from opdb.core.names import counted
from opdb.core.op_config import INT64
from opdb.execute.libraries.client import VendorWorker
from opdb.execute.libraries.results import Outcome
from opdb.plugins.executorch.delegate import graph_read
from opdb.plugins.executorch.delegate.module import Arg, Array, Module, numpy_type
from opdb.plugins.executorch.delegate.partitioner import BACKEND
from opdb.plugins.executorch.delegate.shapes import TORCH_TYPES
from opdb.runtime.kernels import PreparedGraph
from opdb.runtime.qnn.graph import GraphOptions

Run = Callable[[Mapping[str, Array]], Mapping[str, Array]]


class Delegate:
    """One blob, ready to run, like init, execute, and destroy in ExecuTorch's runtime.  A context manager.

    ``named``: the program's named data by key.  Buffers of the delegate keep their values from one call to the next.
    Raises OpdbError for a damaged blob.
    """

    def __init__(self, blob: bytes, named: Mapping[str, bytes] | None = None) -> None:
        def content(key: str) -> bytes:
            if key not in (named or {}):
                raise OpdbError(f"the program has no named data {key}")
            return (named or {})[key]

        self.module = graph_read.read(blob, content)
        self._worker: VendorWorker | None = None
        tensors = self.module.graph.tensors
        self._kept = {s.input: _array(s.initial, tensors[s.input]) for s in self.module.states}
        self._run = self._prepared()

    def execute(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        """The outputs.  Raises OpdbError for inputs that do not fit, and if the backend fails."""
        wanted = [a for a in self.module.args if a.kind == "input"]
        if len(inputs) != len(wanted):
            raise OpdbError(f"the delegate has {counted(len(wanted), 'input')}, {len(inputs)} are given")
        given = dict(self._kept)
        for i, (arg, value) in enumerate(zip(wanted, inputs, strict=True)):
            if tuple(value.shape) != arg.shape or value.dtype != TORCH_TYPES[arg.scalar_type]:
                raise OpdbError(
                    f"input {i} of the delegate: {TORCH_TYPES[arg.scalar_type]} {list(arg.shape)} is wanted, "
                    f"got {value.dtype} {list(value.shape)}"
                )
            if arg.tensor is not None:
                given[arg.tensor] = _stored(value, self.module.graph.tensors[arg.tensor], i)
        made = self._run(given)
        for state in self.module.states:
            self._kept[state.input] = np.array(made[state.output], copy=True)
        return [_torch(arg, made) for arg in self.module.args if arg.kind == "output"]

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def __enter__(self) -> Delegate:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _prepared(self) -> Run:
        module = self.module
        if not module.identity.backend:
            return _on_kernels(module)
        self._worker = VendorWorker(module.identity.backend, module.identity.soc or None)
        return _loaded(module, self._worker) if module.context else _composed(module, self._worker)


def _on_kernels(module: Module) -> Run:
    ends = {t.name: _empty(t) for t in (*module.graph.inputs, *module.graph.outputs)}
    prepared = PreparedGraph(module.graph, ends)

    def run(inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        for name, value in inputs.items():
            ends[name][...] = value
        return prepared.run()

    return run


def _loaded(module: Module, worker: VendorWorker) -> Run:
    assert module.context is not None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "context")
        path.write_bytes(module.context.content)
        _done(worker.load(path), module)

    def run(inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        result = worker.execute(module.graph.name, inputs)
        _done(result, module)
        return result.outputs

    return run


def _composed(module: Module, worker: VendorWorker) -> Run:
    identity = module.identity
    GraphOptions(identity.precision or None).check(identity.backend)

    def run(inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        result = worker.run(module.graph, inputs, identity.precision or None)
        _done(result, module)
        return result.outputs

    return run


def _done(result: Outcome, module: Module) -> None:
    if result.stage != "done":
        raise OpdbError(
            f"{module.identity.backend}: the graph {module.graph.name} stops at {result.stage}: {result.verdict}: "
            f"{'; '.join(result.log[-3:]) or 'no log'}: {result.explained}"
        )


def _empty(tensor: GraphTensor) -> Array:
    return np.zeros(tensor.shape, numpy_type(tensor.dtype))


def _array(content: bytes, tensor: GraphTensor) -> Array:
    return np.frombuffer(content, numpy_type(tensor.dtype)).reshape(tensor.shape).copy()


def _stored(value: torch.Tensor, tensor: GraphTensor, place: int) -> Array:
    """A tensor of the program in the graph's type.  Raises OpdbError for int64 values beyond int32."""
    value = value.detach().cpu().contiguous()
    if value.dtype == torch.bfloat16:
        value = value.view(torch.uint16)
    kind = np.dtype(numpy_type(tensor.dtype))
    array = value.numpy().reshape(tensor.shape)
    if array.dtype == np.int64 and array.size:
        low, high = int(array.min()), int(array.max())
        limits = np.iinfo(kind)
        if not INT64[0] <= limits.min <= low <= high <= limits.max:
            raise OpdbError(f"input {place} of the delegate has {low} to {high}, which do not fit {kind}")
    made: Array = array.astype(kind)
    return made


def _torch(arg: Arg, made: Mapping[str, Array]) -> torch.Tensor:
    dtype = TORCH_TYPES[arg.scalar_type]
    if arg.tensor is None:
        return torch.frombuffer(bytearray(arg.constant or b""), dtype=dtype).reshape(arg.shape)
    found = torch.from_numpy(np.array(made[arg.tensor], copy=True))
    if dtype == torch.bfloat16:
        return found.view(torch.bfloat16).reshape(arg.shape)
    return found.to(dtype).reshape(arg.shape)


class Runner:
    """The methods of a lowered program as Python functions.  A context manager.

        with Runner(to_edge_transform_and_lower(exported, partitioner=[OpdbPartitioner(...)])) as lowered:
            lowered.execute("forward", x)

    Delegates of other backends run their nodes in PyTorch.  Buffers keep their values from one call to the next;
    ``share_buffers``: buffers of the program with the same name are shared by all methods, like ExecuTorch's memory planning
    with ``share_mutable_buffers``.
    """

    def __init__(self, manager: EdgeProgramManager, *, share_buffers: bool = False) -> None:
        self._programs = {name: manager.exported_program(name) for name in sorted(manager.methods)}
        self._delegates: dict[int, Delegate] = {}
        self._share = share_buffers
        self._kept: dict[tuple[str, str], torch.Tensor] = {}  # buffers after a call, by method and name

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of the methods."""
        return tuple(self._programs)

    def delegates(self, method: str = "forward") -> list[Delegate]:
        """The delegates of opdb in a method, in the order of its nodes."""
        nodes = self._program(method).graph.nodes
        calls = [n for n in nodes if n.op == "call_function" and n.target is executorch_call_delegate]
        found = [getattr(self._program(method).graph_module, n.args[0].target) for n in calls]
        return [self._delegate(m) for m in found if m.backend_id == BACKEND]

    def execute(self, method: str, *inputs: torch.Tensor) -> tuple[Any, ...]:
        """The flat results of a method.  Raises OpdbError for an unknown method, and if a delegate fails."""
        program = self._program(method)
        signature, owner = program.graph_signature, "" if self._share else method
        held = {**program.constants, **program.state_dict}
        given, values = iter(inputs), []
        for spec in signature.input_specs:
            name = str(spec.target)
            user = spec.kind == InputKind.USER_INPUT
            values.append(next(given, None) if user else self._kept.get((owner, name), held.get(name)))
        with torch.no_grad():
            made = _Interpreter(program, self._delegate).run(*values)
        results = []
        for spec, value in zip(signature.output_specs, made, strict=True):
            if spec.kind == OutputKind.BUFFER_MUTATION:
                self._kept[owner, str(spec.target)] = value
            else:
                results.append(value)
        return tuple(results)

    def close(self) -> None:
        """Closes the delegates and ends their child processes; safe to repeat."""
        for delegate in self._delegates.values():
            delegate.close()
        self._delegates.clear()

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _program(self, method: str) -> ExportedProgram:
        if method not in self._programs:
            raise OpdbError(f"the program has no method {method!r}; it has {', '.join(self._programs)}")
        return self._programs[method]

    def _delegate(self, module: LoweredBackendModule) -> Delegate:
        if id(module) not in self._delegates:
            self._delegates[id(module)] = Delegate(module.processed_bytes, named_data(module))
        return self._delegates[id(module)]


def named_data(module: LoweredBackendModule) -> dict[str, bytes]:
    """The named data of a lowered module, which is outside of its blob, by key."""
    store = module.named_data_store_output
    if store is None:
        return {}
    return {key: bytes(store.buffers[entry.buffer_index]) for key, entry in store.pte_data.items()}


class _Interpreter(torch.fx.Interpreter):  # type: ignore[misc]  # untyped base
    def __init__(
        self, program: ExportedProgram, delegate: Callable[[LoweredBackendModule], Delegate]
    ) -> None:
        super().__init__(program.graph_module)
        self._delegate = delegate

    def call_function(self, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if target is not executorch_call_delegate:
            return super().call_function(target, tuple(args), dict(kwargs))
        module, inputs = args[0], args[1:]
        if module.backend_id != BACKEND:
            return list(module.original_module.module()(*inputs))
        return self._delegate(module).execute(*inputs)
