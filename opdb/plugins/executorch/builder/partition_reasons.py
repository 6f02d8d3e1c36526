"""Reasons to leave torch.fx nodes outside of QNN's graphs although a builder accepts them.

They concern the program as a whole, not a single node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any

from executorch.backends.qualcomm.partition.common_defs import constant_operator
from executorch.backends.qualcomm.utils.constants import QCOM_QUANT_ATTRS, QCOM_SCALE

from opdb.runtime.forms import Reason

#: The reason for groups that fail ``reads_inputs``.
CONSTANT_GRAPH = Reason(
    "partition", "inputs", "the nodes read constants alone, and QNN saves no graph without inputs"
)
#: The reason for a node that ``dequantizes`` a constant if none of its readers is delegated (HTP-0355).
DEQUANTIZED_CONSTANT = Reason("stock", "static", "HTP does not finalize Dequantize of a constant")

#: The reason for constants that are ``read_outside``: the runtime would return the next result instead.
CONSTANT_RESULT = Reason(
    "partition", "outputs", "a constant that is read outside of its graph, where no op would write it"
)

#: The reason for nodes with ``endless_scale`` (HTP-0356).
ENDLESS_SCALE = Reason(
    "stock",
    "scale",
    "a scale that is not finite: its observer saw an infinity; mask with a finite number, e.g. -1e4",
)


def reads_inputs(nodes: Collection[Any], constants: Collection[str]) -> bool:
    """True if a group of nodes reads anything other than ``constants``, which are names of placeholders."""
    own = set(nodes)
    return any(s not in own and s.name not in constants for n in nodes for s in n.all_input_nodes)


def read_outside(node: Any, graph: Callable[[Any], bool]) -> bool:
    """True if ExecuTorch makes a node a static tensor and a reader is outside of the graph (``graph`` is False); e.g. the output."""
    return node.target in constant_operator and not all(map(graph, node.users))


def dequantizes(node: Any, constants: Collection[str]) -> bool:
    """True if a node dequantizes one of ``constants``."""
    name = getattr(node.target, "__name__", "")
    return name.startswith("quantized_decomposed.dequantize_per") and node.args[0].name in constants


def endless_scale(node: Any) -> bool:
    """True if a call reads or returns a tensor whose quantization scale is infinite or NaN."""
    if node.op != "call_function":
        return False
    encodings = (n.meta.get(QCOM_QUANT_ATTRS, {}) for n in (node, *node.all_input_nodes))
    scales = (e.get(QCOM_SCALE) for e in encodings)
    return any(isinstance(scale, float) and not math.isfinite(scale) for scale in scales)
