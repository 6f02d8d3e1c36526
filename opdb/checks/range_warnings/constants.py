"""Constants that fp16 cannot hold: they become infinite, vanish, or are rounded too far."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.fx import Node

from opdb.checks.range_warnings.warning import FP16_MAX, Warned, warning
from opdb.programs.torch.bounds import operator_of

if TYPE_CHECKING:
    from opdb.programs.torch.program import Program

#: The relative error of its fp16 value above which a constant gets a warning.
MAX_ROUNDING = 0.01
ARITHMETIC = frozenset({
    "add", "sub", "rsub", "mul", "div", "linear", "matmul", "mm", "bmm", "addmm", "conv1d", "conv2d", "conv3d",
})  # fmt: skip
SOFTMAX = frozenset({"softmax", "_softmax", "_safe_softmax", "log_softmax", "_log_softmax"})
#: Operators that may lie between a mask's huge negative number and the softmax.
BEFORE_SOFTMAX = frozenset({
    "add", "where", "masked_fill", "expand", "view", "reshape", "unsqueeze", "_to_copy", "mul", "clone", "slice", "maximum",
})  # fmt: skip
#: The largest number of nodes between the two.
SOFTMAX_DEPTH = 8


def constant_warnings(program: Program, node: Node) -> Iterator[Warned]:
    """FP16.OVERFLOW and FP16.VANISHES for the constants that an arithmetic operator reads; none for other nodes."""
    if operator_of(node) not in ARITHMETIC:
        return
    for label, values in constants_of(program, node):
        largest = float(np.abs(values[np.isfinite(values)]).max(initial=0))
        if largest > FP16_MAX:
            if values.min() >= -FP16_MAX or not _feeds_softmax(node):
                yield _overflow(label, largest, single=values.size == 1)
        elif values.size == 1 and largest > 0:
            yield from _rounding(label, largest)


def constants_of(program: Program, node: Node) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """The constants among a node's arguments: a label for each, e.g. "the constant 1e-06", and its values."""
    for arg in node.args:
        if isinstance(arg, (int, float)) and not isinstance(arg, bool):
            yield f"the constant {arg:g}", np.array([arg], np.float64)
        elif isinstance(arg, Node) and isinstance(arg.meta.get("val"), torch.Tensor):
            tensor = program.values.get(program.origin(arg))
            if (
                tensor is None
                or tensor.is_meta
                or not (tensor.dtype.is_floating_point or tensor.numel() == 1)
            ):
                continue
            tensor = tensor.detach()
            values = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
            yield (
                f"the constant {values.item():g}" if values.size == 1 else f"the constant {arg.name}",
                values,
            )


def _overflow(label: str, largest: float, *, single: bool) -> Warned:
    holds = "" if single else f" holds {largest:g}, which"
    return warning(
        "FP16.OVERFLOW",
        f"{label}{holds} is infinite in fp16, which ends at 65504: multiply in two steps, or scale the input",
    )


def _rounding(label: str, number: float) -> Iterator[Warned]:
    """FP16.VANISHES if fp16 rounds the number to 0, or too far."""
    rounded = float(np.float16(number))
    if rounded == 0:
        yield warning("FP16.VANISHES", f"{label} is 0 in fp16, whose least number is 6e-8: use 1e-5 or more")
    elif abs(rounded - number) > MAX_ROUNDING * number:
        yield warning(
            "FP16.VANISHES",
            f"{label} is {rounded:.3g} in fp16, {abs(rounded / number - 1):.1%} off: use 1e-5 or more",
        )


def _feeds_softmax(node: Node, depth: int = 0) -> bool:
    """True if a softmax reads the result: minus infinity masks there just as the huge negative number does."""
    return depth < SOFTMAX_DEPTH and any(
        operator_of(u) in SOFTMAX or (operator_of(u) in BEFORE_SOFTMAX and _feeds_softmax(u, depth + 1))
        for u in node.users
    )
