"""Patches that tell builders their program's target, and keep them registered next to op packages."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

from opdb.plugins.executorch.patches.graphs import edge
from opdb.plugins.executorch.patches.registry import Context, patch
from opdb.plugins.executorch.patches.undo import Undo, all_of, replaced


def _builders_know_no_target() -> bool:
    from executorch.backends.qualcomm.builders.node_visitor import NodeVisitor

    return not any("spec" in name for name in inspect.signature(NodeVisitor.__init__).parameters)


@patch(
    "target-of-program",
    "feature",
    "a builder is not told the backend and the SoC that its program is compiled for",
    "qnn_preprocess:get_current_qnn_manager",
    "partition.qnn_partitioner:get_current_qnn_manager",
    needed=_builders_know_no_target,
    always=True,
)
def follow_target(context: Context) -> Undo:
    """Judges every program for the backend and SoC of its own compiler specs."""
    from executorch.backends.qualcomm import qnn_preprocess
    from executorch.backends.qualcomm.partition import qnn_partitioner

    def hooked(stock: Any) -> Any:
        def get_current_qnn_manager(backend_type: Any, compile_specs: Any) -> Any:
            context.decide.follow(compile_specs)
            return stock(backend_type, compile_specs)

        return get_current_qnn_manager

    modules = (qnn_preprocess, qnn_partitioner)
    return all_of(replaced(m, "get_current_qnn_manager", hooked(m.get_current_qnn_manager)) for m in modules)


def _package_replaces_builder() -> bool:
    import torch
    from executorch.backends.qualcomm.builders import node_visitor_manager as manager

    program = edge(torch.relu, torch.ones(2))
    name = "aten.relu.default"
    package = SimpleNamespace(custom_op_name=name, op_package_name="", qnn_op_type_name="Relu")
    made = manager.get_node_visitors(program, op_package_infos=[package])
    return not isinstance(made[name], manager._node_visitor_dict[name])


@patch(
    "builders-beside-op-packages",
    "bug",
    "an operator of an op package loses its registered builder to one that writes lists as int64 and takes no words",
    "qnn_preprocess:get_node_visitors",
    "builders.node_visitor_manager:get_node_visitors",
    needed=_package_replaces_builder,
    always=True,
)
def of_op_packages(context: Context) -> Undo:
    from executorch.backends.qualcomm import qnn_preprocess
    from executorch.backends.qualcomm.builders import node_visitor_manager

    def hooked(stock: Any) -> Any:
        def get_node_visitors(*args: Any, op_package_infos: Any = None, **kwargs: Any) -> Any:
            theirs = [info for info in op_package_infos or () if info.custom_op_name not in context.names]
            return stock(*args, op_package_infos=theirs, **kwargs)

        return get_node_visitors

    modules = (qnn_preprocess, node_visitor_manager)
    return all_of(replaced(m, "get_node_visitors", hooked(m.get_node_visitors)) for m in modules)
