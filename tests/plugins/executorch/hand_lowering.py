"""A few handwritten lowerings in terms of opdb.runtime.forms, to drive the ExecuTorch adapter.

``lower`` has the signature of opdb.lower.select.lower; it ignores ``target``.
"""

from __future__ import annotations

from typing import Any

from opdb.core.op_config import ParamConfig
from opdb.runtime.forms import Lowered, LoweredOp, NodeView, Reason, Rejected
from opdb.runtime.tensors import Rejection, permute


def lower(view: NodeView, target: Any) -> Lowered | Rejected:
    try:
        return FORMS[view.target](view, target)
    except Rejection as e:
        return Rejected((Reason(view.target, f"hand.M_{view.target}", str(e)),))


def lower_no_linear(view: NodeView, target: Any) -> Rejected:
    return Rejected((Reason("FullyConnected", "FullyConnected.C1", "never a linear"),))


def u32(name: str, value: int) -> ParamConfig:
    return ParamConfig(name, "u32", value)


def u32s(name: str, *values: int, shape: tuple[int, ...] | None = None) -> ParamConfig:
    return ParamConfig(name, "u32", values, shape or (len(values),))


def layer_norm(view: NodeView, target: Any) -> Lowered:
    """All axes in one op, which HTP's validator refuses for several axes."""
    x, shape = view.arg("input"), view.arg("normalized_shape")
    axes = u32s("axes", *range(x.rank - len(shape), x.rank))
    params = (ParamConfig("epsilon", "f32", view.arg("eps")), axes)
    op = LoweredOp("LayerNorm", (x, view.arg("weight"), view.arg("bias")), params, (view.result(0),))
    return Lowered("LayerNorm", (op,))


def relu(view: NodeView, target: Any) -> Lowered:
    return Lowered("Relu", (LoweredOp("Relu", (view.arg("self"),), (), (view.result(0),)),))


def softmax(view: NodeView, target: Any) -> Lowered:
    x = view.arg("self")
    axis = view.arg("dim") % x.rank
    if axis != x.rank - 1:
        raise Rejection(f"dim is the last dimension; got {axis} of rank {x.rank}")
    return Lowered("Softmax", (LoweredOp("Softmax", (x,), (u32("axis", axis),), (view.result(0),)),))


def view_(view: NodeView, target: Any) -> Lowered:
    return Lowered("Reshape", (LoweredOp("Reshape", (view.arg("self"),), (), (view.result(0),)),))


def matmul(view: NodeView, target: Any) -> Lowered:
    """A MatMul whose operands a form transposes twice: nothing of that may remain."""
    a, b = view.arg("self"), view.arg("mat2")
    twice = permute(permute(a, (1, 0, 2)), (1, 0, 2))
    params = (ParamConfig("transpose_in0", "bool8", False), ParamConfig("transpose_in1", "bool8", True))
    op = LoweredOp("MatMul", (twice, permute(b, (0, 2, 1))), params, (view.result(0),))
    return Lowered("MatMul", (op,))


FORMS = {
    "aten.native_layer_norm.default": layer_norm,
    "aten.relu.default": relu,
    "aten._softmax.default": softmax,
    "aten.view.default": view_,
    "aten.bmm.default": matmul,
}
