"""opdb's builders in the form that ExecuTorch's Qualcomm backend calls.

``OpdbVisitor`` replaces ExecuTorch's hand-written builders (NodeVisitor).  It runs twice
for each node: while ExecuTorch partitions (a rejection sends the node to the CPU, with its reasons) and
while it builds the graph of a partition (a rejection would leave a hole, so it raises OpdbError).
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, Protocol

import torch
from executorch.backends.qualcomm.builders.node_visitor import NodeVisitor
from executorch.backends.qualcomm.utils.constants import (
    QCOM_BLOCK_SCALES,
    QCOM_INSERTED_PERMUTE,
    QCOM_QUANT_ATTRS,
    QCOM_SCALE,
    QCOM_SCALE_OFFSET,
)

from opdb.core.errors import OpdbError
from opdb.judge.errata.report import Extra
from opdb.plugins.executorch.builder import blocks
from opdb.plugins.executorch.builder.builder_differences import Difference, compare
from opdb.plugins.executorch.builder.sink import Sink
from opdb.plugins.executorch.builder.view import FxNodeView, constant_names
from opdb.runtime.forms import Lowered, NodeView, Reason, Rejected
from opdb.runtime.tensors import Rejection


class Lower(Protocol):
    """The ops for a node, or the reasons why there are none; and the cost of the errata that they avoid or may show.

    ``avoids``: True for the id of an erratum to avoid.
    """

    def __call__(self, view: NodeView) -> Lowered | Rejected: ...

    def extra(self, view: NodeView, lowered: Lowered) -> Mapping[str, Extra | None]: ...

    def avoids(self, erratum: str) -> bool: ...


class OpdbVisitor(NodeVisitor):  # type: ignore[misc]  # untyped base
    """A builder for every target in ``names``; ``register`` makes one subclass per registration.

    Class attributes set there: ``lower`` (see ``Lower``); ``names``, edge name ->
    ATen name of the spec; ``stock``, edge name -> the class replaced; ``accept`` and ``reject``, called with
    the outcome; ``compared``: if not None, the classes in ``stock`` build, and it is called with the difference
    to what opdb would have built.
    """

    lower: Lower
    names: dict[str, str]
    stock: dict[str, type[NodeVisitor]]
    accept: Callable[[str, Lowered, Mapping[str, Extra | None]], None]
    reject: Callable[[str, tuple[Reason, ...]], None]
    compared: Callable[[Difference], None] | None

    def define_node(self, node: torch.fx.Node, nodes_to_wrappers: dict[str, dict[int, Any]]) -> Any:
        """The op wrappers of ``node``, or None (with reasons recorded) if it cannot be lowered."""
        edge = node.target.__name__
        if QCOM_INSERTED_PERMUTE in node.meta:  # ExecuTorch's own: its meta lacks its shape
            return self._stock(edge).define_node(node, nodes_to_wrappers)
        if type(self).compared is not None and edge in self.stock:
            return self._compared(node, nodes_to_wrappers)
        return self._defined(node, nodes_to_wrappers)

    def difference(self, node: torch.fx.Node) -> Difference | None:
        """Compares the results of ExecuTorch's builder and opdb's for ``node``; None if ExecuTorch has none."""
        edge = node.target.__name__
        if edge not in self.stock or QCOM_INSERTED_PERMUTE in node.meta:
            return None
        with _kept_meta(node):
            return compare(
                node.name, edge, self.names[edge],
                lambda: self._stock(edge).define_node(node, defaultdict(dict)),
                lambda: self._made(node, defaultdict(dict))[0],
            )  # fmt: skip

    def _compared(self, node: torch.fx.Node, nodes_to_wrappers: dict[str, dict[int, Any]]) -> Any:
        """The result of ExecuTorch's builder; the difference to opdb's is recorded while partitioning."""
        difference = None if self._building() else self.difference(node)
        if difference is not None:
            type(self).compared(difference)  # type: ignore[misc]  # given: see define_node
        return self._stock(node.target.__name__).define_node(node, nodes_to_wrappers)

    def _stock(self, edge: str) -> Any:
        arguments = (self.external_ids, self.edge_program, self.enable_tensor_dump, self.is_qnn_partitioner)
        return self.stock[edge](*arguments)

    def _defined(self, node: torch.fx.Node, nodes_to_wrappers: dict[str, dict[int, Any]]) -> Any:
        made, lowered = self._made(node, nodes_to_wrappers)
        if not isinstance(made, Rejected):
            assert lowered is not None
            view = FxNodeView(self, node, self.names[node.target.__name__], self.constants)
            type(self).accept(node.name, lowered, type(self).lower.extra(view, lowered))
            return made
        if self._building():
            words = "; ".join(r.message for r in made.reasons)
            raise OpdbError(f"{node.name}: accepted while partitioning, rejected while building: {words}")
        type(self).reject(node.name, made.reasons)
        return None

    def _made(
        self, node: torch.fx.Node, nodes_to_wrappers: dict[str, dict[int, Any]]
    ) -> tuple[list[Any] | Rejected, Lowered | None]:
        """The op wrappers and the chosen lowering, or the reasons why there are none."""
        name = self.names[node.target.__name__]
        try:
            view = FxNodeView(self, node, name, self.constants)
            lowered = type(self).lower(view)
            if isinstance(lowered, Rejected):
                return lowered, None
            return Sink(self, view, nodes_to_wrappers, type(self).lower.avoids).realize(lowered), lowered
        except Rejection as e:
            return Rejected((Reason(name, "layout", str(e)),)), None
        except Exception as e:
            return Rejected((Reason(name, "internal", f"{type(e).__name__}: {e}"),)), None

    def get_quant_encoding_conf(self, node: torch.fx.Node, target_node: torch.fx.Node) -> Any:
        """ExecuTorch's encoding; blockwise and 4-bit weights with errata to avoid become 8 bits with a scale per channel."""
        encoding, config = super().get_quant_encoding_conf(node, target_node)
        name = self.names.get(getattr(target_node.target, "__name__", ""), "")
        avoids = type(self).lower.avoids
        if QCOM_BLOCK_SCALES in config and any(map(avoids, blocks.errata(name, node.meta["val"].shape))):
            return blocks.by_channel(config, node.meta[QCOM_QUANT_ATTRS][QCOM_SCALE])
        if blocks.narrow_volume(encoding, node.meta["val"]) and avoids("HTP-0010"):
            return blocks.in_8_bits(config, config[QCOM_SCALE_OFFSET])
        return encoding, config

    def get_quant_tensor_value(
        self, tensor: torch.Tensor, quant_attrs: dict[str, Any], quant_configs: dict[str, Any]
    ) -> torch.Tensor:
        """ExecuTorch's integers of a constant, multiplied out if ``get_quant_encoding_conf`` turned blocks into 8 bits."""
        scales = quant_configs.pop(blocks.SPREAD, None)
        if scales is not None:
            return blocks.spread(tensor, scales)
        stock: torch.Tensor = super().get_quant_tensor_value(tensor, quant_attrs, quant_configs)
        return stock

    @cached_property
    def constants(self) -> frozenset[str]:
        """The names of constants; cached, since a visitor only lives for one partitioning or one graph."""
        return constant_names(self.edge_program)

    def _building(self) -> bool:
        """True in a partition's own graph: its nodes carry the partitioner's tag."""
        return any("delegation_tag" in n.meta for n in self.edge_program.graph_module.graph.nodes)


@contextlib.contextmanager
def _kept_meta(node: torch.fx.Node) -> Iterator[None]:
    """Restores the meta of nodes and constants: ExecuTorch's builders change it, some of them at each call."""
    nodes = {node, *node.all_input_nodes, *(m for n in node.all_input_nodes for m in n.all_input_nodes)}
    kept = {n: {k: dict(v) if isinstance(v, dict) else v for k, v in n.meta.items()} for n in nodes}
    try:
        yield
    finally:
        for n, meta in kept.items():
            n.meta.clear()
            n.meta.update(meta)
