"""Nodes of an ONNX file that PyTorch cannot express: calls of opdb_onnx.node, with the shapes given in the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper, shape_inference

from opdb.programs.onnx.host_node import call
from opdb.programs.onnx.metadata import WHY
from opdb.programs.onnx.modules import Weights
from opdb.programs.onnx.node import DTYPES, array
from opdb.programs.onnx.subgraphs import reads

#: Known inputs up to this many elements are part of the node's own model; shapes may depend on their values.
SMALL = 1024


class HostNode(torch.nn.Module):  # type: ignore[misc]  # PyTorch has no types here
    """``held``: for each input of ``model``, the name of its buffer, or None for the next tensor given."""

    def __init__(
        self, model: onnx.ModelProto, reason: str, made: Sequence[tuple[torch.dtype, Sequence[int]]]
    ) -> None:
        super().__init__()
        self.model, self.reason, self.made = model, reason, made
        self.held: list[str | None] = []

    def forward(self, *given: torch.Tensor) -> Any:
        rest = iter(given)
        inputs = [next(rest) if name is None else getattr(self, name) for name in self.held]
        return tuple(call(inputs, self.model, self.reason, self.made))


@dataclass
class Unread:
    """The nodes of one file's graph that fall back to the CPU.

    ``unsized``: tensors whose shape is unknown until the model runs; a node that reads one cannot be read either.
    """

    model: onnx.ModelProto
    sizes: Mapping[str, int] = field(default_factory=dict)  # of symbolic dimensions
    unsized: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        graph = self.model.graph
        self._declared = {v.name: v.type for v in (*graph.value_info, *graph.output)}

    def blocked(self, proto: onnx.NodeProto) -> str | None:
        """The reason a node cannot be read: its attribute WHY, or an input of unknown shape; None if it can be."""
        for attribute in proto.attribute:
            if attribute.name == WHY:
                return str(attribute.s.decode())
        name = next((n for n in reads(proto) if n in self.unsized), None)
        return name and f"the shape of '{name}', which it reads, is only known when the model runs"

    def module(
        self, proto: onnx.NodeProto, values: dict[str, Any], reason: str, weights: Weights
    ) -> tuple[HostNode, tuple[str, ...]]:
        """The node's module, and the names of the tensors it is called with; ``values`` gets zeros for its results."""
        names = list(dict.fromkeys(reads(proto)))
        inside = {n: values[n] for n in names if _small(values[n])}
        outside = [n for n in names if n not in inside and isinstance(values[n], (np.ndarray, torch.Tensor))]
        results = [name for name in proto.output if name]
        model = self._alone(proto, {n: values[n] for n in outside}, inside, results)
        made = self._made(model, results)
        module = HostNode(model, reason, made)
        sources = []
        for place, name in enumerate(outside):
            if isinstance(values[name], torch.Tensor):
                module.held.append(None)
                sources.append(name)
            else:
                module.held.append(f"input{place}")
                weights.hold(module, f"input{place}", values[name])
        values.update((n, torch.zeros(list(s), dtype=k)) for n, (k, s) in zip(results, made, strict=True))
        return module, tuple(sources)

    def _alone(
        self,
        proto: onnx.NodeProto,
        given: Mapping[str, Any],
        inside: Mapping[str, Any],
        results: Sequence[str],
    ) -> onnx.ModelProto:
        """A model with only this node."""
        graph = helper.make_graph(
            [proto],
            "node",
            [self._input(n, v) for n, v in given.items()],
            [onnx.ValueInfoProto(name=n) for n in results],
            [numpy_helper.from_array(v, n) for n, v in inside.items()],
        )
        return helper.make_model(
            graph,
            opset_imports=list(self.model.opset_import),
            functions=list(self.model.functions),
            ir_version=self.model.ir_version,
        )

    def _input(self, name: str, value: Any) -> onnx.ValueInfoProto:
        kind = (array(value) if isinstance(value, torch.Tensor) else value).dtype
        shape = None if name in self.unsized else list(value.shape)
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(kind), shape)

    def _made(
        self, model: onnx.ModelProto, results: Sequence[str]
    ) -> list[tuple[torch.dtype, tuple[int, ...]]]:
        """Data type and shape of each result from the file or ONNX's inference; a result that neither describes becomes ``unsized``."""
        try:
            inferred = {v.name: v.type for v in shape_inference.infer_shapes(model).graph.output}
        except Exception:  # ONNX does not know an operator, or finds the node wrong
            inferred = {}
        found = []
        for name in results:
            said = [types[name] for types in (self._declared, inferred) if name in types]
            kind = next((k for t in said if (k := _dtype(t)) is not None), None)
            shape = next((s for t in said if (s := self._shape(t)) is not None), None)
            if kind is None or shape is None:
                self.unsized.add(name)
            found.append((kind or torch.float32, (1,) if shape is None or kind is None else shape))
        return found

    def _shape(self, kind: onnx.TypeProto) -> tuple[int, ...] | None:
        if not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
            return None
        dims = [
            d.dim_value if d.HasField("dim_value") else self.sizes.get(d.dim_param)
            for d in kind.tensor_type.shape.dim
        ]
        known = tuple(d for d in dims if d is not None and d >= 0)
        return known if len(known) == len(dims) else None


def _small(value: Any) -> bool:
    """True if a value is known and goes into the node's model: it is small, or PyTorch has no tensors of its type."""
    return isinstance(value, np.ndarray) and (value.size <= SMALL or value.dtype.name not in DTYPES)


def _dtype(kind: onnx.TypeProto) -> torch.dtype | None:
    number = kind.tensor_type.elem_type if kind.HasField("tensor_type") else 0
    if not number:
        return None
    name = helper.tensor_dtype_to_np_dtype(number).name
    return getattr(torch, name) if name in DTYPES else None
