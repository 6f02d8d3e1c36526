"""Matrix products."""

from __future__ import annotations

from collections.abc import Callable

import tflite

from opdb.programs.tflite.graph import Call


def _fully_connected(call: Call) -> None:
    options, (outputs, depth) = call.options(tflite.FullyConnectedOptions), call.shape(1)
    x = call.floats(0)
    if len(call.shape(0)) != 2:
        x = call.reshaped(x, [-1, depth])
    bias = [call.floats(2)] if call.has(2) else []
    made = call.node("Gemm", x, call.weight(1, (0, 1)), *bias, transB=1)
    if len(call.result().shape) != 2:
        made = call.reshaped(made, [*call.result().shape[:-1], outputs])
    call.give(call.activated(made, options.FusedActivationFunction()))


def _batch_matmul(call: Call) -> None:
    options = call.options(tflite.BatchMatMulOptions)
    sides = []
    for i, turned in enumerate((options.AdjX(), options.AdjY())):
        axes = list(range(len(call.shape(i))))
        axes[-2:] = axes[:-3:-1]
        sides.append(call.turned(call.floats(i), axes) if turned else call.floats(i))
    call.give(call.node("MatMul", *sides))


OPERATORS: dict[str, Callable[[Call], None]] = {
    "BATCH_MATMUL": _batch_matmul,
    "FULLY_CONNECTED": _fully_connected,
}
