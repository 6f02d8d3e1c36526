"""Resolves a recipe for one graph: types by tensor and by node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from opdb.core.graph import GraphOp, QnnGraph
from opdb.core.guess import guesses
from opdb.lower.quantize.observers import BY_ENDS, Observation
from opdb.lower.quantize.recipe import Activations, Recipe, Rule, Weights
from opdb.lower.quantize.weights import IN_8_BITS, WeightType

#: Why a node of a rule with ``float: true`` computes in floats.
BY_RECIPE = "the recipe says so"


@dataclass(frozen=True)
class Source:
    """The origin of a node.  ``names``: PyTorch's name and the file's; ``operators``: PyTorch's operator and the file's."""

    names: tuple[str, ...] = ()
    module: str = ""
    operators: tuple[str, ...] = ()
    pattern: str = ""

    def fits(self, rule: Rule, op: GraphOp) -> bool:
        """True if all selectors of ``rule`` match the node."""
        asked = (
            (rule.module, (self.module, *_above(self.module))),
            (rule.operator, (op.op, *self.operators)),
            (rule.node, self.names or (op.name,)),
            (rule.pattern, (self.pattern,)),
        )
        return all(glob is None or any(fnmatchcase(n, glob) for n in names) for glob, names in asked)


@dataclass(frozen=True)
class Asked:
    """Types resolved for one graph.  ``activations``: QNN's type of the nodes' results, ``weights``: constants with channels, by default.

    By node of the graph: ``weights_of``; ``floats``: why it computes in floats.  By tensor: ``types``, ``centered`` (real zero in the
    middle of the stored values) and ``observed`` (how its range follows from its values).  ``unfit``: a line for each rule that matches
    no node.
    """

    activations: str = "uq8"
    weights: WeightType = IN_8_BITS
    observation: Observation = BY_ENDS
    symmetric: bool = False
    types: Mapping[str, str] = field(default_factory=dict)
    centered: frozenset[str] = frozenset()
    observed: Mapping[str, Observation] = field(default_factory=dict)
    weights_of: Mapping[str, WeightType] = field(default_factory=dict)
    floats: Mapping[str, str] = field(default_factory=dict)
    unfit: tuple[str, ...] = ()


def asked(recipe: Recipe, graph: QnnGraph, sources: Mapping[str, Source]) -> Asked:
    """Resolves ``recipe`` for ``graph``, whose nodes come from ``sources`` (by GraphOp.origin).

    The recipe must quantize: one with ``float: true`` has nothing to resolve.
    """
    assert recipe.activations is not None and recipe.weights is not None
    types: dict[str, str] = {}
    centered: set[str] = set()
    observed: dict[str, Observation] = {}
    weights: dict[str, WeightType] = {}
    floats: dict[str, str] = {}
    used: set[int] = set()
    for op in graph.ops:
        source = sources.get(op.origin, Source((op.origin,)))
        fitting = [i for i, rule in enumerate(recipe.rules) if source.fits(rule, op)]
        used.update(fitting)
        for rule in (recipe.rules[i] for i in fitting):
            if rule.float:
                floats[op.name] = BY_RECIPE
                continue
            floats.pop(op.name, None)
            if rule.activations is not None:
                own = recipe.of(rule)[0]
                types |= dict.fromkeys(op.outputs, _activation(own))
                observed |= dict.fromkeys(op.outputs, _observation(own))
                centered = centered | set(op.outputs) if own.symmetric else centered - set(op.outputs)
            if rule.weights is not None:
                weights[op.name] = _weight(recipe.of(rule)[1])
    unfit = [_unfit(i, r, graph, sources) for i, r in enumerate(recipe.rules) if i not in used]
    return Asked(
        _activation(recipe.activations),
        _weight(recipe.weights),
        _observation(recipe.activations),
        recipe.activations.symmetric,
        types,
        frozenset(centered),
        observed,
        weights,
        floats,
        tuple(unfit),
    )


def _above(module: str) -> Iterator[str]:
    """The modules that contain this one; encoder.layers.0 -> encoder.layers, encoder."""
    while "." in module:
        module = module.rpartition(".")[0]
        yield module


def _activation(said: Activations) -> str:
    return f"uq{said.bits}"


def _observation(said: Activations) -> Observation:
    return Observation(said.observer, said.percentile)


def _weight(said: Weights) -> WeightType:
    narrow = said.bits if said.bits < 8 else None
    dtype = f"{'s' if said.symmetric else 'u'}q{max(said.bits, 8)}"
    return WeightType(dtype, narrow, said.per_channel, (said.block or 0) if narrow else 0)


def _unfit(place: int, rule: Rule, graph: QnnGraph, sources: Mapping[str, Source]) -> str:
    """The message that a rule matches no node, with the names nearest to its selectors."""
    known: Mapping[str, Iterable[str]] = {
        "module": {m for s in sources.values() for m in (s.module, *_above(s.module)) if m},
        "operator": {o for s in sources.values() for o in s.operators} | {op.op for op in graph.ops},
        "node": {n for s in sources.values() for n in s.names},
        "pattern": {s.pattern for s in sources.values() if s.pattern},
    }
    said = [(k, getattr(rule, k)) for k in known if getattr(rule, k)]
    near = [n for k, glob in said for n in guesses(glob, sorted(known[k]), 2)]
    hint = f"; the nearest names: {', '.join(near)}" if near else ""
    return f"rule {place + 1} of the recipe ({', '.join(f'{k}: {g}' for k, g in said)}) fits no node{hint}"
