"""ATen targets that opdb.programs.torch treats specially."""

from __future__ import annotations

#: Targets whose result is their first argument.
SAME_VALUE = frozenset({
    "aten.alias.default", "aten.alias_copy.default", "aten.clone.default", "aten.contiguous.default",
    "aten.detach.default", "aten.detach_copy.default", "aten.lift_fresh.default",
    "aten.lift_fresh_copy.default",
})  # fmt: skip
#: Targets whose result is their first argument if it already has the data type.
CONVERSIONS = frozenset({
    "aten._to_copy.default", "aten.to.device", "aten.to.dtype", "aten.to.dtype_layout", "aten.to.other",
    "aten.type_as.default",
})  # fmt: skip
#: Targets that read the shape and the data type of their first argument, but no element.
SHAPE_ONLY = frozenset({
    "aten.copy.default", "aten.empty_like.default", "aten.fill.Scalar", "aten.fill.Tensor",
    "aten.full_like.default", "aten.new_empty.default", "aten.new_empty_strided.default",
    "aten.new_full.default", "aten.new_ones.default", "aten.new_zeros.default", "aten.ones_like.default",
    "aten.zero.default", "aten.zeros_like.default",
})  # fmt: skip
#: Targets that check something and compute nothing.
NO_VALUE = frozenset({
    "aten._assert_async.msg", "aten._assert_scalar.default", "aten._assert_tensor_metadata.default",
    "aten.sym_constrain_range.default", "aten.sym_constrain_range_for_size.default",
})  # fmt: skip
#: Targets that stay whole without a spec.
READ_WITHOUT_SPEC = SAME_VALUE | CONVERSIONS | SHAPE_ONLY | NO_VALUE | {
    "aten.dropout.default", "opdb.dequantize_blocks.default",
}  # fmt: skip
