"""Maps the encodings of a quantized graph to the names of the user's model.

Passes merge, transpose and rename tensors, and fold numbers into weights, so names are not enough.  Tensors are matched
by their values: those on one sample, and those of the weights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from opdb.core.dtypes import BY_SHORT
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.execute.compile.model_tensors import ModelTensors
from opdb.execute.compile.same_values import Print, equal, slices
from opdb.lower.quantize.encodings import Range, encoding
from opdb.programs.onnx.steps import Encoding

Array = np.ndarray[Any, Any]
#: The type of biases, whose scales follow from the summands.
BIAS = "sq32"


@dataclass(frozen=True)
class Named:
    """``encodings``: by the name of the model's tensor.  ``constants``: the names among them that are constants of the model.

    ``lost``: weights of the graph that match no constant of the model.
    """

    encodings: Mapping[str, Encoding]
    constants: frozenset[str]
    lost: tuple[str, ...] = ()


def named_encodings(
    model: ModelTensors, floats: QnnGraph, values: Mapping[str, Array], made: QnnGraph
) -> Named:
    """Finds the encodings in ``made`` for the tensors of the model.

    ``floats``: the graph that ``made`` was quantized from; ``values``: its tensors on the sample of ``model``.
    """
    found = dict(_activations(model, floats, values, made))
    found |= dict(_converted(model, floats, values, made))
    weights: dict[str, Encoding] = {}
    lost = []
    for name, data, tensor in _static(floats, made):
        own = _of_constant(model, data, tensor)
        if own is not None:
            weights.setdefault(*own)
        elif tensor.quant is not None and len(tensor.quant.scale) > 1:
            lost.append(name)
    weights = dict(_beside(model, found, weights)) | weights
    order = [*found, *(n for n in model.constants if n in weights)]
    return Named({n: (found | weights)[n] for n in order}, frozenset(weights), tuple(lost))


def _activations(
    model: ModelTensors, floats: QnnGraph, values: Mapping[str, Array], made: QnnGraph
) -> Iterator[tuple[str, Encoding]]:
    """Yields encodings of tensors that match a tensor of the graph, or a multiple of one that matches no other tensor."""
    prints = {n: Print.of(v) for n, v in values.items() if (t := made.tensors.get(n)) and _encoded(t)}
    ends = {n for n in prints if made.tensors[n].type in ("APP_WRITE", "APP_READ")}
    writers = {n: op.origin for op in floats.ops for n in op.outputs}
    makers = {name: node for node, name in model.of_node.items()}
    same = {m: [n for n, p in prints.items() if equal(own.over(p))] for m, own in model.values.items()}
    taken = {n for names in same.values() for n in names}
    used: dict[tuple[str, ...], int] = {}
    for name, own in model.values.items():
        group = tuple(same[name])
        if name in ends:
            yield name, _encoding(made.tensors[name])
        elif group:
            # Tensors with equal values, e.g. on both sides of a Relu, are matched in the order of both graphs.
            place = used[group] = used.get(group, -1) + 1
            yield name, _encoding(made.tensors[group[min(place, len(group) - 1)]])
        elif own.telling:
            for other, its in prints.items():
                own_node = writers.get(other) == makers.get(name)
                if (factor := its.over(own)) is not None and (own_node or other not in taken):
                    yield name, _scaled(_encoding(made.tensors[other]), np.array([factor]))
                    break


def _converted(
    model: ModelTensors, floats: QnnGraph, values: Mapping[str, Array], made: QnnGraph
) -> Iterator[tuple[str, Encoding]]:
    """Yields encodings of tensors that a node reads in another type than the producer's, e.g. in 8 bits instead of 16."""
    of_floats: Mapping[str, GraphOp] = {op.name: op for op in floats.ops}
    readers = Counter(name for names in model.reads.values() for name in names)
    makers = {n: op for op in made.ops for n in op.outputs}
    for op in made.ops:
        own = of_floats.get(op.name)
        read = model.reads.get(model.of_node.get(op.origin, ""), ())
        for name, other in zip(own.inputs, op.inputs, strict=False) if own is not None else ():
            converted = name != other and other in makers and makers[other].op == "Convert"
            if name is None or other is None or not converted or name not in values:
                continue
            its = Print.of(values[name])
            same = [r for r in read if r in model.values and its.over(model.values[r]) is not None]
            if len(same) == 1 and readers[same[0]] == 1:
                factor = its.over(model.values[same[0]])
                yield same[0], _scaled(_encoding(made.tensors[other]), np.array([factor]))


