"""Answers of ONNX's reference evaluator, for ops of which PyTorch has none, or not all modes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from opdb.conformance.executors.base import Array
from opdb.errors import MissingExtra


def answer(
    op: str, inputs: Sequence[str], given: Mapping[str, Array], opset: int, **attributes: Any
) -> Array:
    """The one output of an ONNX node.  ``inputs``: the names of its inputs, "" for one that is left out."""
    try:
        from onnx import TensorProto, helper
        from onnx.reference import ReferenceEvaluator
    except ImportError:
        raise MissingExtra("the package onnx, whose reference judges this op", "onnx") from None

    node = helper.make_node(op, list(inputs), ["made"], **attributes)
    shown = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), None)
        for n, a in given.items()
    ]
    made = helper.make_tensor_value_info("made", TensorProto.UNDEFINED, None)
    model = helper.make_model(
        helper.make_graph([node], op, shown, [made]), opset_imports=[helper.make_opsetid("", opset)]
    )
    (found,) = ReferenceEvaluator(model).run(None, dict(given))
    return np.asarray(found)
