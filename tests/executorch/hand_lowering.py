"""A few lowerings written by hand in the terms of opdb.runtime.lowering, to drive the ExecuTorch adapter.

``lower`` has the signature that the generated registry has.  ``target`` chooses the form of LayerNorm:
"direct" (all axes in one op) or "last" (Reshape, LayerNorm over the last axis, Reshape).
"""

from __future__ import annotations

import math
from typing import Any

from opdb.op_config import ParamConfig
from opdb.runtime.lowering import (
    Lowered,
    LoweredOp,
    NodeView,
    Reason,
    Rejected,
    Rejection,
    TensorRef,
    full,
    intermediate,
    permute,
    reshape,
)

NHWC, HWIO = (0, 2, 3, 1), (2, 3, 1, 0)


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
    x, y = view.arg("input"), view.result(0)
    axes = view.arg("normalized_shape")
    gamma = view.arg("weight") or full(axes, 1.0, x)
    beta = view.arg("bias") or full(axes, 0.0, x)
    epsilon = ParamConfig("epsilon", "f32", view.arg("eps"))
    first = x.rank - len(axes)
    if len(axes) == 1 or target == "direct":
        op = LoweredOp("LayerNorm", (x, gamma, beta), (epsilon, u32s("axes", *range(first, x.rank))), (y,))
        return Lowered("LayerNorm", (op,))
    n = math.prod(axes)
    flat = intermediate("flat", (*x.shape[:first], n), x)
    normal = intermediate("normal", flat.shape, y)
    return Lowered(
        "LayerNorm_last_axis",
        (
            LoweredOp("Reshape", (x,), (), (flat,)),
            LoweredOp(
                "LayerNorm",
                (flat, reshape(gamma, (n,)), reshape(beta, (n,))),
                (epsilon, u32s("axes", first)),
                (normal,),
            ),
            LoweredOp("Reshape", (normal,), (), (y,)),
        ),
    )


def linear(view: NodeView, target: Any) -> Lowered:
    x, y = view.arg("input"), view.result(0)
    if x.rank != 2:
        raise Rejection(f"input.rank == 2; got {x.rank}")
    op = LoweredOp("FullyConnected", (x, view.arg("weight"), view.arg("bias")), (), (y,))
    return Lowered("FullyConnected", (op,))


def conv(view: NodeView, target: Any) -> Lowered:
    x, weight = view.arg("input"), view.arg("weight")
    if x.rank != 4 or view.arg("transposed"):
        raise Rejection("a convolution over two dimensions, not transposed")
    stride, pad, dilation = view.arg("stride"), view.arg("padding"), view.arg("dilation")
    params = (
        u32s("stride", *stride),
        u32s("pad_amount", pad[0], pad[0], pad[1], pad[1], shape=(2, 2)),
        u32s("dilation", *dilation),
        u32("group", view.arg("groups")),
    )
    inputs = (permute(x, NHWC), permute(weight, HWIO), view.arg("bias"))
    return Lowered("Conv2d", (LoweredOp("Conv2d", inputs, params, (permute(view.result(0), NHWC),)),))


def relu(view: NodeView, target: Any) -> Lowered:
    return Lowered("Relu", (LoweredOp("Relu", (view.arg("self"),), (), (view.result(0),)),))


def add(view: NodeView, target: Any) -> Lowered:
    if view.arg("alpha") != 1:
        raise Rejection("alpha == 1")
    op = LoweredOp("ElementWiseAdd", (view.arg("self"), view.arg("other")), (), (view.result(0),))
    return Lowered("ElementWiseAdd", (op,))


def softmax(view: NodeView, target: Any) -> Lowered:
    x = view.arg("self")
    axis = view.arg("dim") % x.rank
    if axis != x.rank - 1:
        raise Rejection(f"dim is the last dimension; got {axis} of rank {x.rank}")
    return Lowered("Softmax", (LoweredOp("Softmax", (x,), (u32("axis", axis),), (view.result(0),)),))


def concat(view: NodeView, target: Any) -> Lowered:
    y = view.result(0)
    axis = u32("axis", view.arg("dim") % y.rank)
    return Lowered("Concat", (LoweredOp("Concat", tuple(view.arg("tensors")), (axis,), (y,)),))


def mean(view: NodeView, target: Any) -> Lowered:
    x = view.arg("self")
    axes = [d % x.rank for d in view.arg("dim")]
    params = (u32s("axes", *axes), ParamConfig("keep_dims", "bool8", view.arg("keepdim")))
    return Lowered("ReduceMean", (LoweredOp("ReduceMean", (x,), params, (view.result(0),)),))


def split(view: NodeView, target: Any) -> Lowered:
    x, sizes = view.arg("self"), view.arg("split_sizes")
    params = (
        u32("axis", view.arg("dim") % x.rank),
        u32s("split_index", *(sum(sizes[: i + 1]) for i in range(len(sizes) - 1))),
    )
    return Lowered("Split", (LoweredOp("Split", (x,), params, tuple(view.results())),))


def view_(view: NodeView, target: Any) -> Lowered:
    return Lowered("Reshape", (LoweredOp("Reshape", (view.arg("self"),), (), (view.result(0),)),))


def permute_(view: NodeView, target: Any) -> Lowered:
    x: TensorRef = view.arg("self")
    perm = u32s("perm", *(d % x.rank for d in view.arg("dims")))
    return Lowered("Transpose", (LoweredOp("Transpose", (x,), (perm,), (view.result(0),)),))


def matmul_in_nhwc(view: NodeView, target: Any) -> Lowered:
    """MatMul whose operands a form wants transposed twice: nothing may remain of it."""
    a, b = view.arg("self"), view.arg("mat2")
    twice = permute(permute(a, (1, 0, 2)), (1, 0, 2))
    params = (ParamConfig("transpose_in0", "bool8", False), ParamConfig("transpose_in1", "bool8", True))
    op = LoweredOp("MatMul", (twice, permute(b, (0, 2, 1))), params, (view.result(0),))
    return Lowered("MatMul", (op,))


FORMS = {
    "aten.native_layer_norm.default": layer_norm,
    "aten.linear.default": linear,
    "aten.convolution.default": conv,
    "aten.relu.default": relu,
    "aten.add.Tensor": add,
    "aten._softmax.default": softmax,
    "aten.cat.default": concat,
    "aten.mean.dim": mean,
    "aten.split_with_sizes.default": split,
    "aten.view.default": view_,
    "aten.permute.default": permute_,
    "aten.bmm.default": matmul_in_nhwc,
}
