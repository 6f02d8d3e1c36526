"""Patches that leave nodes to the CPU where ExecuTorch's partitioner would end the export or must not delegate."""

from __future__ import annotations

import weakref
from types import SimpleNamespace
from typing import Any

from opdb.plugins.executorch.builder.operators import edge_operators
from opdb.plugins.executorch.patches.graphs import edge, edge_op, nodes, raises
from opdb.plugins.executorch.patches.registry import Context, patch
from opdb.plugins.executorch.patches.undo import Undo, replaced, with_contents
from opdb.runtime.forms import Reason

#: Constants that one graph would write and another read; partitioning is repeated without them.
_between_graphs: weakref.WeakSet[Any] = weakref.WeakSet()


class _Faulty:
    """A builder that raises."""

    edge_program: Any = None

    def define_node(self, *_: Any) -> Any:
        raise ValueError("a fault in a builder")


def _builder_ends_export() -> bool:
    import torch
    from executorch.backends.qualcomm.partition.qnn_partitioner import QnnOperatorSupport

    program = edge(torch.relu, torch.ones(2))
    (node,) = nodes(program.graph_module, edge_op("aten.relu.default"))
    support = QnnOperatorSupport.__new__(QnnOperatorSupport)
    faulty = _Faulty()
    faulty.edge_program = program
    vars(support).update(
        node_visitors={"aten.relu.default": faulty}, skip_node_id_set=(), skip_node_op_set=(), phase="",
        nodes_to_wrappers={}, qnn_manager=SimpleNamespace(), is_qnn_partitioner=True,
    )  # fmt: skip
    return raises(support.is_node_supported, None, node)


@patch(
    "faults-to-the-cpu",
    "policy",
    "a builder that raises ends the export (in 1.4 so does an operator without a builder), and nobody says why a node "
    "was left out",
    "partition.qnn_partitioner:QnnOperatorSupport.is_node_supported",
    needed=_builder_ends_export,
    upstream="pytorch/executorch#21607",
    always=True,
)
def never_abort(context: Context) -> Undo:
    """Leaves a node to the CPU, with the reason, if no builder takes it, its builder raises, or QNN refuses it."""
    from executorch.backends.qualcomm.partition.qnn_partitioner import QnnOperatorSupport

    from opdb.lower.candidates import unmapped_reason
    from opdb.plugins.executorch.builder.partition_reasons import (
        CONSTANT_RESULT,
        DEQUANTIZED_CONSTANT,
        ENDLESS_SCALE,
        dequantizes,
        endless_scale,
        read_outside,
    )
    from opdb.plugins.executorch.builder.view import constant_names

    reject, forms = context.reject, context.forms
    stock = QnnOperatorSupport.is_node_supported
    left: weakref.WeakSet[Any] = weakref.WeakSet()

    def is_node_supported(self: Any, submodules: Any, node: Any) -> bool:
        try:
            if endless_scale(node):
                reject(node.name, (ENDLESS_SCALE,))
                left.add(node)
                return False
            # The partitioner visits readers first.
            if node in _between_graphs or read_outside(node, lambda u: u.op != "output" and u not in left):
                reject(node.name, (CONSTANT_RESULT,))
                left.add(node)
                return False
            visitor = self.node_visitors.get(getattr(node.target, "__name__", ""))
            if (
                visitor is not None
                and dequantizes(node, constant_names(visitor.edge_program))
                and left.issuperset(node.users)
            ):
                reject(node.name, (DEQUANTIZED_CONSTANT,))
                return False
            forms.pop(node.name, None)  # from another program, or an earlier call
            if stock(self, submodules, node):
                return True
            # HTP's validator occasionally refuses a node that it accepts on a second try.
            if node.name in forms and stock(self, submodules, node):
                return True
            if node.name in forms:
                why = "opdb's rules accept the node, QNN's validator refuses it; the log has its words"
                reject(node.name, (Reason(forms[node.name], "vendor", why),))
            elif visitor is None and node.op == "call_function":  # 1.5; in 1.4 a KeyError
                reject(node.name, (unmapped_reason(node.target.__name__),))
            left.add(node)
            return False
        except KeyError as e:
            if e.args != (getattr(node.target, "__name__", None),):
                reject(node.name, (Reason("stock", "internal", f"KeyError: {e}"),))
            else:
                reject(node.name, (unmapped_reason(node.target.__name__),))
        except Exception as e:  # anything that a builder raises
            reject(node.name, (Reason("stock", "internal", f"{type(e).__name__}: {e}"),))
        left.add(node)
        self.nodes_to_wrappers.clear()
        return False

    return replaced(QnnOperatorSupport, "is_node_supported", is_node_supported)


