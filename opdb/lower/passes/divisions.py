"""divide-by-product: rewrites a division by a constant as a product with its reciprocal."""

from __future__ import annotations

import numpy as np

from opdb.core.graph import GraphOp
from opdb.judge.errata.policy import active
from opdb.lower.passes.arithmetic import binary, operation, rounded, scaling, static
from opdb.lower.passes.edit import Edit


def run(edit: Edit) -> int:
    """Returns the number of divisions rewritten."""
    return sum(_changed(edit, op) for op in edit.live() if operation(op) == "DIVIDE")


def _changed(edit: Edit, op: GraphOp) -> bool:
    s = scaling(edit, op)
    if s is None or s.factor is None:
        return False
    dtype = edit.tensors[s.y].dtype
    made = rounded(s.factor, dtype)
    if made is None or np.abs(made).min() < np.finfo(made.dtype).tiny:
        return False
    factor = static(edit, f"{op.inputs[1]}_inverse", made, dtype)
    return edit.rewrite([op], [product(edit, op, s.x, factor.name, s.y)], [factor])


def product(edit: Edit, like: GraphOp, x: str, factor: str, y: str) -> GraphOp:
    """x times a constant; the constant comes first beside tensors of five dimensions if the target avoids HTP-0392."""
    five = active("HTP-0392", edit.target) and any(len(t.shape) > 4 for t in edit.tensors.values())
    return binary(like, "MULTIPLY", (factor, x) if five else (x, factor), (y,))
