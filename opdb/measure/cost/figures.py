"""The simulation's figures for one graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from opdb.core.errors import OpdbError
from opdb.execute.libraries.results import SimulateResult


class NotEstimated(OpdbError):
    """Raised if the library refused the graph, crashed or hung; ``outcome`` says where and how."""

    def __init__(self, graph: str, outcome: SimulateResult) -> None:
        self.outcome = outcome
        reason = next((line for line in outcome.log if line.startswith("error")), "")
        said = (graph, outcome.stage, outcome.verdict, reason, outcome.explained)
        super().__init__(": ".join(filter(None, said)))


@dataclass(frozen=True)
class SimulatedChip:
    """The chip as the simulator describes it: its name, and that of the chip that its model is based on.

    ``mhz`` is the clock of the cycles; ``hvx_threads`` and ``vtcm_bytes`` are the values used in the simulation.  ``words`` has
    the complete description, e.g. sim_ddr_freq.
    """

    name: str
    base: str
    mhz: float
    hvx_threads: int
    vtcm_bytes: int
    words: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, words: Mapping[str, Any]) -> SimulatedChip:
        """Makes the chip from the simulator's description.  Raises KeyError if the clock is missing."""
        return cls(
            name=str(words.get("soc_type", "")),
            base=str(words.get("sim_base_soc", "")),
            mhz=float(words["sim_core_freq"]),
            hvx_threads=int(words.get("hvx_threads", 0)),
            vtcm_bytes=int(words.get("vtcm_size_in_bytes", 0)),
            words=words,
        )


@dataclass(frozen=True)
class Group:
    """Nodes that the library runs as one, or work that belongs to no node.

    ``node`` is the name under which the trace has the work, ``nodes`` are those in it, in graph order: a node that
    the trace does not name was fused with the next one that reads it, or disappeared.  Work that belongs to no node has
    empty ``nodes``, and ``node`` is one of opdb.measure.cost.groups.REST.  ``ops`` are the kinds of the nodes, ``origins``
    their sources (e.g. torch nodes).

    ``us`` is the group's part of the simulated time; the groups of a graph add up to the whole.  During
    ``dma_wait_us`` of it nothing computes, and the group's data is being moved.  ``share`` is the part of the whole, from 0 to 1.
    ``missing``: the library has no cost for some op in it, which counts as nothing.

    This is not the price of a single node: without the node, the time may drop by more, by less, or not at all.
    """

    node: str
    nodes: tuple[str, ...]
    ops: tuple[str, ...]
    origins: tuple[str, ...]
    us: float
    dma_wait_us: float
    share: float
    missing: bool = False


@dataclass(frozen=True)
class Estimate:
    """Qualcomm's simulation of one graph on one chip, at finalization; not a measurement.

    ``us`` and its bounds are microseconds of one execution, without the call's overhead (on devices of this family about
    150 to 250 us): cycles divided by the clock in the trace, which QNN 2.50 and 2.51 also report in whole microseconds, older versions
    do not.  The bounds are the library's and not a confidence interval.

    ``read_bytes`` and ``written_bytes``: inputs, weights and outputs from and to main memory; ``spilled_bytes`` and ``filled_bytes``:
    intermediate results that did not fit into the chip's own memory (VTCM), out and back in.  ``missing``: nodes with ops for which the
    library has no cost; the true time is higher.  ``busy``: share of the time in which an engine works (HMX, HVX, DMA); HVX and DMA are
    the mean of their threads.  ``groups``, ``busy`` and ``trace`` (Chrome's format) are set if a trace was requested.
    """

    graph: str
    soc: str
    build_id: str
    chip: SimulatedChip
    nodes: int
    precision: str | None
    cycles: int
    cycles_lower: int
    cycles_upper: int
    us: float
    us_lower: float
    us_upper: float
    read_bytes: int
    filled_bytes: int
    spilled_bytes: int
    written_bytes: int
    missing_ops: int
    missing: tuple[str, ...]
    seconds: float = field(compare=False)  # of finalization
    groups: tuple[Group, ...] = ()
    busy: Mapping[str, float] = field(default_factory=dict)
    trace: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)

    @property
    def at_least(self) -> bool:
        """True if the figures lack some ops, so that they are lower bounds."""
        return self.missing_ops > 0

    @property
    def sdk(self) -> str:
        """The version of QNN, e.g. 2.51."""
        return ".".join(self.build_id.removeprefix("v").split(".")[:2])
