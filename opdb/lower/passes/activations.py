"""move-activations: puts an activation directly after the convolution, product or sum that it is fused with.

Transposes and Reshapes between the two move after it, and so does a Concat of several such results, with an activation for each.
"""

from __future__ import annotations

from dataclasses import replace

from opdb.core.graph import GraphOp, GraphTensor
from opdb.lower.passes.arithmetic import operation
from opdb.lower.passes.edit import Edit
from opdb.lower.passes.layouts import VIEWS
from opdb.lower.passes.weights import CONVOLUTIONS, PRODUCTS, TRANSPOSED

ACTIVATIONS = (
    "ElementWiseNeuron", "Gelu", "HardSwish", "Relu", "Relu1", "Relu6", "ReluMinMax", "Sigmoid", "Tanh",
)  # fmt: skip


def run(edit: Edit) -> int:
    """Returns the number of activations moved."""
    return sum(
        op.op in ACTIVATIONS and (_over_views(edit, op) or _over_concat(edit, op)) for op in edit.live()
    )


def _fuses(op: GraphOp | None) -> bool:
    return op is not None and (
        op.op in (*CONVOLUTIONS, *TRANSPOSED, *PRODUCTS, "Batchnorm") or operation(op) == "ADD"
    )


def _over_views(edit: Edit, op: GraphOp) -> bool:
    """Rewrites conv -> views -> activation as conv -> activation -> views."""
    quant = edit.tensors[op.outputs[0]].quant
    if quant is not None and quant.axis is not None:
        return False
    if any(r.op == "MatMul" for r in edit.readers(op.outputs[0])):
        # Errata concern products beside views; a FullyConnected reads past a Reshape (read-rows).
        return False
    views: list[GraphOp] = []
    behind, read = op, op.inputs[0] or ""
    while edit.only_reader(read) is behind and (maker := edit.maker(read)) is not None:
        if _fuses(maker):
            break
        if maker.op not in (*VIEWS, "Transpose") or not _keeps_last(edit, maker):
            return False
        views.insert(0, maker)
        behind, read = maker, maker.inputs[0] or ""
    else:
        return False
    if not views:
        return False
    y = edit.tensors[op.outputs[0]]
    made = _like(edit, y, read, f"{read}_active")
    new, tensors = [replace(op, inputs=(read,), outputs=(made.name,))], [made]
    for view in views:
        last = view is views[-1]
        out = y if last else _like(edit, y, view.outputs[0], f"{view.outputs[0]}_active")
        new.append(replace(view, inputs=(new[-1].outputs[0], *view.inputs[1:]), outputs=(out.name,)))
        tensors += [] if last else [out]
    return edit.rewrite([*views, op], new, tensors)


def _keeps_last(edit: Edit, op: GraphOp) -> bool:
    """False for views that change the last dimension, which stay: errata concern products beside them."""
    x, y = edit.tensors[op.inputs[0] or ""], edit.tensors[op.outputs[0]]
    return op.op == "Transpose" or x.shape[-1:] == y.shape[-1:]


def _over_concat(edit: Edit, op: GraphOp) -> bool:
    """Rewrites Concat of convolutions -> activation as a Concat of activations."""
    joined = op.inputs[0] or ""
    concat = edit.maker(joined)
    if concat is None or concat.op != "Concat" or edit.only_reader(joined) is not op:
        return False
    parts = [t for t in concat.inputs if t is not None]
    y = edit.tensors[op.outputs[0]]
    if any(not _fuses(edit.maker(t)) or edit.only_reader(t) is not concat for t in parts):
        return False
    if len(set(parts)) != len(parts):
        return False
    made = [_like(edit, y, t, f"{t}_active") for t in parts]
    each = [
        replace(op, name=edit.fresh(f"{op.name}_{t}"), inputs=(t,), outputs=(m.name,))
        for t, m in zip(parts, made, strict=True)
    ]
    join = replace(concat, inputs=tuple(m.name for m in made), outputs=(y.name,))
    return edit.rewrite([concat, op], [*each, join], made)


def _like(edit: Edit, y: GraphTensor, shaped: str, base: str) -> GraphTensor:
    """A tensor with the type and encoding of ``y`` and the shape of ``shaped``."""
    shape = edit.tensors[shaped].shape
    return replace(y, name=edit.fresh(base), shape=shape, type="NATIVE", data=None)
