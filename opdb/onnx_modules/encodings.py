"""Encodings from elsewhere for an ONNX file in floats: AIMET's .encodings, or a quantized file (QDQ) of the same model.

Versions 0.4 to 1.0 of AIMET's format have real = (stored + offset) * scale, stored from 0; version 2 has ONNX's fields:
real = (stored - y_zero_point) * y_scale, stored as ``output_dtype``.
"""

from __future__ import annotations

import difflib
import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from opdb.errors import OpdbError
from opdb.onnx_modules.node import Array

#: Bits -> ONNX's types without and with a sign.
KINDS = {4: (TensorProto.UINT4, TensorProto.INT4), 8: (TensorProto.UINT8, TensorProto.INT8),
         16: (TensorProto.UINT16, TensorProto.INT16)}  # fmt: skip
#: Biases, which QNN gives steps of their own.
WIDE = 32
#: The lists of AIMET's files before version 2.
AIMET_GROUPS = ("activation_encodings", "param_encodings")
IN_BLOCKS = "export it as QDQ (to_onnx_qdq), which opdb reads"
#: Of how many unknown names the nearest one is said.
SAID = 3
#: What ONNX Runtime's quantizer puts behind the names of the float model.
SUFFIXES = ("_quantized", "_QuantizeLinear_Input")
#: The first opset with 4 and 16 bits.
OPSET = 21


@dataclass(frozen=True)
class Encoding:
    """Scales and zero points, one or one for each channel, of stored integers of ``bits`` from 0: real = (stored - zero) * scale.

    ``axis``: the dimension of the channels; None where the file does not say it.
    """

    bits: int
    scales: Array
    zeros: Array
    axis: int | None = None


def read_encodings(path: str) -> Mapping[str, Encoding]:
    """By the name of the tensor.  Raises OpdbError for a file of neither kind and for an encoding that QNN has no type for."""
    if not Path(path).is_file():
        raise OpdbError(f"{path}: no such file")
    found = _of_qdq(path) if path.endswith(".onnx") else _of_aimet(path)
    if not found:
        raise OpdbError(f"{path}: there are no encodings in it; give AIMET's .encodings or a QDQ .onnx file")
    return found


def _of_aimet(path: str) -> dict[str, Encoding]:
    try:
        entries = list(_entries(json.loads(Path(path).read_text())))
    except (ValueError, KeyError, TypeError) as error:
        raise OpdbError(f"{path}: not AIMET's encodings: {type(error).__name__}: {error}") from None
    found = {}
    for name, entry in entries:
        try:
            encoding = _aimet(entry)
            if encoding is not None and encoding.bits in KINDS:
                _check(encoding)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise OpdbError(f"{path}: {name}: cannot be read: {type(error).__name__}: {error}") from None
        if encoding is not None:
            if encoding.bits not in KINDS:
                raise OpdbError(
                    f"{path}: {name} has {encoding.bits} bits; QNN's activations and weights have 4, 8 or 16"
                )
            found[name] = encoding
    return found


def _entries(held: Any) -> Iterator[tuple[str, Any]]:
    """Each tensor's name and encoding.

    Up to 0.6.1 two mappings by name to a list, one for each channel; in 1.0 two lists of objects with names, in 2 one such list.
    """
    if not isinstance(held, Mapping):
        raise TypeError("the file holds no object")
    groups = [held["encodings"]] if "encodings" in held else [held[k] for k in AIMET_GROUPS]
    for group in groups:
        if isinstance(group, Mapping):
            yield from group.items()
        else:
            yield from ((entry["name"], entry) for entry in group)


def _aimet(entry: Any) -> Encoding | None:
    """None for a tensor in floats, and for a bias."""
    if not isinstance(entry, Mapping):
        first = entry[0]
        bits, is_float = int(first["bitwidth"]), first.get("dtype", "int") == "float"
        return (
            None
            if is_float or bits == WIDE
            else _offset(bits, [e["scale"] for e in entry], [e["offset"] for e in entry])
        )
    if "output_dtype" in entry:
        return _version_2(entry)
    bits = int(entry["bw"])
    if entry["dtype"].lower() == "float" or bits == WIDE:
        return None
    if entry.get("enc_type") in ("PER_BLOCK", "LPBQ"):
        raise ValueError(f"{entry['enc_type']}: {IN_BLOCKS}")
    if np.any(entry.get("zero_point_shift", 0)):
        raise ValueError("it has a zero_point_shift, and QNN's zero points are whole numbers")
    return _offset(bits, entry["scale"], entry["offset"])


