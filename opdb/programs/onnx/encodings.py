"""Encodings from elsewhere for an ONNX file in floats: AIMET's .encodings, or a quantized file (QDQ) of the same model."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.version_converter
from onnx import TensorProto, helper, numpy_helper

from opdb.core.errors import OpdbError
from opdb.core.guess import guesses
from opdb.programs.onnx import aimet
from opdb.programs.onnx.order import ordered
from opdb.programs.onnx.steps import Array, Encoding
from opdb.programs.onnx.subgraphs import reads

#: The number of unknown names that the warning lists, each with the nearest known one.
SAID = 3
#: Suffixes that ONNX Runtime's quantizer adds to the names of the float model.
SUFFIXES = ("_quantized", "_QuantizeLinear_Input")
#: Operators that only move elements of their input.
MOVING = (
    "Expand",
    "Flatten",
    "Gather",
    "Identity",
    "Reshape",
    "Slice",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
)
#: Operators with signed weights; other constants have the type of the activations that they are combined with.
WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM", "GRU", "RNN")
#: Bits -> ONNX's unsigned and signed types.
KINDS = {4: (TensorProto.UINT4, TensorProto.INT4), 8: (TensorProto.UINT8, TensorProto.INT8),
         16: (TensorProto.UINT16, TensorProto.INT16)}  # fmt: skip
#: The largest integer factor from a channel's scale to a block's (QNN, AIMET).
LARGEST_STEP = 16
#: The first opset with types of 4 and 16 bits.
OPSET = 21


def read_encodings(path: str) -> Mapping[str, Encoding]:
    """Encodings by tensor name.  Raises OpdbError for a file of neither kind and for an encoding that QNN has no type for."""
    if not Path(path).is_file():
        raise OpdbError(f"{path}: no such file")
    found = _of_qdq(path) if path.endswith(".onnx") else aimet.read(path)
    if not found:
        raise OpdbError(f"{path}: there are no encodings in it; give AIMET's .encodings or a QDQ .onnx file")
    return found


def _of_qdq(path: str) -> dict[str, Encoding]:
    try:
        graph = onnx.load(path).graph
    except Exception as error:  # protobuf's own errors
        raise OpdbError(f"{path}: cannot be read as an ONNX model: {type(error).__name__}") from error
    values, outputs = {w.name: w for w in graph.initializer}, {o.name for o in graph.output}
    results = {
        n.input[0]: n.output[0]
        for n in graph.node
        if n.op_type == "DequantizeLinear" and n.output[0] in outputs
    }
    found = {}
    for node in graph.node:
        stored = node.op_type == "DequantizeLinear" and node.input[0] in values
        if not (stored or node.op_type == "QuantizeLinear") or len(node.input) < 3:
            continue
        scale, zero = (values.get(name) for name in node.input[1:3])
        bits, signed = next(
            ((b, k.index(zero.data_type)) for b, k in KINDS.items() if zero and zero.data_type in k), (0, 0)
        )
        if scale is None or zero is None or not bits:
            continue
        name = results.get(node.output[0], node.input[0])  # an output of the model keeps its name
        for suffix in SUFFIXES:
            name = name.removesuffix(suffix)
        zeros = numpy_helper.to_array(zero).astype(np.int64).reshape(-1) + (1 << bits - 1 if signed else 0)
        said = {a.name: a.i for a in node.attribute}
        scales = numpy_helper.to_array(scale).astype(np.float32)
        if said.get("block_size") and scales.ndim > 1:
            found[name] = _of_blocks(bits, scales, zeros, said)
        else:
            found[name] = Encoding(bits, scales.reshape(-1), zeros, said.get("axis"))
    return found


def _of_blocks(bits: int, scales: Array, zeros: Array, said: Mapping[str, int]) -> Encoding:
    """``said``: the node's attributes: ``axis``, along which the blocks lie, and ``block_size``."""
    channels = 0 if said.get("axis", 1) % scales.ndim else 1
    rows = np.moveaxis(scales.astype(np.float64), channels, 0).reshape(scales.shape[channels], -1)
    largest = (rows.max(1) / LARGEST_STEP).astype(np.float32)
    return Encoding(bits, largest, zeros[:1], channels, said["block_size"], rows / largest[:, None])


