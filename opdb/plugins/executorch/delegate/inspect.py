"""Describes a node of a lowered program: its place, its origin, and its ops in a delegate or the reasons against delegating it."""

from __future__ import annotations

from executorch.exir import print_program
from executorch.exir.delegate import executorch_call_delegate
from torch.fx import Graph, Node

from opdb.core.names import counted
from opdb.plugins.executorch.delegate import graph_read
from opdb.plugins.executorch.delegate.partitioner import BACKEND, OpdbPartitioner
from opdb.plugins.executorch.delegate.run import named_data


def inspect_node(graph: Graph, node: Node, partitioner: OpdbPartitioner | None = None) -> str:
    """Returns ExecuTorch's ``inspect_node`` plus the ops of an opdb delegate, or the reasons against any other node.

    ``partitioner``: the one that partitioned the program; it has the reasons.
    """
    said = [print_program.inspect_node(graph, node)]
    if node.target is executorch_call_delegate:
        said += _ops(graph, node)
    elif partitioner is not None:
        said += [f"{BACKEND} leaves it: {why}" for why in partitioner.reasons.get(node.name, ())]
    return "\n".join(said)


def _ops(graph: Graph, node: Node) -> list[str]:
    lowered = getattr(graph.owning_module, str(node.args[0].target))
    if lowered.backend_id != BACKEND:
        return []
    named = named_data(lowered)
    module = graph_read.read(lowered.processed_bytes, named.__getitem__)
    identity = module.identity
    where = " ".join(t for t in (identity.backend or "opdb's C kernels", identity.soc) if t)
    said = [f"{BACKEND} runs {counted(len(module.graph.ops), 'op')} on {where}:"]
    for i, op in enumerate(module.graph.ops):
        handles = ", ".join(map(str, module.handles.get(op.name, ()))) or "none"
        said.append(f"  {i}: {op.op} {op.name}, of {op.origin or 'no node'}; debug handles {handles}")
    return said
