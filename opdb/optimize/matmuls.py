"""transpose-in-matmul: a MatMul reads the other way round what two Transposes turn, one behind the other.

Attention's keys go from [tokens, heads, depth] to [heads, tokens, depth] and on to [heads, depth, tokens].  One Transpose for both
is slower on HTP than the first one alone: 1,121 us of two BERT layers become 1,087 (QNN 2.51 for SA8255, fp16).  A single Transpose,
e.g. of a cache of keys, stays: 746 us of a decoder block would become 804.
"""

from __future__ import annotations

from dataclasses import replace

from opdb.graph import GraphOp
from opdb.op_config import ParamConfig
from opdb.optimize.edit import Edit, parameter, with_parameter
from opdb.optimize.layouts import VIEWS

PARAMS = ("transpose_in0", "transpose_in1")


def run(edit: Edit) -> int:
    """How many inputs are read the other way round."""
    return sum(_turned(edit, op, side) for op in edit.live() if op.op == "MatMul" for side in range(2))


def _turned(edit: Edit, op: GraphOp, side: int) -> bool:
    turn = edit.maker(op.inputs[side])
    if not edit.has(op) or turn is None or turn.op != "Transpose":
        return False
    perm = [int(i) for i in parameter(turn, "perm")]
    swapped = [*range(len(perm) - 2), len(perm) - 1, len(perm) - 2]
    first = edit.maker(turn.inputs[0])
    while first is not None and first.op in VIEWS:
        first = edit.maker(first.inputs[0])
    if perm != swapped or first is None or first.op != "Transpose":
        return False
    name = PARAMS[side]
    params = with_parameter(op, ParamConfig(name, "bool8", not parameter(op, name, False)))
    inputs = tuple(turn.inputs[0] if i == side else t for i, t in enumerate(op.inputs))
    return edit.rewrite([op], [replace(op, inputs=inputs, params=params)], faultless=True)
