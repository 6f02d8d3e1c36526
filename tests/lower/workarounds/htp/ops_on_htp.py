"""Runs ops on quantized tensors on HTP's library, for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.core.op_config import Quant
from opdb.runtime.forms import LoweredOp
from opdb.runtime.tensors import TensorRef, stored_range


def tensor(name: str, shape: tuple[int, ...], scale: float, offset: int, dtype: str = "uq16") -> TensorRef:
    quant = Quant("SCALE_OFFSET", (scale,), (offset,))
    return TensorRef(shape, dtype, key=name, quant=quant, base_shape=shape)


def run(htp: Any, ops: Sequence[LoweredOp], given: Mapping[str, Any]) -> Any:
    """The stored result of ``ops`` on HTP; none of their tensors has a transform."""
    graph = QnnGraph("steps")

    def name(t: TensorRef | None) -> str:
        assert t is not None and not t.transforms
        made = str(t.local or t.key)
        kind = "NATIVE" if t.local else "APP_READ" if made == "y" else "APP_WRITE"
        graph.tensors.setdefault(made, GraphTensor(made, t.dtype, t.shape, kind, None, t.quant))
        return made

    for number, op in enumerate(ops):
        ins, outs = (tuple(map(name, ts)) for ts in (op.inputs, op.outputs))
        graph.ops.append(GraphOp(f"op{number}", op.op, ins, op.params, outs))
    answer = htp.worker.run(graph, given)
    assert answer.verdict == "yes", answer.log
    return answer.outputs["y"]


def real(stored: Any, t: TensorRef) -> Any:
    return (stored.astype(np.float64) + t.offset) * t.scale


def off(htp: Any, ops: Sequence[LoweredOp], wanted: Any, given: Any) -> float:
    """The largest error in steps of the result, with ``wanted`` clipped to the range of its encoding."""
    y = ops[-1].outputs[0]
    return float(np.abs(real(run(htp, ops, {"x": given}), y) - wanted.clip(*stored_range(y))).max() / y.scale)
