"""Gathers that HTP computes correctly: according to the errata of SM8650, with numbers from opdb's kernels.

tests/plugins/executorch/quantized_cases.py runs them on HTP's library.
"""

from __future__ import annotations

import numpy as np
import pytest
from obeying import avoided, obeying

from opdb.core.dtypes import BY_SHORT
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.core.op_config import Quant
from opdb.runtime.forms import LoweredOp, layout_ops, lowered_op, scalar
from opdb.runtime.kernels import run_graph
from opdb.runtime.static import made_values, transformed
from opdb.runtime.tensors import TensorRef, intermediate


def tensor(name: str, shape: tuple[int, ...], dtype: str, *, static: bool = False) -> TensorRef:
    quant = Quant("SCALE_OFFSET", (0.5,), (-3,)) if BY_SHORT[dtype].quantized else None
    return TensorRef(shape, dtype, static, key=name, quant=quant, base_shape=shape)


def gather(table: TensorRef, indices: TensorRef, axis: int, *, local: bool = False) -> LoweredOp:
    shape = (*table.shape[:axis], *indices.shape, *table.shape[axis + 1 :])
    y = intermediate("y", shape, table) if local else tensor("y", shape, table.dtype)
    return lowered_op(
        "Gather",
        inputs={"table": table, "indices": indices},
        params=[scalar("axis", "i32", axis)],
        outputs={"y": y},
    )


#: dtype, shape, axis, shape of indices, True if the indices are known, and the ops of the other form.
FORMS = [
    ("uq8", (4, 40, 16), 1, (40,), True, ["StridedSlice", "Concat", "ElementWiseAdd", "Gather"]),
    ("uq16", (40, 8), 0, (2, 40), False, ["StridedSlice", "Concat", "Gather"]),
    ("i32", (3, 4), 0, (33,), True, ["Concat", "Gather"]),  # two more times
    ("uq8", (33, 8), 0, (40,), True, ["Gather"]),  # its last row begins a vector
    ("uq8", (2, 153), 1, (300,), True, ["Gather"]),
    ("uq16", (4, 40, 5), 1, (2, 3), True, ["Gather"]),
    ("f32", (4, 40, 5), 1, (6,), False, ["Gather"]),
    ("f32", (4, 40), 1, (2, 6), False, ["Gather"]),
]


@pytest.mark.parametrize(("dtype", "shape", "axis", "picks", "known", "ops"), FORMS)
@pytest.mark.parametrize("local", [False, True], ids=["a result", "between ops"])
def test_the_other_form_is_valid_and_picks_the_same_values(
    dtype: str,
    shape: tuple[int, ...],
    axis: int,
    picks: tuple[int, ...],
    known: bool,
    ops: list[str],
    local: bool,
) -> None:
    op = gather(
        tensor("table", shape, dtype), tensor("indices", picks, "i32", static=known), axis, local=local
    )
    new = obeying(op)
    changed = avoided(op)
    assert [n.op for n in new] == [*ops, *(["Reshape"] if local and changed else [])]
    assert not any(avoided(n) for n in new)
    rng = np.random.default_rng(0)
    values = {
        "table": rng.integers(0, 100, shape).astype(BY_SHORT[dtype].numpy),
        "indices": rng.integers(0, shape[axis], picks, dtype=np.int32),
    }
    values["indices"].flat[0] = shape[axis] - 1
    np.testing.assert_array_equal(run(new, values), np.take(values["table"], values["indices"], axis))


def test_a_known_table_is_extended_ahead_of_time() -> None:
    table, indices = tensor("table", (40, 16), "uq8", static=True), tensor("indices", (2, 40), "i32")
    (op,) = obeying(gather(table, indices, 0))
    assert op.inputs[0] is not None
    assert (op.inputs[0].shape, avoided(op)) == ((41, 16), set())


def test_signed_tables_have_no_other_form() -> None:
    op = gather(tensor("table", (5, 3), "sq8"), tensor("indices", (4,), "i32"), 0)
    assert obeying(op) == (op,)
    assert len(avoided(op)) == 1


def run(ops: tuple[LoweredOp, ...], values: dict[str, np.ndarray]) -> np.ndarray:
    """The result of ``ops`` on opdb's kernels."""
    graph = QnnGraph("gather")

    def add(
        name: str, t: TensorRef, shape: tuple[int, ...], kind: str = "NATIVE", data: object = None
    ) -> str:
        graph.tensors.setdefault(name, GraphTensor(name, t.dtype, shape, kind, data, t.quant))
        return name

    def apply(op: LoweredOp, inputs: list[str], output: str) -> None:
        graph.ops.append(GraphOp(f"{len(graph.ops)}", op.op, tuple(inputs), op.params, (output,)))

    def read(t: TensorRef) -> str:
        if t.static:
            data = transformed(made_values(t) if t.made else values[str(t.key)], t.transforms)
            return add(f"static_{len(graph.tensors)}", t, t.shape, "STATIC", data.reshape(t.shape))
        name = t.local or add(str(t.key), t, t.base_shape, "APP_WRITE")
        for op in layout_ops(t):
            inner = add(f"inner_{len(graph.tensors)}", t, op.outputs[0].shape)
            apply(op, [name], inner)
            name = inner
        return name

    for op in ops:
        inputs, y = [read(t) for t in op.inputs if t is not None], op.outputs[0]
        name = add(y.local or f"made_{len(graph.tensors)}", y, y.shape)
        apply(op, inputs, name)
        for change in layout_ops(y, inverse=True):
            inner = add(f"inner_{len(graph.tensors)}", y, change.outputs[0].shape)
            apply(change, [name], inner)
            name = inner
    last = graph.tensors[name]
    graph.tensors[name] = GraphTensor(name, last.dtype, last.shape, "APP_READ", None, last.quant)
    return run_graph(graph, {t.name: values[t.name] for t in graph.inputs})[name]
