"""Reads chains that ONNX Runtime's dynamic quantizer writes (integer product, Cast, Mul by the scales) as one node.

The integer product alone has sums that no 16-bit float holds; with the scales it is a float product with an integer weight.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx
from onnx import TensorProto, helper

from opdb.programs.onnx.subgraphs import reads

#: The domain of nodes that replace a chain.
DOMAIN = "opdb.chains"
#: Suffix for the real values of a DynamicQuantizeLinear's result.
REAL = "/real"
PRODUCTS = ("MatMulInteger", "ConvInteger")


def joined(nodes: Sequence[onnx.NodeProto], outputs: Sequence[str]) -> list[onnx.NodeProto | None]:
    """``nodes`` with one node for each chain, at the place of its last; the chain's other nodes are None."""
    made: list[onnx.NodeProto | None] = list(nodes)
    sources = set()
    for chain in _Graph.of(nodes, outputs).chains():
        for place in chain.places:
            made[place] = None
        made[chain.places[-1]] = chain.node
        sources.add(chain.source)
    for place in reversed(range(len(nodes))) if sources else ():
        read = {*outputs, *(n for node in made if node is not None for n in reads(node))}
        made[place] = _needed(made[place], sources, read)
    return made


def _needed(node: onnx.NodeProto | None, sources: set[str], read: set[str]) -> onnx.NodeProto | None:
    """``node`` with the outputs that chains read; None for a Mul that only nodes of chains have read.

    ``sources``: the quantized results of the chains' DynamicQuantizeLinear nodes.
    """
    if node is None or (node.op_type == "Mul" and not read.intersection(node.output)):
        return None
    if not is_op(node, "DynamicQuantizeLinear") or node.output[0] not in sources:
        return node
    real = node.output[0] + REAL
    if not read.intersection(node.output):
        return helper.make_node(node.op_type, list(node.input), [real], node.name, domain=DOMAIN)
    more = onnx.NodeProto()
    more.CopyFrom(node)
    more.output.append(real)
    return more


@dataclass(frozen=True)
class _Chain:
    """The places of a chain's nodes, and the node that replaces it; ``source``: the quantized input of the product."""

    places: tuple[int, int, int]
    node: onnx.NodeProto
    source: str


@dataclass(frozen=True)
class _Graph:
    nodes: Sequence[onnx.NodeProto]
    maker: dict[str, int]
    readers: Counter[str]

    @classmethod
    def of(cls, nodes: Sequence[onnx.NodeProto], outputs: Sequence[str]) -> _Graph:
        maker = {o: i for i, n in enumerate(nodes) for o in n.output}
        return cls(nodes, maker, Counter([*outputs, *(n for node in nodes for n in reads(node))]))

    def chains(self) -> Iterator[_Chain]:
        for place, last in enumerate(self.nodes):
            if is_op(last, "Mul"):
                ways = (tuple(last.input), tuple(reversed(last.input)))
                found = (self._chain(place, cast, scales) for cast, scales in ways)
                yield from [chain for chain in found if chain is not None][:1]

    def _chain(self, place: int, cast_name: str, scales_name: str) -> _Chain | None:
        """The chain that ends in the Mul at ``place``, of these two inputs; None if it is no chain."""
        cast, scales = self._made_by(cast_name, "Cast"), self._made_by(scales_name, "Mul")
        if cast is None or scales is None or _to(cast) != TensorProto.FLOAT or self.readers[cast_name] > 1:
            return None
        product_name = cast.input[0]
        product = self._made_by(product_name, *PRODUCTS)
        if product is None or self.readers[product_name] > 1:
            return None
        x, weight, x_zero, weight_zero = (*product.input, "", "")[:4]
        source = self._made_by(x, "DynamicQuantizeLinear")
        if source is None or x_zero != source.output[2] or source.output[1] not in scales.input:
            return None
        scale = next((n for n in scales.input if n != source.output[1]), "")
        if not scale:
            return None
        last = self.nodes[place]
        inputs, outputs = [x + REAL, weight, scale, weight_zero], list(last.output)
        node = helper.make_node(product.op_type, inputs, outputs, last.name, domain=DOMAIN)
        node.attribute.extend(product.attribute)
        return _Chain((self.maker[product_name], self.maker[cast_name], place), node, x)

    def _made_by(self, name: str, *kinds: str) -> onnx.NodeProto | None:
        """The node that makes ``name`` if it is of one of these kinds."""
        node = self.nodes[self.maker[name]] if name in self.maker else None
        return node if node is not None and any(is_op(node, kind) for kind in kinds) else None


def is_op(node: onnx.NodeProto, kind: str) -> bool:
    """True if a node is of this operator of ONNX's own domain."""
    return node.op_type == kind and node.domain in ("", "ai.onnx")


def _to(node: onnx.NodeProto) -> int:
    return next((int(a.i) for a in node.attribute if a.name == "to"), TensorProto.UNDEFINED)
