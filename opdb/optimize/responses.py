"""fuse-responses: local response normalization, which PyTorch writes as squares, an average over channels and a power, as one Lrn.

    mul  Reshape  Pad  Transpose  PoolAvg3d  Transpose  Reshape  mul  add  pow  div     ->     Transpose  Lrn  Transpose

An average over three dimensions takes HTP longer than the convolutions around it, to finalize and to run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from opdb.graph import GraphOp
from opdb.op_config import ParamConfig
from opdb.optimize.arithmetic import FLOATS, operation, scaling
from opdb.optimize.edit import Edit, parameter, transpose

VIEWS = ("Reshape", "ExpandDims", "Squeeze")
AVERAGES = ("PoolAvg2d", "PoolAvg3d")


def run(edit: Edit) -> int:
    """How many became one op."""
    return sum(_fused(edit, op) for op in reversed(edit.ops) if edit.has(op))


@dataclass
class _Chain:
    """What stands before the division, read from its end: ``read`` is the tensor that comes next, ``ops`` what was passed."""

    edit: Edit
    read: str
    ops: list[GraphOp]

    def takes(self, op: GraphOp, x: str | None = None) -> bool:
        """Goes past ``op`` to what it reads (``x``; else its first input), where nothing else reads what it makes."""
        if self.edit.only_reader(op.outputs[0]) is None:
            return False
        self.ops.append(op)
        self.read = x or op.inputs[0] or ""
        return True

    def number(self, what: str) -> float | None:
        """The number that an op adds or multiplies by, or takes the power of."""
        op = self.edit.maker(self.read)
        if op is None or operation(op) != what:
            return None
        s = None if what == "POWER" else scaling(self.edit, op)
        found = self.edit.constant(op.inputs[1]) if s is None else s.term if what == "ADD" else s.factor
        fits = found is not None and found.size == 1 and self.takes(op, None if s is None else s.x)
        return float(found.item()) if found is not None and fits else None

    def moves(self) -> None:
        """Goes past ops that keep the order of the numbers."""
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
    """The parameters of an Lrn, and the ops that it stands for, in the order of execution."""
    chain = _Chain(edit, last.inputs[1] or "", [])
    beta, bias, alpha = (chain.number(what) for what in ("POWER", "ADD", "MULTIPLY"))
    if beta is None or bias is None or alpha is None:
        return None
    chain.moves()
    size = _window(edit, chain)
    if size is None or size % 2 == 0:
        return None
    chain.moves()
    pad = edit.maker(chain.read)
    if pad is None or not _pads(edit, pad, size // 2, edit.tensors[x].shape) or not chain.takes(pad):
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


def _window(edit: Edit, chain: _Chain) -> int | None:
    """How many channels are averaged, at every channel: the pool's first dimension."""
    pool = edit.maker(chain.read)
    if pool is None or pool.op not in AVERAGES:
        return None
    size, *others = parameter(pool, "filter_size")
    plain = {*others, *parameter(pool, "stride")} == {1} and not any(parameter(pool, "pad_amount"))
    fits = plain and not parameter(pool, "rounding_mode", 0) and chain.takes(pool)
    return int(size) if fits else None


def _pads(edit: Edit, pad: GraphOp, radius: int, shape: tuple[int, ...]) -> bool:
    """Whether ``radius`` zeros are put before and behind the channels of an image of ``shape``: [N, 1, C, ...]."""
    given = edit.tensors[pad.inputs[0] or ""].shape
    amounts = np.reshape(parameter(pad, "pad_amount", ()), (-1, 2)).tolist() if pad.op == "Pad" else []
    wanted = [[radius, radius] if place == 2 else [0, 0] for place in range(len(given))]
    return (
        amounts == wanted
        and not parameter(pad, "scheme", 0)
        and not parameter(pad, "pad_constant_value", 0)
        and given[:3] == (shape[0], 1, shape[1])
    )
