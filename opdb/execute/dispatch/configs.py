"""Builds a QnnGraph from a list of op configs: tensors of one name are one tensor; no torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from opdb.catalog.targets.target import Target
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.core.op_config import ConfigError, OpConfig, TensorConfig
from opdb.execute.dispatch.plan import partition


def graph_of(
    configs: Sequence[OpConfig],
    *,
    name: str = "graph",
    outputs: Iterable[str] | None = None,
    target: Target | None = None,
) -> QnnGraph:
    """Builds the graph of ``configs``, which are in an order of execution, with tensors in QNN's order.

    The names of tensors are those of the graph (not slots): later ops read by name what one op writes.  A
    tensor that no op writes is an input of the graph, or STATIC with its data; a tensor that no op reads is an output, and
    so is an APP_READ tensor.  ``outputs`` names the outputs instead, in their order.  With ``target``, it must accept
    every op: PlanError lists those that it refuses; opdb.execute.dispatch.plan.partition sends them to the host.
    Raises ConfigError for a name that is missing, written twice or used for tensors that differ.
    """
    builder = _Builder(name)
    for i, config in enumerate(configs):
        builder.add(config, f"ops[{i}] ({config.op})")
    graph = builder.finish(None if outputs is None else tuple(outputs))
    if target is not None:
        partition(graph, target)
    return graph


class _Builder:
    def __init__(self, name: str) -> None:
        self.name = name
        self.tensors: dict[str, TensorConfig] = {}
        self.places: dict[str, str] = {}  # the place where a tensor first occurs
        self.written: dict[str, str] = {}
        self.read: set[str] = set()
        self.ops: dict[str, GraphOp] = {}

    def add(self, config: OpConfig, place: str) -> None:
        name = config.id or f"{config.op}_{len(self.ops)}"
        if name in self.ops:
            raise ConfigError(f"{place}: an op has the id {name!r} already; give each an id of its own")
        inputs = [self._input(t, f"{place}.inputs[{i}]") for i, t in enumerate(config.inputs)]
        made = [self._output(t, f"{place}.outputs[{i}]") for i, t in enumerate(config.outputs)]
        self.ops[name] = GraphOp(
            name, config.op, tuple(inputs), config.params, tuple(made), config.package, origin=name
        )

    def _input(self, t: TensorConfig, place: str) -> str | None:
        if t.type == "NULL":
            return None
        if t.type == "APP_READ" and t.name not in self.written:
            raise ConfigError(f"{place}: {t.name!r} is an output of the graph, and no op before writes it")
        self._meet(t, place)
        self.read.add(t.name)
        return t.name

    def _output(self, t: TensorConfig, place: str) -> str:
        if t.type not in ("NATIVE", "APP_READ"):
            raise ConfigError(f"{place}: an op cannot write a tensor of type {t.type}")
        if t.name in self.written:
            raise ConfigError(f"{place}: {self.written[t.name]} writes {t.name!r} already")
        if t.name in self.read:
            raise ConfigError(f"{place}: {t.name!r} is read before; put the op that writes it first")
        self._meet(t, place)
        self.written[t.name] = place
        return t.name

    def _meet(self, t: TensorConfig, place: str) -> None:
        """Stores a tensor, or compares it with the one of that name."""
        if not t.name:
            raise ConfigError(f"{place}: the tensor has no name; ops are chained by the names of tensors")
        kept = self.tensors.setdefault(t.name, t)
        first = self.places.setdefault(t.name, place)
        if (kept.dtype, kept.shape, kept.quant) != (t.dtype, t.shape, t.quant):
            raise ConfigError(
                f"{place}: {t.name!r} is {_told(t)}, but {_told(kept)} in {first}; one name is one tensor"
            )
        if "STATIC" in (kept.type, t.type) and kept.type != t.type:
            raise ConfigError(f"{place}: {t.name!r} is {t.type}, but {kept.type} in {first}")
        if t.type == "APP_READ" or (kept.data is None and t.data is not None):
            self.tensors[t.name] = t

    def finish(self, outputs: tuple[str, ...] | None) -> QnnGraph:
        if outputs is None:
            outputs = tuple(
                n for n in self.written if n not in self.read or self.tensors[n].type == "APP_READ"
            )
        for n in outputs:
            if n not in self.written:
                raise ConfigError(f"{self.name}: no op writes the output {n!r}")
        graph = QnnGraph(self.name, ops=list(self.ops.values()))
        for n, t in self.tensors.items():
            if n not in outputs:
                graph.tensors[n] = self._tensor(n, t)
        for n in outputs:
            t = self.tensors[n]
            graph.tensors[n] = GraphTensor(n, t.dtype, t.shape, "APP_READ", quant=t.quant)
        return graph

    def _tensor(self, name: str, t: TensorConfig) -> GraphTensor:
        if t.type == "STATIC":
            if t.data is None:
                raise ConfigError(f"{self.places[name]}: the static tensor {name!r} has no data")
            return GraphTensor(name, t.dtype, t.shape, "STATIC", t.data, t.quant)
        kind = "NATIVE" if name in self.written else "APP_WRITE"
        return GraphTensor(name, t.dtype, t.shape, kind, quant=t.quant)


def _told(t: TensorConfig) -> str:
    return f"{t.dtype} {list(t.shape)}" + (f" {t.quant.encoding}" if t.quant else "")
