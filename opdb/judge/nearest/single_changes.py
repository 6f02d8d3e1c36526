"""Single changes of an op config, smallest first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from opdb.core.guess import guesses
from opdb.core.op_config import OpConfig, ParamConfig, Sparse, TensorConfig
from opdb.judge.nearest.encodings import encodings, reencoded
from opdb.judge.nearest.rows import retyped
from opdb.judge.nearest.values import Between, fitting
from opdb.runtime.binding import Context, Signature, slot_names
from opdb.runtime.checks import Undecidable, Violation

#: The order of kinds of change among equal numbers of changes: what follows from the rest comes first, data types come
#: late, and making the data itself a constant comes last.
SHAPE, ENCODING, STATIC, PARAM, TYPE, UNLIKELY = range(6)


@dataclass(frozen=True)
class Move:
    """A change: the config after it, and how far that is from the one before."""

    make: Callable[[], OpConfig]
    entries: int  # changed tensors and parameters
    kind: int
    distance: tuple[float, ...]
    names: frozenset[str]  # of the changed slots and parameters
    #: A refused integer, this move's integer, and a function that makes the config for any other.
    between: tuple[int, int, Callable[[int], OpConfig]] | None = None

    @cached_property
    def config(self) -> OpConfig:
        return self.make()


def moves(module: Any, context: Context, config: OpConfig, broken: Sequence[Violation]) -> Iterator[Move]:
    """Changes that may cure ``broken``, the smallest first."""
    rules = {v.rule.partition(".")[2] for v in broken}
    blamed = {v.path.rpartition(".")[2] for v in broken if v.path}
    if rules & {"INPUTS", "OUTPUTS"} or any(r.startswith("RANK_") for r in rules):
        return  # no single change cures the number of tensors or the rank of an input
    site = _Site(module, context, config)
    if rules & {"PARAMS", "UNKNOWN_PARAMS"}:
        yield from _sorted(site.params(blamed), blamed)
        return
    if f"TYPES_{context.backend}" in rules:
        for level in site.levels():
            yield from _sorted(level, blamed)
        return
    others = [*site.shapes(), *site.encodings(), *site.constness(), *site.params(None)]
    if any("sparse" in v.sentence for v in broken):
        others += site.sparseness()
    for entries, level in enumerate(site.levels(), 1):
        yield from _sorted([*(m for m in others if m.entries == entries), *level], blamed)
        others = [m for m in others if m.entries > entries]
    yield from _sorted(others, blamed)


def _sorted(found: Sequence[Move] | Iterator[Move], blamed: set[str]) -> list[Move]:
    def key(move: Move) -> tuple[Any, ...]:
        return move.entries, bool(blamed) and not move.names & blamed, move.kind, move.distance

    return sorted(found, key=key)


class _Site:
    """One config, with the names of its tensors."""

    def __init__(self, module: Any, context: Context, config: OpConfig) -> None:
        self.module, self.context, self.config = module, context, config
        self.signature: Signature = module.SIGNATURE
        self.names = [
            *slot_names(config.inputs, self.signature.inputs),
            *slot_names(config.outputs, self.signature.outputs),
        ]
        self.tensors = [*config.inputs, *config.outputs]

    def slot(self, i: int) -> str:
        return self.names[i].partition("[")[0]

    def present(self) -> list[int]:
        return [i for i, t in enumerate(self.tensors) if t.type != "NULL"]

    def with_tensors(self, new: dict[int, TensorConfig]) -> OpConfig:
        tensors = tuple(new.get(i, t) for i, t in enumerate(self.tensors))
        n = len(self.config.inputs)
        return replace(self.config, inputs=tensors[:n], outputs=tensors[n:])

    def tensor_move(self, new: dict[int, TensorConfig], kind: int, distance: tuple[float, ...]) -> Move:
        names = frozenset(self.slot(i) for i in new)
        return Move(lambda: self.with_tensors(new), len(new), kind, distance, names)

    def shapes(self) -> Iterator[Move]:
        """The outputs with the shapes that follow from inputs and parameters."""
        try:
            found = self.module.infer(self.config)
        except Undecidable:
            return
        new: dict[int, TensorConfig] = {}
        places: dict[str, int] = {}
        for i in range(len(self.config.inputs), len(self.tensors)):
            slot, t = self.slot(i), self.tensors[i]
            at = places.setdefault(slot, 0)
            places[slot] += 1
            shape = found.get(slot)
            if shape and isinstance(shape[0], list):
                shape = shape[at] if at < len(shape) else None
            if shape is not None and t.type != "NULL" and tuple(shape) != t.shape:
                new[i] = replace(t, shape=tuple(shape))
        if new:
            yield self.tensor_move(new, SHAPE, (0,))

    def encodings(self) -> Iterator[Move]:
        for i in self.present():
            for order, quant in enumerate(encodings(self.tensors[i])):
                yield self.tensor_move({i: replace(self.tensors[i], quant=quant)}, ENCODING, (order,))
        quants = dict.fromkeys((t.dtype, t.quant) for i in self.present() if (t := self.tensors[i]).quant)
        for dtype, quant in quants:
            others = [i for i in self.present() if (t := self.tensors[i]).dtype == dtype and t.quant != quant]
            many = [others] if len(others) > 1 else []
            for group in (*([i] for i in others), *many):
                new = {i: replace(self.tensors[i], quant=quant) for i in group}
                yield self.tensor_move(new, ENCODING, (100,))

    def constness(self) -> Iterator[Move]:
        for i in self.present():
            if i < len(self.config.inputs):
                kind = "NATIVE" if self.tensors[i].type == "STATIC" else "STATIC"
                rank = UNLIKELY if i == 0 and kind == "STATIC" else STATIC
                yield self.tensor_move({i: replace(self.tensors[i], type=kind)}, rank, (0,))

    def sparseness(self) -> Iterator[Move]:
        """A dense tensor turns sparse, with one specified element, or a sparse one dense."""
        for i in self.present():
            t = self.tensors[i]
            if t.shape:
                turned = None if t.sparse else Sparse(1, t.rank)
                yield self.tensor_move({i: replace(t, sparse=turned)}, STATIC, (0,))

    def params(self, only: set[str] | None) -> Iterator[Move]:
        """Other values of each parameter, or of those in ``only``."""
        given = {p.name: p for p in reversed(self.config.params)}
        known = {p.name: p for p in self.signature.params}
        dims = tuple(self.tensors[i].shape for i in self.present())
        for name in dict.fromkeys((*given, *known)):
            if only is not None and name not in only:
                continue
            was = given.get(name)
            if name not in known:
                for meant in guesses(name, [n for n in known if n not in given]):
                    yield self.param_move(name, replace(was, name=meant) if was else None, (0,))
                yield self.param_move(name, None, (1,))
                continue
            if sum(p.name == name for p in self.config.params) > 1:
                yield self.param_move(name, was, (0,))
                continue
            if was is None and not known[name].required:
                continue
            floats = list(
                {p.value for p in self.config.params if p.name != name and isinstance(p.value, float)}
            )
            for value in fitting(was, known[name], dims, floats):
                yield self.param_move(name, value.param, value.distance, value.between)

    def param_move(
        self,
        name: str,
        now: ParamConfig | None,
        distance: tuple[float, ...],
        between: Between | None = None,
    ) -> Move:
        def config(p: ParamConfig | None) -> OpConfig:
            places = [i for i, old in enumerate(self.config.params) if old.name == name]
            rest = [old for i, old in enumerate(self.config.params) if i not in places]
            if p is not None:
                rest.insert(places[0] if places else len(rest), p)
            return replace(self.config, params=tuple(rest))

        move = Move(lambda: config(now), 1, PARAM, distance, frozenset((name,)))
        if between is None:
            return move
        refused, accepted, make = between
        return replace(move, between=(refused, accepted, lambda n: config(make(n))))

    def levels(self) -> Iterator[list[Move]]:
        """Other data types: with one tensor changed, with two, ..."""
        places = self.present()
        slots = [s.name for s in (*self.signature.inputs, *self.signature.outputs)]
        rows = getattr(self.module, f"ROWS_{self.context.backend}", ())
        cells = [dict(zip(slots, row.cells, strict=True)) for row in rows if row.holds(self.context)]
        typed = [(self.slot(i), self.tensors[i].dtype) for i in places]
        for level in retyped(typed, cells):
            found = []
            for dtypes, distance in level:
                new = {}
                for i, dtype in zip(places, dtypes, strict=True):
                    t = self.tensors[i]
                    if dtype != t.dtype:
                        new[i] = replace(t, dtype=dtype, quant=reencoded(t.quant, t.dtype, dtype))
                found.append(self.tensor_move(new, TYPE, distance))
            yield found
