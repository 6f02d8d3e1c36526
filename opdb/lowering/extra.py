"""What avoiding errata costs: the ops, products and bytes that a node has more than without the workaround."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from opdb.errata.records import RECORDS
from opdb.errata.report import Extra
from opdb.errata.workarounds import OF_PROGRAMS
from opdb.lowering.cost import Cost, total
from opdb.runtime.lowering import Lowered, Rejected
from opdb.targets.target import Target

#: The ops of one node for a target.
Lower = Callable[[Target], Lowered | Rejected]


def extras(lowered: Lowered, lower: Lower, target: Target) -> Mapping[str, Extra | None]:
    """What each erratum of ``lowered`` costs, by lowering the node again.

    Those that are avoided are ignored one after the other, so that their costs add up to what all of them cost.  For one
    that is warned of: what avoiding it alone would add.  None: the node falls back to the CPU.
    """
    if not (lowered.avoided or lowered.warned):
        return {}
    own = total(lowered)
    costs: dict[str, Extra | None] = {}
    before = own
    for i, erratum in enumerate(lowered.avoided, 1):
        without = lower(replace(target, ignored=target.ignored | set(lowered.avoided[:i])))
        after = total(without) if isinstance(without, Lowered) else before
        costs[erratum] = _more(before, after)
        before = after
    for erratum in lowered.warned:
        if RECORDS[erratum].workaround in OF_PROGRAMS:
            continue  # a node by itself does not tell
        avoiding = lower(_avoiding(target, (*lowered.avoided, erratum)))
        if isinstance(avoiding, Rejected) or erratum in avoiding.warned:
            costs[erratum] = None
        else:
            costs[erratum] = _more(total(avoiding), own)
    return costs


def _avoiding(target: Target, errata: Iterable[str]) -> Target:
    """``target`` with these errata avoided and all others ignored."""
    return replace(target, errata="avoid", ignored=frozenset(RECORDS.keys() - set(errata)))


def _more(a: Cost, b: Cost) -> Extra:
    return Extra(a.ops - b.ops, a.macs - b.macs, a.bytes + a.layout_bytes - b.bytes - b.layout_bytes)
