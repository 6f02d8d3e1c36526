"""The chips for which QNN's libraries simulate graphs (``simulated`` of specs/socs.yaml), and those that the estimates rank.

The list is for messages: only the library's report counts.
"""

from __future__ import annotations

from opdb.core.sdk import sdk_number
from opdb.generated.constants.socs import SOCS
from opdb.lower.prices import RANKED

#: Chips whose estimates were compared with latencies of devices (docs/guides/cost.md).
COMPARED = ("SA8255", "QCS9100")


def simulated(sdk: str) -> tuple[str, ...]:
    """The names of the chips that an SDK's libraries simulate; for an SDK older than all measured ones, the oldest list."""
    since = {chip: sdk_number(soc.simulated) for chip, soc in SOCS.items() if soc.simulated}
    last = max(sdk_number(sdk), min(since.values()))
    return tuple(sorted(chip for chip, first in since.items() if first <= last))


#: Its estimates rank networks for other chips: Spearman 0.92 to 0.96 with the times of 20 of 21 devices (docs/guides/cost.md).
RANKING = "SA8255"


def ranks(soc: str) -> bool:
    """True if the estimates for RANKING tell which of two networks is faster on a chip."""
    return (SOCS[soc].htp_arch or 0) in RANKED
