"""The cost of avoiding each erratum in a whole graph, compared with the graph in which it alone is ignored."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from opdb.catalog.targets.target import Target
from opdb.core.errors import OpdbError
from opdb.core.graph import QnnGraph
from opdb.judge.errata.policy import AVOID
from opdb.judge.errata.report import ErratumCount
from opdb.measure.cost.figures import Estimate


@dataclass(frozen=True)
class ErratumPrice:
    """``us``: how much longer the graph takes because its nodes avoid the erratum, with all others avoided.

    None if there is no graph without it, for the reason ``why``: e.g. the erratum is that the library does not finalize it.
    ``share``: of the graph's time.
    """

    erratum: str
    nodes: int
    title: str
    us: float | None
    share: float | None = None
    why: str = ""


def prices(
    own: Estimate,
    met: Iterable[ErratumCount],
    target: Target,
    on: Callable[[Target], QnnGraph],
    simulate: Callable[[QnnGraph], Estimate],
) -> tuple[ErratumPrice, ...]:
    """The price of each avoided erratum of ``met``, the most expensive first; one finalization each.

    ``own``: the estimate of the graph for ``target``.  ``on``: makes the graph for another target.
    """
    found = []
    for each in met:
        if each.policy != AVOID:
            continue
        price = ErratumPrice(each.erratum, each.nodes, each.title, None)
        try:
            alone = simulate(on(replace(target, ignored=target.ignored | {each.erratum})))
        except OpdbError as error:
            found.append(replace(price, why=str(error).splitlines()[0]))
            continue
        us = own.us - alone.us
        found.append(replace(price, us=us, share=us / own.us))
    return tuple(sorted(found, key=lambda p: (p.us is None, -(p.us or 0.0))))
