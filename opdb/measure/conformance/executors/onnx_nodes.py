"""Nodes of ONNX, computed by ONNX's reference evaluator: an operator, arrays in, arrays out."""

from __future__ import annotations

from typing import Any

import numpy as np

from opdb.core.errors import MissingExtra
from opdb.measure.conformance.executors.base import Array, NoOracle

#: The version of ONNX's operators: the first with RMSNormalization and RotaryEmbedding.
OPSET = 23
#: The types of computation, widest first, by numpy's kind.
WIDEST = {"f": ("float64", "float32"), "i": ("int64", "int32"), "b": ("bool",)}
NAMES = {"float64": "tensor(double)", "float32": "tensor(float)"}


def node(op: str, *inputs: Array | None, **attributes: Any) -> Array:
    """Computes the only output of an ONNX node; see ``nodes``."""
    return nodes(op, 1, *inputs, **attributes)[0]


def nodes(op: str, outputs: int, *inputs: Array | None, **attributes: Any) -> list[Array]:
    """Computes the first ``outputs`` outputs of an ONNX node.

    None stands for an omitted input; an array as an attribute becomes a tensor.  float64 becomes
    float32, and int64 int32, for an operator without a wider type.  Raises NoOracle for inputs of kinds
    that ONNX's operator does not take, MissingExtra without onnx, and whatever the evaluator raises.
    """
    try:
        from onnx import TensorProto, defs, helper, numpy_helper
        from onnx.reference import ReferenceEvaluator
    except ImportError:
        raise MissingExtra("the package onnx, whose reference judges this op,", "onnx") from None
    schema = defs.get_schema(op, OPSET)
    given, bound = {}, dict[str, str]()
    for i, array in enumerate(inputs):
        if array is not None:
            formal = schema.inputs[min(i, len(schema.inputs) - 1)]  # the last one may be repeated
            x = given[f"x{i}"] = _typed(op, np.asarray(array), formal.types)
            if bound.setdefault(formal.type_str, x.dtype.name) != x.dtype.name:
                raise NoOracle(f"ONNX's {op} takes no {bound[formal.type_str]} with {x.dtype.name}")
    names = [f"x{i}" if f"x{i}" in given else "" for i in range(len(inputs))]
    made = [f"y{i}" for i in range(outputs)]
    tensors = {
        k: numpy_helper.from_array(v) if isinstance(v, np.ndarray) else v for k, v in attributes.items()
    }
    graph = helper.make_graph(
        [helper.make_node(op, names, made, **tensors)],
        op,
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in given.items()
        ],
        [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in made],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    return [np.asarray(y) for y in ReferenceEvaluator(model).run(None, given)]


def _typed(op: str, array: Array, types: set[str]) -> Array:
    """The array, converted if necessary to a type that the operator takes."""

    def taken(dtype: str) -> bool:
        return NAMES.get(dtype, f"tensor({dtype})") in types

    if taken(array.dtype.name):
        return array
    for dtype in WIDEST.get(array.dtype.kind, ()):
        if taken(dtype):
            return array.astype(dtype)
    raise NoOracle(f"ONNX's {op} takes no {array.dtype.name}")


def channels_first(x: Array) -> Array:
    """Moves channels from last to first: [N, ..., C] to [N, C, ...]."""
    return np.moveaxis(x, -1, 1)


def channels_last(x: Array) -> Array:
    """Moves channels from first to last: [N, C, ...] to [N, ..., C]."""
    return np.moveaxis(x, 1, -1)
