"""Predicts a target's verdict on a float program after quantization, with assumed ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from opdb.catalog.targets.target import Target
from opdb.checks.compute_types import text
from opdb.checks.coverage import Coverage, Row
from opdb.checks.graph_errata import with_errata_of
from opdb.checks.partition import groups
from opdb.core.graph import QnnGraph
from opdb.execute.compile.model import lowered
from opdb.execute.compile.sources import sources_of
from opdb.judge.errata.records import RECORDS
from opdb.lower.quantize import default_ranges
from opdb.lower.quantize.departures import otherwise
from opdb.lower.quantize.plan import Plan
from opdb.lower.quantize.recipe import Recipe
from opdb.lower.quantize.slots import places

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def quantized_coverage(
    program: ExportedProgram,
    target: Target,
    recipe: Recipe,
    float_dtype: str = "f32",
    decompose: bool = False,
    named: Callable[[Coverage], Coverage] = lambda coverage: coverage,
) -> Coverage:
    """Predicts the result of `opdb compile --quantize` for each node.  ``named`` gives the rows the names of the model's file.

    A node is rejected if one of its ops has no form in integers and no alternative: in floats on a chip that has them, else as a table or
    in 16 bits; ``Row.said`` has the reason for an alternative.  Ranges are assumed, e.g. from -4 to 4: a rule that reads a scale may
    decide differently on calibrated ones.
    """
    coverage, graph = lowered(
        program,
        target,
        "graph",
        float_dtype=float_dtype,
        decompose=decompose,
        to_quantize=True,
        incomplete=True,
    )
    coverage = named(coverage)
    if graph is None:
        return _about(coverage, recipe, target)
    plan = default_ranges.forms(graph, recipe, target, sources_of(coverage.rows))
    graph = plan.graph
    of_node: dict[str, list[str]] = {}
    for op in graph.ops:
        of_node.setdefault(op.origin, []).append(op.name)
    rows = [_judged(row, of_node.get(row.node, []), plan) for row in coverage.rows]
    numbered = tuple(_numbered(rows))
    partitions = max((r.graph or 0 for r in numbered), default=0)
    coverage = with_errata_of(replace(coverage, rows=numbered, partitions=partitions), _typed(plan), target)
    return _about(coverage, recipe, target)


def _typed(plan: Plan) -> QnnGraph:
    """The plan's graph in the types that it gets, without encodings and constants."""
    graph = plan.graph
    tensors = {n: replace(t, dtype=_type(plan, n), data=None) for n, t in graph.tensors.items()}
    return QnnGraph(graph.name, tensors, list(graph.ops))


def _about(coverage: Coverage, recipe: Recipe, target: Target) -> Coverage:
    chip = f"{target.soc} has no floating point on the NPU: " if target.integers_only else ""
    about = (
        f"{chip}the model is judged in {recipe.name}, with assumed ranges; "
        f"`opdb compile --quantize {recipe.name} --data ...` measures them."
    )
    return replace(coverage, quantize=recipe.name, about=about)


def _judged(row: Row, ops: list[str], plan: Plan) -> Row:
    """Judges ``row``, whose node became these ops."""
    if row.verdict != "supported":
        return row
    if none := [plan.refused[op] for op in ops if op in plan.refused]:
        reasons = tuple(
            {"form": row.form, "rule": "", "message": str(why), "brief": why.reason} for why in none
        )
        return replace(row, verdict="rejected", reasons=reasons, form="", ops=())
    told = [otherwise(plan.forms[op]) for op in ops]
    said = tuple(f"{how}: {why}" for how, why in dict.fromkeys(told) if how)
    floats = not ops or any(plan.forms[op].floats for op in ops)
    warnings = tuple(
        w for w in row.warnings if floats or w["rule"] in RECORDS
    )  # the rules were checked on floats
    return replace(row, said=said, types=_types(ops, plan), warnings=warnings)


def _types(ops: list[str], plan: Plan) -> str:
    """The types in which the ops of a node compute; see opdb.checks.compute_types."""
    results, weights = [], []
    for op in (o for o in plan.graph.ops if o.name in ops):
        form = plan.forms[op.name]
        made = [_type(plan, name) for name in op.outputs]
        results += (
            ["floats"] if form.floats else [t for t in made if "q" in t][:1] or made
        )  # not a TopK's indices
        narrow = f"{form.weight.bits} bits" + " in blocks" * bool(form.weight.block)
        weights += [
            narrow if form.weight.bits and form.dtypes[p.slot] == "sq8" else form.dtypes[p.slot]
            for p in places(op)
            if p.rule.axis is not None and p.slot in form.dtypes
        ]
    return text(results[-1:] if "floats" not in results else results, weights)


def _type(plan: Plan, tensor: str) -> str:
    return plan.wanted.get(tensor, plan.graph.tensors[tensor].dtype)


def _numbered(rows: list[Row]) -> Iterator[Row]:
    """Yields the rows with the numbers of their graphs."""
    place = {row.node: i for i, row in enumerate(rows)}
    supported = [row.verdict == "supported" for row in rows]
    numbers: dict[int, int] = {}
    for row, fits, group in zip(
        rows, supported, groups([[place[n] for n in row.reads] for row in rows], supported), strict=True
    ):
        yield replace(row, graph=numbers.setdefault(group, len(numbers) + 1) if fits else None)
