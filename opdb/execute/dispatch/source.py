"""The source of a plan: nodes between tensors, judged and turned into graphs part by part.

A source is a torch.export program (opdb.execute.dispatch.program) or a QnnGraph (here, without torch).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from opdb.catalog.targets.target import Target
from opdb.checks.graph import Part
from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError
from opdb.core.graph import GraphTensor, QnnGraph
from opdb.core.op_config import OpConfig
from opdb.generated import validators
from opdb.judge import validate
from opdb.judge.errata.policy import IGNORE, excludes, policy
from opdb.runtime.forms import Lowered, Reason

Array = np.ndarray[Any, Any]
Key = Hashable


@dataclass(frozen=True)
class Node:
    """``target``: the ATen target or the QNN op.  ``reads`` and ``makes``: tensors, without constants."""

    name: str
    target: str
    reads: tuple[Key, ...]
    makes: tuple[Key, ...]
    module: str = ""  # e.g. encoder.layers.0.norm
    line: str = ""  # in the model's source


@dataclass(frozen=True)
class Judged:
    """A target's verdict on a node.  ``configs``: the ops of the accepted form, empty if it is refused."""

    form: str
    configs: tuple[OpConfig, ...]
    reasons: tuple[Reason, ...]
    lowered: Lowered | None = None

    @property
    def accepted(self) -> bool:
        return bool(self.configs)


class Source(Protocol):
    """``nodes`` are in a topological order; ``skipped`` gives the reason why further nodes compute nothing."""

    @property
    def nodes(self) -> Sequence[Node]: ...
    @property
    def inputs(self) -> Sequence[Key]: ...
    @property
    def outputs(self) -> Sequence[Key]: ...
    @property
    def skipped(self) -> Mapping[str, str]: ...
    @property
    def eager(self) -> bool:
        """True if nodes can run in PyTorch."""

    def with_floats(self, names: Collection[str]) -> Source | None:
        """The source with these nodes computing in floats instead of quantized; None if that changes nothing."""

    def judge(self, node: Node, target: Target) -> Judged: ...

    def tensor(self, key: Key) -> GraphTensor:
        """The tensor as QNN stores it, with a readable name."""

    def user(self, key: Key) -> tuple[np.dtype[Any], tuple[int, ...]]:
        """The numpy dtype and shape in which the caller gives or gets it (bf16 as uint16 bits)."""

    def constant(self, key: Key) -> Array | None:
        """The value of a constant output, as the caller gets it."""

    def part(
        self,
        name: str,
        nodes: Sequence[Node],
        judged: Mapping[str, Judged],
        inputs: Sequence[Key],
        outputs: Sequence[Key],
        target: Target,
    ) -> Part:
        """The graph of some nodes, each in its accepted form."""

    def known(self, op: str) -> bool:
        """True if ``op`` names a QNN op or an ATen operator, used here or not."""


class GraphSource:
    """A QnnGraph; the keys are the names of its tensors."""

    eager = False

    def __init__(self, graph: QnnGraph) -> None:
        self.graph = graph
        self._ops = {op.name: op for op in graph.ops}
        if len(self._ops) != len(graph.ops):
            raise OpdbError(f"the graph {graph.name} has two ops of one name; give each a name of its own")
        self.nodes = [
            Node(op.name, op.op, tuple(n for n in op.inputs if n is not None and self._moves(n)), op.outputs)
            for op in graph.ops
        ]
        self.inputs = [t.name for t in graph.inputs]
        self.outputs = [t.name for t in graph.outputs]
        self.skipped: Mapping[str, str] = {}

    def _moves(self, name: str) -> bool:
        return self.graph.tensors[name].type != "STATIC"

    def with_floats(self, names: Collection[str]) -> Source | None:
        return None  # a graph has its own types

    def judge(self, node: Node, target: Target) -> Judged:
        config = self.graph.op_config(self._ops[node.name])
        if validators.module(config.op) is None:
            return Judged("", (), (Reason("", "", f"opdb has no spec of the op {config.op}"),))
        found = validate.check(config, target).violations
        reasons = tuple(
            Reason(config.op, v.rule, v.message, warning=not excludes(v, target))
            for v in found
            if not v.erratum or policy(v.erratum, target) != IGNORE
        )
        refused = any(not r.warning for r in reasons)
        return Judged(config.op, () if refused else (config,), reasons)

    def tensor(self, key: Key) -> GraphTensor:
        return self.graph.tensors[str(key)]

    def user(self, key: Key) -> tuple[np.dtype[Any], tuple[int, ...]]:
        tensor = self.tensor(key)
        return np.dtype(BY_SHORT[tensor.dtype].numpy or "uint8"), tensor.shape

    def constant(self, key: Key) -> Array | None:
        return None

    def part(
        self,
        name: str,
        nodes: Sequence[Node],
        judged: Mapping[str, Judged],
        inputs: Sequence[Key],
        outputs: Sequence[Key],
        target: Target,
    ) -> Part:
        ops = [self._ops[node.name] for node in nodes]
        names = dict.fromkeys(n for op in ops for n in (*op.inputs, *op.outputs) if n is not None)
        ends = dict.fromkeys(inputs, "APP_WRITE") | dict.fromkeys(outputs, "APP_READ")
        tensors = {
            n: t if t.type == "STATIC" else replace(t, type=ends.get(n, "NATIVE"))
            for n, t in self.graph.tensors.items()
            if n in names
        }
        made = QnnGraph(name, tensors, ops)
        return Part(made, {k: str(k) for k in inputs}, {k: str(k) for k in outputs})

    def known(self, op: str) -> bool:
        return validators.module(op) is not None
