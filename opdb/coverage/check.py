"""How much of a program a target takes: a verdict with reasons for each node, and the partitions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from opdb.coverage.partition import groups
from opdb.lower import lower, mapped, nearest_forms
from opdb.runtime.lowering import Lowered, Rejected
from opdb.validate import Target

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from opdb.coverage.nodes import Program, TorchNode

#: supported: a form is accepted; rejected: all forms are refused; host: no spec maps the ATen target.
VERDICTS = ("supported", "rejected", "host")


@dataclass(frozen=True)
class Row:
    """One node.  ``bytes``: what it reads and writes, as PyTorch holds it; None where a shape is symbolic."""

    node: str
    target: str
    verdict: str
    form: str = ""  # the op or decomposition that was taken
    ops: tuple[str, ...] = ()
    reasons: tuple[
        Mapping[str, str], ...
    ] = ()  # rule, message, form: why it, or each form before, was refused
    warnings: tuple[Mapping[str, str], ...] = ()
    #: Of a rejected node: form, op, and the changes after which the target accepts the op.
    nearest: tuple[Mapping[str, Any], ...] = ()
    module: str = ""  # ex) encoder.layers.0.norm
    line: str = ""  # of the model's source; ex) model.py:12: return self.norm(x)
    bytes: int | None = None


@dataclass(frozen=True)
class Coverage:
    backend: str | None
    soc: str | None
    sdk: str | None
    rows: tuple[Row, ...]
    partitions: int  # connected groups of supported nodes that one graph each can hold
    lowered: Mapping[str, Lowered | Rejected] = field(default_factory=dict, compare=False, repr=False)

    @property
    def complete(self) -> bool:
        """Whether every node is supported."""
        return all(r.verdict == "supported" for r in self.rows)

    def count(self, verdict: str) -> int:
        return sum(r.verdict == verdict for r in self.rows)

    def to_json(self) -> dict[str, Any]:
        return {
            "backend": self.backend,
            "soc": self.soc,
            "sdk": self.sdk,
            "nodes": len(self.rows),
            **{v: self.count(v) for v in VERDICTS},
            "partitions": self.partitions,
            "rows": [asdict(r) for r in self.rows],
        }


def check_program(
    exported: ExportedProgram, target: Target, *, float_dtype: str = "f32", decompose: bool = False
) -> Coverage:
    """The verdict of ``target`` on every node of ``exported``.

    ``float_dtype``: what float32 tensors become ("f32" or "f16").  ``decompose``: if a node has no form, the
    whole program is broken down to core ATen and that is judged instead.
    """
    return check_nodes(read_program(exported, float_dtype, decompose), target)


def read_program(exported: ExportedProgram, float_dtype: str = "f32", decompose: bool = False) -> Program:
    """The nodes and tensors of ``exported``; see ``check_program``."""
    from opdb.coverage.nodes import Program

    program = Program(exported, float_dtype)
    if decompose and not all(mapped(n.target) for n in program.nodes):
        program = Program(exported.run_decompositions(), float_dtype)
    return program


def check_nodes(program: Program, target: Target) -> Coverage:
    """As ``check_program``, for a program that is read already; build_graph takes its ``lowered``."""
    lowered = {node.name: lower(node, target) for node in program.nodes}
    rows = tuple(_row(node, lowered[node.name], target) for node in program.nodes)
    return Coverage(target.backend, target.soc, target.sdk, rows, partitions(program, lowered), lowered)


def _row(node: TorchNode, outcome: Lowered | Rejected, target: Target) -> Row:
    reasons = outcome.notes if isinstance(outcome, Lowered) else outcome.reasons
    told = [{"form": r.form, "rule": r.rule, "message": r.message} for r in reasons if not r.warning]
    warned = [{"form": r.form, "rule": r.rule, "message": r.message} for r in reasons if r.warning]
    reads, makes = node.tensors()
    sizes = [t.nbytes if all(isinstance(d, int) for d in t.shape) else None for t in (*reads, *makes)]
    supported = isinstance(outcome, Lowered)
    near = () if supported else nearest_forms(node, target)
    return Row(
        node.name,
        node.target,
        "supported" if supported else "rejected" if mapped(node.target) else "host",
        outcome.form if isinstance(outcome, Lowered) else "",
        tuple(op.op for op in outcome.ops) if isinstance(outcome, Lowered) else (),
        tuple(told),
        tuple(warned),
        tuple({"form": form, "op": op, "text": v.text, **v.json()} for form, op, v in near),
        module_of(node),
        line_of(node),
        None if None in sizes else sum(s for s in sizes if s is not None),
    )


def module_of(node: TorchNode) -> str:
    """The path of the module that the node comes from; ex) encoder.layers.0.norm, "" for the model itself."""
    stack = node.node.meta.get("nn_module_stack") or {}
    path = next((str(entry[0]) for entry in reversed(stack.values())), "")
    return re.sub(r"^L\['self'\]\.?", "", path)


def line_of(node: TorchNode) -> str:
    """The last line of the model's own source above the node: PyTorch's files are skipped."""
    found = re.findall(
        r'File "([^"]+)", line (\d+), in [^\n]+\n\s*([^\n]+)', node.node.meta.get("stack_trace") or ""
    )
    own = [f for f in found if "/torch/" not in f[0].replace("\\", "/")]
    if not own:
        return ""
    path, line, text = own[-1]
    return f"{path.rsplit('/', 1)[-1]}:{line}: {text.strip()}"


def partitions(program: Program, lowered: Mapping[str, Lowered | Rejected]) -> int:
    """The number of graphs that hold all supported nodes; see opdb.coverage.partition."""
    supported = [isinstance(lowered[node.name], Lowered) for node in program.nodes]
    group = groups(reads(program), supported)
    return len({g for g, s in zip(group, supported, strict=True) if s})


def reads(program: Program) -> list[list[int]]:
    """The nodes that each node reads, by their places in ``program.nodes``."""
    place = {node.name: i for i, node in enumerate(program.nodes)}
    sources = [[program.origin(n)[0] for n in node.node.all_input_nodes] for node in program.nodes]
    return [[place[name] for name in dict.fromkeys(names) if name in place] for names in sources]
