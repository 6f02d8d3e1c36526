"""Conditions on a coverage that make a build fail: ``opdb check --fail-on "cpu>0"``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from opdb.checks.coverage import Coverage
from opdb.core.errors import OpdbError


def _share(what: str) -> Callable[[Coverage], float]:
    def share(coverage: Coverage) -> float:
        whole = coverage.cost()[what]
        return 100 * coverage.cost("rejected", "host")[what] / whole if whole else 0.0

    return share


#: Name -> (its value, what it counts, True if it is a share in percent).
METRICS: Mapping[str, tuple[Callable[[Coverage], float], str, bool]] = {
    "cpu": (lambda c: c.cost("rejected", "host")["nodes"], "nodes on the CPU", False),
    "rejected": (lambda c: c.count("rejected"), "nodes that the target rejects", False),
    "host": (lambda c: c.count("host"), "nodes whose operator opdb does not map", False),
    "graphs": (lambda c: c.partitions, "graphs", False),
    "warnings": (lambda c: c.warnings, "nodes with a warning", False),
    "errata": (lambda c: len(c.errata()), "errata of the library", False),
    "cpu-flops": (_share("flops"), "FLOPs on the CPU", True),
    "cpu-bytes": (_share("bytes"), "bytes on the CPU", True),
}
_COMPARE: Mapping[str, Callable[[float, float], bool]] = {">": operator.gt, ">=": operator.ge}
_GATE = re.compile(r"\s*([a-z-]+)\s*(>=|>)\s*(\d+(?:\.\d+)?)\s*(%?)\s*")


@dataclass(frozen=True)
class Gate:
    """One condition; ``text`` is the condition as written, e.g. cpu-flops>5%."""

    text: str
    metric: str
    compare: str
    limit: float

    def hit(self, coverage: Coverage) -> str | None:
        """The reason the build fails, in one line; None if it does not."""
        value_of, what, share = METRICS[self.metric]
        value = value_of(coverage)
        loops = coverage.cost("rejected", "host")["at_least"] if self.metric == "cpu-flops" else 0
        if not loops and not _COMPARE[self.compare](value, self.limit):
            return None
        shown = f"{value:.3g} %" if share else f"{value:g}"
        shown = f"at least {shown}, with one run of a loop that the data decide" if loops else shown
        return f"--fail-on {self.text}: {what}: {shown}"


def gate(text: str) -> Gate:
    """Parses a condition.  Raises OpdbError with the valid forms."""
    found = _GATE.fullmatch(text)
    if found is None or found[1] not in METRICS or bool(found[4]) > METRICS[found[1]][2]:
        counted = ", ".join(name for name, m in METRICS.items() if not m[2])
        shares = ", ".join(name for name, m in METRICS.items() if m[2])
        raise OpdbError(
            f"--fail-on {text}: write NAME>NUMBER or NAME>=NUMBER, e.g. cpu>0; counted: {counted}; in percent, "
            f"e.g. cpu-flops>5%: {shares}"
        )
    return Gate(text, found[1], found[2], float(found[3]))
