"""ONNX's own tests of operators: the model of each as a PyTorch module, the inputs, the expected numbers.

``onnx.backend.test`` makes the models.  Its tests pass shapes, axes and the like as inputs; real models have them in the
file.  If a model cannot be read for that reason, its inputs of rank 0 and 1 are put into the file, at first all but the
first one.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx.backend.test.case.node as node_tests
import torch
from onnx import numpy_helper

from opdb.core.errors import OpdbError
from opdb.programs.onnx.graph import to_module
from opdb.programs.onnx.node import tensor

#: onnx.backend.test compares with these.
RELATIVE, ABSOLUTE = 1e-3, 1e-7
#: In 16 bits the expected numbers are rounded themselves, on another way: two units in the last place.
UNITS = {"float16": 2 * 2.0**-10, "bfloat16": 2 * 2.0**-7}
#: ONNX's reference divides by n * scale - 1, which is not an integer here; ONNX's text, ONNX Runtime and opdb divide by the
#: number of results - 1.
#: number of results - 1.
OTHERS_NUMBERS = {
    "test_resize_downsample_scales_cubic_align_corners",
    "test_resize_downsample_scales_linear_align_corners",
}


@cache
def cases() -> tuple[Any, ...]:
    """onnx.backend.test's test cases of nodes: name, model, data sets."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple(c for c in node_tests.collect_testcases(None) if c.model is not None)


def read(case: Any) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """The module of a case and its input tensors.  Raises OpdbError with the reason if there is none."""
    model = case.model
    given = {i.name: array(x) for i, x in zip(model.graph.input, case.data_sets[0][0], strict=True)}
    for kept in (len(given), 1, 0):
        said = {k: v for i, (k, v) in enumerate(given.items()) if i >= kept and v.ndim < 2}
        tensors = {k: tensor(v) for k, v in given.items() if k not in said}
        try:
            return to_module(_with(model, said), tensors).eval(), tuple(tensors.values())
        except OpdbError as error:
            if not kept or "has to be in the file" not in str(error):
                raise
    raise AssertionError


def array(x: Any) -> np.ndarray[Any, Any]:
    if isinstance(x, onnx.TensorProto):
        return numpy_helper.to_array(x)
    if not isinstance(x, (np.ndarray, np.generic)):
        raise OpdbError(f"an input of the type {type(x).__name__}, and no tensor")
    return np.asarray(x)


def difference(got: list[np.ndarray[Any, Any]], case: Any) -> str:
    """The difference from the expected numbers as text, "" for none; bfloat16 may be given by its bits."""
    for g, w in zip(got, map(array, case.data_sets[0][1]), strict=False):
        if g.size != w.size:
            return f"{g.size} numbers, not {w.size}"
        g = g.view(w.dtype) if w.dtype.name == "bfloat16" and g.dtype.itemsize == 2 else g
        a, b = g.reshape(w.shape).astype(np.float64), w.astype(np.float64)
        if not np.allclose(a, b, rtol=UNITS.get(w.dtype.name, RELATIVE), atol=ABSOLUTE, equal_nan=True):
            return f"{np.nanmax(np.abs(a - b))} off"
    return ""


def _with(model: Any, said: dict[str, Any]) -> Any:
    """The model with values for some of its inputs."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    made.graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in said.items())
    return made
