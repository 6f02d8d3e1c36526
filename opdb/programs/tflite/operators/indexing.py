"""Operators that read or write at places given by another tensor."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tflite
from onnx import TensorProto, helper

from opdb.core.names import counted
from opdb.programs.tflite.graph import Call, Unreadable, is_stored


def _gather(call: Call) -> None:
    options = call.options(tflite.GatherOptions)
    if options.BatchDims():
        raise Unreadable(f"batch_dims={options.BatchDims()}; QNN's Gather has none")
    call.give(call.node("Gather", call.floats(0), call.as_stored(1), axis=options.Axis()))


def _gather_nd(call: Call) -> None:
    indices = call.node("Cast", call.as_stored(1), to=TensorProto.INT64)
    call.give(call.node("GatherND", call.floats(0), indices))


def _embedding_lookup(call: Call) -> None:
    """Inputs: the indices, then the table."""
    call.give(call.node("Gather", call.floats(1), call.as_stored(0), axis=0))


def _scatter_nd(call: Call) -> None:
    """Inputs: the indices, the updates, the shape.  Updates at the same index are added."""
    result = call.result()
    kind = np.float32 if is_stored(result) else result.kind
    zeros = call.graph.constant(f"{result.name}/zeros", np.zeros(result.shape, kind))
    indices = call.node("Cast", call.as_stored(0), to=TensorProto.INT64)
    call.give(call.node("ScatterND", zeros, indices, call.floats(1), reduction="add"))


def _one_hot(call: Call) -> None:
    """Inputs: indices, depth, the value at them, the value elsewhere."""
    depth = call.ints([int(call.known(1, "depth").reshape(()))])
    shape = call.ints([1])
    values = call.node(
        "Concat",
        call.node("Reshape", call.floats(3), shape),
        call.node("Reshape", call.floats(2), shape),
        axis=0,
    )
    axis = call.options(tflite.OneHotOptions).Axis()
    call.give(call.node("OneHot", call.as_stored(0), depth, values, axis=axis))


def _topk_v2(call: Call) -> None:
    k = call.ints([int(call.known(1, "k").reshape(()))])
    values, places = call.several("TopK", call.floats(0), k, outputs=2, axis=-1)
    call.give(values)
    to = helper.np_dtype_to_tensor_dtype(np.dtype(call.result(1).kind))
    call.give(call.node("Cast", places, to=to), 1)


def _dynamic_update_slice(call: Call) -> None:
    """Writes a part into a tensor at a computed position along one axis; along the other axes the part has the full size."""
    into, part = call.shape(0), call.shape(1)
    axes = [d for d, (n, m) in enumerate(zip(into, part, strict=True)) if n != m]
    if len(axes) > 1:
        raise Unreadable(
            f"a part that is smaller along {counted(len(axes), 'axis', 'axes')}; opdb reads it along one"
        )
    if not axes:
        call.give(call.floats(1))
        return
    axis = axes[0]
    order = [axis, *(d for d in range(len(into)) if d != axis)]
    back = [order.index(d) for d in range(len(into))]
    starts = call.node("Cast", call.as_stored(2), to=TensorProto.INT64)
    start = call.node("Gather", starts, call.ints([axis]), axis=0)
    start = call.node("Clip", start, call.scalar(0, np.int64), call.scalar(into[axis] - part[axis], np.int64))
    steps = call.node("Add", start, call.ints(range(part[axis])))
    written = call.node(
        "ScatterND",
        call.turned(call.floats(0), order),
        call.reshaped(steps, [part[axis], 1]),
        call.turned(call.floats(1), order),
    )
    call.give(call.turned(written, back))


OPERATORS: dict[str, Callable[[Call], None]] = {
    "DYNAMIC_UPDATE_SLICE": _dynamic_update_slice,
    "EMBEDDING_LOOKUP": _embedding_lookup,
    "GATHER": _gather,
    "GATHER_ND": _gather_nd,
    "ONE_HOT": _one_hot,
    "SCATTER_ND": _scatter_nd,
    "TOPK_V2": _topk_v2,
}