def _static(floats: QnnGraph, made: QnnGraph) -> Iterator[tuple[str, GraphTensor, GraphTensor]]:
    """Yields each constant of a quantized node, except biases: its name, in floats, and quantized."""
    of_floats: Mapping[str, GraphOp] = {op.name: op for op in floats.ops}
    seen = set()
    for op in made.ops:
        own = of_floats.get(op.name)
        if own is None:
            continue
        for name, other in zip(own.inputs, op.inputs, strict=False):
            if name is None or other is None or other in seen:
                continue
            data, tensor = floats.tensors[name], made.tensors[other]
            turned = other.endswith("_negative")  # opdb.lower.quantize.neighbors
            if data.type == "STATIC" and _encoded(tensor) and tensor.dtype != BIAS and not turned:
                seen.add(other)
                yield name, data, tensor


def _of_constant(model: ModelTensors, data: GraphTensor, tensor: GraphTensor) -> tuple[str, Encoding] | None:
    """The constant of the model from which a constant of the graph was made, and its encoding; None if there is none."""
    quant = tensor.quant
    assert quant is not None
    array = np.asarray(data.data, np.float32).reshape(data.shape)
    axis = quant.axis if quant.axis is None or len(tensor.shape) == len(data.shape) else 0
    own = _encoding(tensor)
    if quant.blocks is not None:
        steps = np.array(quant.blocks.scales).reshape(len(quant.scale), -1)
        own = replace(own, block=array.size // steps.size, steps=steps)
    best: tuple[str, Encoding] | None = None
    for name, held in model.constants.items():
        found = slices(array, axis, held, in_order=quant.blocks is not None)
        if found is None:
            continue
        made = _scaled(replace(own, axis=None if axis is None else found.axis), found.factors)
        if np.allclose(found.factors, 1):
            return name, made
        best = best or (name, made)
    return best


def _beside(
    model: ModelTensors, found: Mapping[str, Encoding], weights: Mapping[str, Encoding]
) -> Iterator[tuple[str, Encoding]]:
    """Yields encodings of constants that were folded away, but that nodes between tensors with encodings read."""
    for name, others in model.operands:
        bits = {found[o].bits for o in others if o in found}
        if name in weights or len(others) < 2 or len(bits) != 1 or any(o not in found for o in others):
            continue
        (width,) = bits
        quant = encoding(Range.of(model.constants[name]), f"uq{width}", False)
        scale, zero = np.array(quant.scale, np.float32), np.array([-quant.offset[0]])
        yield name, Encoding(width, scale, zero)


def _encoded(tensor: GraphTensor) -> bool:
    return tensor.quant is not None and BY_SHORT[tensor.dtype].quantized


def _encoding(tensor: GraphTensor) -> Encoding:
    """The encoding with stored integers counted from 0; for blocks without their integer scales."""
    quant, kind = tensor.quant, BY_SHORT[tensor.dtype]
    assert quant is not None
    bits = 4 if quant.blocks is not None else quant.bits or kind.bits
    half = 1 << bits - 1 if kind.qnn.startswith("S") else 0
    zeros = np.array([half - offset for offset in quant.offset or (0,)])
    return Encoding(bits, np.array(quant.scale, np.float32), zeros)


def _scaled(own: Encoding, factors: Array) -> Encoding:
    """Divides the scales of ``own`` by ``factors``: the tensor times ``factors`` has ``own``, and the same or the negated integers."""
    return replace(own, scales=(own.scales / np.abs(factors)).astype(np.float32))