def warn_of_unknown(model: onnx.ModelProto, encodings: Mapping[str, Encoding], path: str) -> None:
    """Warns of names in ``path`` that no tensor of the model has, with the nearest ones."""
    known = _names(model.graph)
    unknown = [name for name in encodings if name not in known]
    if unknown and len(unknown) < len(encodings):
        names = ", ".join(_with_nearest(name, known) for name in unknown[:SAID])
        more = f", and {len(unknown) - SAID} more" if len(unknown) > SAID else ""
        said = f"{len(unknown)} of its {len(encodings)} names are not the model's and have no effect: {names}{more}"
        warnings.warn_explicit(said, UserWarning, path, 0)  # 0: there is no line number


def _names(graph: onnx.GraphProto) -> set[str]:
    made = {o for node in graph.node for o in node.output if o}
    return made | {i.name for i in graph.input} | {w.name for w in graph.initializer}


def _with_nearest(name: str, known: set[str]) -> str:
    nearest = guesses(name, sorted(known))
    return f"'{name}'" + (f" (nearest: '{nearest[0]}')" if nearest else "")


def with_encodings(
    model: onnx.ModelProto, encodings: Mapping[str, Encoding], path: str, *, stored: bool = True
) -> onnx.ModelProto:
    """The model with a QuantizeLinear and a DequantizeLinear at each tensor that has an encoding.

    They come after the model's own nodes, which keep their places, and have the tensor's name with "/quantized" or "/dequantized".
    ``stored``: include the integers of weights; without them, the weights need not be loaded.

    Raises OpdbError if none of the names is the model's.
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
    opset = next((o.version for o in made.opset_import if o.domain in ("", "ai.onnx")), OPSET)
    domain = "" if opset >= OPSET else QDQ_DOMAIN
    if domain and all(o.domain != domain for o in made.opset_import):
        made.opset_import.append(helper.make_opsetid(domain, 1))
    writer = _Writer(made, weights_of(made.graph), encodings, domain, stored)
    count = sum(writer.quantize(name, encoding) for name, encoding in encodings.items())
    if not count:
        raise OpdbError(
            f"{path}: none of its {len(encodings)} names is that of a tensor of floats, e.g. "
            f"{_with_nearest(next(iter(encodings)), _names(model.graph))}"
        )
    return made


def to_qdq(model: onnx.ModelProto, encodings: Mapping[str, Encoding], path: str) -> onnx.ModelProto:
    """The model with the encodings as a QDQ file that ONNX Runtime loads: nodes in order, opset 21 or com.microsoft's operators.

    Raises OpdbError if none of the names is the model's.
    """
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), OPSET)
    if opset < OPSET:
        with suppress(
            Exception
        ):  # the converter lacks an operator; com.microsoft's operators then have the types
            model = onnx.version_converter.convert_version(model, OPSET)
    made = with_encodings(model, encodings, path)
    known = {i.name for i in made.graph.input} | {w.name for w in made.graph.initializer}
    nodes = [node for _, node in ordered(list(made.graph.node), known)]
    held = {name for node in nodes for name in reads(node)} | {o.name for o in made.graph.output}
    nodes = [node for node in nodes if node.op_type != "Constant" or node.output[0] in held]
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    kept = [w for w in made.graph.initializer if w.name in held]
    del made.graph.initializer[:]
    made.graph.initializer.extend(kept)
    return made


def weights_of(graph: onnx.GraphProto) -> dict[str, onnx.TensorProto]:
    """Constants by name: the initializers and the values of Constant nodes."""
    held = {
        n.output[0]: a.t
        for n in graph.node
        if n.op_type == "Constant"
        for a in n.attribute
        if a.name == "value"
    }
    return held | {w.name: w for w in graph.initializer}


#: The domain to use if ONNX's own opset is too old for the types: ONNX Runtime has both operators there too.
QDQ_DOMAIN = "com.microsoft"


@dataclass
class _Writer:
    model: onnx.ModelProto
    weights: Mapping[str, onnx.TensorProto]
    encodings: Mapping[str, Encoding]
    domain: str
    stored: bool

    @cached_property
    def readers(self) -> Mapping[str, Sequence[onnx.NodeProto]]:
        """The model's own nodes that read a tensor."""
        found: dict[str, list[onnx.NodeProto]] = {}
        for node in self.own:
            for name in dict.fromkeys(node.input):
                found.setdefault(name, []).append(node)
        return found

    @cached_property
    def makers(self) -> Mapping[str, onnx.NodeProto]:
        return {o: node for node in self.own for o in node.output if o}

    @cached_property
    def ends(self) -> tuple[set[str], set[str]]:
        return {i.name for i in self.model.graph.input}, {o.name for o in self.model.graph.output}

    @cached_property
    def own(self) -> Sequence[onnx.NodeProto]:
        return list(self.model.graph.node)

    def quantize(self, name: str, encoding: Encoding) -> bool:
        """Adds a tensor's encoding; returns False if the model has no such float tensor, or if it is an activation with blocks."""
        if name in self.weights:
            return self._weight(name, self.weights[name], encoding)
        maker, (inputs, outputs) = self.makers.get(name), self.ends
        if (maker is None and name not in inputs) or encoding.steps is not None:
            return False
        if name in outputs and maker is not None:
            maker.output[list(maker.output).index(name)] = f"{name}/float"
            source, result = f"{name}/float", name
        else:
            source, result = name, f"{name}/dequantized"
            self._read_instead(name, result)
        if encoding.bits == 8 and encoding.scales.size == 1 and self._reads_16_bits(maker):
            wide = replace(
                encoding, bits=16, scales=encoding.scales / np.float32(257), zeros=encoding.zeros * 257
            )
            self._pair(f"{name}/in_16_bits", wide, source, f"{name}/in_16_bits")
            source = f"{name}/in_16_bits"
        self._pair(name, encoding, source, result)
        return True

    def _pair(self, name: str, encoding: Encoding, source: str, result: str) -> None:
        ends = self._ends(name, encoding.scales, encoding.zeros, KINDS[encoding.bits][0])
        axis = {"axis": encoding.axis} if encoding.scales.size > 1 and encoding.axis is not None else {}
        self._add("QuantizeLinear", [source, *ends], f"{name}/quantized", f"{name}/quantized", **axis)
        self._add("DequantizeLinear", [f"{name}/quantized", *ends], result, f"{name}/dequantized", **axis)

    def _reads_16_bits(self, maker: onnx.NodeProto | None) -> bool:
        """True if a node computes in 16 bits; QNN's ops then write 16 bits, and a Convert turns them into 8."""
        if maker is None or maker.op_type in MOVING:
            return False
        read = [name.removesuffix("/dequantized") for name in maker.input if name]
        if found := [self.encodings[n].bits for n in read if n in self.encodings and n not in self.weights]:
            return max(found) == 16
        return any(self._reads_16_bits(self.makers.get(n)) for n in read)

    def _weight(self, name: str, weight: onnx.TensorProto, encoding: Encoding) -> bool:
        if weight.data_type != TensorProto.FLOAT:
            return False
        many, shape, bits = encoding.scales.size, list(weight.dims) or [1], encoding.bits
        in_blocks = encoding.steps is not None
        reader = self._reader(name)
        axis = self._axis(name, shape, many, encoding.axis) if many > 1 or in_blocks else 0
        signed = reader in WEIGHTED or bits == 4
        low = -(1 << bits - 1) if signed else 0
        own = replace(encoding, zeros=encoding.zeros + low)
        if in_blocks and encoding.axis is None and reader == "ConvTranspose":  # AIMET 1.0
            own = replace(own, steps=np.asarray(encoding.steps).reshape(-1, many).T)
        scales, stored = _scales(name, own, axis, shape), None
        if self.stored:
            stored = _stored(numpy_helper.to_array(weight), own, scales, axis)
            stored = np.clip(stored, low, low + (1 << bits) - 1)
        along = {"axis": 1 - axis, "block_size": encoding.block} if in_blocks else {"axis": axis}
        if in_blocks and bits == 4 and math.prod(shape[2:]) > 1:  # QNN has blocks only for 1 x 1 filters
            steps = _spread(np.asarray(own.steps), axis, shape).repeat(encoding.block, 1 - axis)
            stored = None if stored is None else stored * steps
            bits, scales, along = 8, encoding.scales, {"axis": axis}
        kind = KINDS[bits][int(signed)]
        if stored is not None:
            made = helper.make_tensor(f"{name}/stored", kind, shape, stored.astype(int).ravel())
            self.model.graph.initializer.append(made)
        ends, result = self._ends(name, scales, own.zeros, kind), f"{name}/dequantized"
        self._read_instead(name, result)
        self._add("DequantizeLinear", [f"{name}/stored", *ends], result, result, **along)
        return True

    def _reader(self, name: str) -> str:
        """The operator of the first node that reads a tensor."""
        return next((n.op_type for n in self.readers.get(name, ())), "")

    def _axis(self, name: str, shape: Sequence[int], many: int, said: int | None) -> int:
        """The channel dimension: the file's, or the dimension of the results of the operator that reads the weight."""
        if said is not None and -len(shape) <= said < len(shape) and shape[said] == many:
            return said % len(shape)
        reader = next(iter(self.readers.get(name, ())), None)
        turned = reader is not None and any(a.name == "transB" and a.i for a in reader.attribute)
        kind = self._reader(name)
        usual: int = {"Gemm": 0 if turned else 1, "MatMul": len(shape) - 1, "ConvTranspose": 1}.get(kind, 0)
        axes = (usual, *range(len(shape))) if said is None else ()
        found: int | None = next((axis for axis in axes if axis < len(shape) and shape[axis] == many), None)
        if found is not None:
            return found
        raise OpdbError(
            f"{name} of shape {list(shape)} has encodings for {many} channels"
            + (
                ", and no dimension of that size"
                if said is None
                else f" of dimension {said}, which has no such size"
            )
        )

    def _ends(self, name: str, scales: Array, zeros: Array, kind: int) -> list[str]:
        shape = [] if scales.size == 1 and scales.ndim == 1 else list(scales.shape)
        spread = np.broadcast_to(zeros.reshape(-1)[0] if scales.ndim > 1 else zeros, scales.shape)
        made = (
            helper.make_tensor(f"{name}/scale", TensorProto.FLOAT, shape, scales.ravel().tolist()),
            helper.make_tensor(f"{name}/zero", kind, shape, spread.ravel().tolist()),
        )
        self.model.graph.initializer.extend(made)
        return [tensor.name for tensor in made]

    def _read_instead(self, name: str, other: str) -> None:
        for node in self.readers.get(name, ()):
            for i, read in enumerate(node.input):
                if read == name:
                    node.input[i] = other

    def _add(self, op_type: str, inputs: Sequence[str], output: str, name: str, **attributes: Any) -> None:
        made = helper.make_node(op_type, inputs, [output], name, domain=self.domain, **attributes)
        self.model.graph.node.append(made)


