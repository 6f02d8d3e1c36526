"""Encodings from elsewhere for an ONNX file in floats: AIMET's .encodings, or a quantized file (QDQ) of the same model.

AIMET's format is that of its "Encoding Format Specification": real = (stored + offset) * scale, stored from 0.  Versions 0.4
to 0.6 are as specified; of 1.0 no file of AIMET's own was tried.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
#: What ONNX Runtime's quantizer puts behind the names of the float model.
SUFFIXES = ("_quantized", "_QuantizeLinear_Input")
#: The first opset with 4 and 16 bits.
OPSET = 21


@dataclass(frozen=True)
class Encoding:
    """Scales and zero points, one or one for each channel, of stored integers of ``bits`` from 0: real = (stored - zero) * scale."""

    bits: int
    scales: Array
    zeros: Array


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
        held = json.loads(Path(path).read_text())
        groups = [held["activation_encodings"], held["param_encodings"]]
    except (ValueError, KeyError, TypeError) as error:
        raise OpdbError(f"{path}: not AIMET's encodings: {type(error).__name__}: {error}") from None
    found = {}
    for name, entry in (pair for group in groups for pair in _entries(group)):
        try:
            encoding = _aimet(entry)
        except (KeyError, TypeError, ValueError) as error:
            raise OpdbError(f"{path}: {name}: cannot be read: {type(error).__name__}: {error}") from None
        if encoding is not None:
            if encoding.bits not in KINDS:
                raise OpdbError(
                    f"{path}: {name} has {encoding.bits} bits; QNN's activations and weights have 4, 8 or 16"
                )
            found[name] = encoding
    return found


def _entries(group: Any) -> Iterator[tuple[str, Any]]:
    """Up to 0.6.1 a mapping by name to a list, one for each channel; in 1.0 a list of objects with names."""
    if isinstance(group, Mapping):
        yield from group.items()
    else:
        yield from ((entry["name"], entry) for entry in group)


def _aimet(entry: Any) -> Encoding | None:
    """None for a tensor in floats, and for a bias."""
    if isinstance(entry, Mapping):
        kind, bits = entry["dtype"], int(entry["bw"])
        if kind.lower() == "float" or bits == WIDE:
            return None
        if entry.get("enc_type") in ("PER_BLOCK", "LPBQ"):
            raise ValueError(f"{entry['enc_type']}: export it as QDQ (to_onnx_qdq), which opdb reads")
        scales, offsets = entry["scale"], entry["offset"]
    else:
        first = entry[0]
        bits = int(first["bitwidth"])
        if first.get("dtype", "int") == "float" or bits == WIDE:
            return None
        scales, offsets = [e["scale"] for e in entry], [e["offset"] for e in entry]
    return Encoding(
        bits, np.asarray(scales, np.float32).reshape(-1), -np.asarray(offsets, np.int64).reshape(-1)
    )


def _of_qdq(path: str) -> dict[str, Encoding]:
    try:
        graph = onnx.load(path).graph
    except Exception as error:  # protobuf's own errors
        raise OpdbError(f"{path}: cannot be read as an ONNX model: {type(error).__name__}") from error
    values = {w.name: w for w in graph.initializer}
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
        name = node.input[0]
        for suffix in SUFFIXES:
            name = name.removesuffix(suffix)
        zeros = numpy_helper.to_array(zero).astype(np.int64).reshape(-1)
        zeros = zeros + (1 << bits - 1 if signed else 0)
        found[name] = Encoding(bits, numpy_helper.to_array(scale).astype(np.float32).reshape(-1), zeros)
    return found


def with_encodings(model: onnx.ModelProto, encodings: Mapping[str, Encoding], path: str) -> onnx.ModelProto:
    """The model with a QuantizeLinear and a DequantizeLinear at each tensor that has an encoding.

    They stand behind its own nodes, which keep their places.  Raises OpdbError where none of the names is the model's.
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
    opset = next((o.version for o in made.opset_import if o.domain in ("", "ai.onnx")), OPSET)
    domain = "" if opset >= OPSET else QDQ_DOMAIN
    if domain and all(o.domain != domain for o in made.opset_import):
        made.opset_import.append(helper.make_opsetid(domain, 1))
    writer = _Writer(made, {w.name: w for w in made.graph.initializer}, domain)
    count = sum(writer.quantize(name, encoding) for name, encoding in encodings.items())
    if not count:
        raise OpdbError(
            f"{path}: none of its {len(encodings)} names is a tensor's, e.g. {next(iter(encodings))}"
        )
    return made


