"""Simulated time by node: who keeps the chip busy, and which nodes the library runs as one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from opdb.core.graph import GraphOp, QnnGraph
from opdb.measure.cost.figures import Group, SimulatedChip
from opdb.measure.cost.trace import SCALAR, Slice

INPUTS, OUTPUTS, OWN, IDLE = "(graph inputs)", "(graph outputs)", "(ops of the library)", "(nothing runs)"
#: Names of the groups without nodes.
REST = (INPUTS, OUTPUTS, OWN, IDLE)


def _zero() -> defaultdict[str, float]:
    return defaultdict(float)


@dataclass
class Shares:
    """Cycles by node, or by one of REST: ``compute`` while something computes, ``dma`` while only data moves; they add up to ``end``."""

    compute: defaultdict[str, float] = field(default_factory=_zero)
    dma: defaultdict[str, float] = field(default_factory=_zero)
    end: float = 0.0


def shares(slices: Iterable[Slice], names: Mapping[int, str]) -> Shares:
    """Divides the timeline: each interval is split evenly among the threads that compute in it, or, if none does, those that move data."""
    points: list[tuple[float, int, str, bool]] = []
    for s in slices:
        if s.duration > 0:
            owner = names.get(s.id) or _nobody(s.op)
            points.append((s.start, 1, owner, s.engine == "DMA"))
            points.append((s.start + s.duration, -1, owner, s.engine == "DMA"))
    points.sort(key=lambda p: (p[0], p[1]))
    found = Shares()
    computing: Counter[str] = Counter()
    moving: Counter[str] = Counter()
    for when, step, owner, dma in points:
        if when > found.end:
            _divide(found, when - found.end, computing, moving)
            found.end = when
        busy = moving if dma else computing
        busy[owner] += step
        if not busy[owner]:
            del busy[owner]
    return found


def _divide(found: Shares, cycles: float, computing: Counter[str], moving: Counter[str]) -> None:
    busy, out = (computing, found.compute) if computing else (moving, found.dma)
    if not busy:
        found.compute[IDLE] += cycles
    threads = busy.total()
    for owner, n in busy.items():
        out[owner] += cycles * n / threads


def _nobody(op: str) -> str:
    """The group for work that the library added itself."""
    return INPUTS if "*Input" in op else OUTPUTS if "*Output" in op else OWN


def engines(slices: Iterable[Slice], end: float, chip: SimulatedChip) -> dict[str, float]:
    """The share of the time in which each engine works: for HVX the mean of all its threads, for DMA of the threads used."""
    threads: dict[str, set[int]] = defaultdict(set)
    busy = _zero()
    for s in slices:
        if s.duration > 0 and s.engine != SCALAR:
            threads[s.engine].add(s.thread)
            busy[s.engine] += s.duration
    count = {**{engine: len(used) for engine, used in threads.items()}, "HVX": chip.hvx_threads}
    return {engine: busy[engine] / (count[engine] * end) for engine in sorted(busy)} if end else {}


def groups(graph: QnnGraph, found: Shares, chip: SimulatedChip, missing: Iterable[str]) -> tuple[Group, ...]:
    """The groups of a graph in its order, then those without nodes; they add up to the whole time."""
    uncosted = set(missing)
    members = _members(graph, {*found.compute, *found.dma})
    rest = [name for name in REST if name in found.compute or name in found.dma]
    made = []
    for name in [*members, *rest]:
        ops = members.get(name, ())
        waits = found.dma.get(name, 0.0)
        cycles = found.compute.get(name, 0.0) + waits
        made.append(
            Group(
                node=name,
                nodes=tuple(op.name for op in ops),
                ops=tuple(op.op for op in ops),
                origins=tuple(dict.fromkeys(op.origin for op in ops if op.origin)),
                us=cycles / chip.mhz,
                dma_wait_us=waits / chip.mhz,
                share=cycles / found.end if found.end else 0.0,
                missing=any(op.name in uncosted for op in ops),
            )
        )
    return tuple(made)


def _members(graph: QnnGraph, priced: set[str]) -> dict[str, list[GraphOp]]:
    """Maps each node named in the trace to itself plus the unnamed nodes whose work it carries.

    An unnamed node belongs to the nearest named node that reads it, else to the nearest that it reads; without any, to itself.
    """
    after: dict[str, list[str]] = defaultdict(list)
    before: dict[str, list[str]] = defaultdict(list)
    maker = {t: op.name for op in graph.ops for t in op.outputs}
    for op in graph.ops:
        for t in op.inputs:
            if t in maker:
                after[maker[t]].append(op.name)
                before[op.name].append(maker[t])
    hosts = {
        op.name: _nearest(op.name, priced, after) or _nearest(op.name, priced, before) or op.name
        for op in graph.ops
    }
    taken = set(hosts.values())
    members: dict[str, list[GraphOp]] = {op.name: [] for op in graph.ops if op.name in taken}
    for op in graph.ops:
        members[hosts[op.name]].append(op)
    return members


def _nearest(name: str, priced: set[str], steps: Mapping[str, Sequence[str]]) -> str | None:
    """The nearest of ``priced`` from a node on, breadth first; the node itself if it is in ``priced``."""
    queue, seen = [name], {name}
    for each in queue:  # grows during the loop
        if each in priced:
            return each
        new = [n for n in steps.get(each, ()) if n not in seen]
        seen.update(new)
        queue += new
    return None
