"""Quantized clamps that HTP computes correctly, according to the errata of SM8650.

tests/plugins/executorch/quantized_cases.py runs them on HTP's library.
"""

from __future__ import annotations

from typing import Any

import pytest
from obeying import avoided, obeying

from opdb.core.op_config import Quant
from opdb.runtime.forms import LoweredOp, lowered_op, scalar
from opdb.runtime.tensors import TensorRef, full

STEPS = {"uq8": 255, "uq16": 65535}


def tensor(name: str, low: float, high: float, dtype: str) -> TensorRef:
    scale = (high - low) / STEPS[dtype]
    quant = Quant("SCALE_OFFSET", (scale,), (round(low / scale),))
    return TensorRef((2, 3), dtype, key=name, quant=quant, base_shape=(2, 3))


def clamp(dtype: str, limits: tuple[float, float], stored: tuple[float, float], op: str) -> LoweredOp:
    operation = [scalar("operation", "u32", 5)] if op == "ElementWiseNeuron" else []
    bounds = [scalar(n, "f32", v) for n, v in zip(("min_value", "max_value"), limits, strict=True)]
    x, y = tensor("x", -8, 8, dtype), tensor("y", *stored, dtype)
    return lowered_op(op, inputs={"x": x}, params=[*operation, *bounds], outputs={"y": y})


@pytest.mark.parametrize("op", ["ReluMinMax", "ElementWiseNeuron"])
@pytest.mark.parametrize(
    ("dtype", "limits", "stored", "ops"),
    [
        ("uq8", (0.5, 0.75), (0, 0.75), [("ElementWiseMaximum", 0.5)]),
        ("uq8", (-0.75, -0.5), (-0.75, 0), [("ElementWiseMinimum", -0.5)]),
        ("uq8", (0, 6), (0, 6), None),
        ("uq8", (-1, 1), (-8, 8), None),
        ("uq16", (-1, 1), (-1, 1), None),
        ("uq16", (-1, 1), (-8, 8), [("ElementWiseMaximum", -1), ("ElementWiseMinimum", 1)]),
        ("uq16", (0.5, 0.75), (0, 0.75), [("ElementWiseMaximum", 0.5)]),
    ],
)
def test_limits_inside_the_range_become_ops(
    op: str, dtype: str, limits: tuple[float, float], stored: tuple[float, float], ops: Any
) -> None:
    given = clamp(dtype, limits, stored, op)
    new = obeying(given)
    assert not any(avoided(n) for n in new)
    if ops is None:
        assert new == (given,)
        return
    assert [(n.op, i.fill) for n in new for i in n.inputs if i is not None and i.fill is not None] == ops
    assert given.inputs[0] in new[0].inputs
    assert new[-1].outputs == given.outputs


@pytest.mark.parametrize("dtype", ["uq8", "f32"])
@pytest.mark.parametrize("shape", [(1,), (2, 3)])
@pytest.mark.parametrize(("op", "operation"), [("ElementWiseMaximum", None), ("ElementWiseBinary", 10)])
def test_the_constant_of_a_quantized_maximum_comes_first(
    op: str, operation: int | None, dtype: str, shape: tuple[int, ...]
) -> None:
    """HTP otherwise fuses a quantized maximum after a minimum into a clamp (tests/plugins/executorch/quantized_cases.py)."""
    x = tensor("x", -8, 8, dtype) if dtype in STEPS else TensorRef((2, 3), dtype, key="x", base_shape=(2, 3))
    least = full(list(shape), 0.5, x)
    params = [] if operation is None else [scalar("operation", "u32", operation)]
    given = lowered_op(op, inputs={"a": x, "b": least}, params=params, outputs={"y": x})
    (new,) = obeying(given)
    first = dtype == "uq8" and shape == (1,)
    assert new.inputs == ((least, x) if first else (x, least))
    assert (new.op, new.params, new.outputs) == (given.op, given.params, given.outputs)