def _scales(name: str, encoding: Encoding, axis: int, shape: Sequence[int]) -> Array:
    """Scales as DequantizeLinear takes them: one, one per channel, or, with blocks along one of two dimensions, in the weight's rank."""
    if encoding.steps is None:
        return encoding.scales
    along = 1 - axis
    blocks = shape[along] // encoding.block if len(shape) > 1 and axis < 2 else 0
    if not blocks or (blocks, encoding.steps.size) != (shape[along] / encoding.block, shape[axis] * blocks):
        raise OpdbError(
            f"{name} of shape {list(shape)} has {encoding.steps.size} integers for blocks of {encoding.block}; "
            "give one for each block of input channels of each output channel"
        )
    rows = encoding.scales.astype(np.float64)[:, None] * encoding.steps
    return _spread(rows.astype(np.float32), axis, shape)


def _spread(rows: Array, axis: int, shape: Sequence[int]) -> Array:
    """Spreads ``rows`` [channels, blocks] over the dimensions of a weight of ``shape`` with channels along ``axis``."""
    wide = rows.reshape(*rows.shape, *[1] * (len(shape) - 2))
    return np.moveaxis(np.broadcast_to(wide, (*rows.shape, *shape[2:])), 0, axis)


def _stored(values: Array, encoding: Encoding, scales: Array, axis: int) -> Array:
    """The unclipped integers of a weight; they exceed their type if values exceed the encoded range."""
    if encoding.steps is not None:
        return np.asarray(np.rint(values / scales.astype(np.float64).repeat(encoding.block, 1 - axis)))
    many = encoding.scales.size > 1
    shape = [-1 if d == axis else 1 for d in range(values.ndim)] if many else []
    scales = encoding.scales.astype(np.float64).reshape(shape)
    zeros = np.broadcast_to(encoding.zeros, encoding.scales.shape).reshape(shape)
    return np.asarray(np.rint(values.astype(np.float64) / scales) + zeros)
