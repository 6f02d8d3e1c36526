"""A QNN graph while passes change it: makers and readers of tensors, and checks of new ops against the target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from opdb.catalog.targets.target import Target
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.core.op_config import ParamConfig, Quant
from opdb.generated import validators
from opdb.judge.errata.policy import active, excludes
from opdb.judge.validate import check


class Edit:
    """Ops by name, in the order of execution; tensors by name.  Passes change the graph only through these methods."""

    def __init__(self, graph: QnnGraph, target: Target) -> None:
        self.target = target
        self.reset(graph)

    def reset(self, graph: QnnGraph) -> None:
        """Replaces this graph by another one, made by a pass over all ops at once."""
        self.name = graph.name
        self.tensors: dict[str, GraphTensor] = dict(graph.tensors)
        self._ops: dict[str, GraphOp] = {op.name: op for op in graph.ops}
        self._maker: dict[str, str] = {}
        self._readers: dict[str, dict[str, None]] = {}
        for op in graph.ops:
            self._link(op)

    # -- asking

    @property
    def ops(self) -> tuple[GraphOp, ...]:
        """The current ops, in the order of execution; a pass may change the graph while it iterates over them."""
        return tuple(self._ops.values())

    def has(self, op: GraphOp) -> bool:
        """True if ``op`` is still the graph's op of that name."""
        return self._ops.get(op.name) is op

    def live(self) -> Iterator[GraphOp]:
        """Yields the current version of each op in turn; skips ops that are gone by then."""
        for name in tuple(self._ops):
            if (op := self._ops.get(name)) is not None:
                yield op

    def maker(self, tensor: str | None) -> GraphOp | None:
        """The op that makes a tensor; None for a constant, an input of the graph, or no tensor."""
        name = self._maker.get(tensor) if tensor is not None else None
        return None if name is None else self._ops[name]

    def readers(self, tensor: str) -> tuple[GraphOp, ...]:
        """The ops that read a tensor, each once, in the order of execution."""
        return tuple(self._ops[name] for name in self._readers.get(tensor, ()))

    def only_reader(self, tensor: str) -> GraphOp | None:
        """The only op that reads a tensor inside the graph; None if there are others, or if it is an output of the graph."""
        found = self._readers.get(tensor, {})
        return self._ops[next(iter(found))] if len(found) == 1 and self.inner(tensor) else None

    def inner(self, tensor: str) -> bool:
        """True if a tensor is neither a constant nor an input or output of the graph."""
        return self.tensors[tensor].type == "NATIVE"

    def constant(self, tensor: str | None) -> np.ndarray[Any, Any] | None:
        """The stored numbers of a STATIC tensor in its shape; None for any other tensor."""
        found = self.tensors.get(tensor) if tensor is not None else None
        if found is None or found.type != "STATIC" or found.data is None:
            return None
        return np.asarray(found.data).reshape(found.shape)

    def legal(
        self, op: GraphOp, tensors: Mapping[str, GraphTensor] | None = None, faultless: bool = False
    ) -> bool:
        """True if the target accepts ``op``: by its validator, and by the errata that its policy avoids.

        ``tensors``: new tensors of the op that are not in the graph yet.  ``faultless``: also refuses errata for which other forms are
        only preferred, which the existing op may have.  An op without a spec is refused.
        """
        if validators.module(op.op) is None:
            return False
        given = tensors or {}
        named = [n for n in (*op.inputs, *op.outputs) if n is not None]
        seen = {n: given[n] if n in given else self.tensors[n] for n in named}
        verdict = check(QnnGraph("", seen).op_config(op), self.target)
        if faultless and any(v.erratum and active(v.erratum, self.target) for v in verdict.violations):
            return False
        return verdict.verdict == "accept" and not any(excludes(v, self.target) for v in verdict.violations)

    # -- changing

    def fresh(self, base: str) -> str:
        """A name that no tensor and no op has: ``base``, or ``base`` with a number."""
        name, n = base, 1
        while name in self.tensors or name in self._ops:
            n += 1
            name = f"{base}_{n}"
        return name

    def add_constant(
        self, base: str, data: np.ndarray[Any, Any], dtype: str, quant: Quant | None = None
    ) -> str:
        """Adds a STATIC tensor with these stored numbers; returns its name."""
        name = self.fresh(base)
        array = np.ascontiguousarray(data)
        self.tensors[name] = GraphTensor(name, dtype, tuple(array.shape), "STATIC", array, quant)
        return name

    def add_tensor(self, like: GraphTensor, base: str, shape: Sequence[int] | None = None) -> str:
        """Adds an inner tensor with the type and encoding of another; returns its name."""
        name = self.fresh(base)
        self.tensors[name] = replace(
            like, name=name, type="NATIVE", data=None, shape=tuple(like.shape if shape is None else shape)
        )
        return name

    def change(self, op: GraphOp, **fields: Any) -> GraphOp:
        """Replaces fields of an op: inputs, outputs, params or kind; returns the new op."""
        new = replace(op, **fields)
        self.replace([op], [new])
        return new

    def replace(self, old: Sequence[GraphOp], new: Sequence[GraphOp]) -> None:
        """Puts ``new``, in their order, at the place of the last of ``old``; removes tensors that are no longer needed.

        Readers of tensors of ``old`` that ``new`` does not make must have been changed before (``redirect``).
        """
        last, gone = old[-1].name, {op.name for op in old}
        if not new or [op.name for op in new] == [last]:  # the others keep their places
            made = self._ops
            for name in gone.difference(op.name for op in new):
                del made[name]
            made |= {op.name: op for op in new}
        else:
            made = {}
            for name, op in self._ops.items():
                if name not in gone:
                    made[name] = op
                if name == last:
                    made |= {op.name: op for op in new}
        for op in old:
            self._unlink(op)
        self._ops = made
        for op in new:
            self._link(op)
        if len({id(self._ops[op.name]) for op in new}) != len(new):
            raise ValueError("two ops of one name")
        self._sweep([t for op in old for t in (*op.inputs, *op.outputs) if t is not None])

    def rewrite(
        self,
        old: Sequence[GraphOp],
        new: Sequence[GraphOp],
        tensors: Iterable[GraphTensor] = (),
        faultless: bool = False,
    ) -> bool:
        """Calls ``replace`` if the target accepts every op of ``new`` (``legal``); returns True if it did.

        ``tensors``: tensors of ``new`` that the graph does not have yet.
        """
        added = {t.name: t for t in tensors}
        if not all(self.legal(op, added, faultless) for op in new):
            return False
        self.tensors |= added
        self.replace(old, new)
        return True

    def bypass(self, op: GraphOp, x: str) -> bool:
        """Removes an op whose only output equals ``x``, which it reads; returns True if that was possible.

        The readers of the output read the input.  If the output is one of the graph, the op that makes ``x`` makes it instead, provided
        nothing else reads ``x``.
        """
        y = op.outputs[0]
        if self.inner(y):
            self.redirect(y, x)
            self.replace([op], [])
            return True
        maker = self.maker(x)
        if maker is None or self.only_reader(x) is not op:
            return False
        self.change(maker, outputs=tuple(y if t == x else t for t in maker.outputs))
        self.replace([op], [])
        return True

    def redirect(self, old: str, new: str) -> None:
        """Lets every reader of the inner tensor ``old`` read ``new`` instead."""
        for op in self.readers(old):
            inputs = tuple(new if i == old else i for i in op.inputs)
            self._unlink(op)
            self._ops[op.name] = changed = replace(op, inputs=inputs)
            self._link(changed)
        self._sweep([old])

    def drop_dead(self) -> int:
        """Removes ops whose results are not read, and their tensors; returns their number.  The only reader of an input stays."""
        gone = 0
        for op in reversed(self.ops):
            if all(self.inner(t) and not self._readers.get(t) for t in op.outputs) and not self._holds(op):
                self._ops.pop(op.name)
                self._unlink(op)
                self._sweep([t for t in (*op.inputs, *op.outputs) if t is not None])
                gone += 1
        return gone

    def _holds(self, op: GraphOp) -> bool:
        """True if an op is the only reader of an input of the graph, which a library may require (CPU-0328)."""
        read = [t for t in op.inputs if t is not None and self.tensors[t].type == "APP_WRITE"]
        return any(len(self._readers.get(t, ())) == 1 for t in read)

    def graph(self) -> QnnGraph:
        """The current graph; inputs and outputs keep their original order."""
        return QnnGraph(self.name, dict(self.tensors), list(self._ops.values()))

    # -- links

    def _link(self, op: GraphOp) -> None:
        self._maker |= dict.fromkeys(op.outputs, op.name)
        for t in op.inputs:
            if t is not None:
                self._readers.setdefault(t, {})[op.name] = None

    def _unlink(self, op: GraphOp) -> None:
        for made in op.outputs:
            if self._maker.get(made) == op.name:
                del self._maker[made]
        for t in op.inputs:
            if t is not None:
                self._readers.get(t, {}).pop(op.name, None)

    def _sweep(self, tensors: Iterable[str]) -> None:
        """Forgets constants and inner tensors that no op reads or makes."""
        for t in tensors:
            found = self.tensors.get(t)
            if (
                found is not None
                and found.type in ("NATIVE", "STATIC")
                and t not in self._maker
                and not self._readers.get(t)
            ):
                del self.tensors[t]


def parameter(op: GraphOp, name: str, default: Any = None) -> Any:
    """The value of a parameter of an op: a number, or a flat tuple of numbers."""
    return next((p.value for p in op.params if p.name == name), default)


def with_parameter(op: GraphOp, param: ParamConfig) -> tuple[ParamConfig, ...]:
    """The parameters of an op with one replaced by name, or added."""
    kept = tuple(param if p.name == param.name else p for p in op.params)
    return kept if param in kept else (*kept, param)


def transpose(name: str, x: str, perm: Sequence[int], y: str, origin: str) -> GraphOp:
    """The op that makes ``y`` with dimension ``perm[i]`` of ``x`` at place ``i``."""
    order = ParamConfig("perm", "u32", tuple(perm), (len(perm),))
    return GraphOp(name, "Transpose", (x,), (order,), (y,), origin=origin)
