"""Products of int64, which QNN computes in int32."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.fx import Node

from opdb.checks.range_warnings.constants import constants_of
from opdb.checks.range_warnings.warning import Warned, warning
from opdb.programs.torch.bounds import operator_of

if TYPE_CHECKING:
    from opdb.programs.torch.program import Program

INT32_END = 2**31
#: int64 factors from which on a product is likely to pass INT32_END.
LARGE_FACTOR = 2**16


def is_int64(node: Node) -> bool:
    """True if the node's result is one tensor of int64."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype == torch.int64


def product_warnings(program: Program, node: Node) -> Iterator[Warned]:
    """INT32.OVERFLOW for each large constant by which the node multiplies int64."""
    if operator_of(node) != "mul":
        return
    for label, values in constants_of(program, node):
        factor = float(np.abs(values).max(initial=0))
        if factor >= LARGE_FACTOR:
            yield warning(
                "INT32.OVERFLOW",
                f"int64 is computed in int32: times {label.removeprefix('the constant ')}, numbers from {INT32_END / factor:.6g} on pass "
                "2**31 and come out wrong: multiply in floats, or on the CPU",
            )