def _offset(bits: int, scales: Any, offsets: Any) -> Encoding:
    return Encoding(bits, np.asarray(scales, np.float32).reshape(-1), -_whole(offsets))


def _version_2(entry: Mapping[str, Any]) -> Encoding | None:
    kind = re.fullmatch(r"(u?)int(\d+)", entry["output_dtype"])
    if kind is None or int(kind[2]) == WIDE:
        return None
    if "block_size" in entry or isinstance(entry.get("y_scale"), Mapping):
        raise ValueError(f"it has scales for blocks: {IN_BLOCKS}")
    bits, scales = int(kind[2]), np.asarray(entry["y_scale"], np.float32).reshape(-1)
    zeros = _whole(0 if entry.get("y_zero_point") is None else entry["y_zero_point"])
    axis = entry.get("axis")
    return Encoding(
        bits,
        scales,
        np.broadcast_to(zeros if kind[1] else zeros + (1 << bits - 1), scales.shape),
        None if axis is None else int(axis),
    )


def _whole(numbers: Any) -> Array:
    found = np.asarray(numbers, np.float64).reshape(-1)
    if not np.array_equal(found, np.rint(found)):
        raise ValueError("a zero point is no whole number")
    return found.astype(np.int64)


def _check(encoding: Encoding) -> None:
    """Raises ValueError for what no stored integers have."""
    if not encoding.scales.size or not np.all(np.isfinite(encoding.scales) & (encoding.scales > 0)):
        raise ValueError("a scale is no number above 0")
    if encoding.zeros.size not in (1, encoding.scales.size):
        raise ValueError(f"it has {encoding.scales.size} scales and {encoding.zeros.size} zero points")
    if np.any((encoding.zeros < 0) | (encoding.zeros >= 1 << encoding.bits)):
        raise ValueError(f"a zero point is not among the stored integers of {encoding.bits} bits")


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
        zeros = numpy_helper.to_array(zero).astype(np.int64).reshape(-1)
        zeros = zeros + (1 << bits - 1 if signed else 0)
        axis = next((a.i for a in node.attribute if a.name == "axis"), None)
        found[name] = Encoding(bits, numpy_helper.to_array(scale).astype(np.float32).reshape(-1), zeros, axis)
    return found


def warn_of_unknown(model: onnx.ModelProto, encodings: Mapping[str, Encoding], path: str) -> None:
    """Warns of names in ``path`` that no tensor of the model has, with the nearest ones."""
    known = _names(model.graph)
    unknown = [name for name in encodings if name not in known]
    if unknown and len(unknown) < len(encodings):
        names = ", ".join(_with_nearest(name, known) for name in unknown[:SAID])
        more = f", and {len(unknown) - SAID} more" if len(unknown) > SAID else ""
        said = f"{len(unknown)} of its {len(encodings)} names are not the model's and have no effect: {names}{more}"
        warnings.warn_explicit(said, UserWarning, path, 0)  # without a line of the file


def _names(graph: onnx.GraphProto) -> set[str]:
    made = {o for node in graph.node for o in node.output if o}
    return made | {i.name for i in graph.input} | {w.name for w in graph.initializer}


def _with_nearest(name: str, known: set[str]) -> str:
    nearest = difflib.get_close_matches(name, sorted(known), 1)
    return f"'{name}'" + (f" (nearest: '{nearest[0]}')" if nearest else "")


