"""Rewrites special phrases in the documents' notation into the notation that ``symbolic`` translates.

Each pattern handles one phrase; a text that none matches is returned unchanged.
"""

from __future__ import annotations

import re

from opdb.author.importers.naming import Names

PADDED = "all({p}[i][0] == 0 and {p}[i][1] == 0 for i in range({x}.rank) if i not in (1, 2))"
SCALED = (
    "{y}.shape[1] % {x}.shape[1] == 0 and {y}.shape[2] % {x}.shape[2] == 0"
    " and {y}.shape[1] // {x}.shape[1] == {y}.shape[2] // {x}.shape[2] and {y}.shape[1] >= {x}.shape[1]"
)


def plain(text: str, names: Names, own: str, first: str) -> str:
    """``text`` with special phrases rewritten; ``own`` is the slot or parameter it is about, ``first`` the op's first tensor."""
    every = first.removesuffix("[0]")
    text = re.sub(r"(\w+)\[(\d)\] == (\w+)\[(\d)\] \(flattened index\)", _flattened, text)
    text = re.sub(r"(\w+) nonzero only on dims \{1,2\}.*", lambda m: PADDED.format(p=m[1], x=first), text)
    text = re.sub(r"^(\d+) in (\w+)(?= =>)", r"contains(\2, \1)", text)
    text = re.sub(r"any dim\(\S+\) > (\d+)", rf"any(d > \1 for t in {every} for d in t.shape)", text)
    text = re.sub(r"(\w+)\[0\.\.N-4\] == 1", r"all(\1[i] == 1 for i in range(N - 3))", text)
    text = re.sub(r"any channel % 32 != 0", f"any(t.shape[-1] % 32 != 0 for t in {every})", text)
    text = re.sub(r"sum\(channels\)", f"sum(t.shape[-1] for t in {every})", text)
    text = re.sub(r"axis == channel$", f"axis == {first}.rank - 1", text)
    text = re.sub(
        r"^squeezable_to_rank\(self, (\d)\)", r"sum(1 if d != 1 else 0 for d in self.shape) <= \1", text
    )
    text = re.sub(r"(\S+) broadcastable to (\S+)$", r"broadcast(\1, \2) == \2", text)
    text = _broadcasts(text, names)
    if text.endswith("== integer >= 1"):
        text = SCALED.format(x=first, y=own)
    if "batch" not in names.symbols:
        text = re.sub(r"\bbatch ==", f"{first}.shape[0] ==", text)
    return text


def _flattened(match: re.Match[str]) -> str:
    """An index into the values of a two-column parameter."""
    (p, i, q, j) = match.groups()
    return f"{p}[{int(i) // 2}][{int(i) % 2}] == {q}[{int(j) // 2}][{int(j) % 2}]"


def _broadcasts(text: str, names: Names) -> str:
    """Rewrites "no broadcasting" or "no mixed broadcasting" of two inputs as a condition on their shapes."""
    found = re.search(r"not (mixed_)?broadcast\((in\[0\]), (in\[1\])\)", text)
    if found is None:
        return text
    a, b = (f"{names.of(slot)}" for slot in found.groups()[1:])
    if not found[1]:
        text = text.replace("rank == 5", f"({a}.rank == 5 or {b}.rank == 5)")
        return text.replace(found[0], f"{a}.shape == {b}.shape")
    both = f"broadcast({a}.shape, {b}.shape)"
    return text.replace(found[0], f"{both} == {a}.shape or {both} == {b}.shape")
