"""Patches for passes of ExecuTorch that make a program compute other values than PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from opdb.plugins.executorch.builder.operators import edge_operators
from opdb.plugins.executorch.patches.graphs import differs, edge, exported, nodes, traced
from opdb.plugins.executorch.patches.registry import Context, patch
from opdb.plugins.executorch.patches.undo import Undo, all_of, replaced, sparing


def _pass(module: str, name: str) -> Any:
    return getattr(import_module(f"executorch.backends.qualcomm._passes.{module}"), name)


def _off(context: Context, owner: Any, target: str) -> Undo:
    """Disables the pass if opdb maps ``target``."""
    from executorch.exir.pass_base import PassResult

    if target not in context.targets:
        return all_of(())
    return replaced(owner, "call", lambda self, graph_module: PassResult(graph_module, False))


def _any_of_all_dimensions_is_wrong() -> bool:
    import torch

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.any(x, dim=[0, 1])

    x = torch.eye(3) > 0
    program = edge(function, x, whole=[torch.ops.aten.any.dims])
    return differs(_pass("decompose_any", "DecomposeAny")()(program.graph_module).graph_module, function, x)


@patch(
    "any-of-all-dimensions",
    "bug",
    "any along dimensions has a dimension too many where none is left",
    "_passes.decompose_any:DecomposeAny.call",
    needed=_any_of_all_dimensions_is_wrong,
)
def any_of_all_dimensions(context: Context) -> Undo:
    return _off(context, _pass("decompose_any", "DecomposeAny"), "aten.any.dims")


def _dilated_pools_of_volumes_is_wrong() -> bool:
    import torch

    pool, x = torch.nn.MaxPool3d(2, dilation=2), torch.rand(1, 1, 5, 5, 5)
    changed = _pass("decompose_maxpool3d", "DecomposeMaxPool3d")(quantization_capture=True)(traced(pool, x))
    return differs(changed.graph_module, pool, x)


@patch(
    "dilated-pools-of-volumes",
    "bug",
    "max_pool3d loses its dilation, and adaptive pools are taken for it",
    "_passes.decompose_maxpool3d:DecomposeMaxPool3d.call",
    needed=_dilated_pools_of_volumes_is_wrong,
)
def dilated_pools_of_volumes(context: Context) -> Undo:
    return _off(
        context, _pass("decompose_maxpool3d", "DecomposeMaxPool3d"), "aten.max_pool3d_with_indices.default"
    )


def _pools_over_the_edge_is_wrong() -> bool:
    import torch

    pool, x = torch.nn.MaxPool2d(2, 2, 1, ceil_mode=True), torch.rand(1, 1, 5, 5)
    changed = _pass("recompose_pad_maxpool2d", "RecomposePadMaxPool2d")()(edge(pool, x).graph_module)
    return differs(changed.graph_module, pool, x)


@patch(
    "pools-over-the-edge",
    "bug",
    "a pool of ceil_mode with padding has more rows",
    "_passes.recompose_pad_maxpool2d:RecomposePadMaxPool2d.call",
    needed=_pools_over_the_edge_is_wrong,
)
def pools_over_the_edge(context: Context) -> Undo:
    return _off(
        context,
        _pass("recompose_pad_maxpool2d", "RecomposePadMaxPool2d"),
        "aten.max_pool2d_with_indices.default",
    )


def _numbers_of_a_line_is_wrong() -> bool:
    import torch

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.neg(x[2])

    x = torch.arange(5.0)
    changed = _pass("remove_0d_tensor", "Remove0DTensor")()(edge(function, x).graph_module)
    return differs(changed.graph_module, function, x)


@patch(
    "numbers-of-a-line",
    "bug",
    "the whole line is taken for the number that select picks of it",
    "_passes.remove_0d_tensor:Remove0DTensor.call",
    needed=_numbers_of_a_line_is_wrong,
)
def numbers_of_a_line(context: Context) -> Undo:
    return _off(context, _pass("remove_0d_tensor", "Remove0DTensor"), "aten.select.int")


def _of_whole_numbers(node: Any) -> bool:
    divides = node.op == "call_function" and any(word in str(node.target) for word in ("remainder", "div"))
    return divides and not node.meta["val"].dtype.is_floating_point


def _rounds(module: str, name: str, divide: Callable[..., Any]) -> bool:
    """True if a pass rounds whole numbers that float32 cannot represent."""
    import torch

    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        return divide(x, y)

    inputs = torch.tensor([16777217, 7], dtype=torch.int32), torch.tensor([1, 2], dtype=torch.int32)
    return differs(_pass(module, name)()(traced(function, *inputs)).graph_module, function, *inputs)


def _with_whole_numbers(context: Context, module: str, name: str, target: str) -> Undo:
    """Makes the pass skip whole numbers if opdb maps ``target``: opdb is exact above 2048, where fp16 skips some whole numbers."""
    return sparing(_pass(module, name), _of_whole_numbers) if target in context.targets else all_of(())


def _divides_remainders() -> bool:
    import torch

    return _rounds("decompose_remainder", "DecomposeRemainder", torch.remainder)


@patch(
    "remainders-of-whole-numbers",
    "bug",
    "whole numbers are divided as floats",
    "_passes.decompose_remainder:DecomposeRemainder.call",
    needed=_divides_remainders,
)
def remainders_of_whole_numbers(context: Context) -> Undo:
    return _with_whole_numbers(context, "decompose_remainder", "DecomposeRemainder", "aten.remainder.Tensor")


def _divides_by_mode() -> bool:
    import torch

    divide = partial(torch.div, rounding_mode="floor")
    return _rounds("decompose_div_mode", "DecomposeDivMode", divide)


@patch(
    "rounded-quotients-of-whole-numbers",
    "bug",
    "whole numbers are divided as floats",
    "_passes.decompose_div_mode:DecomposeDivMode.call",
    needed=_divides_by_mode,
)
def rounded_quotients_of_whole_numbers(context: Context) -> Undo:
    return _with_whole_numbers(context, "decompose_div_mode", "DecomposeDivMode", "aten.div.Tensor_mode")


def _divides_and_floors() -> bool:
    import torch

    return _rounds("decompose_floor_divide", "DecomposeFloorDivide", torch.floor_divide)


@patch(
    "floors-of-whole-numbers",
    "bug",
    "whole numbers are divided as floats",
    "_passes.decompose_floor_divide:DecomposeFloorDivide.call",
    needed=_divides_and_floors,
)
def floors_of_whole_numbers(context: Context) -> Undo:
    return _with_whole_numbers(
        context, "decompose_floor_divide", "DecomposeFloorDivide", "aten.floor_divide.default"
    )


def _counts_from_the_first() -> bool:
    import torch

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.roll(x, 1, -1)

    x = torch.arange(6.0).reshape(2, 3)
    return differs(_pass("decompose_roll", "DecomposeRoll")()(traced(function, x)).graph_module, function, x)


@patch(
    "rolls-from-the-end",
    "bug",
    "roll along dimension -1 goes along the first",
    "_passes.decompose_roll:DecomposeRoll.call",
    needed=_counts_from_the_first,
)
def rolls_from_the_end(context: Context) -> Undo:
    """Gives DecomposeRoll nonnegative dimensions."""
    import torch
    from executorch.backends.qualcomm._passes.decompose_roll import DecomposeRoll

    stock = DecomposeRoll.call

    def call(self: Any, graph_module: Any) -> Any:
        for node in graph_module.graph.nodes:
            if node.target is torch.ops.aten.roll.default and len(node.args) > 2:
                tensor, shifts, dims = node.args
                node.args = (tensor, shifts, [d % tensor.meta["val"].dim() for d in dims] or [None])
        return stock(self, graph_module)

    return replaced(DecomposeRoll, "call", call)


def _loses_digits() -> bool:
    import torch

    x = torch.tensor([-20000.0])
    changed = _pass("decompose_hyperbolic_variants", "DecomposeHyperbolicVariants")()(
        edge(torch.asinh, x).graph_module
    )
    return differs(changed.graph_module, torch.asinh, x, error=0.01)


@patch(
    "hyperbolic-functions",
    "bug",
    "asinh and its like are differences of large numbers: asinh(-200) is -7.6 in fp16",
    "_passes.decompose_hyperbolic_variants:DecomposeHyperbolicVariants.__init__",
    "_passes.decompose_hyperbolic_variants:DecomposeHyperbolicVariants._EDGE_OPS",
    needed=_loses_digits,
)
def hyperbolic_kept(context: Context) -> Undo:
    """Keeps the edge operators of DecomposeHyperbolicVariants whole if opdb maps them; a quantizer still sees the parts."""
    from executorch.backends.qualcomm._passes.decompose_hyperbolic_variants import DecomposeHyperbolicVariants

    kept = set(edge_operators(context.targets)) & DecomposeHyperbolicVariants._EDGE_OPS
    stock = DecomposeHyperbolicVariants.__init__

    def init(self: Any) -> None:
        stock(self)
        for op in kept:
            del self._dispatcher[op]

    return replaced(DecomposeHyperbolicVariants, "__init__", init)


def _makes_another_convolution() -> bool:
    import torch

    layer, x = torch.nn.Conv1d(2, 3, 3), torch.rand(2, 7)
    program = exported(layer, x)
    changed = _pass("canonicalize_conv", "CanonicalizeConv")(program)(program.graph_module).graph_module
    return any(n.args[0].meta["val"].dim() != 4 for n in nodes(changed, torch.ops.aten.conv2d.default))


@patch(
    "lines-without-a-batch",
    "bug",
    "conv1d of a line without a batch becomes another convolution",
    "_passes.canonicalize_conv:CanonicalizeConv.call",
    needed=_makes_another_convolution,
    until="1.5",
    upstream="pytorch/executorch#20738",
)
def lines_with_a_batch(context: Context) -> Undo:
    """Adds a batch to conv1d and conv_transpose1d without one for CanonicalizeConv, which always inserts a dimension at 2."""
    import torch
    from executorch.backends.qualcomm._passes.canonicalize_conv import CanonicalizeConv
    from executorch.backends.qualcomm._passes.utils import append_qdq, copy_meta

    stock = CanonicalizeConv.call
    aten = torch.ops.aten

    def batched(value: Any) -> Any:
        return copy_meta(value.meta, lambda m: {**m, "val": m["val"].unsqueeze(0)})

    def call(self: Any, graph_module: Any) -> Any:
        graph = graph_module.graph
        for node in list(graph.nodes):
            if node.target not in self.conv1d_op_map or node.meta["val"].dim() != 2:
                continue
            source, users, meta = node.args[0], list(node.users), dict(node.meta)
            with graph.inserting_before(node):
                lines = graph.call_function(aten.unsqueeze_copy.default, (source, 0))
            lines.meta = batched(source)
            node.replace_input_with(source, append_qdq(graph_module, lines, source))
            node.meta = batched(node)
            encoded = append_qdq(graph_module, node, users[0])
            with graph.inserting_after(encoded):
                line = graph.call_function(aten.squeeze_copy.dims, (encoded, [0]))
            line.meta = meta
            for user in users:
                user.replace_input_with(node, line)
        return stock(self, graph_module)

    return replaced(CanonicalizeConv, "call", call)
