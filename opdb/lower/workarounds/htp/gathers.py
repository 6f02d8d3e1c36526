"""Gathers in forms that HTP computes correctly: one line of indices, and dimensions joined to three or fewer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from opdb.core.dtypes import BY_SHORT
from opdb.lower.workarounds.surroundings import Facts
from opdb.runtime.forms import LoweredOp, lowered_op, scalar, tensor_param
from opdb.runtime.tensors import TensorRef, intermediate, lengthened, ramp, reshape

VECTOR = 128  # bytes


def from_one_matrix(op: LoweredOp, facts: Facts) -> Sequence[LoweredOp] | None:
    """Gathers rows of one matrix.  None for a table with a separate encoding per slice, which no Reshape keeps."""
    return None if _sliced(op) else list(_of_rows(op, facts.number))


def from_joined_dimensions(op: LoweredOp, facts: Facts) -> Sequence[LoweredOp] | None:
    """One line of indices along the second of few dimensions.  None in the same case as ``from_one_matrix``."""
    return None if _sliced(op) else list(_of_joined(op, facts.number))


def _sliced(op: LoweredOp) -> bool:
    table = op.inputs[0]
    return table is None or table.axis >= 0


def _of_joined(op: LoweredOp, number: int) -> Iterator[LoweredOp]:
    """Avoids the second-to-last dimension in floats, and the last dimension in 8 bits."""
    table, indices, outer, size, inner = _parts(op)
    count = math.prod(indices.shape)
    behind = [inner, 1] if inner > 1 else [1] if BY_SHORT[table.dtype].bits == 8 else []
    yield from _gather(
        reshape(table, [outer, size, *behind]),
        reshape(indices, [count]),
        1,
        [outer, count, *behind],
        op.outputs[0],
        number,
    )


def _of_rows(op: LoweredOp, number: int) -> Iterator[LoweredOp]:
    """Gathers the rows of the first slice, then those of the second, and so on.  HTP reads the last row correctly if it starts a
    vector, so rows are appended to the table until one does."""
    table, indices, outer, size, inner = _parts(op)
    count = math.prod(indices.shape)
    rows = reshape(table, [outer * size, inner])
    more = -(outer * size - 1) % (8 * VECTOR // (inner * BY_SHORT[rows.dtype].bits))
    if rows.static and not rows.made:
        rows = lengthened(rows, [more, 0])
    elif more:
        longer = intermediate(f"rows_{number}", [outer * size + more, inner], rows)
        yield from _repeated(rows, more, longer, number)
        rows = longer
    places = reshape(indices, [count])
    if outer > 1:
        all_places = intermediate(f"places_{number}", [outer, count], "i32")
        begins = ramp([outer, 1], [size, 0], 0)
        yield lowered_op(
            "ElementWiseAdd",
            inputs={"a": begins, "b": reshape(indices, [1, count])},
            params=[],
            outputs={"y": all_places},
        )
        places = reshape(all_places, [outer * count])
    yield from _gather(rows, places, 0, [outer * count, inner], op.outputs[0], number)


def _repeated(rows: TensorRef, more: int, longer: TensorRef, number: int) -> Iterator[LoweredOp]:
    """Yields the ops that make ``longer``: ``rows`` followed by its first ``more`` rows, repeating all of them if needed."""
    count, inner = rows.shape
    again, rest = divmod(more, count)
    parts = [rows] * (again + 1)
    if rest:
        parts.append(intermediate(f"first_rows_{number}", [rest, inner], rows))
        ranges = tensor_param("ranges", "i32", [[0, rest, 1], [0, inner, 1]])
        yield lowered_op("StridedSlice", inputs={"x": rows}, params=[ranges], outputs={"y": parts[-1]})
    yield lowered_op("Concat", inputs={"xs": parts}, params=[scalar("axis", "u32", 0)], outputs={"y": longer})


def _parts(op: LoweredOp) -> tuple[TensorRef, TensorRef, int, int, int]:
    """Table, indices, and the sizes before, along and after the axis."""
    table, indices = op.inputs
    assert table is not None and indices is not None
    axis = next(p.value for p in op.params if p.name == "axis")
    return (
        table,
        indices,
        math.prod(table.shape[:axis]),
        table.shape[axis],
        math.prod(table.shape[axis + 1 :]),
    )


def _gather(
    table: TensorRef, indices: TensorRef, axis: int, shape: list[int], y: TensorRef, number: int
) -> Iterator[LoweredOp]:
    """Gathers into ``y``, seen as ``shape``: a tensor between two ops of a lowering gets a Reshape of its own."""
    made = intermediate(f"gathered_{number}", shape, y) if y.local else reshape(y, shape)
    yield lowered_op(
        "Gather",
        inputs={"table": table, "indices": indices},
        params=[scalar("axis", "i32", axis)],
        outputs={"y": made},
    )
    if y.local:
        yield lowered_op("Reshape", inputs={"x": made}, params=[], outputs={"y": y})
