"""Reads ONNX files: the model with inferred shapes, and all of its nodes, including those in branches and loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from opdb.core.errors import MissingExtra, OpdbError

try:
    import onnx
except ImportError:
    raise MissingExtra("the package onnx, which reads models,", "onnx") from None

__all__ = ["OWN", "load", "nodes", "onnx"]

#: ONNX's own domains.
OWN = ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training")


def load(path: Path) -> Any:
    """The model with the shapes that ONNX can infer; it cannot for outputs of foreign nodes.

    Raises OpdbError if the file cannot be read or is not an ONNX model.
    """
    try:
        model = onnx.load(str(path), load_external_data=False)
    except OSError as error:
        raise OpdbError(f"{path}: cannot read: {error.strerror}") from None
    except Exception as error:  # protobuf's errors
        raise OpdbError(f"{path}: not an ONNX model: {str(error).splitlines()[0]}") from None
    if not model.HasField("graph"):
        raise OpdbError(f"{path}: not an ONNX model: it has no graph")
    with suppress(Exception):  # a model that ONNX cannot infer keeps its declared shapes
        model = onnx.shape_inference.infer_shapes(model)
    return model


def nodes(graph: Any, outer: Mapping[str, Any] | None = None) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """All nodes, those in branches and loops before the node that contains them, each with the known tensors by name.

    A known tensor is a TypeProto.Tensor, or for a weight its TensorProto.
    """
    known = dict(outer or {})
    known |= {v.name: v.type.tensor_type for v in (*graph.value_info, *graph.input, *graph.output)}
    known |= {t.name: t for t in graph.initializer}
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from nodes(inner, known)
        yield node, known
