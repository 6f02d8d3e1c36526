"""Predicts what ExecuTorch's Qualcomm partitioner will do with each node of an edge program, without the vendor's libraries.

``QnnOperatorSupport`` lets a node's builder make ops and asks the vendor's validator about them.
Here the same builders run, and the generated validators answer.  Equal nodes are judged once.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from executorch.backends.qualcomm.builders import node_visitor_manager
from executorch.backends.qualcomm.partition.common_defs import (
    allow_list_operator,
    constant_operator,
    not_supported_operator,
    to_be_implemented_operator,
)
from executorch.backends.qualcomm.utils.constants import (
    QCOM_AXIS_ORDER,
    QCOM_BYPASS_NODE,
    QCOM_FALLBACK_NODE,
    QCOM_INSERTED_PERMUTE,
    QCOM_QUANT_ATTRS,
    QCOM_REQUANTIZE,
)

from opdb.catalog.targets.target import Target
from opdb.checks.coverage import Coverage, Row
from opdb.checks.verdicts import STEP, Progress, line_of, module_of, nearest_of, row_of
from opdb.core.op_config import OpConfig
from opdb.judge import validate
from opdb.judge.errata.policy import active, excludes
from opdb.lower.candidates import ONNX_NODE, mapped, unmapped_reason
from opdb.lower.errata_cost import extras
from opdb.lower.select import lower
from opdb.lower.violations import violations
from opdb.plugins.executorch.builder import op_records
from opdb.plugins.executorch.builder.partition_reasons import (
    CONSTANT_GRAPH,
    CONSTANT_RESULT,
    DEQUANTIZED_CONSTANT,
    ENDLESS_SCALE,
    dequantizes,
    endless_scale,
    read_outside,
    reads_inputs,
)
from opdb.plugins.executorch.builder.view import FxNodeView, constant_names
from opdb.plugins.executorch.builder.visitor import OpdbVisitor
from opdb.plugins.executorch.tools.dry_run import DrySink
from opdb.plugins.executorch.tools.grouping import as_executorch
from opdb.runtime.forms import Lowered, Reason, Rejected
from opdb.runtime.tensors import Rejection

STOCK = "ExecuTorch's builder"  # the form of a node whose target has no mapping


class _Read:
    """A program with a cached signature: ExecuTorch's builders would recompute it for every tensor."""

    def __init__(self, program: torch.export.ExportedProgram) -> None:
        self._program = program
        signature = program.graph_signature
        self.graph_signature = SimpleNamespace(
            inputs_to_parameters=signature.inputs_to_parameters,
            inputs_to_buffers=signature.inputs_to_buffers,
            inputs_to_lifted_tensor_constants=signature.inputs_to_lifted_tensor_constants,
            buffers_to_mutate=signature.buffers_to_mutate,
            non_persistent_buffers=signature.non_persistent_buffers,
            user_inputs=signature.user_inputs,
            user_outputs=signature.user_outputs,
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._program, name)


def _read_rows(node: torch.fx.Node, rows: Collection[torch.fx.Node]) -> Iterator[str]:
    """The names of rows whose results ``node`` reads, through ``getitem``."""
    for source in node.all_input_nodes:
        if source in rows:
            yield source.name
        elif source.target is operator.getitem:
            yield from _read_rows(source, rows)


