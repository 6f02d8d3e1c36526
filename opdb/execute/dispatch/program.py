"""A torch.export program as the source of a plan, and its nodes in PyTorch eager."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from opdb.catalog.targets.target import Target
from opdb.checks.graph import Part, build_part
from opdb.checks.verdicts import line_of, module_of
from opdb.core.errors import OpdbError
from opdb.core.graph import GraphTensor
from opdb.execute.dispatch.source import Array, Judged, Key, Node
from opdb.generated import validators
from opdb.lower.obey import obeyed_in_program
from opdb.lower.passes import optimize
from opdb.lower.select import lower
from opdb.programs.torch.nodes import TorchNode
from opdb.programs.torch.program import Program
from opdb.runtime.forms import Lowered


class ProgramSource:
    """The keys are the program's: (node name, result index)."""

    eager = True

    def __init__(self, program: Program, without_passes: Collection[str] = ()) -> None:
        self.program, self.without_passes = program, without_passes
        self._views = {view.name: view for view in program.nodes}
        self.nodes = [self._node(view) for view in program.nodes]
        self.inputs: list[Key] = list(program.inputs)
        self.outputs: list[Key] = list(dict.fromkeys(program.outputs))
        self.skipped: Mapping[str, str] = program.skipped

    def with_floats(self, names: Collection[str]) -> ProgramSource | None:
        """The source with these nodes reading and writing floats; None if they already do, or nothing is quantized."""
        program = self.program
        if not program.encodings.of or not set(names).difference(program.in_floats):
            return None
        return ProgramSource(program.with_floats(names), self.without_passes)

    def _node(self, view: TorchNode) -> Node:
        program = self.program
        value = view.node.meta.get("val")
        made = value if isinstance(value, (list, tuple)) else [value]
        return Node(
            view.name,
            view.target,
            tuple(k for k in view.sources() if k not in program.values),
            tuple((view.name, i) for i, v in enumerate(made) if isinstance(v, torch.Tensor)),
            module_of(view.node),
            line_of(view.node)[0],
        )

    def judge(self, node: Node, target: Target) -> Judged:
        outcome = lower(self._views[node.name], target)
        if isinstance(outcome, Lowered):
            configs = tuple(op.config() for op in outcome.ops)
            return Judged(outcome.form, configs, outcome.notes, outcome)
        return Judged("", (), outcome.reasons)

    def tensor(self, key: Key) -> GraphTensor:
        name, part = _place(key)
        ref = self.program.ref((name, part))
        return GraphTensor(f"{name}_{part}" if part else name, ref.dtype, ref.shape, quant=ref.quant)

    def user(self, key: Key) -> tuple[np.dtype[Any], tuple[int, ...]]:
        fake = self.fake(key)
        if any(not isinstance(d, int) for d in fake.shape):
            raise OpdbError(
                f"{_place(key)[0]} has symbolic dimensions; export the program with static shapes"
            )
        return as_array(torch.empty(0, dtype=fake.dtype)).dtype, tuple(fake.shape)

    def fake(self, key: Key) -> torch.Tensor:
        """The tensor's type and shape in PyTorch."""
        return self.program.fake(_place(key))

    def constant(self, key: Key) -> Array | None:
        value = self.program.values.get(_place(key))
        return None if value is None else as_array(value)

    def part(
        self,
        name: str,
        nodes: Sequence[Node],
        judged: Mapping[str, Judged],
        inputs: Sequence[Key],
        outputs: Sequence[Key],
        target: Target,
    ) -> Part:
        lowered = {n.name: form for n in nodes if (form := judged[n.name].lowered) is not None}
        lowered |= obeyed_in_program(lowered, target)
        views = [self._views[n.name] for n in nodes]
        ends = [[_place(k) for k in keys] for keys in (inputs, outputs)]
        return optimized(build_part(self.program, lowered, name, views, *ends), target, self.without_passes)

    def known(self, op: str) -> bool:
        if validators.module(op) is not None:
            return True
        space, _, rest = op.partition(".")
        name, _, overload = rest.partition(".")
        try:
            packet = getattr(getattr(torch.ops, space), name)
        except (AttributeError, RuntimeError):
            return False
        return not overload or overload in packet.overloads()

    # -- PyTorch eager

    def run(self, name: str, value: Callable[[Key], torch.Tensor]) -> dict[Key, torch.Tensor]:
        """Computes the results of one node; ``value`` gives its arguments.  Raises OpdbError with PyTorch's reason."""
        node = self._views[name].node

        def argument(n: torch.fx.Node) -> torch.Tensor:
            key = self.program.origin(n)
            return self.program.values[key] if key in self.program.values else value(key)

        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), argument)
        try:
            with torch.no_grad():
                made = node.target(*args, **kwargs)
        except RuntimeError as error:
            first = str(error).strip().partition("\n")[0]
            raise OpdbError(f"{name} ({node.target}) fails in PyTorch: {first}") from error
        made = made if isinstance(made, (list, tuple)) else [made]
        return {(name, i): v for i, v in enumerate(made)}

    def to_array(self, tensor: torch.Tensor) -> Array:
        """Calls ``as_array``."""
        return as_array(tensor)

    def to_torch(self, key: Key, array: Array) -> torch.Tensor:
        """``array`` in PyTorch's type and shape for this tensor; shares the memory if it is stored in the same way."""
        fake = self.fake(key)
        tensor = torch.from_numpy(array)
        if fake.dtype == torch.bfloat16:
            tensor = tensor.view(torch.bfloat16)
        return tensor.reshape(fake.shape).to(fake.dtype)


def optimized(part: Part, target: Target, without: Collection[str]) -> Part:
    """The part with its graph optimized; new Transposes and Reshapes only change layouts."""
    known = {op.name for op in part.graph.ops}.difference(part.layout_ops)
    graph = optimize(part.graph, target, without).graph
    layout = (op.name for op in graph.ops if op.op in ("Transpose", "Reshape") and op.name not in known)
    return replace(part, graph=graph, layout_ops=tuple(layout))


def _place(key: Key) -> tuple[str, int]:
    assert isinstance(key, tuple)
    return key


def as_array(tensor: torch.Tensor) -> Array:
    """A tensor as a numpy array that shares its memory; bf16 as uint16 bits."""
    tensor = tensor.detach().cpu()
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.view(torch.uint16)
    array: Array = tensor.resolve_conj().resolve_neg().numpy()
    return array
