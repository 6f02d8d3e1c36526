"""All errata by id: the records of specs/errata, and rules of op specs that are faults and have no record yet."""

from __future__ import annotations

from collections.abc import Mapping

from opdb.generated.constants.errata import ERRATA
from opdb.runtime.checks import Violation
from opdb.runtime.errata import REJECT, Erratum

#: rule -> workaround, class of its cost, note on it.  A rule goes from here when its record is written.
_RULES: Mapping[str, tuple[str, str, str]] = {
    **dict.fromkeys(
        ("ReluMinMax.H5", "ReluMinMax.H6", "ElementWiseNeuron.H16", "ElementWiseNeuron.H17"),
        ("clamp-by-limits", "small", "an ElementWiseMaximum or ElementWiseMinimum for each limit inside the range"),
    ),
    "Conv2d.H21": ("zero-column-behind-filter", "large", "a filter with one more column of zeros"),
    **dict.fromkeys(
        ("Conv2d.H22", "DepthWiseConv2d.H16", "Conv3d.H11"),
        ("filter-as-long-as-padding", "large", "a filter with more rows and columns of zeros"),
    ),
    **dict.fromkeys(
        ("Conv2d.H23", "DepthWiseConv2d.H17", "Conv3d.H12"),
        ("zero-tap-across-filter", "large", "a filter of twice as many taps"),
    ),
    "Gather.H12": ("gather-from-one-matrix", "large", "a Concat and an ElementWiseAdd"),
    **dict.fromkeys(
        ("Gather.H11", "Gather.H13", "Gather.H14"),
        ("gather-from-joined-dimensions", "none", "Reshapes of table, indices and result"),
    ),
    "Pad.H8": ("pad-by-concat", "small", "a Concat"),
    "PoolAvg2d.H3": ("average-by-channel", "none", "a DepthWiseConv2d in the place of the pool"),
    "PoolMax2d.H3": ("pool-every-second-column", "small", "a StridedSlice"),
    "PoolMax2d.H4": ("pad-with-least-number", "small", "a Pad"),
    **dict.fromkeys(
        (
            "ElementWiseBinary.H25", "ElementWiseNeuron.H15", "ElementWisePower.H3", "Gather.H15", "LogSoftmax.H3",
            "ReduceSum.H8", "Reshape.H5", "Reshape.H6", "ScatterNd.H9", "SpaceToDepth.H1",
        ),
        (REJECT, "large", "another lowering, or the node on the CPU"),
    ),
}  # fmt: skip


def _record(rule: str, workaround: str, cost: str, note: str) -> Erratum:
    op = rule.partition(".")[0]
    return Erratum(
        id=rule,
        backend="HTP",
        op=op,
        title=f"{op} returns wrong numbers where {rule} says so",
        effect="wrong-result",
        cause="unknown",
        workaround=workaround,
        cost_class=cost,
        cost_note=note,
        seen=(("HTP 2.47.0", (), ""),),
        seen_on_device=False,
        absent_on_device=False,
        execution="emulator",
        since="2.47",
        until=None,
        arch=(),
        socs=(),
    )


RECORDS: Mapping[str, Erratum] = {**ERRATA, **{rule: _record(rule, *w) for rule, w in _RULES.items()}}


def erratum_of(violation: Violation) -> str:
    """The id of the erratum that a violation reports; "" for a rule of documents or validators."""
    return violation.rule if violation.rule in _RULES else ""