#: Where ONNX's own opset is too old for the types: ONNX Runtime has both operators, too.
QDQ_DOMAIN = "com.microsoft"


@dataclass
class _Writer:
    model: onnx.ModelProto
    weights: Mapping[str, onnx.TensorProto]
    domain: str

    def quantize(self, name: str, encoding: Encoding) -> bool:
        """Whether the model has such a tensor of floats."""
        if name in self.weights:
            return self._weight(self.weights[name], encoding)
        graph = self.model.graph
        makers = [n for n in graph.node if name in n.output]
        if not makers and name not in {i.name for i in graph.input}:
            return False
        ends = self._ends(name, encoding, KINDS[encoding.bits][0])
        if name in {o.name for o in graph.output}:
            for maker in makers:
                maker.output[list(maker.output).index(name)] = f"{name}/float"
            source, result = f"{name}/float", name
        else:
            source, result = name, f"{name}/dequantized"
            self._read_instead(name, result)
        self._add("QuantizeLinear", [source, *ends], f"{name}/quantized")
        self._add("DequantizeLinear", [f"{name}/quantized", *ends], result)
        return True

    def _weight(self, weight: onnx.TensorProto, encoding: Encoding) -> bool:
        if weight.data_type != TensorProto.FLOAT:
            return False
        name, values = weight.name, numpy_helper.to_array(weight).astype(np.float64)
        many = encoding.scales.size
        axis = self._axis(name, values.shape, many) if many > 1 else 0
        shape = [-1 if d == axis else 1 for d in range(values.ndim)] if many > 1 else []
        half = 1 << encoding.bits - 1
        zeros = (encoding.zeros - half).reshape(shape)
        stored = np.rint(values / encoding.scales.astype(np.float64).reshape(shape)) + zeros
        kind = KINDS[encoding.bits][1]
        self.model.graph.initializer.append(
            helper.make_tensor(
                f"{name}/stored", kind, values.shape, np.clip(stored, -half, half - 1).astype(int).ravel()
            )
        )
        ends = self._ends(name, Encoding(encoding.bits, encoding.scales, encoding.zeros - half), kind)
        self._read_instead(name, f"{name}/dequantized")
        self._add("DequantizeLinear", [f"{name}/stored", *ends], f"{name}/dequantized", axis=axis)
        return True

    def _axis(self, name: str, shape: Sequence[int], many: int) -> int:
        """The dimension of the channels: that of the results of the operator that reads the weight."""
        reader = next((n for n in self.model.graph.node if name in n.input), None)
        turned = reader is not None and any(a.name == "transB" and a.i for a in reader.attribute)
        kind = reader.op_type if reader is not None else ""
        usual: int = {"Gemm": 0 if turned else 1, "MatMul": len(shape) - 1, "ConvTranspose": 1}.get(kind, 0)
        found: int | None = next((axis for axis in (usual, *range(len(shape))) if shape[axis] == many), None)
        if found is not None:
            return found
        raise OpdbError(
            f"{name} of shape {list(shape)} has encodings for {many} channels, and no dimension of that size"
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
        for node in self.model.graph.node:
            for i, read in enumerate(node.input):
                if read == name:
                    node.input[i] = other

    def _add(self, op_type: str, inputs: Sequence[str], output: str, **attributes: Any) -> None:
        made = helper.make_node(op_type, inputs, [output], output, domain=self.domain, **attributes)
        self.model.graph.node.append(made)
