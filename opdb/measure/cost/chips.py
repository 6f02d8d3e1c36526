"""For which chips QNN's libraries simulate graphs: measured, as no document says it.

A small graph (two convolutions, two Relus) was finalized for each chip of specs/socs.yaml on the x86-64 libraries of QNN 2.47 to 2.51;
listed are those for which the event 2006 came with cycles.  The list is for messages: what counts is what a library reports.
"""

from __future__ import annotations

from opdb.core.sdk import sdk_number
from opdb.generated.constants.socs import SOCS
from opdb.lower.prices import RANKED

#: The chips that each version simulates from on; every later version has those of the earlier ones too.
SINCE = {
    "2.47": ("AIC100", "QCS9100", "SA8255", "SA8540", "SA8797"),
    "2.48": ("SA8787",),
    "2.51": ("SAR2230P",),
}
#: Those whose estimates were compared with latencies of devices (docs/guides/cost.md).
COMPARED = ("SA8255", "QCS9100")


def simulated(sdk: str) -> tuple[str, ...]:
    """The chips that the libraries of an SDK simulate, by name; of an older one than measured, those of the oldest."""
    oldest = next(iter(SINCE))
    known = [v for v in SINCE if sdk_number(v) <= sdk_number(sdk)] or [oldest]
    return tuple(sorted(chip for version in known for chip in SINCE[version]))


#: Whose estimates rank networks for other chips: Spearman 0.92 to 0.96 with what 20 of 21 devices take (docs/guides/cost.md).
RANKING = "SA8255"


def ranks(soc: str) -> bool:
    """Whether the estimates for RANKING say which of two networks is the faster one on a chip."""
    return (SOCS[soc].htp_arch or 0) in RANKED
