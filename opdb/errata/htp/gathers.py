"""Gathers in a form that HTP computes rightly.

HTP 2.47 gives other elements for indices of several dimensions behind others of the table, for rows of 8, 16 or 32 bytes, for
more than 255 elements along the last dimension in 8 bits, and for rows of floats at indices that are only known when the
program runs (Gather.H11 to H14): one line of indices, and dimensions joined to three or fewer, give the right ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from opdb.dtypes import BY_SHORT
from opdb.runtime.lowering import Lowered, LoweredOp, lowered_op, scalar, tensor_param
from opdb.runtime.tensors import TensorRef, intermediate, lengthened, ramp, reshape

VECTOR = 128  # bytes
NARROW = "Gather.H12"
SIGNED = "Gather.H15"  # has no other form
MENDED = frozenset({"Gather.H11", NARROW, "Gather.H13", "Gather.H14"})
RULES = MENDED | {SIGNED}


def mended(lowered: Lowered, broken: Callable[[LoweredOp], Collection[str]]) -> Lowered:
    """``lowered`` with such gathers in another form; ``broken`` gives the rules that an op breaks."""
    if all(op.op != "Gather" for op in lowered.ops):
        return lowered
    return replace(
        lowered, ops=tuple(new for number, op in enumerate(lowered.ops) for new in _ops(op, number, broken))
    )


def _ops(op: LoweredOp, number: int, broken: Callable[[LoweredOp], Collection[str]]) -> Iterator[LoweredOp]:
    """As it is where its table has an encoding for each of several slices, which no Reshape keeps."""
    rules = MENDED.intersection(broken(op)) if op.op == "Gather" else ()
    table = op.inputs[0]
    if not rules or table is None or table.axis >= 0:
        yield op
    elif NARROW in rules:
        yield from _of_rows(op, number)
    else:
        yield from _of_joined(op, number)


def _of_joined(op: LoweredOp, number: int) -> Iterator[LoweredOp]:
    """One line of indices along the second of few dimensions: not of the last but one in floats, nor of the last in 8 bits."""
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
    """Rows of one matrix: those of the first slice, then those of the second.  HTP reads the last row rightly where it begins
    a vector: others stand behind the table until one does."""
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
    """``longer``: ``rows``, followed by its first ``more``, which may be all of them several times."""
    count, inner = rows.shape
    again, rest = divmod(more, count)
    parts = [rows] * (again + 1)
    if rest:
        parts.append(intermediate(f"first_rows_{number}", [rest, inner], rows))
        ranges = tensor_param("ranges", "i32", [[0, rest, 1], [0, inner, 1]])
        yield lowered_op("StridedSlice", inputs={"x": rows}, params=[ranges], outputs={"y": parts[-1]})
    yield lowered_op("Concat", inputs={"xs": parts}, params=[scalar("axis", "u32", 0)], outputs={"y": longer})


def _parts(op: LoweredOp) -> tuple[TensorRef, TensorRef, int, int, int]:
    """Table, indices, and the sizes before, along and behind the axis."""
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
    """Into ``y``, as ``shape``: what lies between two ops of a lowering gets a Reshape of its own."""
    made = intermediate(f"gathered_{number}", shape, y) if y.local else reshape(y, shape)
    yield lowered_op(
        "Gather",
        inputs={"table": table, "indices": indices},
        params=[scalar("axis", "i32", axis)],
        outputs={"y": made},
    )
    if y.local:
        yield lowered_op("Reshape", inputs={"x": made}, params=[], outputs={"y": y})
