"""merge-scalings: merges successive products with constants and sums into one op."""

from __future__ import annotations

import numpy as np

from opdb.core.graph import GraphOp
from opdb.lower.passes.arithmetic import Array, Scaling, along, binary, rounded, scaling, static
from opdb.lower.passes.divisions import product
from opdb.lower.passes.edit import Edit


def run(edit: Edit) -> int:
    """Returns the number of ops removed."""
    merged = 0
    for op in edit.live():
        second = scaling(edit, op)
        if second is None or edit.only_reader(second.x) is not op:
            continue
        maker = edit.maker(second.x)
        first = None if maker is None else scaling(edit, maker)
        merged += first is not None and _merged(edit, first, second)
    return merged


def _merged(edit: Edit, first: Scaling, second: Scaling) -> bool:
    """Rewrites (x * f1 + t1) * f2 + t2 as x * (f1 * f2) + (t1 * f2 + t2): a product, a sum, or a Batchnorm for both along the channels."""
    factor = _combined(first.factor, second.factor, np.multiply)
    moved = first.term
    if moved is not None and second.factor is not None:
        moved = moved * second.factor
    term = _combined(moved, second.term, np.add)
    shape = edit.tensors[second.y].shape
    if factor is None or term is None:
        values = term if factor is None else factor
        held = max(c.size for c in (first.factor, first.term, second.factor, second.term) if c is not None)
        return values is not None and values.size <= held and _one(edit, first, second, factor, term)
    channels = [along(c, len(shape)) for c in (factor, term)]
    if {c.axis if c is not None else -1 for c in channels} not in ({None, len(shape) - 1}, {len(shape) - 1}):
        return False
    return _batchnorm(edit, first, second, [c.over(shape[-1]) for c in channels if c is not None])


def _combined(a: Array | None, b: Array | None, how: np.ufunc) -> Array | None:
    """``how`` applied to two constants; either may be absent."""
    if a is None or b is None:
        return b if a is None else a
    return np.asarray(how(a, b))


def _one(edit: Edit, first: Scaling, second: Scaling, factor: Array | None, term: Array | None) -> bool:
    """Writes a product or a sum."""
    like, dtype = second.op, edit.tensors[second.y].dtype
    made = rounded(np.asarray(term if factor is None else factor), dtype)
    if made is None:
        return False
    values = static(edit, f"{like.name}_merged", np.atleast_1d(made), dtype)
    if factor is not None:
        return edit.rewrite([first.op, like], [product(edit, like, first.x, values.name, second.y)], [values])
    op = binary(like, "ADD", (first.x, values.name), (second.y,))
    return edit.rewrite([first.op, like], [op], [values])


def _batchnorm(edit: Edit, first: Scaling, second: Scaling, channels: list[Array]) -> bool:
    like, dtype = second.op, edit.tensors[second.y].dtype
    values = [rounded(c, dtype) for c in channels]
    tensors = [
        static(edit, f"{like.name}_{what}", v, dtype)
        for what, v in zip(("factor", "term"), values, strict=True)
        if v is not None
    ]
    if len(tensors) < 2:
        return False
    inputs = (first.x, *(t.name for t in tensors))
    op = GraphOp(like.name, "Batchnorm", inputs, (), (second.y,), like.package, like.origin)
    return edit.rewrite([first.op, like], [op], tensors)
