"""A torch.export program as node views, which generated builders read.

One ``Program`` holds the call nodes in order, the tensors by origin ``(node name, result index)``, and the
values known before running: parameters, buffers, constants, and everything computed only from them.
QNN has no 64-bit indices and no tensors of rank 0: int64 becomes i32, rank 0 becomes [1].
"""

from __future__ import annotations

import operator
from collections.abc import Collection
from dataclasses import dataclass, field

import torch
from torch.export.graph_signature import InputKind, OutputKind

from opdb.core.errors import OpdbError
from opdb.programs.torch.composites import plain
from opdb.programs.torch.encodings import Key, is_dequantize, is_quantize
from opdb.programs.torch.folding import fold, move_constant
from opdb.programs.torch.narrowing import keeps_numbers
from opdb.programs.torch.nodes import Branches, Conversion, Narrowing, TorchNode
from opdb.programs.torch.targets import CONVERSIONS, NO_VALUE, READ_WITHOUT_SPEC, SAME_VALUE
from opdb.programs.torch.tensors import ProgramTensors
from opdb.programs.torch.view_encodings import along_moves


@dataclass
class Program(ProgramTensors):
    """``states``: each buffer that the program changes -> the input with its value before a run and the output with its value after it;
    they follow the program's own ``inputs`` and ``outputs``.
    """

    nodes: list[TorchNode] = field(default_factory=list)
    inputs: list[Key] = field(default_factory=list)
    outputs: list[Key] = field(default_factory=list)
    states: dict[str, tuple[Key, Key]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)  # nodes that are not a QNN op -> why

    def __post_init__(self) -> None:
        """Reads the program, step by step; each step uses the results of the earlier ones."""
        # 1. Rewrite calls that no mapping reads.  First, because it makes other nodes, and all else is found by node.
        self.exported = plain(self.exported, READ_WITHOUT_SPEC)
        # 2. Start the tables of tensors.  They hold the nodes of the rewritten graph.
        super().__post_init__()
        # 3. Take inputs, states and the values of parameters and constants.  Before the calls, which fold nodes that read only values.
        self._read_placeholders()
        # 4. Make each call a node, an encoding, an alias or a constant, in the order of the graph: whether a call is folded, and what
        #    a dequantize node stands for, depends on the calls that it reads.
        self._read_calls()
        # 5. Carry encodings over nodes that only move elements, forward, then backward.  After all calls, because a tensor may get its
        #    encoding from a quantize node after the node that moves it.
        along_moves(self.encodings, [n.node for n in self.nodes], self.origin)
        # 6. Give a tensor that only a clamp or a relu reads the encoding of the result, which may come from step 5.
        self.encodings.before_cutting((n.node for n in self.nodes), self.origin)
        # 7. Take outputs, and the states' values after a run.  After step 4, which finds the origins that aliases have.
        self._read_results()
        # 8. Append the states.  Last, because they follow the program's own inputs and outputs.
        self._append_states()

    def with_floats(self, names: Collection[str]) -> Program:
        """The same program with more nodes ``in_floats``."""
        return Program(self.exported, self.float_dtype, frozenset(self.in_floats).union(names))

    def _read_placeholders(self) -> None:
        exported = self.exported
        specs = {s.arg.name: s for s in exported.graph_signature.input_specs}
        changed = {
            s.target for s in exported.graph_signature.output_specs if s.kind == OutputKind.BUFFER_MUTATION
        }
        for node in exported.graph.nodes:
            if node.op != "placeholder":
                continue
            key = (node.name, 0)
            self.origins[node] = key
            spec = specs[node.name]
            if spec.kind == InputKind.USER_INPUT:
                if isinstance(node.meta.get("val"), torch.Tensor):
                    self.inputs.append(key)
            elif spec.target in changed:
                self.states[str(spec.target)] = key, key
            elif spec.target in exported.state_dict:
                self.values[key] = exported.state_dict[spec.target].detach()
            elif isinstance(exported.constants.get(spec.target), torch.Tensor):
                self.values[key] = exported.constants[spec.target].detach()

    def _read_calls(self) -> None:
        for node in self.exported.graph.nodes:
            if node.op == "call_function":
                self._read_call(node)
            elif node.op not in ("placeholder", "output") and not _is_graph(node):
                raise OpdbError(
                    f"the program has a node '{node.name}' of the kind '{node.op}'; "
                    "export it with torch.export.export"
                )

    def _read_call(self, node: torch.fx.Node) -> None:
        target = str(node.target)
        if node.target is operator.getitem:
            base, index = node.args
            assert isinstance(base, torch.fx.Node) and isinstance(index, int)
            self.origins[node] = (self.origins.get(base, (base.name, 0))[0], index)
            return
        self.origins[node] = (node.name, 0)
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            self.nodes.append(Branches(self, node))
        elif is_quantize(node) or is_dequantize(node):
            self._read_conversion(node)
        elif target in NO_VALUE:
            self.skipped[node.name] = "it checks something and computes nothing"
        elif (
            target in SAME_VALUE
            or (target in CONVERSIONS and node.meta["val"].dtype == node.args[0].meta["val"].dtype)
            or (target == "aten.dropout.default" and node.args[2:3] != (True,))
        ):
            self.origins[node] = self.origin(node.args[0])
            self.encodings.alias(node, node.args[0])
            self.skipped[node.name] = "its result is its input"
        elif move_constant(self, node) or fold(self, node):
            self.skipped[node.name] = "its result is known before running"
        elif isinstance(node.target, torch._ops.OpOverload):
            kind = Narrowing if target in CONVERSIONS and keeps_numbers(node) else TorchNode
            self.nodes.append(kind(self, node))
        else:
            self.skipped[node.name] = "it computes a Python number"

    def _read_conversion(self, node: torch.fx.Node) -> None:
        op = "Quantize" if is_quantize(node) else "Dequantize"
        needed = (
            self.encodings.quantize(node, self.origin)
            if op == "Quantize"
            else self.encodings.dequantize(node, self.origin)
        )
        if needed is None:
            if not fold(self, node):
                self.nodes.append(TorchNode(self, node))
        elif not needed and (op == "Dequantize" or node in self.encodings.operands):
            if op == "Quantize":
                self.origins[node] = self.encodings.operands[node]
            self.skipped[node.name] = "it says the encoding of a tensor"
        elif not fold(self, node):
            self.nodes.append(Conversion(self, node, op))

    def _read_results(self) -> None:
        for spec in self.exported.graph_signature.output_specs:
            if spec.kind == OutputKind.USER_OUTPUT and getattr(spec.arg, "name", None) in self._by_name:
                node = self._by_name[spec.arg.name]
                if isinstance(node.meta.get("val"), torch.Tensor):
                    self.outputs.append(self.origin(node))
            elif spec.kind == OutputKind.BUFFER_MUTATION:
                before, _ = self.states[str(spec.target)]
                self.states[str(spec.target)] = before, self.origin(self._by_name[spec.arg.name])
            elif spec.kind != OutputKind.USER_OUTPUT:
                raise OpdbError(f"the program changes '{spec.target}' in place: return the new value instead")

    def _append_states(self) -> None:
        self.inputs += [before for before, _ in self.states.values()]
        self.outputs += [after for _, after in self.states.values()]


def _is_graph(node: torch.fx.Node) -> bool:
    """True if a node is a graph that a call runs."""
    held = getattr(node.graph.owning_module, str(node.target), None)
    return node.op == "get_attr" and isinstance(held, torch.fx.GraphModule)
