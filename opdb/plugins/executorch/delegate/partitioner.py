"""``OpdbPartitioner``, an ExecuTorch partitioner that selects an edge program's nodes for opdb's delegate."""

from __future__ import annotations

from collections.abc import Callable

import torch
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import tag_constant_data
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind
from torch.fx import Node

from opdb.core.errors import OpdbError
from opdb.core.names import counted
from opdb.lower.candidates import mapped
from opdb.plugins.executorch.delegate import aten
from opdb.plugins.executorch.delegate.backend import OpdbBackend
from opdb.plugins.executorch.delegate.decide import Decider, Decision
from opdb.plugins.executorch.delegate.specs import Options

#: The name of the preparing class, and of the backend that the runtime looks up.
BACKEND = OpdbBackend.__name__
TAG = "delegation_tag"


class OpdbPartitioner(Partitioner):  # type: ignore[misc]  # untyped base
    """Tags the nodes that the validators of a target accept; all others stay for the next partitioner or the CPU.

    ``options``: the targets.  With several, each takes nodes that the ones before it left, e.g. a QNN graph first, then
    opdb's C kernels, in one program.  ``minimum``: groups with fewer operators are not delegated.

    ``partition`` runs once per method, in order.  Afterwards, ``decisions`` has the groups and every reason, one Decision for
    each of ``options``; ``reasons`` has the reasons for the last program.
    """

    def __init__(self, *options: Options, minimum: int = 1) -> None:
        if not options:
            raise OpdbError(
                "OpdbPartitioner: say where the nodes run; e.g. OpdbPartitioner(Options('HTP', soc='SM8650'))"
            )
        super().__init__({str(i): each for i, each in enumerate(options)})
        self.options, self.minimum = options, minimum
        self.decisions: list[tuple[Decision, ...]] = []
        self._whole: tuple[ExportedProgram, list[torch._ops.OpOverload]] | None = None
        self._scales: dict[str, torch.Tensor] = {}  # programs come to ``partition`` without numbers

    @property
    def reasons(self) -> dict[str, tuple[str, ...]]:
        """Maps each node of the last partitioned program that no group has to the reasons, from all options."""
        if not self.decisions:
            return {}
        last = self.decisions[-1]
        taken = {name for decision in last for name in decision.taken}
        names = dict.fromkeys(name for decision in last for name in decision.reasons if name not in taken)
        return {
            name: tuple(
                f"{d.options.backend}: {why}" if len(last) > 1 else why
                for d in last
                for why in d.reasons.get(name, ())
            )
            for name in names
        }

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tags nodes, and the constants and buffers that only they read; changes nothing else in the program."""
        decisions: list[Decision] = []
        taken: set[str] = set()
        specs: dict[str, DelegationSpec] = {}
        nodes = {n.name: n for n in exported_program.graph.nodes}
        for side, options in enumerate(self.options):
            decision = self._large(Decider(exported_program, options, taken, self._scales).decide())
            decisions.append(decision)
            taken |= decision.taken
            spec = DelegationSpec(BACKEND, options.compile_specs())
            for i, group in enumerate(decision.groups):
                tag = f"opdb_{side}_{i}"
                specs[tag] = spec
                for name in group:
                    nodes[name].meta[TAG] = tag
                if options.mutable_buffers == "delegate":
                    _tag_buffers(exported_program, tag)
        self.decisions.append(tuple(decisions))
        tag_constant_data(exported_program)
        return PartitionResult(exported_program, specs)

    def _large(self, decision: Decision) -> Decision:
        kept = []
        for group in decision.groups:
            count = sum(name in decision.rows for name in group)
            if count >= self.minimum:
                kept.append(group)
            else:
                why = f"its group has {counted(count, 'operator')}, and {self.minimum} are asked for"
                decision.reasons |= dict.fromkeys(group, (why,))
        decision.groups = kept
        return decision

    def ops_to_not_decompose(
        self, ep: ExportedProgram
    ) -> tuple[list[torch._ops.OpOverload], Callable[[Node], bool] | None]:
        """Operators to keep whole: those for which the validators accept every call.

        ExecuTorch can also decide single calls, but its way changes the memory layout of results, and the export of
        attention fails at the view that follows.
        """
        if self._whole is None or self._whole[0] is not ep:  # ExecuTorch asks twice
            self._whole = ep, self._kept_whole(ep)
            self._scales |= aten.scales_of(ep)
        return self._whole[1], None

    def _kept_whole(self, ep: ExportedProgram) -> list[torch._ops.OpOverload]:
        calls = [n for n in ep.graph.nodes if _decomposed(n)]
        if not calls:  # e.g. at the end of the flow, when the program is in the edge dialect
            return []
        accepted = {name for options in self.options for name in Decider(ep, options).decide().taken}
        left = {n.target for n in calls if n.name not in accepted}
        return [t for t in dict.fromkeys(n.target for n in calls) if t not in left]


def _decomposed(node: Node) -> bool:
    """True if PyTorch decomposes this call and a spec maps its operator."""
    target = node.target
    return (
        node.op == "call_function"
        and isinstance(target, torch._ops.OpOverload)
        and torch.Tag.core not in target.tags
        and mapped(str(target))
        and not target._schema.is_mutable
        and not any(r.alias_info is not None for r in target._schema.returns)
    )


def _tag_buffers(program: ExportedProgram, tag: str) -> None:
    """Tags changed buffers that only the group reads, and whose new value it writes and shares with no other node."""
    nodes = {n.name: n for n in program.graph.nodes}
    signature = program.graph_signature
    writers: dict[str, list[str]] = {}
    for spec in signature.output_specs:
        if spec.kind == OutputKind.BUFFER_MUTATION:
            writers.setdefault(str(spec.target), []).append(spec.arg.name)
    outputs = [s.arg.name for s in signature.output_specs if hasattr(s.arg, "name")]
    for placeholder, buffer in aten.changed_buffers(program).items():
        node, names = nodes[placeholder], writers[buffer]
        last = nodes[names[0]]
        alone = len(names) == 1 and outputs.count(names[0]) == 1
        inside = all(u.meta.get(TAG) == tag for u in node.users)
        leaves = any(u.op != "output" and u.meta.get(TAG) != tag for u in last.users)
        if alone and node.users and inside and last.meta.get(TAG) == tag and not leaves:
            node.meta[TAG] = tag
