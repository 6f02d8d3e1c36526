"""Reads chains that ONNX Runtime's dynamic quantizer writes (integer product, Cast, Mul by the scales) as one node.

The integer product alone has sums that no 16-bit float holds; with the scales it is a float product with an integer weight.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from opdb.programs.onnx import batch_norms, functions
from opdb.programs.onnx.subgraphs import reads

#: The domain of nodes that replace a chain.
DOMAIN = "opdb.chains"
#: Suffix for the real values of a DynamicQuantizeLinear's result.
REAL = "/real"
#: opdb's own attribute: the weight must be transposed, with its scales.
TURNED = "opdb_turned"
PRODUCTS = ("MatMulInteger", "ConvInteger")


def joined(
    nodes: Sequence[onnx.NodeProto], outputs: Sequence[str], values: dict[str, Any]
) -> list[onnx.NodeProto | None]:
    """``nodes`` at their places, with each chain replaced by one node at the place of its last; the chain's other nodes become None.

    ``outputs``: the names of the graph's results.  ``values``: the values known before it; known values of the new nodes are
    added.
    """
    nodes = turned(nodes, outputs, values)
    made: list[onnx.NodeProto | None] = list(nodes)
    sources = set()
    for places, node in _chains(nodes, outputs):
        for place in places:
            made[place] = None
        made[places[-1]] = node
        sources.add(node.input[0].removesuffix(REAL))
    for place in reversed(range(len(nodes))) if sources else ():
        read = {*outputs, *(n for node in made if node is not None for n in reads(node))}
        made[place] = _needed(made[place], sources, read)
    _join_biases(made, outputs, values)
    functions.join(made, outputs, values)
    batch_norms.join(made, outputs, values)
    return made


def _needed(node: onnx.NodeProto | None, sources: set[str], read: set[str]) -> onnx.NodeProto | None:
    """``node`` with the outputs that chains read; None for a Mul that only nodes of chains have read.

    ``sources``: the quantized results of the chains' DynamicQuantizeLinear nodes.
    """
    if node is None or (node.op_type == "Mul" and not read.intersection(node.output)):
        return None
    if not _is(node, "DynamicQuantizeLinear") or node.output[0] not in sources:
        return node
    real = node.output[0] + REAL
    if not read.intersection(node.output):
        return helper.make_node(node.op_type, list(node.input), [real], node.name, domain=DOMAIN)
    more = onnx.NodeProto()
    more.CopyFrom(node)
    more.output.append(real)
    return more


def _chains(
    nodes: Sequence[onnx.NodeProto], outputs: Sequence[str]
) -> Iterator[tuple[list[int], onnx.NodeProto]]:
    """The places of each chain, and the node that replaces it."""
    maker = {o: i for i, n in enumerate(nodes) for o in n.output}
    readers = Counter([*outputs, *(n for node in nodes for n in reads(node))])

    def by(name: str, kind: str) -> onnx.NodeProto | None:
        node = nodes[maker[name]] if name in maker else None
        return node if node is not None and _is(node, kind) else None

    for place, last in enumerate(nodes):
        if not _is(last, "Mul"):
            continue
        for cast_name, scales_name in (tuple(last.input), tuple(reversed(last.input))):
            cast, scales = by(cast_name, "Cast"), by(scales_name, "Mul")
            if cast is None or scales is None or _to(cast) != TensorProto.FLOAT or readers[cast_name] > 1:
                continue
            product = next(
                (found for kind in PRODUCTS if (found := by(cast.input[0], kind)) is not None), None
            )
            if product is None or readers[cast.input[0]] > 1:
                continue
            x, weight, x_zero, weight_zero = (*product.input, "", "")[:4]
            source = by(x, "DynamicQuantizeLinear")
            if source is None or x_zero != source.output[2] or source.output[1] not in scales.input:
                continue
            (scale,) = [n for n in scales.input if n != source.output[1]] or [""]
            if scale:
                node = helper.make_node(
                    product.op_type,
                    [x + REAL, weight, scale, weight_zero],
                    list(last.output),
                    last.name,
                    domain=DOMAIN,
                )
                node.attribute.extend(product.attribute)
                yield [maker[cast.input[0]], maker[cast_name], place], node
                break


def turned(
    nodes: Sequence[onnx.NodeProto], outputs: Sequence[str], values: Mapping[str, Any]
) -> list[onnx.NodeProto]:
    """``nodes`` with torch.nn.Linear's layout, [out, in], for quantized weights that only MatMul reads.

    Their DequantizeLinear gets the attribute TURNED, and the MatMul gets Gemm's transB.  HTP takes more encodings of these weights.
    """
    readers: dict[str, list[tuple[int, int]]] = {}
    for place, node in enumerate(nodes):
        for i, name in enumerate(reads(node)):
            readers.setdefault(name, []).append((place, i))
    made = list(nodes)
    matrices = _matrices(nodes, values)
    for place, node in enumerate(nodes):
        if node.op_type != "DequantizeLinear" or node.output[0] in outputs:
            continue
        of = readers.get(node.output[0], [])
        products = all(_is(nodes[at], "MatMul") and i == 1 for at, i in of)
        if of and products and node.input[0] in matrices:
            made[place] = _with(node, TURNED)
            for at, _ in of:
                made[at] = _with(nodes[at], "transB")
    return made


def _join_biases(
    made: list[onnx.NodeProto | None], outputs: Sequence[str], values: Mapping[str, Any]
) -> None:
    """Joins a product with a transposed weight and the Add of a bias that alone reads it: the tensor between has no encoding."""
    readers = Counter([*outputs, *(n for node in made if node is not None for n in reads(node))])
    makers = {n.output[0]: i for i, n in enumerate(made) if n is not None and _is(n, "MatMul")}
    for place, node in enumerate(made):
        if node is None or not _is(node, "Add"):
            continue
        for product, bias in (tuple(node.input), tuple(reversed(node.input))):
            at, held = makers.get(product), values.get(bias)
            if at is None:
                continue
            matmul = made[at]
            if (
                matmul is None
                or readers[product] > 1
                or not any(a.name == "transB" for a in matmul.attribute)
            ):
                continue
            if isinstance(held, np.ndarray) and held.ndim == 1 and held.size > 1:
                made[place] = helper.make_node(
                    "MatMul", [*matmul.input, bias], list(node.output), matmul.name, domain=DOMAIN
                )
                made[at] = None
                break


def _matrices(nodes: Sequence[onnx.NodeProto], values: Mapping[str, Any]) -> set[str]:
    """The names of matrices whose values are known, or that are quantized from these (AIMET's weights)."""
    found = {n for n, v in values.items() if isinstance(v, np.ndarray) and v.ndim == 2}
    return found | {n.output[0] for n in nodes if n.op_type == "QuantizeLinear" and n.input[0] in found}


def _with(node: onnx.NodeProto, attribute: str) -> onnx.NodeProto:
    made = onnx.NodeProto()
    made.CopyFrom(node)
    made.attribute.append(helper.make_attribute(attribute, 1))
    return made


def _is(node: onnx.NodeProto, kind: str) -> bool:
    return node.op_type == kind and node.domain in ("", "ai.onnx")


def _to(node: onnx.NodeProto) -> int:
    return next((int(a.i) for a in node.attribute if a.name == "to"), TensorProto.UNDEFINED)
