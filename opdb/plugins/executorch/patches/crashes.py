"""Patches for valid programs at which ExecuTorch's passes raise."""

from __future__ import annotations

from typing import Any

from opdb.plugins.executorch.patches.graphs import differs, edge, raises, traced
from opdb.plugins.executorch.patches.registry import Context, patch
from opdb.plugins.executorch.patches.undo import Undo, replaced, sparing


def _asks_for_the_second_norm() -> bool:
    import torch
    from executorch.backends.qualcomm._passes.decompose_cdist import DecomposeCDist

    module = traced(lambda x, y: torch.cdist(x, y, 1.0), torch.ones(2, 3), torch.ones(4, 3))
    return raises(DecomposeCDist(), module)


@patch(
    "distances-of-other-norms",
    "bug",
    "distances of another norm than the second end the export",
    "_passes.decompose_cdist:DecomposeCDist.call",
    needed=_asks_for_the_second_norm,
)
def other_norms(context: Context) -> Undo:
    from executorch.backends.qualcomm._passes.decompose_cdist import DecomposeCDist

    def spared(node: Any) -> bool:
        return node.target in DecomposeCDist.cdist_targets and len(node.args) > 2 and node.args[2] != 2

    return sparing(DecomposeCDist, spared)


def _takes_rows_for_heads() -> bool:
    import torch
    from executorch.backends.transforms.decompose_sdpa import DecomposeScaledDotProductAttention

    attention = torch.nn.functional.scaled_dot_product_attention
    module = traced(attention, torch.ones(1, 4, 2), torch.ones(1, 6, 2), torch.ones(1, 6, 2))
    return raises(DecomposeScaledDotProductAttention(), module)


@patch(
    "attention-without-heads",
    "bug",
    "the rows of attention without heads are taken for heads, which ends the export",
    "executorch.backends.transforms.decompose_sdpa:DecomposeScaledDotProductAttention.call",
    needed=_takes_rows_for_heads,
)
def attention_without_heads(context: Context) -> Undo:
    import torch
    from executorch.backends.transforms.decompose_sdpa import DecomposeScaledDotProductAttention

    attention = torch.ops.aten.scaled_dot_product_attention.default

    def spared(node: Any) -> bool:
        return node.target is attention and node.meta["val"].dim() != 4

    return sparing(DecomposeScaledDotProductAttention, spared)


def _views_what_is_permuted() -> bool:
    import torch
    from executorch.backends.qualcomm._passes.decompose_diagonal import DecomposeDiagonal

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.diagonal(x, 0, 0, 2)

    x = torch.arange(24.0).reshape(2, 3, 4)
    return differs(DecomposeDiagonal()(traced(function, x)).graph_module, function, x)


@patch(
    "diagonals-of-permuted",
    "bug",
    "a diagonal that is not of the last two dimensions is a view of what a permutation has moved, at which the export ends",
    "_passes.decompose_diagonal:DecomposeDiagonal._get_ops",
    needed=_views_what_is_permuted,
)
def diagonals_of_permuted(context: Context) -> Undo:
    import torch
    from executorch.backends.qualcomm._passes.decompose_diagonal import DecomposeDiagonal

    stock = DecomposeDiagonal._get_ops

    def operators(self: Any, is_edge: bool) -> Any:
        found = stock(self, is_edge)
        return found if is_edge else {**found, "view": torch.ops.aten.reshape.default}

    return replaced(DecomposeDiagonal, "_get_ops", operators)


def _lifts_alpha() -> bool:
    import torch
    from executorch.backends.qualcomm._passes.lift_constant_scalar_operands import LiftConstantScalarOperands

    x = torch.arange(4.0)
    module = traced(lambda x: torch.ops.aten.add.Scalar(x, 2, 3), x)
    try:
        changed = LiftConstantScalarOperands()(module).graph_module
    except Exception:  # anything that the release raises
        return True
    return differs(changed, lambda x: x + 6, x)


