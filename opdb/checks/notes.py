"""Notes for nodes that compute in other types than their program asks for: in floats, or with weights of more bits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from torch.fx import Node

from opdb.checks.coverage import Coverage, Row
from opdb.core.dtypes import BY_SHORT
from opdb.lower.in_floats import IN_FLOATS
from opdb.lower.select import IN_8_BITS
from opdb.programs.torch import operands
from opdb.programs.torch.encodings import arguments, is_dequantize, is_quantize
from opdb.runtime.forms import Lowered, LoweredOp

if TYPE_CHECKING:
    from opdb.programs.torch.program import Program

#: (smallest, largest) stored value of a weight -> its type in words.
TYPES = {
    (-8, 7): "int4", (-7, 7): "int4", (0, 15): "uint4", (-120, 120): "int4 with zero points", (-2, 1): "int2",
    (-3, 3): "int2 with zero points",
}  # fmt: skip
#: The types for which QNN has no encoding.
OF_NONE = {TYPES[-120, 120], TYPES[-2, 1], TYPES[-3, 3]}
FLOATS = {"f16", "f32", "bf16"}
#: Targets that only read the shape of their second argument.
FOR_SHAPE = {"aten.expand_as.default"}


def with_said(program: Program, rows: Iterable[Row]) -> Iterator[Row]:
    """``rows`` with their notes, in ``said``."""
    nodes = {view.name: view.node for view in program.nodes}
    for row in rows:
        said = tuple(_notes_of(program, nodes[row.node], row)) if row.verdict == "supported" else ()
        yield replace(row, said=said) if said else row


def _notes_of(program: Program, node: Node, row: Row) -> Iterator[str]:
    if is_quantize(node) or is_dequantize(node):
        return
    weights = [n for n in node.all_input_nodes if is_dequantize(n) and _source(n, program) in program.values]
    floats = row.form.endswith(IN_FLOATS)
    if floats and (_beside_quantized(program, node) or weights):
        reason = first_reason(row)
        yield "in floats" + (f": {reason}" if reason else "")
    for weight in weights:
        kind = _kind(weight)
        if floats or (weight.name, 0) in program.values:
            yield f"weight of {kind}{_blocks(weight)} widened to floats"
        elif (
            kind in OF_NONE
            or row.form.endswith(IN_8_BITS)
            or (
                kind in TYPES.values()
                and operands.read(program, weight, node, "") != _source(weight, program)
            )
        ):
            yield f"weight of {kind}{_blocks(weight)} widened to int8"


def first_reason(row: Row) -> str:
    """The reason the first form was refused; a rule of the target comes before a mapping's condition, which says less."""
    rules = sorted(row.reasons, key=lambda reason: ".M_" in reason["rule"])
    return rules[0]["brief"] if rules else ""


def _source(node: Node, program: Program) -> tuple[str, int]:
    found = node.args[0]
    assert isinstance(found, Node)
    return program.origin(found)


def _beside_quantized(program: Program, node: Node) -> bool:
    inputs = node.all_input_nodes
    if str(node.target) in FOR_SHAPE:
        inputs = inputs[:1]
    read = any(map(is_dequantize, inputs))
    return read or any(is_quantize(u) for u in node.users)


def _kind(weight: Node) -> str:
    given = arguments(weight)
    ends = (given.get("quant_min"), given.get("quant_max"))
    source = weight.args[0]
    assert isinstance(source, Node)
    return TYPES.get(ends) or str(source.meta["val"].dtype).removeprefix("torch.")  # type: ignore[arg-type]


def _blocks(weight: Node) -> str:
    size = arguments(weight).get("block_size")
    return f" in blocks of {size}" if size else ""


def unsaid(program: Program, coverage: Coverage) -> Iterator[Row]:
    """Rows whose ops compute in floats next to quantized tensors without a note about it; none if all is well."""
    nodes = {view.name: view.node for view in program.nodes}
    for row in coverage.rows:
        node, lowered = nodes[row.node], coverage.lowered[row.node]
        if row.said or not isinstance(lowered, Lowered) or is_quantize(node) or is_dequantize(node):
            continue
        if _beside_quantized(program, node) and any(_of_floats(op) for op in lowered.ops):
            yield row


def _of_floats(op: LoweredOp) -> bool:
    kinds = {t.dtype for t in (*op.inputs, *op.outputs) if t is not None}
    return bool(kinds & FLOATS) and not any(BY_SHORT[k].quantized for k in kinds)
