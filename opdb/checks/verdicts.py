"""Computes how much of a program a target takes: a verdict with reasons for each node, and the partitions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from opdb.catalog.targets.target import Target
from opdb.checks.compute_types import types_of
from opdb.checks.coverage import Coverage, Row
from opdb.checks.graph_errata import with_errata_of
from opdb.checks.partition import groups
from opdb.lower.candidates import mapped
from opdb.lower.cost import Prices
from opdb.lower.errata_cost import extras
from opdb.lower.obey import obeyed_in_program
from opdb.lower.select import Refusal, lower, nearest_forms
from opdb.runtime.forms import Lowered, Rejected

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

    from opdb.programs.torch.nodes import TorchNode
    from opdb.programs.torch.program import Program
    from opdb.runtime.forms import NodeView

#: Progress callback (nodes done, all nodes), called every STEP nodes.
Progress = Callable[[int, int], None]
STEP = 50
#: Parts of the paths of library files, which are not the model's source.  A folder of the user may be called torch.
LIBRARIES = (
    "-packages/torch/", "/pytorch/torch/", "/executorch/exir/", "/executorch/backends/", "-packages/torchao/",
    "/opdb/programs/onnx/",
)  # fmt: skip
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in [^\n]+\n\s*([^\n]+)')


def check_program(
    exported: ExportedProgram,
    target: Target,
    *,
    float_dtype: str = "f32",
    decompose: bool = False,
    progress: Progress | None = None,
    samples: Sequence[Sequence[Any]] = (),
) -> Coverage:
    """The verdict of ``target`` on every node of ``exported``.

    ``float_dtype``: the type that float32 tensors get ("f32" or "f16").  ``decompose``: if a node has no form, the
    whole program is broken down to core ATen and that is judged instead.  ``progress`` is called with the number of finished
    nodes and of all.  ``samples``: arrays in the order of the inputs; the sizes of values on them decide which are
    beyond fp16 (opdb.checks.range_warnings).
    """
    from opdb.checks.graph import supported_part
    from opdb.lower.passes import optimize

    program, coverage = read_and_check(exported, target, float_dtype, decompose, progress, samples)
    part = supported_part(program, coverage.lowered, "graph")
    return coverage if part is None else with_errata_of(coverage, optimize(part, target).graph, target)


def read_and_check(
    exported: ExportedProgram,
    target: Target,
    float_dtype: str = "f32",
    decompose: bool = False,
    progress: Progress | None = None,
    samples: Sequence[Sequence[Any]] = (),
) -> tuple[Program, Coverage]:
    """The program as read, and the verdict of ``target`` on it: see ``check_program``.

    ``Row.said`` notes a quantized node that computes in floats, and weights that are widened to 8 bits.
    """
    from opdb.checks.notes import with_said
    from opdb.checks.range_warnings import with_warnings

    target.check_chip()
    program = read_program(exported, float_dtype, decompose)
    coverage = check_nodes(program, target, progress)
    rows = with_said(program, coverage.rows)

    def plain(name: str) -> bool:
        outcome = coverage.lowered.get(name)
        return isinstance(outcome, Lowered) and not any(t.quant for op in outcome.ops for t in op.outputs)

    return program, replace(coverage, rows=tuple(with_warnings(program, target, rows, plain, samples)))


def read_program(exported: ExportedProgram, float_dtype: str = "f32", decompose: bool = False) -> Program:
    """The nodes and tensors of ``exported``; see ``check_program``."""
    from opdb.programs.torch.program import Program

    program = Program(exported, float_dtype)
    if decompose and not all(mapped(n.target) for n in program.nodes):
        program = Program(exported.run_decompositions(), float_dtype)
    return program


def check_nodes(
    program: Program,
    target: Target,
    progress: Progress | None = None,
    prices: Prices | None = None,
    refusal: Refusal = lambda lowered: "",
) -> Coverage:
    """Does ``check_program`` for a program that is already read; build_graph takes its ``lowered``.

    ``prices``, ``refusal``: see opdb.lower.select.lower.
    """
    lowered, rows = {}, {}
    for done, node in enumerate(program.nodes, 1):
        lowered[node.name] = lower(node, target, prices, refusal)
        rows[node.name] = _row(node, lowered[node.name], target)
        if progress is not None and (done % STEP == 0 or done == len(program.nodes)):
            progress(done, len(program.nodes))
    changed = obeyed_in_program(lowered, target)
    lowered |= changed
    rows |= {n.name: _row(n, changed[n.name], target) for n in program.nodes if n.name in changed}
    reading = reads(program)
    numbers = numbered(
        groups(reading, [isinstance(o, Lowered) for o in lowered.values()]), list(lowered.values())
    )
    names = list(rows)
    placed = (
        replace(row, reads=tuple(names[s] for s in sources), graph=number)
        for row, sources, number in zip(rows.values(), reading, numbers, strict=True)
    )
    return Coverage(
        target.backend,
        target.soc,
        target.sdk,
        tuple(placed),
        max((n or 0 for n in numbers), default=0),
        lowered,
    )


def _row(node: TorchNode, outcome: Lowered | Rejected, target: Target) -> Row:
    if isinstance(outcome, Rejected):
        told = {reason.form for reason in outcome.reasons}
        near = [n for n in nearest_of(node, target) if n["form"] in told]
        return row_of(node.node, node.target, outcome, near)
    row = row_of(node.node, node.target, outcome)
    return replace(row, extra=extras(outcome, partial(lower, node), target))


def row_of(
    node: Node,
    target: str,
    outcome: Lowered | Rejected,
    near: Sequence[Mapping[str, Any]] = (),
    ops: Sequence[str] = (),
) -> Row:
    """The row of a node whose ATen target is ``target``.

    ``near``: see ``nearest_of``.  ``ops``: by default the ops of ``outcome``.
    """
    from opdb.checks.flops import node_work

    work, moved = node_work(node)
    reasons = outcome.notes if isinstance(outcome, Lowered) else outcome.reasons
    said = [
        (r.warning, {"form": r.form, "rule": r.rule, "message": r.message, "brief": r.short}) for r in reasons
    ]
    told, warned = ([row for warning, row in said if warning is kind] for kind in (False, True))
    supported = isinstance(outcome, Lowered)
    return Row(
        node.name,
        target,
        "supported" if supported else "rejected" if mapped(target) else "host",
        outcome.form if isinstance(outcome, Lowered) else "",
        tuple(ops) or (tuple(op.op for op in outcome.ops) if isinstance(outcome, Lowered) else ()),
        tuple(told),
        tuple(warned),
        tuple(near),
        module_of(node),
        *line_of(node),
        moved,
        None if work is None else work.flops,
        outcome.avoided if isinstance(outcome, Lowered) else (),
        outcome.warned if isinstance(outcome, Lowered) else (),
        types=types_of(outcome.ops) if isinstance(outcome, Lowered) else "",
        at_least=work is not None and work.at_least,
    )


def nearest_of(view: NodeView, target: Target) -> tuple[dict[str, Any], ...]:
    """The changes that would make ``target`` accept a rejected node, in the form that rows have."""
    found = nearest_forms(view, target)
    return tuple({"form": form, "op": op, "text": v.text, **v.json()} for form, op, v in found)


def module_of(node: Node) -> str:
    """The path of the module that the node comes from; e.g. encoder.layers.0.norm, "" for the model itself."""
    stack = node.meta.get("nn_module_stack") or {}
    path = next((str(entry[0]) for entry in reversed(stack.values())), "")
    return path.removeprefix("L['self']").removeprefix(".")


def line_of(node: Node) -> tuple[str, str]:
    """The last line of the model's own source in the node's stack trace, and its file; files of libraries are skipped."""
    return _last_line(node.meta.get("stack_trace") or "")


@lru_cache(4096)
def _last_line(trace: str) -> tuple[str, str]:
    own = [f for f in _FRAME.findall(trace) if not any(part in f[0].replace("\\", "/") for part in LIBRARIES)]
    if not own:
        return "", ""
    path, line, text = own[-1]
    return f"{path.rsplit('/', 1)[-1]}:{line}: {text.strip()}", path


def numbered(group: Sequence[int], outcomes: Sequence[Lowered | Rejected]) -> list[int | None]:
    """The number of each node's QNN graph, from 1 in the order of their first nodes; None if the node is not lowered.

    ``group``: see opdb.checks.partition.
    """
    numbers: dict[int, int] = {}
    return [
        numbers.setdefault(g, len(numbers) + 1) if isinstance(o, Lowered) else None
        for g, o in zip(group, outcomes, strict=True)
    ]


def reads(program: Program) -> list[list[int]]:
    """The nodes that each node reads, by their places in ``program.nodes``."""
    place = {node.name: i for i, node in enumerate(program.nodes)}
    sources = [[key[0] for key in node.sources()] for node in program.nodes]
    return [[place[name] for name in dict.fromkeys(names) if name in place] for names in sources]
