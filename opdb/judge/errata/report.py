"""The errata that a program meets and what avoiding them costs, as commands print them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from opdb.core import names
from opdb.judge.errata.policy import AVOID, WARN, costs, seen_where
from opdb.judge.errata.records import RECORDS


@dataclass(frozen=True)
class Extra:
    """The work that avoiding an erratum adds to the ops of a node: ops, multiply-accumulates, bytes read and written.

    ``us``: microseconds on ``soc`` by the table of prices (opdb.lower.prices); None if it has no prices of the ops.
    """

    ops: int = 0
    macs: int = 0
    bytes: int = 0
    us: float | None = field(default=None, compare=False)
    soc: str = field(default="", compare=False)

    def plus(self, other: Extra) -> Extra:
        """The sum of both; its time is known if both times are, and are for one chip."""
        known = self.us is not None and other.us is not None and self.soc in ("", other.soc)
        us = (self.us or 0.0) + (other.us or 0.0) if known else None
        return Extra(
            self.ops + other.ops,
            self.macs + other.macs,
            self.bytes + other.bytes,
            us,
            other.soc if known else "",
        )

    @property
    def text(self) -> str:
        """E.g. "2 ops, 1.5 M bytes more, about 3 us on SA8255"; "nothing" if nothing is added."""
        parts = [names.counted(self.ops, "op")] if self.ops > 0 else []
        parts += [f"{amount(n)} {unit}" for n, unit in ((self.macs, "MACs"), (self.bytes, "bytes")) if n > 0]
        more = f"{', '.join(parts)} more" if parts else ""
        return ", ".join(filter(None, (more, self.time))) or "nothing"

    @property
    def time(self) -> str:
        """E.g. "about 3 us on SA8255"; "" if it is unknown or not above 0."""
        if self.us is None or self.us <= 0:
            return ""
        return f"about {self.us:,.0f} us on {self.soc}" if self.us >= 1 else f"less than 1 us on {self.soc}"


@dataclass(frozen=True)
class Met:
    """The ids of the errata that the ops of a node avoid, and of the errata that they may show.

    ``extra``: what avoiding each costs, or would cost; None: the node falls back to the CPU.
    """

    avoided: tuple[str, ...] = ()
    warned: tuple[str, ...] = ()
    extra: Mapping[str, Extra | None] = field(default_factory=dict)


@dataclass(frozen=True)
class ErratumCount:
    """One erratum, and the number of nodes that meet it.  ``policy``: AVOID or WARN.

    ``ops``, ``macs``, ``bytes``: the work that avoiding it adds, or would add, to all these nodes; None: not known.
    ``us``: approximate microseconds on ``soc``; None: not known.  ``cpu``: the nodes that avoiding it sends back to the CPU.
    """

    erratum: str
    policy: str
    nodes: int
    title: str
    seen: str
    cost: str  # of avoiding it, from the record; e.g. costs one Concat
    ops: int | None = None
    macs: int | None = None
    bytes: int | None = None
    cpu: int = 0
    us: float | None = None
    soc: str = ""

    @property
    def text(self) -> str:
        if self.policy == AVOID:
            return f"avoided {self.erratum} in {_nodes(self.nodes)}: {self.title}; that {self._costs()}"
        return f"warning {self.erratum} in {_nodes(self.nodes)}: {self.title} ({self.seen}); avoiding it {self._costs()}"

    def _costs(self) -> str:
        if self.ops is None or self.macs is None or self.bytes is None:
            return self.cost
        added = Extra(self.ops, self.macs, self.bytes, self.us, self.soc)
        if not self.cpu:
            return f"costs {added.text}"
        cpu = f"sends {_nodes(self.cpu)} back to the CPU"
        return cpu if self.cpu == self.nodes else f"{cpu} and costs {added.text}"


def counted(met: Iterable[Met]) -> tuple[ErratumCount, ...]:
    """Counts the nodes that meet each erratum.  ``met``: one for each node.  Avoided errata come first, then by id."""
    nodes: dict[tuple[str, str], list[Extra | str | None]] = {}
    for each in met:
        for policy, ids in ((AVOID, each.avoided), (WARN, each.warned)):
            for erratum in ids:
                nodes.setdefault((policy, erratum), []).append(each.extra.get(erratum, _UNKNOWN))
    return tuple(_count(e, policy, nodes[policy, e]) for policy, e in sorted(nodes, key=_avoided_first))


_UNKNOWN = "not known"


def _avoided_first(key: tuple[str, str]) -> tuple[bool, str]:
    return key[0] != AVOID, key[1]


def _count(erratum: str, policy: str, extra: list[Extra | str | None]) -> ErratumCount:
    record = RECORDS[erratum]
    known = (record.id, policy, len(extra), record.title, seen_where(record), costs(record))
    if _UNKNOWN in extra:
        return ErratumCount(*known)
    added = Extra(us=0.0)
    for each in extra:
        if isinstance(each, Extra):
            added = added.plus(each)
    cpu = extra.count(None)
    us = None if cpu else added.us
    return ErratumCount(*known, added.ops, added.macs, added.bytes, cpu, us, added.soc)


def amount(value: float | None) -> str:
    """A number with a decimal prefix, e.g. "12.3 M"; "?" for None."""
    if value is None:
        return "?"
    for unit in ("", " k", " M", " G"):
        if value < 1000:
            return f"{value:.3g}{unit}" if unit else f"{value:g}"
        value /= 1000
    return f"{value:.3g} T"


def _nodes(n: int) -> str:
    return names.counted(n, "node")
