"""Wrappers of one node's static tensors: data of the program, and values that a builder fills in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import executorch.backends.qualcomm.python.PyQnnManagerAdaptor as PyQnn
import numpy as np
from executorch.backends.qualcomm.builders.node_visitor import NodeVisitor
from executorch.backends.qualcomm.utils.constants import (
    QCOM_AXIS,
    QCOM_OFFSET,
    QCOM_QUANT_ATTRS,
    QCOM_SCALE,
    QCOM_SCALE_OFFSET,
)
from torch._subclasses.fake_tensor import FakeTensor

from opdb.core.dtypes import BY_SHORT
from opdb.lower.constant_encodings import encoded
from opdb.plugins.executorch.builder.view import PER_TENSOR, FxNodeView
from opdb.plugins.executorch.builder.wrappers import STATIC, UNDEFINED, dtype_of
from opdb.runtime.static import made_values, transformed
from opdb.runtime.tensors import Rejection, TensorRef, Transform


class StaticTensors:
    """``numbers`` numbers the tensors named for the node; shared with its other tensors."""

    def __init__(
        self,
        visitor: NodeVisitor,
        view: FxNodeView,
        wrappers: dict[str, dict[int, Any]],
        numbers: Iterator[int],
    ) -> None:
        self.visitor, self.view, self.wrappers, self.numbers = visitor, view, wrappers, numbers

    def wrapper(self, ref: TensorRef) -> Any:
        """A static tensor: data of the program, or a value that the builder fills in."""
        if ref.key is None:
            return self._filled_in(ref)
        source = self.view.source(ref)
        steps = list(ref.transforms)
        tensor = self.view.constant(source).detach()
        if self.view.in_stored_order and self.view.order and tensor.dim() == len(self.view.order):
            steps.insert(0, Transform("permute", self.view.order))
        name = f"{source.name}_opdb" + "".join(map(self._step_name, steps))
        encoding, config = self.visitor.get_quant_encoding_conf(source, self.view.node)
        self.visitor.get_data_type(tensor, config)  # settles config's dtype
        if ref.quant is not None and ref.quant.axis is not None:
            if any(s.kind == "reshape" for s in steps):
                raise Rejection(f"{source.name} has an encoding per axis and cannot be reshaped")
            config[QCOM_AXIS] = ref.quant.axis
            pairs = config.get(QCOM_SCALE_OFFSET, ())
            if len(pairs) not in (0, len(ref.quant.scale)):  # repeated for each group of a filter
                config[QCOM_SCALE_OFFSET] = np.resize(pairs, len(ref.quant.scale))
        if not self._has_data(ref):  # while partitioning
            held = (encoding, config) if ref.quant is not None else (UNDEFINED, {})
            return self._static(name, ref, None, *held)
        if config:
            tensor = self.visitor.get_quant_tensor_value(tensor, source.meta[QCOM_QUANT_ATTRS], config)
        if ref.encoding == "SCALE_OFFSET":  # a negated tensor has another offset
            config[QCOM_OFFSET] = ref.offset
        if ref.quant is None:  # integers that are read as floating point
            encoding, config = UNDEFINED, {}
        array = transformed(tensor.contiguous().numpy(), steps, self._values).reshape(ref.shape)
        if ref.dtype == "f32":
            array = array.astype(np.float32)  # float64 parameters
        return self._static(name, ref, array, encoding, config)

    def _step_name(self, step: Transform) -> str:
        values = (self.view.source(v).name if isinstance(v, TensorRef) and v.key is not None else v
                  for v in step.values)  # fmt: skip
        return f"_{step.kind}{'x'.join(map(str, values))}"

    def _has_data(self, ref: TensorRef) -> bool:
        """True if a static tensor, and those that its transforms read, already have data."""
        own = ref.made or not isinstance(self.view.constant(self.view.source(ref)), FakeTensor)
        read = (v for step in ref.transforms for v in step.values if isinstance(v, TensorRef))
        return own and all(self._has_data(v) for v in read)

    def _values(self, ref: TensorRef) -> np.ndarray[Any, Any]:
        """The values, before its own transforms, of a static tensor that another tensor's transforms read."""
        if ref.made:
            return made_values(ref)
        values: np.ndarray[Any, Any] = self.view.constant(self.view.source(ref)).detach().numpy()
        return values

    def _filled_in(self, ref: TensorRef) -> Any:
        """A static tensor with values from the builder."""
        number = next(self.numbers)
        encoding: Any = UNDEFINED
        config: dict[str, Any] = {}
        if not ref.made:
            raise Rejection("a static tensor without data")
        kind = BY_SHORT[ref.dtype]
        if not kind.quantized:
            known = self._has_data(ref)
            array = transformed(made_values(ref), ref.transforms, self._values) if known else None
        elif ref.quant is not None:  # stored numbers
            encoding, config = self.view.encoding(ref.quant)
            array = transformed(made_values(ref), ref.transforms)
        elif ref.ramp is not None:
            raise Rejection(f"a constant of places of the type {kind.qnn}")
        else:
            values = ref.data if ref.fill is None else (ref.fill,)
            assert values is not None  # made, and not a ramp
            stored, scale, offset = encoded(ref.dtype, values)
            encoding, config = PER_TENSOR, {QCOM_SCALE: scale, QCOM_OFFSET: offset}
            array = np.array(stored, kind.numpy).reshape(() if ref.data is None else ref.base_shape)
            array = transformed(np.broadcast_to(array, ref.base_shape), ref.transforms)
        return self._static(f"{self.view.name}_opdb_constant{number}", ref, array, encoding, config)

    def _static(self, name: str, ref: TensorRef, array: Any, encoding: Any, config: dict[str, Any]) -> Any:
        """One wrapper per name; ``array`` None: the data is not known yet."""
        if 0 not in self.wrappers[name]:
            data = (np.array([]), False) if array is None else (array, True)
            self.wrappers[name][0] = PyQnn.TensorWrapper(
                name, STATIC, dtype_of(ref.dtype), encoding, config, ref.rank, list(ref.shape), [], *data
            )
        return self.wrappers[name][0]
