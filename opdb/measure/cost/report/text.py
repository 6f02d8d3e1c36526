"""Describes an estimate and its reliability in words; docs/guides/cost.md has the measurements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from opdb.measure.cost.chips import COMPARED
from opdb.measure.cost.figures import Estimate
from opdb.core.names import counted

#: The number of nodes that one line names.
NAMED = 8
CALL = "a fixed 150 to 250 us per call is left out"
OWN_GRAPH = "this estimates opdb's graph; Qualcomm's converter may make a different one"
GROUPS = (
    "rows are groups of fused nodes, not per-node costs; to find what a node costs, compare with the model without it (--against)"
)
MADE_UP = "quantized with made-up ranges, which do not change the estimate; the results of this graph are meaningless"
ALONE = "an op alone does not cost what it costs inside a graph; compare whole graphs (docs/guides/cost.md)"


def headline(e: Estimate) -> str:
    """Returns one line: the time and its bounds."""
    more = "at least " if e.at_least else ""
    return f"{e.graph} on {e.soc}: {more}{e.us:,.0f} us ({e.us_lower:,.0f} to {e.us_upper:,.0f}), {e.cycles:,} cycles"


def figures(e: Estimate) -> Iterator[str]:
    """Yields the lines below the headline."""
    yield (
        f"main memory: {megabytes(e.read_bytes)} read, {megabytes(e.written_bytes)} written; "
        f"VTCM: {megabytes(e.spilled_bytes)} spilled, {megabytes(e.filled_bytes)} filled back"
    )
    if e.busy:
        yield "busy: " + ", ".join(f"{engine} {share:.0%}" for engine, share in e.busy.items())
    how = f", {e.precision}" if e.precision else ""
    yield f"{counted(e.nodes, 'QNN op')}{how}, finalized in {e.seconds:.2f} s"


def source(e: Estimate) -> str:
    """Describes the simulation that made the estimate."""
    c = e.chip
    simulated = e.soc if c.name == e.soc else f"{e.soc} (in its words {c.name})"
    return (
        f"simulated by Qualcomm's library ({e.build_id}) for {simulated} at {c.mhz:,.1f} MHz with {c.hvx_threads} HVX threads and "
        f"{c.vtcm_bytes / 2**20:g} MB of VTCM; not measured"
    )


def notes(e: Estimate, *, made_up: bool = False, alone: bool = False, grouped: bool = False) -> Iterator[str]:
    """Yields the caveats of the figures; ``made_up``, ``alone`` and ``grouped`` add theirs."""
    yield source(e)
    if e.soc in COMPARED:
        yield (
            f"{CALL}; for equal graphs the error was 10 % in fp16 and 15 % in 8 bits; single networks were off by "
            "up to three times"
        )
    else:
        yield f"{CALL}; estimates for {e.soc} have not been compared with a device"
    yield "the range comes from the library and is not a confidence interval; other versions of it differ by up to 36 %"
    if e.at_least:
        yield f"at least: the library has no cost for {counted(e.missing_ops, 'op')}, counted as nothing: {named(e.missing)}"
    yield OWN_GRAPH
    yield from (text for said, text in ((made_up, MADE_UP), (alone, ALONE), (grouped, GROUPS)) if said)


def rank_note(soc: str, simulated: str) -> str:
    """Explains what an estimate for another chip is good for."""
    return (
        f"ranks only: this simulates {simulated}, not {soc}; the order of networks carries over to chips of v73 to v81 "
        "(Spearman 0.92 to 0.96), the time does not"
    )


def named(names: Sequence[str]) -> str:
    """The first few of many names."""
    rest = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {counted(rest, 'more node')}" if rest > 0 else "")


def megabytes(count: int) -> str:
    """Formats bytes as megabytes of 10**6."""
    return f"{count / 1e6:,.2f} MB" if count else "0 MB"
