"""Reductions, softmax, norms, argmax, and cumulative sums."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tflite
from onnx import TensorProto, helper

from opdb.programs.tflite.graph import Call

REDUCTIONS = {
    "MEAN": "ReduceMean", "REDUCE_MAX": "ReduceMax", "REDUCE_MIN": "ReduceMin", "REDUCE_PROD": "ReduceProd",
    "SUM": "ReduceSum",
}  # fmt: skip


def _reduction(op_type: str) -> Callable[[Call], None]:
    def write(call: Call) -> None:
        call.give(_reduced(call, op_type, call.floats(0)))

    return write


def _reduced(call: Call, op_type: str, name: str) -> str:
    axes = np.atleast_1d(call.known(1, "axes"))
    kept = int(call.options(tflite.ReducerOptions).KeepDims())
    return call.node(op_type, name, call.ints([int(a) for a in axes]), keepdims=kept)


def _of_booleans(op_type: str) -> Callable[[Call], None]:
    """``any`` is the maximum of the values 0 and 1, ``all`` the minimum; computed in floats, for which HTP has both."""

    def write(call: Call) -> None:
        values = call.node("Cast", call.floats(0), to=TensorProto.FLOAT)
        call.give(call.node("Cast", _reduced(call, op_type, values), to=TensorProto.BOOL))

    return write


def _arg(op_type: str, options: type) -> Callable[[Call], None]:
    def write(call: Call) -> None:
        axis = int(call.known(1, "axis").reshape(()))
        made = call.node(op_type, call.floats(0), axis=axis, keepdims=0)
        to = helper.np_dtype_to_tensor_dtype(np.dtype(call.result().kind))
        call.give(made if to == TensorProto.INT64 else call.node("Cast", made, to=to))

    return write


def _softmax(call: Call) -> None:
    beta, x = call.options(tflite.SoftmaxOptions).Beta(), call.floats(0)
    call.give(
        call.node("Softmax", x if beta == 1 else call.node("Mul", x, call.scalar(float(beta))), axis=-1)
    )


def _log_softmax(call: Call) -> None:
    call.give(call.node("LogSoftmax", call.floats(0), axis=-1))


def _l2_normalization(call: Call) -> None:
    made = call.node("LpNormalization", call.floats(0), axis=-1, p=2)
    call.give(call.activated(made, call.options(tflite.L2NormOptions).FusedActivationFunction()))


def _cumsum(call: Call) -> None:
    options = call.options(tflite.CumsumOptions)
    axis = call.ints([int(call.known(1, "axis").reshape(()))])
    made = call.node(
        "CumSum",
        call.floats(0),
        axis,
        exclusive=int(options.Exclusive()),
        reverse=int(options.Reverse()),
    )
    call.give(made)


OPERATORS: dict[str, Callable[[Call], None]] = {
    **{name: _reduction(op_type) for name, op_type in REDUCTIONS.items()},
    "ARG_MAX": _arg("ArgMax", tflite.ArgMaxOptions),
    "ARG_MIN": _arg("ArgMin", tflite.ArgMinOptions),
    "CUMSUM": _cumsum,
    "L2_NORMALIZATION": _l2_normalization,
    "LOG_SOFTMAX": _log_softmax,
    "REDUCE_ALL": _of_booleans("ReduceMin"),
    "REDUCE_ANY": _of_booleans("ReduceMax"),
    "SOFTMAX": _softmax,
}
