"""Layout arithmetic: which tensors ExecuTorch has already permuted, and which transforms remain.

ExecuTorch's LayoutTransform pass moves regions of the graph to channels-last.  A node inside carries an
*order* (``meta["axis_order"]``; e.g. (0, 2, 3, 1)): its dynamic tensors of that rank are stored as
``permute(tensor, order)``, while its arguments still use PyTorch's dimensions.  This module imports
neither torch nor executorch.
"""

from __future__ import annotations

from collections.abc import Sequence

from opdb.runtime.tensors import Rejection, Transform

#: Operators f with ``permute(f(x, ...), order) == f(permute(x, order), ...)`` once the arguments named
#: ``dim`` or ``dims`` are renumbered (ATen's definitions), for tensors of equal rank or with one element.
_ELEMENTWISE = """
    abs acos asin atan ceil celu clamp clamp_max clamp_min cos elu erf exp floor frac gelu hardshrink hardsigmoid
    hardswish hardtanh leaky_relu log log_sigmoid logical_not logit mish neg reciprocal relu relu6 round rsqrt
    rsub selu sigmoid sign silu sin sinc softplus softshrink sqrt square tanh threshold
    add bitwise_and bitwise_or bitwise_xor div eq floor_divide ge gt le logical_and logical_or logical_xor lt
    maximum minimum mul ne pow remainder sub where
"""
_ALONG_DIMS = """
    amax amin cat cumsum flip max mean min slice slice_copy _softmax _log_softmax _safe_softmax softmax
    split_with_sizes split_with_sizes_copy sum topk
"""
ELEMENTWISE = frozenset(_ELEMENTWISE.split())
COMMUTING = ELEMENTWISE | frozenset(_ALONG_DIMS.split())
DIMS = ("dim", "dims")
#: Operators that PyTorch decomposes into one that ExecuTorch lays out itself (convolution, max_pool2d_with_indices,
#: native_group_norm, _softmax).  If kept whole, they would stand between two Transposes.
_LAID_OUT = """
    conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d group_norm log_softmax max_pool2d softmax
"""
LAID_OUT_AS_ANOTHER = frozenset(_LAID_OUT.split())
#: PyTorch turns these into a Pad and a convolution if a filter is even; kept whole, they are laid out like convolution.
LAID_OUT = frozenset({"aten.conv2d.padding", "aten.conv3d.padding"})


def commutes(target: str) -> bool:
    """True for operators in COMMUTING.  ``target``: e.g. aten.softmax.int."""
    namespace, _, rest = target.partition(".")
    return namespace == "aten" and rest.partition(".")[0] in COMMUTING


def laid_out_as_another(target: str) -> bool:
    """True for operators in LAID_OUT_AS_ANOTHER, e.g. aten.conv2d.default, which becomes aten.convolution.default."""
    namespace, _, rest = target.partition(".")
    name, _, overload = rest.partition(".")
    return namespace == "aten" and name in LAID_OUT_AS_ANOTHER and overload != "padding"


def elementwise(target: str) -> bool:
    """True if each element of the result comes from the elements at the same place; e.g. aten.add.Tensor."""
    namespace, _, rest = target.partition(".")
    return namespace == "aten" and rest.partition(".")[0] in ELEMENTWISE


def renumber(dims: int | Sequence[int], order: Sequence[int]) -> int | list[int]:
    """Maps PyTorch dimensions (negative ones count from the end) to dimensions of the permuted tensor."""
    rank = len(order)
    if isinstance(dims, int):
        if not -rank <= dims < rank:
            raise Rejection(f"dimension {dims} of a tensor of rank {rank}")
        return list(order).index(dims % rank)
    return [list(order).index(d % rank) for d in dims]


def inverse(perm: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(perm)), key=perm.__getitem__))


def stored(shape: Sequence[int], order: Sequence[int] | None) -> tuple[int, ...]:
    """The stored shape of a dynamic tensor of PyTorch shape ``shape``."""
    if order is None or len(shape) <= 1:
        return tuple(shape)
    if len(shape) != len(order):
        raise Rejection(
            f"a tensor of rank {len(shape)} at a node that ExecuTorch laid out for rank {len(order)}"
        )
    return tuple(shape[d] for d in order)


def remaining(
    transforms: Sequence[Transform], order: Sequence[int] | None, rank: int
) -> tuple[Transform, ...]:
    """The steps from the stored tensor to the operand: first back to PyTorch's order, then ``transforms``.

    ``rank``: before the transforms.  Steps that cancel are dropped: for a convolution nothing remains.
    """
    start = [] if order is None or rank <= 1 else [Transform("permute", inverse(order))]
    out: list[Transform] = []
    for t in (*start, *transforms):
        if out and out[-1].kind == t.kind == "permute":
            before = out.pop().values
            t = Transform("permute", tuple(before[p] for p in t.values))
        elif out and out[-1].kind == t.kind == "reshape":
            out.pop()
        if t.kind != "permute" or t.values != tuple(range(len(t.values))):
            out.append(t)
    return tuple(out)