def with_encodings(
    model: onnx.ModelProto, encodings: Mapping[str, Encoding], path: str, *, stored: bool = True
) -> onnx.ModelProto:
    """The model with a QuantizeLinear and a DequantizeLinear at each tensor that has an encoding.

    They stand behind its own nodes, which keep their places, and are called as the tensor with "/quantized" or "/dequantized".
    ``stored``: with the integers of weights; without them, the weights need not be loaded.

    Raises OpdbError where none of the names is the model's.
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
    opset = next((o.version for o in made.opset_import if o.domain in ("", "ai.onnx")), OPSET)
    domain = "" if opset >= OPSET else QDQ_DOMAIN
    if domain and all(o.domain != domain for o in made.opset_import):
        made.opset_import.append(helper.make_opsetid(domain, 1))
    writer = _Writer(made, _weights(made.graph), domain, stored)
    count = sum(writer.quantize(name, encoding) for name, encoding in encodings.items())
    if not count:
        raise OpdbError(
            f"{path}: none of its {len(encodings)} names is that of a tensor of floats, e.g. "
            f"{_with_nearest(next(iter(encodings)), _names(model.graph))}"
        )
    return made


def _weights(graph: onnx.GraphProto) -> dict[str, onnx.TensorProto]:
    """Constants by name: the initializers, and what Constant nodes hold."""
    held = {
        n.output[0]: a.t
        for n in graph.node
        if n.op_type == "Constant"
        for a in n.attribute
        if a.name == "value"
    }
    return held | {w.name: w for w in graph.initializer}


#: Where ONNX's own opset is too old for the types: ONNX Runtime has both operators, too.
QDQ_DOMAIN = "com.microsoft"


@dataclass
class _Writer:
    model: onnx.ModelProto
    weights: Mapping[str, onnx.TensorProto]
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
        """Whether the model has such a tensor of floats."""
        if name in self.weights:
            return self._weight(name, self.weights[name], encoding)
        maker, (inputs, outputs) = self.makers.get(name), self.ends
        if maker is None and name not in inputs:
            return False
        ends = self._ends(name, encoding, KINDS[encoding.bits][0])
        if name in outputs and maker is not None:
            maker.output[list(maker.output).index(name)] = f"{name}/float"
            source, result = f"{name}/float", name
        else:
            source, result = name, f"{name}/dequantized"
            self._read_instead(name, result)
        axis = {"axis": encoding.axis} if encoding.scales.size > 1 and encoding.axis is not None else {}
        self._add("QuantizeLinear", [source, *ends], f"{name}/quantized", f"{name}/quantized", **axis)
        self._add("DequantizeLinear", [f"{name}/quantized", *ends], result, f"{name}/dequantized", **axis)
        return True

    def _weight(self, name: str, weight: onnx.TensorProto, encoding: Encoding) -> bool:
        if weight.data_type != TensorProto.FLOAT:
            return False
        many = encoding.scales.size
        axis = self._axis(name, list(weight.dims), many, encoding.axis) if many > 1 else 0
        half, kind = 1 << encoding.bits - 1, KINDS[encoding.bits][1]
        signed = Encoding(encoding.bits, encoding.scales, encoding.zeros - half)
        if self.stored:
            stored = np.clip(_stored(numpy_helper.to_array(weight), signed, axis), -half, half - 1)
            made = helper.make_tensor(f"{name}/stored", kind, weight.dims, stored.astype(int).ravel())
            self.model.graph.initializer.append(made)
        ends, result = self._ends(name, signed, kind), f"{name}/dequantized"
        self._read_instead(name, result)
        self._add("DequantizeLinear", [f"{name}/stored", *ends], result, result, axis=axis)
        return True

    def _axis(self, name: str, shape: Sequence[int], many: int, said: int | None) -> int:
        """The dimension of the channels: the one that the file says, or that of the results of the operator that reads the weight."""
        if said is not None and -len(shape) <= said < len(shape) and shape[said] == many:
            return said % len(shape)
        reader = next(iter(self.readers.get(name, ())), None)
        turned = reader is not None and any(a.name == "transB" and a.i for a in reader.attribute)
        kind = reader.op_type if reader is not None else ""
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

    def _ends(self, name: str, encoding: Encoding, kind: int) -> list[str]:
        shape = [] if encoding.scales.size == 1 else [encoding.scales.size]
        made = (
            helper.make_tensor(f"{name}/scale", TensorProto.FLOAT, shape, encoding.scales.tolist()),
            helper.make_tensor(
                f"{name}/zero", kind, shape, np.broadcast_to(encoding.zeros, encoding.scales.shape).tolist()
            ),
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


def _stored(values: Array, encoding: Encoding, axis: int) -> Array:
    """The integers of a weight, beyond their type where the values are beyond what is encoded."""
    many = encoding.scales.size > 1
    shape = [-1 if d == axis else 1 for d in range(values.ndim)] if many else []
    scales = encoding.scales.astype(np.float64).reshape(shape)
    zeros = np.broadcast_to(encoding.zeros, encoding.scales.shape).reshape(shape)
    return np.asarray(np.rint(values.astype(np.float64) / scales) + zeros)
