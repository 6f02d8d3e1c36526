"""The chips for which QNN's libraries simulate graphs: measured, as no document lists them.

A small graph (two convolutions, two Relus) was finalized for each chip of specs/socs.yaml on the x86-64 libraries of QNN 2.47 to 2.51;
listed are the chips for which event 2006 came with cycles.  The list is for messages: only the library's report counts.
"""

from __future__ import annotations

from opdb.core.sdk import sdk_number
from opdb.generated.constants.socs import SOCS
from opdb.lower.prices import RANKED

#: The chips that each version starts to simulate; every later version keeps those of the earlier ones.
SINCE = {
    "2.47": ("AIC100", "QCS9100", "SA8255", "SA8540", "SA8797"),
    "2.48": ("SA8787",),
    "2.51": ("SAR2230P",),
}
#: Chips whose estimates were compared with latencies of devices (docs/guides/cost.md).
COMPARED = ("SA8255", "QCS9100")


def simulated(sdk: str) -> tuple[str, ...]:
    """The names of the chips that an SDK's libraries simulate; for an SDK older than all measured ones, the oldest list."""
    oldest = next(iter(SINCE))
    known = [v for v in SINCE if sdk_number(v) <= sdk_number(sdk)] or [oldest]
    return tuple(sorted(chip for version in known for chip in SINCE[version]))


#: Its estimates rank networks for other chips: Spearman 0.92 to 0.96 with the times of 20 of 21 devices (docs/guides/cost.md).
RANKING = "SA8255"


def ranks(soc: str) -> bool:
    """True if the estimates for RANKING tell which of two networks is faster on a chip."""
    return (SOCS[soc].htp_arch or 0) in RANKED
