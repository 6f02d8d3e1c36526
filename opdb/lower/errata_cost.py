"""The cost of avoiding errata: the additional ops, products, bytes and microseconds of a node with the workaround."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from opdb.catalog.targets.target import Target
from opdb.judge.errata.records import RECORDS
from opdb.judge.errata.report import Extra
from opdb.lower.cost import total
from opdb.lower.prices import covers, shipped, work_of
from opdb.lower.workarounds import OF_PROGRAMS
from opdb.runtime.forms import Lowered, Rejected

#: Lowers one node for a target.
Lower = Callable[[Target], Lowered | Rejected]


def extras(lowered: Lowered, lower: Lower, target: Target) -> Mapping[str, Extra | None]:
    """The cost of each erratum of ``lowered``, found by lowering the node again.

    Avoided errata are ignored one after the other, so their costs add up to the total.  For an erratum that is only
    warned of: the cost of avoiding it alone.  None: the node would fall back to the CPU.
    """
    if not (lowered.avoided or lowered.warned):
        return {}
    costs: dict[str, Extra | None] = {}
    before = lowered
    for i, erratum in enumerate(lowered.avoided, 1):
        without = lower(replace(target, ignored=target.ignored | set(lowered.avoided[:i])))
        after = without if isinstance(without, Lowered) else before
        costs[erratum] = _more(before, after, target)
        before = after
    for erratum in lowered.warned:
        if RECORDS[erratum].workaround in OF_PROGRAMS:
            continue  # cannot be determined from one node
        avoiding = lower(_avoiding(target, (*lowered.avoided, erratum)))
        if isinstance(avoiding, Rejected) or erratum in avoiding.warned:
            costs[erratum] = None
        else:
            costs[erratum] = _more(avoiding, lowered, target)
    return costs


def _avoiding(target: Target, errata: Iterable[str]) -> Target:
    """``target`` with these errata avoided and all others ignored."""
    return replace(target, errata="avoid", ignored=frozenset(RECORDS.keys() - set(errata)))


def _more(a: Lowered, b: Lowered, target: Target) -> Extra:
    x, y = total(a), total(b)
    us, soc = _time(a, b, target)
    return Extra(x.ops - y.ops, x.macs - y.macs, x.bytes + x.layout_bytes - y.bytes - y.layout_bytes, us, soc)


def _time(a: Lowered, b: Lowered, target: Target) -> tuple[float | None, str]:
    """The additional microseconds of ``a`` over ``b``, and the chip; (None, "") if the table lacks the target or a differing op."""
    if not covers(target):
        return None, ""
    table, works = shipped(), (work_of(a.ops), work_of(b.ops))
    differing = [k for k in {**works[0], **works[1]} if works[0].get(k) != works[1].get(k)]
    if not all(k in table.lines for k in differing):
        return None, ""
    return table.price(works[0]) - table.price(works[1]), table.soc
