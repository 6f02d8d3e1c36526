"""PyQnnManagerAdaptor's types by opdb's names, and the wrappers of parameters and of omitted inputs."""

from __future__ import annotations

import math
from typing import Any

import executorch.backends.qualcomm.python.PyQnnManagerAdaptor as PyQnn
import numpy as np
from executorch.backends.qualcomm.utils.constants import QCOM_DATA

from opdb.core.dtypes import BY_SHORT
from opdb.core.op_config import ParamConfig
from opdb.runtime.tensors import Rejection

#: Scalars that PyQnnManagerAdaptor passes on; it drops 64-bit and string scalars with a log line.
SCALARS = {"bool8": bool, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "i8": np.int8, "i16": np.int16,
           "i32": np.int32, "f32": np.float32}  # fmt: skip
NATIVE = PyQnn.Qnn_TensorType_t.QNN_TENSOR_TYPE_NATIVE
STATIC = PyQnn.Qnn_TensorType_t.QNN_TENSOR_TYPE_STATIC
NULL = PyQnn.Qnn_TensorType_t.QNN_TENSOR_TYPE_NULL
FLOAT32 = PyQnn.Qnn_DataType_t.QNN_DATATYPE_FLOAT_32
INT32 = PyQnn.Qnn_DataType_t.QNN_DATATYPE_INT_32
INT64 = PyQnn.Qnn_DataType_t.QNN_DATATYPE_INT_64
UNDEFINED = PyQnn.Qnn_QuantizationEncoding_t.QNN_QUANTIZATION_ENCODING_UNDEFINED


def is_wide(wrapper: Any) -> bool:
    """True for an int64 tensor."""
    return bool(PyQnn.PyQnnTensorWrapper(wrapper).GetDataType() == INT64)


def dtype_of(short: str) -> Any:
    """ExecuTorch's value of a data type.  Raises Rejection if it has none."""
    found = getattr(PyQnn.Qnn_DataType_t, BY_SHORT[short].macro, None)
    if found is None:
        raise Rejection(f"ExecuTorch has no tensors of type {BY_SHORT[short].qnn}")
    return found


def left_out(name: str) -> Any:
    """The wrapper for an omitted optional input."""
    return PyQnn.TensorWrapper(name, NULL, FLOAT32, UNDEFINED, {}, 1, [1], [], np.array([]), False)


def add_param(wrapper: Any, p: ParamConfig) -> None:
    """Adds a parameter to an op's wrapper.  Raises Rejection if ExecuTorch cannot pass it."""
    if p.shape is None:
        if p.dtype not in SCALARS:
            raise Rejection(f"ExecuTorch cannot pass the parameter {p.name} of type {BY_SHORT[p.dtype].qnn}")
        wrapper.AddScalarParam(p.name, dtype_of(p.dtype), {QCOM_DATA: SCALARS[p.dtype](p.value)})
        return
    if math.prod(p.shape) == 0:
        raise Rejection(f"the parameter {p.name} is an empty tensor")
    array = np.array(p.value, dtype=BY_SHORT[p.dtype].numpy).reshape(p.shape)
    wrapper.AddTensorParam(p.name, dtype_of(p.dtype), len(p.shape), list(p.shape), array, True)