@patch(
    "alphas-of-numbers",
    "bug",
    "the factor of add(x, 2, 3) becomes a tensor where PyTorch takes a number, at which the export ends",
    "_passes.lift_constant_scalar_operands:LiftConstantScalarOperands._lift",
    needed=_lifts_alpha,
)
def alphas(context: Context) -> Undo:
    """Multiplies the number by alpha; ``rsub``, which multiplies the tensor, gets alpha as a keyword."""
    import torch
    from executorch.backends.qualcomm._passes.lift_constant_scalar_operands import LiftConstantScalarOperands

    aten = torch.ops.aten
    stock = LiftConstantScalarOperands._lift

    def lift(self: Any, gm: Any) -> None:
        for node in gm.graph.nodes:
            if node.target not in (aten.add.Scalar, aten.sub.Scalar, aten.rsub.Scalar) or len(node.args) < 3:
                continue
            tensor, number, alpha = node.args
            if node.target is aten.rsub.Scalar:
                node.args, node.kwargs = (tensor, number), {"alpha": alpha}
            else:
                node.args = (tensor, number * alpha)
        stock(self, gm)

    return replaced(LiftConstantScalarOperands, "_lift", lift)


def of_other_windows(node: Any) -> bool:
    """True if DecomposeColIm fails at a node: it only takes adjacent square windows of batches, without dilation or padding."""
    name = getattr(node.target, "__name__", "").removesuffix(".default")
    if name not in ("aten.im2col", "im2col", "aten.col2im", "col2im"):
        return False
    column = name.endswith("im2col")
    window, gaps, zeros, steps = node.args[1 if column else 2 :]
    image = node.args[0].meta["val"] if column else node.meta["val"]
    plain = set(gaps) == {1} and set(zeros) == {0}
    return not (plain and list(steps) == list(window) and len(set(window)) == 1 and image.dim() == 4)


def _refuses_windows() -> bool:
    import torch
    from executorch.backends.qualcomm._passes.decompose_col_im import DecomposeColIm

    program = edge(
        lambda x: torch.nn.functional.unfold(x, 3),
        torch.ones(1, 2, 5, 5),
        whole=[torch.ops.aten.im2col.default],
    )
    return raises(DecomposeColIm(), program.graph_module)


@patch(
    "windows-of-other-kinds",
    "bug",
    "unfold and fold of windows that are not square and side by side end the export",
    "_passes.decompose_col_im:DecomposeColIm.call",
    needed=_refuses_windows,
)
def windows(context: Context) -> Undo:
    from executorch.backends.qualcomm._passes.decompose_col_im import DecomposeColIm

    return sparing(DecomposeColIm, of_other_windows)


def _has_no_name() -> bool:
    import torch
    from torch.utils import _pytree as pytree

    known = pytree.SUPPORTED_SERIALIZED_TYPES[torch.return_types.topk]
    return bool(known.serialized_type_name == pytree.NO_SERIALIZED_TYPE_NAME_FOUND)


@patch(
    "names-of-named-results",
    "bug",
    "a program that returns what torch.topk gives cannot be saved: PyTorch has no name for its type",
    "torch.utils._pytree:SUPPORTED_SERIALIZED_TYPES",
    needed=_has_no_name,
)
def named_results(context: Context) -> Undo:
    """Gives these types names: a ``.pte`` stores the structure of the module's results as text, which needs them."""
    import torch
    from torch.utils import _pytree as pytree

    types, names = pytree.SUPPORTED_SERIALIZED_TYPES, pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE
    unnamed = [
        t
        for t in torch.return_types.all_return_types
        if t in types and types[t].serialized_type_name == pytree.NO_SERIALIZED_TYPE_NAME_FOUND
    ]
    before = {t: types[t] for t in unnamed}
    named = {f"torch.return_types.{t.__name__}": t for t in unnamed}
    types.update({t: before[t]._replace(serialized_type_name=name) for name, t in named.items()})
    names.update(named)

    def undo() -> None:
        types.update(before)
        for name in named:
            del names[name]

    return undo
