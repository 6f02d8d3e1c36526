"""Rewrites several nodes of an ONNX graph as one where the parts alone have no encoding or no QNN op."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from opdb.programs.onnx import batch_norms, functions, integer_products
from opdb.programs.onnx.integer_products import DOMAIN, is_op
from opdb.programs.onnx.subgraphs import reads

#: opdb's own attribute: the weight must be transposed, with its scales.
TURNED = "opdb_turned"


def joined(
    nodes: Sequence[onnx.NodeProto], outputs: Sequence[str], values: dict[str, Any]
) -> list[onnx.NodeProto | None]:
    """``nodes`` at their places, with each chain replaced by one node at the place of its last; the chain's other nodes become None.

    ``outputs``: the names of the graph's results.  ``values``: the values known before it; known values of the new nodes are
    added.
    """
    made = integer_products.joined(turned(nodes, outputs, values), outputs)
    _join_biases(made, outputs, values)
    functions.join(made, outputs, values)
    batch_norms.join(made, outputs, values)
    return made


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
        products = all(is_op(nodes[at], "MatMul") and i == 1 for at, i in of)
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
    makers = {n.output[0]: i for i, n in enumerate(made) if n is not None and is_op(n, "MatMul")}
    for place, node in enumerate(made):
        if node is None or not is_op(node, "Add"):
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
