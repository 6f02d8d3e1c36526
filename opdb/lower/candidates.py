"""The candidates of a torch target, and the cheapest one that fits a node.

Candidates come in the order of their family, the canonical one first.  Each is tried by the caller's ``attempt``, which
says whether it is correct (its guard), legal (the validators) and right (the errata that the target avoids).  The cheapest
of the rest by ``opdb.lower.cost`` wins; among candidates within one op's own cost, the first one wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Protocol, TypeVar

from opdb.generated.builders import TARGETS
from opdb.lower.cost import MODELED, Prices
from opdb.lower.qnn_names import has_op
from opdb.runtime import direct
from opdb.runtime.forms import Form, Lowered, Reason

#: A node of an ONNX file that has no PyTorch equivalent (opdb.programs.onnx.host_node): its argument ``reason`` says why.
ONNX_NODE = "opdb_onnx.node.default"
#: PyTorch's control flow by operator name, with the fix.
CONTROL_FLOW = {
    "cond": "QNN's graphs have no branches on data: compute both branches and choose with torch.where",
    "while_loop": "QNN's graphs have no loops on data (while_loop): repeat the body a fixed number of times",
    "map_impl": "QNN's graphs have no loops (map): apply the function to the whole tensor, or to each slice in a Python loop",
    "scan": "QNN's graphs have no loops (scan): write it as a Python loop, which the export unrolls",
    "associative_scan": "QNN's graphs have no loops (associative_scan): write it as a Python loop, which the export unrolls",
}
#: PyTorch's ways into and out of complex numbers, and the fix.
COMPLEX = (
    "aten.view_as_complex.default",
    "aten.view_as_real.default",
    "aten.complex.default",
    "aten.polar.default",
)
NO_COMPLEX = "QNN has no complex numbers: compute with the real and the imaginary part, e.g. RoPE with the two halves of each head"


class Candidate(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def ops(self) -> tuple[str, ...]: ...  # the different ops that it consists of


C = TypeVar("C", bound=Candidate)
Attempt = Callable[[C], tuple[Lowered | None, list[Reason]]]


def forms(torch_target: str) -> tuple[Form, ...]:
    """The candidates of an ATen target, in the order of its family, or the one of an operator of opdb.programs.torch_ops."""
    return TARGETS.get(torch_target) or direct.forms(torch_target)


def mapped(torch_target: str) -> bool:
    """True if this target has a candidate; e.g. aten.relu.default, qnn.Gru.default."""
    return bool(forms(torch_target))


@cache
def unmapped_reason(torch_target: str) -> Reason:
    """Why there is no candidate: whether QNN has an op for the target; and another overload that has a candidate."""
    if torch_target in CONTROL_FLOW:
        return Reason("", "", CONTROL_FLOW[torch_target])
    if torch_target in COMPLEX:
        return Reason("", "", NO_COMPLEX)
    packets = {t.rpartition(".")[0]: t for t in reversed(TARGETS)}
    packet = torch_target.rpartition(".")[0]
    overloads = [packets[p] for p in (packet, packet.rstrip("_")) if p in packets]
    if overloads:
        return Reason("", "", f"opdb does not map {torch_target}; it maps {overloads[0]}")
    return Reason("", "", has_op(torch_target, "this operator"))


def cheapest(
    candidates: Iterable[C],
    attempt: Attempt[C],
    prices: Prices = MODELED,
    doubts: Callable[[Lowered], int] = lambda lowered: 0,
) -> tuple[Lowered | None, list[Reason]]:
    """Returns the cheapest candidate among those with the fewest ``doubts``, and the reasons from ``attempt`` up to that candidate.

    If none fits, returns the reasons of all of them.  Skips candidates that ``prices`` can never find cheaper.
    """
    best: Lowered | None = None
    fewest = 0
    reasons: list[Reason] = []
    said: list[Reason] = []
    for candidate in candidates:
        if best is not None and not fewest and prices.beyond(candidate.name, candidate.ops, best):
            continue
        lowered, found = attempt(candidate)
        said += found
        if lowered is None:
            continue
        here = doubts(lowered)
        if best is None or here < fewest or (here == fewest and prices.saves(lowered, best)):
            best, fewest, reasons = lowered, here, list(said)
    return best, said if best is None else reasons
