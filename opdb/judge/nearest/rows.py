"""Other data types for the tensors of a config: from type rows, the fewest changes first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import log2

from opdb.core.dtypes import BY_SHORT, DTYPES

#: The kinds of types, and pairs of neighboring kinds.
_KINDS = {
    "f": "float",
    "bf": "float",
    "i": "int",
    "u": "uint",
    "sq": "sq",
    "uq": "uq",
    "bool": "bool",
    "str": "str",
}
_NEXT = (
    {"sq", "uq"},
    {"int", "uint"},
    {"bool", "uint"},
    {"bool", "int"},
    {"float", "int"},
    {"float", "uint"},
)


#: The distance from which two types are different kinds of numbers.
ANOTHER_KIND = 10.0


def far(a: str, b: str) -> float:
    """The distance of two data types: first by kind (1 step for a neighboring one), then by bits."""
    if a == b:
        return 0.0
    kinds = {_KINDS[t.rstrip("0123456789")] for t in (a, b)}
    step = 0 if len(kinds) == 1 else 1 if kinds in _NEXT else 2
    encoded = 0.05 * (BY_SHORT[b].quantized and not BY_SHORT[a].quantized)  # an encoding has to be made up
    return encoded + ANOTHER_KIND * step + abs(log2(BY_SHORT[a].bits) - log2(BY_SHORT[b].bits)) + 0.1


def retyped(
    tensors: Sequence[tuple[str, str]], rows: Sequence[Mapping[str, frozenset[str]]]
) -> Iterator[Sequence[tuple[tuple[str, ...], tuple[float, ...]]]]:
    """Data types for ``tensors`` (slot, type) by the number that change; each with (unlikeness, row).

    The tensors of a variadic slot that change take one type.  Without rows (no backend is given) one tensor
    takes any type.
    """
    if not rows:
        yield [
            (
                (*(d for _, d in tensors[:i]), t.short, *(d for _, d in tensors[i + 1 :])),
                (far(dtype, t.short), 0),
            )
            for i, (_, dtype) in enumerate(tensors)
            for t in DTYPES
            if t.short != dtype
        ]
        return
    by_slot: dict[str, list[int]] = {}
    for i, (slot, _) in enumerate(tensors):
        by_slot.setdefault(slot, []).append(i)
    tables = []
    for row in rows:
        options = [_options([tensors[i][1] for i in group], row[slot]) for slot, group in by_slot.items()]
        if all(options):
            tables.append(options)
    places = [i for group in by_slot.values() for i in group]
    seen: set[tuple[str, ...]] = set()
    for count in range(1, len(tensors) + 1):
        level = []
        for order, options in enumerate(tables):
            for unlike, dtypes in _exactly(options, count):
                placed = tuple(d for _, d in sorted(zip(places, dtypes, strict=True)))
                if placed not in seen:
                    seen.add(placed)
                    level.append((placed, (round(unlike, 3), order)))
        if level:
            yield level


#: An option for one slot: the number of tensors that change, the distance of the types, the types.
_Option = tuple[int, float, tuple[str, ...]]


def _options(dtypes: Sequence[str], cell: frozenset[str]) -> list[_Option]:
    """The options for the tensors of one slot in one row: unchanged, or one new type for some or all of them."""
    found = {tuple(dtypes)} if all(d in cell for d in dtypes) else set()
    for new in cell:
        found.add((new,) * len(dtypes))
        found.add(tuple(d if d in cell else new for d in dtypes))
    out = []
    for types in found:
        pairs = [(a, b) for a, b in zip(dtypes, types, strict=True) if a != b]
        out.append((len(pairs), sum(far(a, b) for a, b in pairs), types))
    return sorted(out)


def _exactly(options: Sequence[Sequence[_Option]], count: int) -> Iterator[tuple[float, tuple[str, ...]]]:
    """One option per slot, so that ``count`` tensors change in all."""
    if not options:
        if count == 0:
            yield 0.0, ()
        return
    rest = options[1:]
    least, most = sum(o[0][0] for o in rest), sum(o[-1][0] for o in rest)
    for changed, unlike, types in options[0]:
        if least <= count - changed <= most:
            for more, others in _exactly(rest, count - changed):
                yield unlike + more, types + others
