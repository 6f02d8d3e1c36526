"""Compares the lowerings of one program by ExecuTorch's builders and by opdb's, without the vendor's libraries."""

from __future__ import annotations

import operator

from executorch.backends.qualcomm.builders import node_visitor_manager
from torch.export import ExportedProgram

from opdb.plugins.executorch.builder.builder_differences import Difference
from opdb.plugins.executorch.builder.visitor import OpdbVisitor


def of_program(program: ExportedProgram) -> list[Difference]:
    """Compares each node that both can build, in the partitioner's program (opdb.plugins.executorch.edge).

    opdb's builders must be registered with ``keep_stock``.
    """
    found = []
    for node in program.graph.nodes:
        if node.op != "call_function" or node.target is operator.getitem:
            continue
        kind = node_visitor_manager._node_visitor_dict.get(node.target.__name__)
        if kind is not None and issubclass(kind, OpdbVisitor):
            difference = kind({}, program, False, False).difference(node)
            found += [] if difference is None else [difference]
    return found