class Predictor:
    """Judges nodes.  ``target``: with a SoC.  opdb's builders must be registered (opdb.plugins.executorch.register).

    ``nearest``: True adds the nearest accepted configs to rejected nodes' rows, which takes most of the time.
    """

    def __init__(
        self, program: torch.export.ExportedProgram, target: Target, *, nearest: bool = True
    ) -> None:
        self.program = program
        self._with_nearest = nearest
        self.target = target.spelled()
        self._read = _Read(program)
        self._visitors: dict[str, Any] = {}
        self.constants = constant_names(program)
        self._known: dict[Hashable, Row] = {}
        self._described: dict[torch.fx.Node, Hashable] = {}

    def coverage(self, progress: Progress | None = None) -> Coverage:
        """A row for each call except ``getitem``, named as in the edge graph."""
        calls = [n for n in self.program.graph.nodes if n.op == "call_function"]
        rows: dict[torch.fx.Node, Row] = {}
        for done, node in enumerate(calls, 1):
            if endless_scale(node):
                rows[node] = row_of(node, self.row(node).target, Rejected((ENDLESS_SCALE,)))
            elif node.target is not operator.getitem:
                rows[node] = self.row(node)
            if progress is not None and (done % STEP == 0 or done == len(calls)):
                progress(done, len(calls))
        for node in reversed(calls):  # readers first, like the partitioner
            left = all(u in rows and rows[u].verdict != "supported" for u in node.users)
            if read_outside(node, lambda u: u.op != "output" and rows[u].verdict == "supported"):
                rows[node] = row_of(node, rows[node].target, Rejected((CONSTANT_RESULT,)))
            elif left and dequantizes(node, self.constants):
                rows[node] = row_of(node, rows[node].target, Rejected((DEQUANTIZED_CONSTANT,)))
        graphs: dict[torch.fx.Node, int] = {}
        partitions = 0
        groups = self._groups(calls, rows)
        while between := [n for g in map(set, groups) for n in g if read_outside(n, g.__contains__)]:
            for node in between:
                rows[node] = row_of(node, rows[node].target, Rejected((CONSTANT_RESULT,)))
            groups = self._groups(calls, rows)
        for group in groups:
            if reads_inputs(group, self.constants):
                partitions += any(n in rows for n in group)
                graphs |= dict.fromkeys(group, partitions)
                continue
            for node in set(group) & rows.keys():
                rows[node] = row_of(node, rows[node].target, Rejected((CONSTANT_GRAPH,)))
        placed = (
            replace(row, reads=tuple(dict.fromkeys(_read_rows(node, rows))), graph=graphs.get(node))
            for node, row in rows.items()
        )
        return Coverage(self.target.backend, self.target.soc, self.target.sdk, tuple(placed), partitions)

    def _groups(
        self, calls: Sequence[torch.fx.Node], rows: Mapping[torch.fx.Node, Row]
    ) -> Collection[Sequence[torch.fx.Node]]:
        """Groups the supported nodes and ``getitem`` into graphs."""
        joins = [n not in rows or rows[n].verdict == "supported" for n in calls]
        place = {n: i for i, n in enumerate(calls)}
        reads = [[place[s] for s in n.all_input_nodes if s in place] for n in calls]
        groups: dict[int, list[torch.fx.Node]] = defaultdict(list)
        for group, node, join in zip(as_executorch(reads, joins), calls, joins, strict=True):
            if join:
                groups[group].append(node)
        return groups.values()

    def row(self, node: torch.fx.Node) -> Row:
        key = self._key(node)
        found = self._known.get(key)
        if found is not None:
            line, file = line_of(node)
            return replace(found, node=node.name, module=module_of(node), line=line, file=file)
        found = self._judge(node)
        names = (node.name, *(n.name for n in node.all_input_nodes))
        if not any(name in reason["message"] for reason in found.reasons for name in names):
            self._known[key] = found  # else it is only about this node
        return found

    # -- one node

    def _judge(self, node: torch.fx.Node) -> Row:
        edge = getattr(node.target, "__name__", str(node.target))
        visitor = self._visitor(edge)
        name = visitor.names[edge] if isinstance(visitor, OpdbVisitor) else edge
        forced = node.target in constant_operator or node.meta.get(QCOM_BYPASS_NODE)
        if forced or node.target in allow_list_operator:
            return row_of(node, name, Lowered("constant", ()))
        listed = _listed(node)
        if listed:
            return row_of(node, name, Rejected((Reason("", "", listed),)))
        if visitor is None:
            why = "ExecuTorch has no builder for it either"
            own = Reason("", "", str(node.args[2])) if name == ONNX_NODE else unmapped_reason(name)
            return row_of(node, name, Rejected((own, Reason("", "", why))))
        if not isinstance(visitor, OpdbVisitor) or QCOM_INSERTED_PERMUTE in node.meta:
            return self._stock(node, name, visitor)
        return self._ours(node, name, visitor)

    def _visitor(self, edge: str) -> Any:
        """The builder for an edge name, or None; it names tensors as a pass does, without numbering inputs."""
        if edge not in self._visitors:
            kind = node_visitor_manager._node_visitor_dict.get(edge)
            self._visitors[edge] = None if kind is None else kind({}, self._read, False, False)
        return self._visitors[edge]

    def _ours(self, node: torch.fx.Node, name: str, visitor: OpdbVisitor) -> Row:
        view = FxNodeView(visitor, node, name, self.constants)
        outcome: Lowered | Rejected
        try:
            outcome = lower(view, self.target)
            if isinstance(outcome, Lowered):
                steps = DrySink(view, partial(active, target=self.target)).steps_of(outcome)
                refused = [r for step in steps for r in self._refused(outcome.form, step.config())]
                outcome = Rejected(tuple(refused)) if refused else outcome
        except Rejection as reason:
            outcome = Rejected((Reason(name, "layout", str(reason)),))
        except Exception as error:  # like OpdbVisitor: a fault in a builder leaves the node to the CPU
            outcome = Rejected((Reason(name, "internal", f"{type(error).__name__}: {error}"),))
        if isinstance(outcome, Rejected):
            return row_of(node, name, outcome, self._nearest(view))
        return replace(row_of(node, name, outcome), extra=extras(outcome, partial(lower, view), self.target))

    def _nearest(self, view: FxNodeView) -> tuple[dict[str, Any], ...]:
        if not self._with_nearest:
            return ()
        try:
            return nearest_of(view, self.target)
        except Exception:  # the node's own fault is in its reasons
            return ()

    def _stock(self, node: torch.fx.Node, name: str, visitor: Any) -> Row:
        """Runs ExecuTorch's own builder, and judges its ops with the generated validators."""
        if isinstance(visitor, OpdbVisitor):
            visitor = visitor.stock[node.target.__name__]({}, self._read, False, False)
        reasons: list[Reason] = [] if mapped(name) else [unmapped_reason(name)]
        configs: list[OpConfig] = []
        try:
            with op_records.recording():
                made = visitor.define_node(node, defaultdict(dict))
            configs = [op.config() for op in op_records.listed(made)]
            why = "ExecuTorch's own builder leaves it out"
        except Exception as error:
            made, why = None, f"ExecuTorch's own builder stops with {type(error).__name__}: {error}"
        if made is None:
            return row_of(node, name, Rejected((*reasons, Reason(STOCK, "", why))))
        refused = [r for c in configs for r in self._refused(STOCK, c)]
        if refused:
            return row_of(node, name, Rejected((*reasons, *refused)))
        return row_of(node, name, Lowered(STOCK, (), tuple(reasons)), ops=[c.op for c in configs])

    def _refused(self, form: str, config: OpConfig) -> list[Reason]:
        data = any(t.data is not None for t in config.inputs)
        found = validate.check(config, self.target).violations if data else violations(config, self.target)
        return [Reason(form, v.rule, v.message) for v in found if v.refuses and excludes(v, self.target)]

    # -- what makes two nodes alike

    def _key(self, node: torch.fx.Node) -> Hashable:
        """Everything that builders read of a node: equal keys have equal verdicts."""
        meta = node.meta
        order = meta.get(QCOM_AXIS_ORDER)
        flags = (QCOM_INSERTED_PERMUTE in meta, QCOM_BYPASS_NODE in meta, bool(meta.get(QCOM_FALLBACK_NODE)))
        arguments = tuple(map(self._part, node.args))
        if node.kwargs:
            arguments += tuple((k, self._part(v)) for k, v in node.kwargs.items())
        used: Hashable = (bool(node.users), any(user.op == "output" for user in node.users))
        if isinstance(meta.get("val"), (tuple, list)):
            used = frozenset(u.args[1] for u in node.users if u.target is operator.getitem)
        return (
            node.target,
            arguments,
            None if order is None else tuple(order),
            flags,
            self._describe(node),
            used,
        )

    def _part(self, value: Any) -> Hashable:
        if isinstance(value, torch.fx.Node):
            return self._describe(value)
        if isinstance(value, (list, tuple)):
            return tuple(map(self._part, value))
        return (type(value), value) if isinstance(value, Hashable) else id(value)

    def _describe(self, node: torch.fx.Node) -> Hashable:
        found = self._described.get(node)
        if found is None:
            meta = node.meta
            known = node.name in self.constants
            if QCOM_QUANT_ATTRS in meta or QCOM_REQUANTIZE in meta or _dequantizes(node):
                found = id(node)  # encodings hold tensors: treat such a node as unique
            else:
                found = (known, _tensors(meta.get("val")))
            self._described[node] = found
        return found


def _listed(node: torch.fx.Node) -> str:
    """The reason why ExecuTorch's lists leave the node out; "" if they do not."""
    if node.target in not_supported_operator:
        return "ExecuTorch lists it as not supported"
    if node.target in to_be_implemented_operator:
        return "ExecuTorch lists it as still to be implemented"
    return "a pass of ExecuTorch sends it to the CPU" if node.meta.get(QCOM_FALLBACK_NODE) else ""


def _dequantizes(node: torch.fx.Node) -> bool:
    return "dequantize" in str(node.target)


def _tensors(value: Any) -> Hashable:
    if isinstance(value, (list, tuple)):
        return tuple(map(_tensors, value))
    if isinstance(value, torch.Tensor):
        sizes = tuple(value.shape)
        return (sizes if all(type(d) is int for d in sizes) else id(value), value.dtype)
    return str(type(value))
