"""The ONNX graph made from a TFLite subgraph, and the class through which an operator's function writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from opdb.core.errors import OpdbError
from opdb.programs.onnx.metadata import OPERATOR, RESULT, WHY, WORK
from opdb.programs.tflite.file import Operator, Subgraph, Tensor
from opdb.programs.tflite.sparse import Array

#: Permutations between the image layouts of TFLite and ONNX, by rank.
TO_ONNX = {3: (0, 2, 1), 4: (0, 3, 1, 2), 5: (0, 4, 1, 2, 3)}
TO_TFLITE = {3: (0, 2, 1), 4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}
#: The domain of nodes for operators that have no form in ONNX.
DOMAIN = "tflite"


class Unreadable(OpdbError):
    """The reason an operator has no form in ONNX here; it becomes a separate node that falls back to the CPU."""


@dataclass
class Graph:
    """ONNX nodes as they are written.  ``ends``: the names of the model's inputs and outputs.

    int8 tensors that are not ends are uint8 in ONNX, with 128 added: HTP has more ops for uint8.
    """

    ends: frozenset[str]
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: dict[str, onnx.TensorProto] = field(default_factory=dict)
    real: dict[str, str] = field(default_factory=dict)  # a stored tensor -> its real values
    count: int = 0

    def fresh(self, of: str) -> str:
        self.count += 1
        return f"{of}/{self.count}"

    def constant(self, name: str, value: Array) -> str:
        if name not in self.initializers:
            self.initializers[name] = numpy_helper.from_array(np.array(value, order="C"), name)
        return name


@dataclass
class Call:
    """One operator as its function sees it: operands by their place, and the nodes that it writes.

    ``names``: the ONNX names of the subgraph's tensors.  ``place``: the operator's number in the file (from 1) and name.
    """

    graph: Graph
    subgraph: Subgraph
    operator: Operator
    names: Mapping[int, str]
    place: str

    # Contents of the file

    def has(self, i: int) -> bool:
        return i < len(self.operator.inputs) and self.operator.inputs[i] >= 0

    def tensor(self, i: int) -> Tensor:
        return self.subgraph.tensors[self.operator.inputs[i]]

    def result(self, i: int = 0) -> Tensor:
        return self.subgraph.tensors[self.operator.outputs[i]]

    def shape(self, i: int) -> tuple[int, ...]:
        """Raises Unreadable if a dimension is open in the file."""
        return _fixed(self.tensor(i), 0)

    def known(self, i: int, what: str) -> Array:
        """The value of an input that must be in the file.  Raises Unreadable if it is computed."""
        data = self.tensor(i).data
        if data is None:
            raise Unreadable(f"its {what} is computed when the model runs; QNN needs a constant")
        return data

    def number(self, i: int, what: str) -> float:
        """The real value of an input of one element.  Raises Unreadable if it is computed."""
        stored, found = self.known(i, what).reshape(-1)[0], self.tensor(i).quantization
        if found is None or not is_stored(self.tensor(i)):
            return float(stored)
        return float((int(stored) - int(found.zeros[0])) * found.scales[0])

    def options(self, kind: type) -> Any:
        """The operator's options, a class of the package ``tflite``."""
        table = self.operator.table.BuiltinOptions()
        made = kind()
        if table is None:
            raise Unreadable("the file has no options for it")
        made.Init(table.Bytes, table.Pos)
        return made

    # Operands

    def floats(self, i: int) -> str:
        """The operand in real values: dequantized if it is stored as integers."""
        return self.real_of(self.operator.inputs[i])

    def real_of(self, place: int) -> str:
        tensor, name = self.subgraph.tensors[place], self.names[place]
        if not is_stored(tensor):
            return name
        if name not in self.graph.real:
            self.graph.real[name] = self._read(tensor, name)
        return self.graph.real[name]

    def _read(self, tensor: Tensor, name: str) -> str:
        if not _as_unsigned(tensor):
            return self._dequantized(tensor, name)
        if name in self.graph.ends:
            return self._unsigned(tensor, name, self._dequantized(tensor, name))
        if tensor.data is not None:
            value = np.atleast_1d(tensor.data.astype(np.int16) + 128).astype(np.uint8)
            name = self.graph.constant(f"{name}/uint8", value)
        return self.node("DequantizeLinear", name, *self._encoding(tensor, name, np.uint8))

    def _unsigned(self, tensor: Tensor, name: str, real: str) -> str:
        """``real`` quantized to uint8 and dequantized again, with an encoding that has the tensor's values."""
        encoding = self._encoding(tensor, f"{name}/uint8", np.uint8)
        return self.node("DequantizeLinear", self.node("QuantizeLinear", real, *encoding), *encoding)

    def as_stored(self, i: int) -> str:
        """The operand as stored in the file."""
        return self.names[self.operator.inputs[i]]

    def weight(self, i: int, axes: Sequence[int], shape: Sequence[int] | None = None) -> str:
        """A constant operand permuted by ``axes`` (then reshaped), with its encoding; a computed one gets a Transpose."""
        tensor = self.tensor(i)
        if tensor.data is None:
            name = self.node("Transpose", self.floats(i), perm=list(axes))
            return name if shape is None else self.reshaped(name, shape)
        value = tensor.data.transpose(axes)
        value = value if shape is None else value.reshape(shape)
        name = self.graph.constant(f"{self.as_stored(i)}/{'x'.join(map(str, value.shape))}", value)
        if not is_stored(tensor):
            return name
        assert tensor.quantization is not None
        axis = list(axes).index(tensor.quantization.axis % tensor.data.ndim)
        if shape is not None and len(shape) == tensor.data.ndim:
            axis = (
                next(d for d, n in enumerate(shape) if n == tensor.quantization.scales.size)
                if (tensor.quantization.scales.size > 1)
                else 0
            )
        return self._dequantized(tensor, name, axis)

    def _dequantized(self, tensor: Tensor, name: str, axis: int | None = None) -> str:
        found = tensor.quantization
        assert found is not None
        if tensor.kind is np.int64 and tensor.data is not None:  # biases of 16-bit models
            return self.graph.constant(f"{name}/real", (tensor.data * found.scales).astype(np.float32))
        axis = found.axis if axis is None else axis
        return self.node("DequantizeLinear", name, *self._encoding(tensor, name), axis=axis)

    def _encoding(self, tensor: Tensor, name: str, kind: Any = None) -> tuple[str, str]:
        """Scale and zero point of the tensor, as stored in ``kind``."""
        found = tensor.quantization
        assert found is not None
        shift = 128 if kind is np.uint8 and tensor.kind is np.int8 else 0
        single = found.scales.size == 1
        scales = found.scales.reshape(()) if single else found.scales
        zeros = ((found.zeros.reshape(()) if single else found.zeros) + shift).astype(kind or tensor.kind)
        return self.graph.constant(f"{name}/scale", scales), self.graph.constant(f"{name}/zero", zeros)

    # Writing nodes

    def node(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Writes a node and returns the name of its result; with more than one see ``several``."""
        return self.several(op_type, *inputs, outputs=1, **attributes)[0]

    def several(self, op_type: str, *inputs: str, outputs: int, **attributes: Any) -> list[str]:
        made = [self.graph.fresh(self.names[self.operator.outputs[0]]) for _ in range(outputs)]
        self._write(op_type, inputs, made, "", attributes)
        return made

    def alone(self, why: str, work: tuple[int, bool]) -> list[tuple[str, Tensor]]:
        """Writes the operator, which has no form in ONNX, as one node of DOMAIN; returns its results by name.

        ``work``: see opdb.programs.tflite.work.

        It reads and makes real values instead of stored integers.
        """
        inputs = [self.real_of(i) for i in self.operator.inputs if i >= 0]
        results = [self.subgraph.tensors[i] for i in self.operator.outputs]
        own = [self.names[i] for i in self.operator.outputs]
        names = [self.graph.fresh(n) if is_stored(t) else n for n, t in zip(own, results, strict=True)]
        self._write(self.operator.name, inputs, names, DOMAIN, {WHY: why, WORK: list(map(int, work))})
        for i, tensor in enumerate(results):
            if is_stored(tensor):
                self.give(names[i], i)
        return list(zip(names, results, strict=True))

    def _write(
        self,
        op_type: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        domain: str,
        attributes: Mapping[str, Any],
    ) -> None:
        node = helper.make_node(op_type, list(inputs), list(outputs), outputs[0], domain=domain, **attributes)
        for key, value in ((OPERATOR, self.place), (RESULT, self.result().name)):
            node.metadata_props.add(key=key, value=value)
        self.graph.nodes.append(node)

    def ints(self, values: Sequence[int]) -> str:
        """A constant of int64."""
        return self.graph.constant(
            f"int64/{','.join(map(str, values))}", np.asarray(values, np.int64).reshape(len(values))
        )

    def scalar(self, value: Any, kind: Any = np.float32) -> str:
        return self.graph.constant(f"{np.dtype(kind).name}/{value!r}", np.asarray(value, kind))

    def reshaped(self, name: str, shape: Sequence[int]) -> str:
        """Raises Unreadable if the file leaves more than one dimension open; a single one follows from the others."""
        if sum(n < 0 for n in shape) > 1:
            _fixed(self.result(), 1)
        return self.node("Reshape", name, self.ints(shape))

    def image(self, i: int) -> str:
        """An image operand in ONNX's layout, [N, C, ...]."""
        return self.turned(self.floats(i), TO_ONNX[len(self.tensor(i).shape)])

    def turned(self, name: str, axes: Sequence[int]) -> str:
        return self.node("Transpose", name, perm=list(axes))

    def give_image(self, name: str, activation: int = 0) -> None:
        """Gives ``name``, in ONNX's image layout, as the result."""
        self.give(self.turned(self.activated(name, activation), TO_TFLITE[len(self.result().shape)]))

    def activated(self, name: str, activation: int) -> str:
        """``name`` after the activation that TFLite fuses with an operator (ActivationFunctionType)."""
        if activation == 0:
            return name
        if activation == 1:
            return self.node("Relu", name)
        if activation in (2, 3):
            low, high = (-1.0, 1.0) if activation == 2 else (0.0, 6.0)
            return self.node("Clip", name, self.scalar(low), self.scalar(high))
        if activation == 4:
            return self.node("Tanh", name)
        raise Unreadable(f"the fused activation {activation} is unknown")

    def give(self, name: str, i: int = 0) -> None:
        """Gives ``name``, in real values, as the result ``i``: quantized if the file stores integers."""
        tensor, made = self.result(i), self.names[self.operator.outputs[i]]
        if is_stored(tensor):
            kind = None
            if _as_unsigned(tensor):
                if made in self.graph.ends:
                    name = self._unsigned(tensor, made, name)
                else:
                    kind = np.uint8
            self._write("QuantizeLinear", [name, *self._encoding(tensor, made, kind)], [made], "", {})
        else:
            self._call(name, made)

    def give_stored(self, name: str, i: int = 0) -> None:
        """Gives ``name`` as it is as the result ``i``: stored integers of the same encoding, or numbers without one."""
        self._call(name, self.names[self.operator.outputs[i]])

    def _call(self, name: str, result: str) -> None:
        """Renames the last node's result to ``result``; adds an Identity if ``name`` is an operand or a constant."""
        last = self.graph.nodes[-1] if self.graph.nodes else None
        if last is not None and list(last.output) == [name] and name not in self.graph.real.values():
            last.output[0] = result
        else:
            self._write("Identity", [name], [result], "", {})


def _fixed(tensor: Tensor, open_: int) -> tuple[int, ...]:
    """The shape of a tensor.  Raises Unreadable if more than ``open_`` dimensions are -1."""
    if sum(n < 0 for n in tensor.shape) > open_:
        raise Unreadable(
            f"the file leaves the shape {list(tensor.shape)} of {tensor.name} open; convert the model with fixed shapes"
        )
    return tensor.shape


def _as_unsigned(tensor: Tensor) -> bool:
    """True if a tensor is uint8 in ONNX, unless it is an input or output of the model."""
    return tensor.kind is np.int8 and tensor.quantization is not None and tensor.quantization.scales.size == 1


def is_stored(tensor: Tensor) -> bool:
    """True if a tensor holds integers that stand for real numbers."""
    if tensor.quantization is None or tensor.kind is None:
        return False
    return np.dtype(tensor.kind).kind in "iu" or np.dtype(tensor.kind).name == "int4"
