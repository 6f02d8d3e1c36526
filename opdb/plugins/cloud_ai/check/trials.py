"""Trial nodes for a package: it does not say which its functions accept, so small ones of all kinds are offered until some are accepted.

Inputs of several ranks share their last dimensions, like the inputs of norms, products, and element-wise ops.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from opdb.core.errors import OpdbError
from opdb.core.names import counted
from opdb.plugins.cloud_ai.check.config import Op, Parameter
from opdb.plugins.cloud_ai.check.host import (  # fmt: skip
    BOOL,
    DTYPE_NAMES,
    FLOAT,
    FLOAT16,
    INT32,
    INT64,
    QINT8,
    STRING,
    Node,
    ParamGiven,
    TensorGiven,
)

#: Dimensions of the largest tensor; a tensor of rank n has the last n.
BASES = ((1, 1, 2, 2, 2, 3, 4, 8), (1, 1, 2, 2, 2, 3, 5, 7), (1, 1, 2, 2, 2, 3, 8, 8))
SCALE, OFFSET = 0.0625, 3.0
#: The value of string parameters until the accepted strings are known.
ANY_TEXT = "opdb"
MOST = 240
PARAM_TYPES = {"float": FLOAT, "int": INT32, "bool": BOOL, "string": STRING}


@dataclass(frozen=True)
class Asked:
    """A user's choices for the node: dimensions by input, values by parameter."""

    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    values: Mapping[str, tuple[float | str, ...]] = field(default_factory=dict)

    def check(self, op: Op) -> None:
        """Raises OpdbError for names that the op does not have, and shapes with too many dimensions."""
        inputs = {t.name: t.max_dims for t in op.inputs}
        for name, dims in self.shapes.items():
            if name not in inputs:
                raise OpdbError(f"--shape {name}: {op.type} has the inputs {', '.join(inputs)}")
            if len(dims) > inputs[name]:
                raise OpdbError(
                    f"--shape {name}: {counted(len(dims), 'dimension')}; maxDims is {inputs[name]}"
                )
        names = [p.name for p in op.parameters]
        for name in self.values:
            if name not in names:
                raise OpdbError(f"--param {name}: {op.type} has the parameters {', '.join(names) or 'none'}")


def nodes(op: Op, asked: Asked, texts: Sequence[str] = ()) -> Iterator[Node]:
    """At most MOST nodes, the likeliest first.  ``texts``: known values of string parameters."""
    shapes = list(_shapes(op, asked))
    params = list(_params(op, asked, texts))
    kinds = list(_types(len(op.inputs)))
    order = sorted(
        itertools.product(range(len(kinds)), range(len(params)), range(len(shapes))),
        key=lambda i: (i[0] + 2 * i[1] + i[2], i),
    )  # fmt: skip
    for k, p, s in order[:MOST]:
        yield node(op, shapes[s], kinds[k], params[p])


def node(
    op: Op, shapes: Sequence[tuple[int, ...]], kinds: Sequence[int], params: Sequence[ParamGiven]
) -> Node:
    quantized = QINT8 in kinds
    return Node(
        tuple(
            TensorGiven(t.name, kind, dims, *((SCALE, OFFSET) if kind == QINT8 else ()))
            for t, kind, dims in zip(op.inputs, kinds, shapes, strict=True)
        ),
        tuple((t.name, t.max_dims) for t in op.outputs),
        tuple(params),
        tuple((s.name, s.size) for s in op.scratch),
        tuple((i.type, i.backend) for i in op.implementations),
        *((SCALE, OFFSET) if quantized else ()),
    )


def _shapes(op: Op, asked: Asked) -> Iterator[tuple[tuple[int, ...], ...]]:
    limits = [min(t.max_dims, len(BASES[0])) for t in op.inputs]
    top = max(limits, default=1)
    ranks = [tuple(limits)]
    ranks += [tuple(min(r, m) for m in limits) for r in (4, 3, 2, 1, 5) if r < top]
    if len(limits) > 1 and top <= 5 and len(limits) <= 3:
        ranks += sorted(itertools.product(*(range(m, 0, -1) for m in limits)), key=lambda r: -sum(r))
    order = dict.fromkeys(ranks)
    pairs = [(BASES[0], ranks[0]), (BASES[1], ranks[0])]  # the second does not divide evenly by four threads
    pairs += [(base, combination) for base in BASES for combination in order]
    made = (
        tuple(
            asked.shapes.get(t.name, base[len(base) - r :])
            for t, r in zip(op.inputs, combination, strict=True)
        )
        for base, combination in pairs
    )
    yield from dict.fromkeys(made)


def _types(count: int) -> Iterator[tuple[int, ...]]:
    """All inputs of one type; then the first, or the last, with a type that differs from the rest."""
    same = [(kind,) * count for kind in (FLOAT, FLOAT16, QINT8, INT32, INT64)]
    mixed: list[tuple[int, ...]] = []
    if count > 1:
        for kind, other in ((QINT8, FLOAT), (FLOAT, INT32), (FLOAT16, INT32), (FLOAT, INT64), (QINT8, INT32)):
            mixed += [(kind, *(other,) * (count - 1)), (*(kind,) * (count - 1), other)]
    yield from dict.fromkeys([*same[:3], *mixed, *same[3:]])


#: Values of parameters by type, tried together.
_VALUES = {"float": (0.001, 0.5, 1.0, 2.0), "int": (1, 0, 2, -1), "bool": (0, 1, 0, 1)}
_LENGTHS = (2, 1, 3, 4, 8, 7, 5)


def _params(op: Op, asked: Asked, texts: Sequence[str]) -> Iterator[tuple[ParamGiven, ...]]:
    open_lists = any(not p.scalar and not p.size and p.name not in asked.values for p in op.parameters)
    seen = set()
    for i, length, text in itertools.product(
        range(4), _LENGTHS if open_lists else (0,), texts or (ANY_TEXT,)
    ):
        made = tuple(_param(p, asked, i, length, text) for p in op.parameters)
        if made not in seen:
            seen.add(made)
            yield made


def _param(p: Parameter, asked: Asked, i: int, length: int, text: str) -> ParamGiven:
    if p.name in asked.values:
        values = asked.values[p.name]
        return ParamGiven(p.name, PARAM_TYPES[p.type], 0 if p.scalar else len(values), values)
    count = 1 if p.scalar else p.size or length
    value: float | str = text if p.type == "string" else _VALUES[p.type][i]
    return ParamGiven(p.name, PARAM_TYPES[p.type], 0 if p.scalar else count, (value,) * count)


def described(node: Node) -> str:
    """Describes a node, e.g. ``x [2, 3] float, eps = 0.001``."""
    parts = [f"{t.name} {list(t.dims)} {DTYPE_NAMES[t.dtype]}" for t in node.inputs]
    parts += [f"{p.name} = {p.values[0] if p.size == 0 else list(p.values)}" for p in node.params]
    return ", ".join(parts)
