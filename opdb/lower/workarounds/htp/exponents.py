"""An exponential with a clamped input: beyond the limits, half precision gives 0 or infinity anyway."""

from __future__ import annotations

from collections.abc import Sequence

from opdb.core.op_config import ParamConfig
from opdb.lower.workarounds.surroundings import Facts
from opdb.runtime.forms import LoweredOp, lowered_op
from opdb.runtime.tensors import intermediate

LEAST, MOST = -87.0, 89.0


def bounded(op: LoweredOp, facts: Facts) -> Sequence[LoweredOp]:
    """A ReluMinMax and the exponential of its result."""
    x, y = op.inputs[0], op.outputs[0]
    assert x is not None
    inside = intermediate(f"inside_{facts.number}", x.shape, x)
    limits = [ParamConfig("min_value", "f32", LEAST), ParamConfig("max_value", "f32", MOST)]
    return [
        lowered_op("ReluMinMax", inputs={"x": x}, params=limits, outputs={"y": inside}),
        lowered_op("ElementWiseExp", inputs={"x": inside}, params=[], outputs={"y": y}),
    ]
