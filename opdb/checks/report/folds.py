"""Folds the nodes of a program by module, for the drawing of a report: no torch, no HTML.

A fold holds neighbors in the program's order, so that edges between folds go one way, like edges between nodes.  A module that
is called twice is two folds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

#: A fold with more children gets intermediate folds of neighbors.
MOST = 40
_PART = re.compile(r"[^./]+")


@dataclass(frozen=True)
class Fold:
    """``name``: a module's path, or the names of the first and the last child.  A child is a fold, or a node's place."""

    name: str
    children: tuple[Fold | int, ...]

    def nodes(self) -> Iterator[int]:
        """The places of all nodes inside, in order."""
        for child in self.children:
            if isinstance(child, int):
                yield child
            else:
                yield from child.nodes()


def folded(modules: Sequence[str], names: Sequence[str]) -> Fold:
    """The tree of a program whose nodes have these modules (a path with points or slashes) and names, in its order."""
    ends = [[m.end() for m in _PART.finditer(module)] for module in modules]
    return Fold("", tuple(_few(_children(modules, ends, 0, len(modules), 0), names)))


def _children(modules: Sequence[str], ends: Sequence[list[int]], first: int, last: int, depth: int) -> list[Fold | int]:
    """The contents of the module whose path the nodes ``first`` to ``last - 1`` share for ``depth`` parts."""
    out: list[Fold | int] = []
    at = first
    while at < last:
        if len(ends[at]) <= depth:
            out.append(at)
            at += 1
            continue
        path = modules[at][: ends[at][depth]]
        end = at + 1
        while end < last and len(ends[end]) > depth and modules[end][: ends[end][depth]] == path:
            end += 1
        inside = _children(modules, ends, at, end, depth + 1)
        # A single node needs no fold, a single fold none around it.
        out.append(inside[0] if len(inside) == 1 else Fold(path, tuple(inside)))
        at = end
    return out


def _few(children: Sequence[Fold | int], names: Sequence[str]) -> list[Fold | int]:
    """``children`` and their own children, with intermediate folds until no fold has more than MOST."""
    level = [c if isinstance(c, int) else Fold(c.name, tuple(_few(c.children, names))) for c in children]
    while len(level) > MOST:
        parts = [level[i : i + MOST] for i in range(0, len(level), MOST)]
        level = [
            part[0] if len(part) == 1 else Fold(f"{_name(part[0], names)} to {_name(part[-1], names, last=True)}", tuple(part))
            for part in parts
        ]
    return list(level)


def _name(child: Fold | int, names: Sequence[str], last: bool = False) -> str:
    if isinstance(child, int):
        return names[child]
    first, _, end = child.name.partition(" to ")
    return end if last and end else first
