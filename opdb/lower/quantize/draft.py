"""Adds tensors to a graph under construction."""

from __future__ import annotations

from dataclasses import replace

from opdb.core.graph import GraphTensor, QnnGraph


def add(graph: QnnGraph, tensor: GraphTensor) -> str:
    """Adds a tensor and returns its name; an equal one is added only once, a different one with its name gets a number."""
    name, n = tensor.name, 1
    while name in graph.tensors:
        held = graph.tensors[name]
        if (held.dtype, held.quant, held.type) == (tensor.dtype, tensor.quant, tensor.type):
            return name
        n += 1
        name = f"{tensor.name}_{n}"
    graph.tensors[name] = replace(tensor, name=name)
    return name
