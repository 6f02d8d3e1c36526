"""Turns lowered ops into the wrappers of ExecuTorch's Qualcomm backend."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import executorch.backends.qualcomm.python.PyQnnManagerAdaptor as PyQnn
import numpy as np
import torch
from executorch.backends.qualcomm.builders.node_visitor import NodeVisitor
from executorch.backends.qualcomm.builders.utils import is_graph_input
from executorch.backends.qualcomm.utils.constants import QCOM_QUANT_ATTRS

from opdb.core.op_config import ParamConfig
from opdb.plugins.executorch.builder import layout
from opdb.plugins.executorch.builder.static_tensors import StaticTensors
from opdb.plugins.executorch.builder.view import FxNodeView
from opdb.plugins.executorch.builder.wrappers import (
    INT32,
    INT64,
    NATIVE,
    UNDEFINED,
    add_param,
    dtype_of,
    is_wide,
    left_out,
)
from opdb.runtime.forms import Lowered, LoweredOp, layout_ops
from opdb.runtime.tensors import Rejection, TensorRef, Transform

PACKAGE = "qti.aisw"
#: Ops that only change the number of dimensions.
RESHAPING = ("Reshape", "ExpandDims", "Squeeze")
#: Edge operators that become such ops.
RESHAPED = ("aten.view_copy.", "aten.unsqueeze_copy.", "aten.squeeze_copy.")


class Sink:
    """Realizes the ops of one node.  Tensors are shared through ExecuTorch's ``nodes_to_wrappers``."""

    def __init__(
        self,
        visitor: NodeVisitor,
        view: FxNodeView,
        wrappers: dict[str, dict[int, Any]],
        avoids: Callable[[str], bool],
    ) -> None:
        self.visitor = visitor
        self.view = view
        self.wrappers = wrappers
        self.avoids = avoids  # True for the id of an erratum to avoid
        self.ops: list[Any] = []
        self.numbers = count(1)  # for constants and intermediates named here
        self.static = StaticTensors(visitor, view, wrappers, self.numbers)

    def realize(self, lowered: Lowered) -> list[Any]:
        """The PyQnnOpWrappers in order of execution."""
        produced = {r.key for op in lowered.ops for r in op.outputs if r.key is not None}
        for index in range(len(self.view.values())):
            if self.view.result_used(index) and (self.view.name, index) not in produced:
                raise Rejection(f"result {index} of {self.view.target} is used; {lowered.form} lacks it")
        for i, op in enumerate(lowered.ops):
            name = self.view.name if len(lowered.ops) == 1 else f"{self.view.name}_{i}_{op.op}"
            self._op(name, op)
        read = {
            ref.key[0]
            for op in lowered.ops
            for ref in op.inputs
            if ref is not None and isinstance(ref.key, tuple)
        }
        self._read_rest(read)
        return self.ops

    def _read_rest(self, read: Collection[str]) -> None:
        """Adds ops for the graph's inputs that no op of the node reads; e.g. the destination of aten.copy.

        QNN's graph drops inputs that no op reads, so the runtime, which passes them in order, would pass the wrong tensors.
        """
        program = self.visitor.edge_program
        for value in self.view.node.all_input_nodes:
            source = self.visitor.get_node(value)
            if (
                source.name in read
                or source.name in self.view.constants
                or not is_graph_input(source, program)
            ):
                continue
            tensor = self.view.stored(source.meta["val"])
            wrapper = self.visitor.define_tensor(source, self.view.node, tensor, NATIVE, self.wrappers)
            dtype = PyQnn.PyQnnTensorWrapper(wrapper).GetDataType()
            encoding, config = self.visitor.get_quant_encoding_conf(source, self.view.node)
            name = f"{self.view.name}_opdb_unread{len(self.ops)}"
            shape = list(tensor.shape) or [1]
            unread = PyQnn.TensorWrapper(
                name, NATIVE, INT32 if dtype == INT64 else dtype, encoding, config,
                len(shape), shape, [], np.array([]), False,
            )  # fmt: skip
            if dtype == INT64:
                self.castable(tensor)
            self._wrap(name, "Cast" if dtype == INT64 else "Reshape", [wrapper], (), [unread])

    def _op(self, name: str, op: LoweredOp) -> None:
        if op.op == "Reshape" and self._cast_instead(name, op.inputs[0], op.outputs[0]):
            return
        inputs = list(op.inputs)
        while inputs and inputs[-1] is None:
            inputs.pop()
        operands = []
        for i, ref in enumerate(inputs):
            into = op.outputs[0].shape if op.op in RESHAPING and i == 0 else None
            operands.append(left_out(f"{name}_opdb_no_input{i}") if ref is None else self.operand(ref, into))
        outputs = [self.output(ref) for ref in op.outputs]
        self._wrap(name, op.op, operands, op.params, [wrapper for wrapper, _ in outputs], op.package)
        for wrapper, ref in outputs:
            if ref is not None:
                self._store(wrapper, ref)

    def _wrap(
        self,
        name: str,
        kind: str,
        inputs: list[Any],
        params: Sequence[ParamConfig],
        outputs: list[Any],
        package: str = PACKAGE,
    ) -> None:
        wrapper = PyQnn.PyQnnOpWrapper(name, package, kind)
        wrapper.AddInputTensors(inputs)
        wrapper.AddOutputTensors(outputs)
        for p in params:
            add_param(wrapper, p)
        self.ops.append(wrapper)

    # -- tensors ---------------------------------------------------------------------------------

    def operand(self, ref: TensorRef, into: Sequence[int] | None = None) -> Any:
        """The wrapper of an op's input, after its transforms.  ``into``: the shape that the op turns it into."""
        if ref.static:
            return self._constant(ref)
        if ref.local is not None:
            wrapper = self._intermediate(ref, ref.local, ref.base_shape)
            return self._transformed(wrapper, ref, self._layout(ref))
        steps = self._layout(ref)
        if steps:
            into = steps[0].outputs[0].shape if steps[0].op in RESHAPING else None
        if into is not None and ref.quant is not None and self._just_quantized(ref):
            steps = (*self._apart(ref, into), *steps)
        return self._transformed(self._stored_tensor(ref), ref, steps)

    def _just_quantized(self, ref: TensorRef) -> bool:
        """True if a tensor comes from the caller or a Quantize with only Reshapes in between; the caller's is floating point."""
        source = self.view.source(ref)
        while (name := getattr(source.target, "__name__", "")).startswith(RESHAPED):
            source = source.args[0]
        return is_graph_input(source, self.visitor.edge_program) or "quantize_per_tensor" in name

    def _apart(self, ref: TensorRef, into: Sequence[int]) -> tuple[LoweredOp, ...]:
        """A Transpose or Tile without effect between a Quantize and a Reshape from or to five dimensions (HTP-0353); else ()."""
        if not self.avoids("HTP-0353"):
            return ()
        shape = layout.stored(ref.base_shape, None if self.view.in_stored_order else self.view.order)
        if (len(shape) == 5) == (len(into) == 5):
            return ()
        permute, tile = Transform("permute", tuple(range(len(shape)))), Transform("tile", (1,) * len(shape))
        return layout_ops(replace(ref, base_shape=shape, transforms=(permute if len(shape) == 5 else tile,)))

    def castable(self, tensor: Any) -> None:
        """Raises Rejection for an int64 tensor of the caller that Cast cannot read or write (HTP-0001)."""
        if tensor.dim() > 4 and self.avoids("HTP-0001"):
            raise Rejection("HTP-0001: HTP finalizes no Cast from or to INT_64 of more than four dimensions")

    def _stored_tensor(self, ref: TensorRef) -> Any:
        """The wrapper of a tensor from another node or the caller; int64 is cast to int32."""
        wrapper, shape = self._given(ref)
        if not is_wide(wrapper):
            return wrapper
        narrow = self._intermediate(ref, f"int32_{next(self.numbers)}", shape or (1,))
        self._wrap(f"{self.view.name}_Cast{len(self.ops)}", "Cast", [wrapper], (), [narrow])
        return narrow

    def _given(self, ref: TensorRef) -> tuple[Any, tuple[int, ...]]:
        """The wrapper of a tensor from another node or the caller, and the tensor's shape."""
        source = self.view.source(ref)
        tensor = self.view.stored(source.meta["val"])
        if tensor.dtype == torch.int64 and not is_graph_input(source, self.visitor.edge_program):
            tensor = tensor.to(torch.int32)
        wrapper = self.visitor.define_tensor(source, self.view.node, tensor, NATIVE, self.wrappers)
        if is_wide(wrapper):
            self.castable(tensor)
        return wrapper, tuple(tensor.shape)

    def _cast_instead(self, name: str, given: TensorRef | None, result: TensorRef) -> bool:
        """Emits a Cast instead of a Reshape if only int64 and int32 change; returns True if it did."""
        if given is None or given.static or None in (given.key, result.key):
            return False
        if given.shape != result.shape or any(self._from_stored(r).transforms for r in (given, result)):
            return False
        wrapper, _ = self._given(given)
        if is_wide(wrapper) == self._widens(result):
            return False
        self.castable(self.view.values()[self.view.index(result)])
        self._wrap(name, "Cast", [wrapper], (), [self._result(result)])
        return True

    def output(self, ref: TensorRef) -> tuple[Any, TensorRef | None]:
        """The wrapper that an op writes, and ``ref`` if ops must follow to store it as the result, else None."""
        if ref.local is not None:
            name = f"{ref.local}_raw" if ref.transforms else ref.local
            return self._intermediate(ref, name, ref.shape), ref if ref.transforms else None
        if ref.static or ref.key is None:
            raise Rejection("an output that is neither a result nor an intermediate")
        if self._from_stored(ref).transforms or self._widens(ref):
            return self._intermediate(ref, f"result{next(self.numbers)}", ref.shape), ref
        return self._result(ref), None

    def _widens(self, ref: TensorRef) -> bool:
        """True if the caller gets this result as int64, which QNN must cast from int32."""
        index = self.view.index(ref)
        return self.view.values()[index].dtype == torch.int64 and self.view.leaves(index)

    def _result(self, ref: TensorRef) -> Any:
        """The wrapper of a result; one of several results that the caller does not get is not an output of the graph."""
        index = self.view.index(ref)
        node = self.view.node
        tensor = self.view.stored(self.view.values()[index])
        if tensor.dtype == torch.int64 and not self.view.leaves(index):
            tensor = tensor.to(torch.int32)
        if len(self.view.values()) > 1 and not self.view.leaves(index):
            shape = tuple(tensor.shape) or (1,)
            wrapper = self._named(f"{node.name}@{index}", ref, shape)
            self.wrappers[node.name][index] = wrapper
            return wrapper
        with self.view.encoded(index):
            if not tensor.dtype.is_floating_point:  # the encoding belongs to the floating-point results
                node.meta.pop(QCOM_QUANT_ATTRS, None)
            return self.visitor.define_tensor(node, node, tensor, NATIVE, self.wrappers, wrapper_idx=index)

    def _store(self, wrapper: Any, ref: TensorRef) -> None:
        """Emits the ops from what an op wrote to the result as stored, or to the intermediate in its own shape."""
        steps = layout_ops(self._from_stored(ref), inverse=True)
        if ref.local is not None:
            wrapper = self._transformed(wrapper, ref, steps[:-1])
            self._step(steps[-1], wrapper, self._intermediate(ref, ref.local, ref.base_shape))
            return
        if self._widens(ref):
            self.castable(self.view.values()[self.view.index(ref)])
            wrapper = self._transformed(wrapper, ref, steps)
            self._wrap(f"{self.view.name}_Cast{len(self.ops)}", "Cast", [wrapper], (), [self._result(ref)])
            return
        wrapper = self._transformed(wrapper, ref, steps[:-1])
        self._step(steps[-1], wrapper, self._result(ref))

    def _transformed(self, wrapper: Any, ref: TensorRef, steps: Sequence[LoweredOp]) -> Any:
        """Emits the Transposes and Reshapes in sequence; returns the wrapper that the last one writes."""
        for step in steps:
            result = self._intermediate(ref, f"step{next(self.numbers)}", step.outputs[0].shape)
            self._step(step, wrapper, result)
            wrapper = result
        return wrapper

    def _step(self, step: LoweredOp, wrapper: Any, result: Any) -> None:
        operands = [wrapper, *(self.operand(x) for x in step.inputs[1:] if x is not None)]
        self._wrap(f"{self.view.name}_{step.op}{len(self.ops)}", step.op, operands, step.params, [result])

    def _layout(self, ref: TensorRef) -> tuple[LoweredOp, ...]:
        """The ops from the stored tensor to ``ref``."""
        return layout_ops(self._from_stored(ref))

    def _from_stored(self, ref: TensorRef) -> TensorRef:
        """``ref`` with only the remaining work: its origin as stored, its transforms without those that cancel."""
        order = None if self.view.in_stored_order or ref.local is not None else self.view.order
        transforms = layout.remaining(ref.transforms, order, len(ref.base_shape))
        return replace(ref, base_shape=layout.stored(ref.base_shape, order), transforms=transforms)

    def _intermediate(self, ref: TensorRef, name: str, shape: Sequence[int]) -> Any:
        return self._named(f"{self.view.name}_opdb_{name}", ref, shape)

    def _named(self, name: str, ref: TensorRef, shape: Sequence[int]) -> Any:
        encoding, config = (UNDEFINED, {}) if ref.quant is None else self.view.encoding(ref.quant)
        return self.visitor.define_custom_tensor_wrapper(
            node_name=name,
            tensor_type=NATIVE,
            dtype=dtype_of(ref.dtype),
            quant_encoding=encoding,
            quant_configs=config,
            dims=torch.Size(shape),
            tensor=None,
            is_fake_tensor=True,
            nodes_to_wrappers=self.wrappers,
        )

    def _constant(self, ref: TensorRef) -> Any:
        return self.static.wrapper(ref)