class _Everything:
    """Supports every call."""

    def is_node_supported(self, _: Any, node: Any) -> bool:
        return bool(node.op == "call_function")


def _constants_make_a_graph() -> bool:
    import torch
    from executorch.backends.qualcomm.partition import qnn_partitioner

    from opdb.plugins.executorch.builder.partition_reasons import reads_inputs
    from opdb.plugins.executorch.builder.view import constant_names

    class Constants(torch.nn.Module):  # type: ignore[misc]  # untyped base
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(2))

        def forward(self, x: torch.Tensor) -> Any:
            return torch.sigmoid(self.weight)

    program = edge(Constants(), torch.ones(2))
    partitioner = SimpleNamespace(compiler_specs_snapshot=[], skip_node_id_set=set(), skip_node_op_set=set())
    undo = replaced(qnn_partitioner, "QnnOperatorSupport", lambda *_: _Everything())
    try:
        found = qnn_partitioner.QnnPartitioner.generate_partitions(partitioner, program)
    finally:
        undo()
    return not all(reads_inputs(p.nodes, constant_names(program)) for p in found)


@patch(
    "no-graphs-of-constants",
    "bug",
    "nodes that read constants alone become a graph, which QNN does not save since it has no inputs; a constant that is "
    "read outside of its graph is no op's result, and the runtime takes the next one for it",
    "partition.qnn_partitioner:QnnPartitioner.generate_partitions",
    needed=_constants_make_a_graph,
    always=True,
)
def without_constant_graphs(context: Context) -> Undo:
    """Leaves groups of nodes that only read constants to the CPU: QNN saves no graph without inputs.

    The same goes for a constant that another group also reads; the rest is grouped again, as its removal may split a group.
    """
    from executorch.backends.qualcomm.partition.qnn_partitioner import QnnPartitioner

    from opdb.plugins.executorch.builder.partition_reasons import CONSTANT_GRAPH, read_outside, reads_inputs
    from opdb.plugins.executorch.builder.view import constant_names

    stock = QnnPartitioner.generate_partitions

    def generate_partitions(self: Any, edge_program: Any) -> Any:
        constants, kept = constant_names(edge_program), []
        partitions = stock(self, edge_program)
        while between := [n for p in partitions for n in p.nodes if read_outside(n, p.nodes.__contains__)]:
            _between_graphs.update(between)
            partitions = stock(self, edge_program)
        for partition in partitions:
            if reads_inputs(partition.nodes, constants):
                kept.append(partition)
                continue
            for node in partition.nodes:
                context.reject(node.name, (CONSTANT_GRAPH,))
        return kept

    return replaced(QnnPartitioner, "generate_partitions", generate_partitions)


def _lists_what_opdb_maps() -> bool:
    from executorch.backends.qualcomm.partition import common_defs

    from opdb.generated.builders import TARGETS
    from opdb.plugins.executorch.builder.operators import edge_name

    listed = {edge_name(op) for op in common_defs.to_be_implemented_operator}
    return bool(listed & set(TARGETS))


@patch(
    "listed-as-missing",
    "policy",
    "operators on the list of those to be implemented fall back to the CPU without asking their builder",
    "partition.common_defs:to_be_implemented_operator",
    needed=_lists_what_opdb_maps,
    always=True,
)
def listed_as_missing(context: Context) -> Undo:
    """Asks the builders of operators that ExecuTorch lists as yet to be implemented but opdb maps."""
    from executorch.backends.qualcomm.partition import common_defs

    edges = edge_operators(context.targets)
    listed = common_defs.to_be_implemented_operator
    return with_contents(listed, [op for op in listed if op not in edges])
