"""The verdict of a target on a float program that is to be quantized, with ranges that nobody measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from opdb.compile.model import lowered
from opdb.coverage.check import Coverage, Row
from opdb.coverage.partition import groups
from opdb.quantize import assumed
from opdb.quantize.choose import Form, NoForm
from opdb.targets.target import Target

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def quantized_coverage(
    program: ExportedProgram, target: Target, scheme: str, float_dtype: str = "f32", decompose: bool = False
) -> Coverage:
    """What `opdb compile --quantize` with ``scheme`` (8a8w, 16a8w) makes of each node.

    A node is rejected if one of its ops has neither a form in integers nor, on a chip with floating point, one in floats;
    ``Row.said`` has the reason of those in floats.  Ranges are assumed, e.g. from -4 to 4: a rule that reads a scale may decide
    differently on calibrated ones.  Raises OpdbError for an unknown scheme.
    """
    assumed.named(scheme)
    coverage, graph = lowered(
        program, target, "graph", float_dtype=float_dtype, decompose=decompose, to_quantize=True
    )
    if graph is None:
        return _about(coverage, scheme, target)
    graph, forms, refused = assumed.forms(graph, scheme, target)
    of_node: dict[str, list[str]] = {}
    for op in graph.ops:
        of_node.setdefault(op.origin, []).append(op.name)
    rows = [_judged(row, of_node.get(row.node, []), forms, refused) for row in coverage.rows]
    numbered = tuple(_numbered(rows))
    partitions = max((r.graph or 0 for r in numbered), default=0)
    return _about(replace(coverage, rows=numbered, partitions=partitions), scheme, target)


def _about(coverage: Coverage, scheme: str, target: Target) -> Coverage:
    chip = f"{target.soc} computes integers alone: " if target.integers_only else ""
    about = (
        f"{chip}{coverage.count('supported')} of {len(coverage.rows)} nodes have a form in {scheme} (ranges are assumed; "
        f"`opdb compile --quantize {scheme} --data ...` measures them)"
    )
    return replace(coverage, quantize=scheme, about=about)


def _judged(row: Row, ops: list[str], forms: Mapping[str, Form], refused: Mapping[str, NoForm]) -> Row:
    """``row`` of a node whose ops are these."""
    if none := [refused[op] for op in ops if op in refused]:
        reasons = tuple(
            {"form": row.form, "rule": "", "message": str(why), "brief": why.reason} for why in none
        )
        return replace(row, verdict="rejected", reasons=reasons, form="", ops=())
    said = [f"in floats: {forms[op].floats}" for op in ops if forms[op].floats]
    said += [f"doubtful: {forms[op].doubt}" for op in ops if forms[op].doubt]
    return replace(row, said=tuple(dict.fromkeys(said)))


def _numbered(rows: list[Row]) -> Iterator[Row]:
    """The rows with the numbers of their graphs."""
    place = {row.node: i for i, row in enumerate(rows)}
    supported = [row.verdict == "supported" for row in rows]
    numbers: dict[int, int] = {}
    for row, fits, group in zip(
        rows, supported, groups([[place[n] for n in row.reads] for row in rows], supported), strict=True
    ):
        yield replace(row, graph=numbers.setdefault(group, len(numbers) + 1) if fits else None)
