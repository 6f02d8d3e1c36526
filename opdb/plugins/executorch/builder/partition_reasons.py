"""What stays outside of QNN's graphs although a builder takes it; nodes are torch.fx's.

The reasons are those of a whole program: no node alone has them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any

from executorch.backends.qualcomm.partition.common_defs import constant_operator
from executorch.backends.qualcomm.utils.constants import QCOM_QUANT_ATTRS, QCOM_SCALE

from opdb.runtime.forms import Reason

#: Why a group is not delegated that ``reads_inputs`` says no of.
CONSTANT_GRAPH = Reason(
    "partition", "inputs", "the nodes read constants alone, and QNN saves no graph without inputs"
)
#: Why a node that ``dequantizes`` a constant stays with its readers, where none of them is delegated (HTP-0355).
DEQUANTIZED_CONSTANT = Reason("stock", "static", "HTP does not finalize Dequantize of a constant")

#: Why a constant is not delegated that ``read_outside`` says yes of: the runtime would take the next result for it.
CONSTANT_RESULT = Reason(
    "partition", "outputs", "a constant that is read outside of its graph, where no op would write it"
)

#: Why a node with ``endless_scale`` is not delegated (HTP-0356).
ENDLESS_SCALE = Reason(
    "stock",
    "scale",
    "a scale that is not finite: its observer saw an infinity; mask with a finite number, e.g. -1e4",
)


def reads_inputs(nodes: Collection[Any], constants: Collection[str]) -> bool:
    """Whether a group of nodes reads anything but ``constants``, names of placeholders."""
    own = set(nodes)
    return any(s not in own and s.name not in constants for n in nodes for s in n.all_input_nodes)


def read_outside(node: Any, graph: Callable[[Any], bool]) -> bool:
    """Whether a node that ExecuTorch makes a static tensor is read by any that ``graph`` says no of; e.g. the output."""
    return node.target in constant_operator and not all(map(graph, node.users))


def dequantizes(node: Any, constants: Collection[str]) -> bool:
    """Whether a node gives the numbers of one of ``constants`` that is stored with an encoding."""
    name = getattr(node.target, "__name__", "")
    return name.startswith("quantized_decomposed.dequantize_per") and node.args[0].name in constants


def endless_scale(node: Any) -> bool:
    """Whether a call reads or gives what is quantized with a scale that is infinite or no number."""
    if node.op != "call_function":
        return False
    encodings = (n.meta.get(QCOM_QUANT_ATTRS, {}) for n in (node, *node.all_input_nodes))
    scales = (e.get(QCOM_SCALE) for e in encodings)
    return any(isinstance(scale, float) and not math.isfinite(scale) for scale in scales)
