"""Patches for the inputs and outputs of QNN graphs: every input is read, and inputs that are also results keep their type."""

from __future__ import annotations

from typing import Any

from opdb.plugins.executorch.patches.graphs import edge_op, exported
from opdb.plugins.executorch.patches.registry import Context, patch
from opdb.plugins.executorch.patches.undo import Undo, all_of, replaced
from opdb.programs.torch.ranks import MOST, lower_ranks

#: Operators that take shape and data type from their first argument; the value that they fill with, or the name of the
#: argument for it.
FILLS: dict[str, float | str] = {
    "aten.empty_like.default": 0, "aten.full_like.default": "fill_value", "aten.new_empty.default": 0,
    "aten.new_full.default": "fill_value", "aten.new_ones.default": 1, "aten.new_zeros.default": 0,
    "aten.ones_like.default": 1, "aten.zeros_like.default": 0, "aten.fill.Scalar": "value",
}  # fmt: skip


def _reads_a_shape() -> bool:
    """True if the pass manager keeps reading an input that is only needed for its shape."""
    import torch
    from executorch.backends.qualcomm._passes.qnn_pass_manager import QnnPassManager

    program = exported(lambda y, x: torch.ones_like(y) + x, torch.ones(2), torch.ones(2))
    changed = QnnPassManager().transform_for_export_pipeline(program)
    return any(n.name == changed.graph_signature.user_inputs[0] and n.users for n in changed.graph.nodes)


@patch(
    "shapes-without-inputs",
    "bug",
    "a tensor that is read for its shape alone (ones_like) is an input of the delegate and none of QNN's graph: 1.4 hands the "
    "graph the wrong tensors, 1.5 ends the export",
    "_passes.qnn_pass_manager:QnnPassManager.transform_for_export_pipeline",
    "_passes.qnn_pass_manager:QnnPassManager.get_to_edge_transform_passes",
    needed=_reads_a_shape,
    always=True,
)
def shapes_without_inputs(context: Context) -> Undo:
    """Replaces fills in the shape of another tensor by fills in a fixed shape, before and after PyTorch decomposes."""
    from executorch.backends.qualcomm._passes.qnn_pass_manager import QnnPassManager

    exports = QnnPassManager.transform_for_export_pipeline
    edges = QnnPassManager.get_to_edge_transform_passes

    def transform_for_export_pipeline(self: Any, exported_program: Any, *more: Any, **named: Any) -> Any:
        filled(exported_program.graph_module)
        return exports(self, exported_program, *more, **named)

    def get_to_edge_transform_passes(self: Any, *program: Any, **named: Any) -> Any:
        return [filled, *edges(self, *program, **named)]

    return all_of(
        (
            replaced(QnnPassManager, "transform_for_export_pipeline", transform_for_export_pipeline),
            replaced(QnnPassManager, "get_to_edge_transform_passes", get_to_edge_transform_passes),
        )
    )


def filled(graph_module: Any) -> Any:
    """Replaces operators of ``FILLS`` on a tensor of fixed shape by aten.full; returns the result of an ExecuTorch pass."""
    import torch
    from executorch.exir.dialects.edge._ops import EdgeOpOverload
    from torch.fx.passes.infra.pass_base import PassResult

    changed = False
    for node in list(graph_module.graph.nodes):
        of_edge = isinstance(node.target, EdgeOpOverload)
        target = str(node.target._op if of_edge else node.target)
        made = node.meta.get("val")
        if target not in FILLS or not isinstance(made, torch.Tensor):
            continue
        value, shape = FILLS[target], list(made.shape)
        if isinstance(value, str):
            value = node.kwargs.get(value, node.args[-1])
        if not isinstance(value, (bool, int, float)) or not all(isinstance(d, int) for d in shape):
            continue
        node.target = edge_op("aten.full.default") if of_edge else torch.ops.aten.full.default
        node.args, node.kwargs = (shape, value), {"dtype": made.dtype}
        changed = True
    if changed:
        graph_module.recompile()
    return PassResult(graph_module, changed)


def _keeps_six_dimensions() -> bool:
    import torch
    from executorch.backends.qualcomm._passes.qnn_pass_manager import QnnPassManager

    def windows(x: torch.Tensor) -> torch.Tensor:
        return x.view(2, 2, 2, 2, 2, 2).permute(0, 1, 3, 2, 4, 5).reshape(64)

    changed = QnnPassManager().transform_for_export_pipeline(exported(windows, torch.ones(64)))
    return any(n.meta["val"].dim() > MOST for n in changed.graph.nodes if n.op == "call_function")


@patch(
    "five-dimensions",
    "feature",
    "a permutation of six and more dimensions between views falls back to the CPU, where fewer say the same",
    "_passes.qnn_pass_manager:QnnPassManager.transform_for_export_pipeline",
    needed=_keeps_six_dimensions,
)
def five_dimensions(context: Context) -> Undo:
    """Permutes windows (Swin) and pixel shuffles in at most five dimensions."""
    from executorch.backends.qualcomm._passes.qnn_pass_manager import QnnPassManager

    exports = QnnPassManager.transform_for_export_pipeline

    def transform_for_export_pipeline(self: Any, exported_program: Any, *more: Any, **named: Any) -> Any:
        if lower_ranks(exported_program.graph):
            exported_program.graph_module.recompile()
        return exports(self, exported_program, *more, **named)

    return replaced(QnnPassManager, "transform_for_export_pipeline", transform_for_export_pipeline)


def _narrows_what_is_handed_through() -> bool:
    import torch
    from executorch.backends.qualcomm._passes.i64_to_i32 import I64toI32

    program = exported(lambda x, n: (x, n), torch.ones(2), torch.ones(2, dtype=torch.int64))
    changed = I64toI32(program)(program.graph_module).graph_module
    output = next(n for n in changed.graph.nodes if n.op == "output")
    return bool(output.args[0][1].op != "placeholder")


@patch(
    "int64-handed-through",
    "bug",
    "an input of int64 that is also a result comes back as int32",
    "_passes.i64_to_i32:I64toI32._cast_constant_to_int32",
    needed=_narrows_what_is_handed_through,
    always=True,
)
def handed_through(context: Context) -> Undo:
    """Keeps the graph's results that are its inputs unchanged."""
    from executorch.backends.qualcomm._passes.i64_to_i32 import I64toI32

    stock = I64toI32._cast_constant_to_int32

    def _cast_constant_to_int32(self: Any, graph_module: Any) -> None:
        output = next(n for n in graph_module.graph.nodes if n.op == "output")
        before = output.args
        stock(self, graph_module)
        output.args = before

    return replaced(I64toI32, "_cast_constant_to_int32", _cast_constant_to_int32)
