"""fuse-responses: fuses PyTorch's local response normalization (squares, an average over channels, a power, a quotient) into one Lrn.

    mul  Reshape  Pad  Transpose  PoolAvg3d  Transpose  Reshape  mul  add  pow  div     ->     Transpose  Lrn  Transpose

HTP finalizes the PoolAvg3d slowly: ZFNet-512 takes 6.1 s with it and 2.2 s with Lrn (QNN 2.47, SM8650).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from opdb.core.graph import GraphOp
from opdb.core.op_config import ParamConfig
from opdb.lower.passes.arithmetic import FLOATS, operation, scaling
from opdb.lower.passes.edit import Edit, parameter, transpose

VIEWS = ("Reshape", "ExpandDims", "Squeeze")
AVERAGES = ("PoolAvg2d", "PoolAvg3d")


def run(edit: Edit) -> int:
    """Returns the number of chains that became one op."""
    return sum(_fused(edit, op) for op in reversed(edit.ops) if edit.has(op))


@dataclass
class _Chain:
    """Walks from the divisor back to the squares.  ``read``: the next tensor; ``ops``: the ops so far, last one first."""

    edit: Edit
    read: str
    ops: list[GraphOp]

    def takes(self, op: GraphOp, x: str | None = None) -> bool:
        """Steps over ``op`` to its input ``x`` (by default the first one) unless something else reads its result."""
        if self.edit.only_reader(op.outputs[0]) is None:
            return False
        self.ops.append(op)
        self.read = x or op.inputs[0] or ""
        return True

    def number(self, what: str) -> float | None:
        """Steps over an ADD, MULTIPLY or POWER and returns its scalar operand; None for anything else."""
        op = self.edit.maker(self.read)
        if op is None or operation(op) != what:
            return None
        if what == "POWER":
            found, x = self.edit.constant(op.inputs[1]), op.inputs[0]
        elif (s := scaling(self.edit, op)) is not None:
            found, x = s.term if what == "ADD" else s.factor, s.x
        else:
            return None
        fits = found is not None and found.size == 1 and self.takes(op, x)
        return float(found.item()) if found is not None and fits else None

    def moves(self) -> None:
        """Steps over ops that only reshape."""
        while (op := self.edit.maker(self.read)) is not None and self._keeps_order(op) and self.takes(op):
            pass

    def _keeps_order(self, op: GraphOp) -> bool:
        if op.op != "Transpose":
            return op.op in VIEWS
        shape = self.edit.tensors[op.inputs[0] or ""].shape
        wide = [d for d in parameter(op, "perm") if shape[d] != 1]
        return wide == sorted(wide)


def _fused(edit: Edit, last: GraphOp) -> bool:
    x = last.inputs[0] if last.inputs else None
    if operation(last) != "DIVIDE" or x is None or edit.tensors[x].dtype not in FLOATS:
        return False
    found = _response(edit, x, last)
    if found is None:
        return False
    params, ops = found
    shape = edit.tensors[x].shape
    order = (0, *range(2, len(shape)), 1)
    back = (0, len(shape) - 1, *range(1, len(shape) - 1))
    before, after = (
        replace(
            edit.tensors[x],
            name=edit.fresh(f"{last.outputs[0]}_{what}"),
            type="NATIVE",
            data=None,
            shape=tuple(shape[d] for d in order),
        )
        for what in ("channels_last", "lrn")
    )
    name = edit.fresh(f"{last.name}_lrn")
    new = [
        transpose(edit.fresh(f"{last.name}_channels_last"), x, order, before.name, last.origin),
        GraphOp(name, "Lrn", (before.name,), params, (after.name,), last.package, last.origin),
        transpose(last.name, after.name, back, last.outputs[0], last.origin),
    ]
    return edit.rewrite([*ops, last], new, [before, after], faultless=True)


def _response(edit: Edit, x: str, last: GraphOp) -> tuple[tuple[ParamConfig, ...], list[GraphOp]] | None:
    """The parameters of an Lrn, and the ops that it replaces, in the order of execution."""
    shape, divisor = edit.tensors[x].shape, last.inputs[1] or ""
    if {edit.tensors[t].shape for t in (divisor, *last.outputs)} != {shape} or len(shape) < 3:
        return None
    chain = _Chain(edit, divisor, [])
    beta, bias, alpha = (chain.number(what) for what in ("POWER", "ADD", "MULTIPLY"))
    if beta is None or bias is None or alpha is None:
        return None
    chain.moves()
    size = _window(edit, chain, shape)
    if size is None or size % 2 == 0:
        return None
    chain.moves()
    pad = edit.maker(chain.read)
    if pad is None or not _pads(edit, pad, size // 2, shape) or not chain.takes(pad):
        return None
    chain.moves()
    squares = edit.maker(chain.read)
    if (
        squares is None
        or operation(squares) != "MULTIPLY"
        or squares.inputs != (x, x)
        or not chain.takes(squares)
    ):
        return None
    params = (
        ParamConfig("alpha", "f32", float(np.float32(alpha / size))),
        ParamConfig("beta", "f32", beta),
        ParamConfig("bias", "f32", bias),
        ParamConfig("radius", "i32", size // 2),
    )
    return params, chain.ops[::-1]


def _window(edit: Edit, chain: _Chain, shape: tuple[int, ...]) -> int | None:
    """The number of channels averaged, if the pool averages only channels of an image of ``shape`` with zeros around its channels."""
    pool = edit.maker(chain.read)
    if pool is None or pool.op not in AVERAGES:
        return None
    size, *others = parameter(pool, "filter_size")
    plain = {*others, *parameter(pool, "stride")} == {1} and not any(parameter(pool, "pad_amount"))
    padded = edit.tensors[pool.inputs[0] or ""].shape[:2]
    fits = plain and padded == (shape[0], shape[1] + size - 1) and not parameter(pool, "rounding_mode", 0)
    return int(size) if fits and chain.takes(pool) else None


def _pads(edit: Edit, pad: GraphOp, radius: int, shape: tuple[int, ...]) -> bool:
    """True if ``pad`` puts ``radius`` zeros before and after the channels of an image of ``shape``, as [N, 1, C, ...]."""
    given = edit.tensors[pad.inputs[0] or ""].shape
    amounts = np.reshape(parameter(pad, "pad_amount", ()), (-1, 2)).tolist() if pad.op == "Pad" else []
    wanted = [[radius, radius] if place == 2 else [0, 0] for place in range(len(given))]
    return (
        amounts == wanted
        and not parameter(pad, "scheme", 0)
        and not parameter(pad, "pad_constant_value", 0)
        and given[:3] == (shape[0], 1, shape[1])
    )
