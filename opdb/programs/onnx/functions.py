"""Reads a chain of nodes between quantized tensors as one node, if it spells out a known function.

A quantizer gives the tensors inside GELU no encodings, but QNN has the function and computes it in integers.  The passes of
opdb.lower.passes join float chains.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from opdb.programs.onnx.node import Array
from opdb.programs.onnx.subgraphs import reads

_erf = np.vectorize(math.erf, otypes=[float])
#: The operators that chains consist of.
STEPS: Mapping[str, Callable[..., Any]] = {
    "Add": np.add, "Div": np.divide, "Erf": _erf, "Mul": np.multiply, "Pow": np.power, "Sub": np.subtract, "Tanh": np.tanh,
}  # fmt: skip
#: The points at which a chain is compared with a function, and the tolerance: constants in a file have few digits.
POINTS, NEAR = np.linspace(-6.0, 6.0, 49), 2e-5
#: Operators of com.microsoft by name, with their values at POINTS.
FUNCTIONS: Mapping[str, Array] = {
    "Gelu": POINTS * 0.5 * (1 + _erf(POINTS / math.sqrt(2))),
    "FastGelu": POINTS * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (POINTS + 0.044715 * POINTS**3))),
}
MOST = 12


def join(made: list[onnx.NodeProto | None], outputs: Sequence[str], values: Mapping[str, Any]) -> None:
    """Replaces each chain from a DequantizeLinear to a QuantizeLinear by one node, at the place of its last; the others become None."""
    nodes = [n for n in made if n is not None]
    if not any(_is(n, "Erf", "Tanh") for n in nodes) or not any(_is(n, "QuantizeLinear") for n in nodes):
        return
    chains = _Chains(made, outputs, values)
    for place, node in enumerate(made):
        if node is None or not _is(node, *STEPS) or not chains.quantized(node.output[0]):
            continue
        found = chains.behind(place)
        if found is None:
            continue
        source, places = found
        for other in places:
            made[other] = None
        name = chains.function(source, places)
        made[place] = helper.make_node(name, [source], list(node.output), node.name, domain="com.microsoft")


class _Chains:
    def __init__(
        self, made: list[onnx.NodeProto | None], outputs: Sequence[str], values: Mapping[str, Any]
    ) -> None:
        self.nodes = list(made)
        self.values = dict(values)
        self.makers: dict[str, int] = {}
        self.readers: dict[str, list[int]] = {n: [-1] for n in outputs}
        for place, node in enumerate(made):
            if node is None:
                continue
            if node.op_type == "Constant" and (
                held := next((a.t for a in node.attribute if a.name == "value"), None)
            ):
                self.values[node.output[0]] = numpy_helper.to_array(held)
            self.makers |= dict.fromkeys(node.output, place)
            for name in reads(node):
                self.readers.setdefault(name, []).append(place)

    def _node(self, name: str) -> onnx.NodeProto | None:
        return self.nodes[self.makers[name]] if name in self.makers else None

    def quantized(self, name: str) -> bool:
        """True if only QuantizeLinear nodes read the tensor, and at least one does."""
        readers = [None if r < 0 else self.nodes[r] for r in self.readers.get(name, ())]
        return bool(readers) and all(r is not None and _is(r, "QuantizeLinear") for r in readers)

    def _constant(self, name: str) -> float | None:
        held = self.values.get(name)
        return float(held.reshape(-1)[0]) if isinstance(held, np.ndarray) and held.size == 1 else None

    def behind(self, last: int) -> tuple[str, list[int]] | None:
        """The only dequantized input of the known function that ends at ``last``, and the places of its nodes; None if there is none."""
        places, sources, left = [last], set(), [last]
        while left:
            for name in self._operands(left.pop()):
                node = self._node(name)
                if node is not None and _is(node, "DequantizeLinear"):
                    sources.add(name)
                elif node is None or not _is(node, *STEPS):
                    return None
                elif self.makers[name] not in places:
                    places.append(self.makers[name])
                    left.append(self.makers[name])
            if len(sources) > 1 or len(places) > MOST:
                return None
        inner = {name for place in places[1:] for name in self._outputs(place)}
        apart = any(r not in places for name in inner for r in self.readers.get(name, ()))
        if len(sources) != 1 or len(places) < 3 or apart:
            return None
        (source,) = sources
        return (source, places) if self.function(source, places) else None

    def _operands(self, place: int) -> Iterator[str]:
        node = self.nodes[place]
        assert node is not None
        return (n for n in node.input if self._constant(n) is None)

    def _outputs(self, place: int) -> list[str]:
        node = self.nodes[place]
        return [] if node is None else list(node.output)

    def function(self, source: str, places: Sequence[int]) -> str:
        """The name of the function of ``source`` that the nodes at ``places`` (last one first) compute; "" if it is not known."""
        known: dict[str, Any] = {source: POINTS}

        def value(name: str) -> Any:
            if name not in known:
                constant = self._constant(name)
                known[name] = constant if constant is not None else computed(self.makers[name])
            return known[name]

        def computed(place: int) -> Any:
            node = self.nodes[place]
            assert node is not None
            return STEPS[node.op_type](*(value(n) for n in node.input))

        with np.errstate(all="ignore"):
            result = computed(places[0])
        return next((n for n, y in FUNCTIONS.items() if np.allclose(result, y, rtol=0, atol=NEAR)), "")


def _is(node: onnx.NodeProto, *kinds: str) -> bool:
    return node.op_type in kinds and node.domain in ("", "ai.onnx", "com.microsoft")
