"""Patches of the operators that take any layout, and of the arguments that stay int64."""

from __future__ import annotations

from opdb.generated.builders import TARGETS
from opdb.plugins.executorch.builder import layout
from opdb.plugins.executorch.builder.operators import edge_name, edge_operators
from opdb.plugins.executorch.patches.graphs import edge_op
from opdb.plugins.executorch.patches.registry import Context, patch
from opdb.plugins.executorch.patches.undo import Undo, all_of, replaced


def _lists_other_operators() -> bool:
    from executorch.backends.qualcomm._passes.layout_transform import LayoutTransform

    known = LayoutTransform.layout_agnostic_ops
    return edge_op("aten.tanh.default") not in known or edge_op("aten.bmm.default") in known


@patch(
    "indifferent-layouts",
    "policy",
    "regions of one layout end at element-wise operators that the list lacks, and go through some (bmm, repeat) that it "
    "should not have; convolutions whose padding is a word begin none",
    "_passes.layout_transform:LayoutTransform.layout_agnostic_ops",
    "_passes.layout_transform:LayoutTransform.layout_sensitive_ops",
    needed=_lists_other_operators,
)
def layouts(context: Context) -> Undo:
    """Adds the operators that opdb's view handles in the stored layout; each layout boundary costs Transposes."""
    from executorch.backends.qualcomm._passes.layout_transform import LayoutTransform

    edges = edge_operators(context.targets)
    known = LayoutTransform.layout_agnostic_ops
    sensitive = LayoutTransform.layout_sensitive_ops
    more = {op for op in edges if layout.elementwise(edge_name(op)) and op not in sensitive}
    fewer = {op for op in edges if op in known and not layout.commutes(edge_name(op))}
    begin = {op for op in edges if edge_name(op) in layout.LAID_OUT}
    return all_of(
        [
            replaced(LayoutTransform, "layout_agnostic_ops", (set(known) | more) - fewer),
            replaced(LayoutTransform, "layout_sensitive_ops", set(sensitive) | begin),
        ]
    )


#: ATen operators with index arguments that PyTorch requires as int64, by position (ATen's schemas).
_INT64 = {
    "aten.scatter.value": 2, "aten.scatter.reduce": 2, "aten.scatter.value_reduce": 2,
    "aten.scatter_add.default": 2, "aten.scatter_reduce.two": 2, "aten.take.default": 1,
}  # fmt: skip


def _indices_become_int32() -> bool:
    from executorch.backends.qualcomm._passes.i64_to_i32 import I64toI32

    return any(edge_op(name) not in I64toI32.I64_IN_OPS for name in _INT64 if name in TARGETS)


@patch(
    "int64-indices",
    "bug",
    "indices of take and of scatter's forms become int32, which PyTorch's operators refuse",
    "_passes.i64_to_i32:I64toI32.I64_IN_OPS",
    needed=_indices_become_int32,
)
def int64_inputs(context: Context) -> Undo:
    from executorch.backends.qualcomm._passes.i64_to_i32 import I64toI32

    wanted = {t: _INT64[t] for t in context.targets if t in _INT64}
    more = {op: [wanted[edge_name(op)]] for op in edge_operators(wanted)}
    return replaced(I64toI32, "I64_IN_OPS", {**I64toI32.I64_IN_OPS, **more})
