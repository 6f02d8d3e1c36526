"""linear-as-convolution: turns a linear layer on an image with its channels last into a 1-by-1 convolution.

Its result and the elementwise ops after it keep the dimensions of the image.  HTP is slow with the rows that a
FullyConnected makes of them: a block of ConvNeXt spends 2,692 us in GELU of [3136, 384] and next to none in GELU of
[1, 56, 56, 384] (QNN 2.51 for SA8255, fp16).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from opdb.core.graph import GraphOp
from opdb.core.op_config import ParamConfig
from opdb.lower.passes.activations import ACTIVATIONS
from opdb.lower.passes.edit import Edit, parameter
from opdb.lower.passes.layouts import VIEWS
from opdb.lower.passes.weights import weighted


def run(edit: Edit) -> int:
    """Returns the number of layers converted, plus the Reshapes moved after activations."""
    changed = 0
    for op in edit.live():
        if op.op == "FullyConnected":
            changed += _convolved(edit, op)
        elif op.op in ACTIVATIONS:
            changed += _before_view(edit, op)
    return changed


def _convolved(edit: Edit, op: GraphOp) -> bool:
    """Rewrites a FullyConnected of [1, H, W, C] as a Conv2d and a Reshape to rows."""
    found = weighted(edit, op)
    x, y = edit.tensors[op.inputs[0] or ""], edit.tensors[op.outputs[0]]
    if found is None or len(x.shape) != 4 or x.shape[0] != 1 or min(x.shape[1:3]) < 2:
        return False
    if found.filter.shape[-1] != x.shape[-1] or parameter(op, "keep_dims", False):
        return False
    filter = np.ascontiguousarray(found.filter.T)[None, None]
    held = replace(edit.tensors[op.inputs[1] or ""], shape=filter.shape, data=filter)
    held = replace(held, name=edit.fresh(f"{held.name}_filter"))
    image = replace(y, name=edit.fresh(f"{y.name}_image"), shape=(*x.shape[:3], y.shape[-1]), type="NATIVE")
    sizes = (("stride", (1, 1), (2,)), ("pad_amount", (0, 0, 0, 0), (2, 2)))
    params = tuple(ParamConfig(name, "u32", value, shape) for name, value, shape in sizes)
    inputs = (x.name, held.name, *op.inputs[2:])
    conv = replace(op, op="Conv2d", inputs=inputs, params=params, outputs=(image.name,))
    view = GraphOp(
        edit.fresh(f"{op.name}_rows"), "Reshape", (image.name,), (), op.outputs, op.package, op.origin
    )
    return edit.rewrite([op], [conv, view], [held, image], faultless=True)


def _before_view(edit: Edit, op: GraphOp) -> bool:
    """Moves an activation after the Reshape of a converted layer before it."""
    view = edit.maker(op.inputs[0])
    if view is None or view.op not in VIEWS or edit.only_reader(view.outputs[0]) is not op:
        return False
    conv, x, y = edit.maker(view.inputs[0]), edit.tensors[view.inputs[0] or ""], edit.tensors[op.outputs[0]]
    if conv is None or conv.op != "Conv2d" or len(x.shape) != 4 or len(y.shape) != 2:
        return False
    if y.quant is not None and y.quant.axis is not None:
        return False
    image = replace(y, name=edit.fresh(f"{y.name}_image"), shape=x.shape, type="NATIVE")
    new = [
        replace(op, inputs=(x.name,), outputs=(image.name,)),
        replace(view, inputs=(image.name,), outputs=op.outputs),
    ]
    return edit.rewrite([view, op], new, [image])
