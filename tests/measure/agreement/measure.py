"""The verdicts of ``opdb validate`` beside those of a real library, op by op, in both directions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from opdb.catalog.targets.target import Target
from opdb.core.op_config import OpConfig
from opdb.execute.libraries.client import VendorWorker
from opdb.judge.validate import check

from .blind import configs

BATCH = 250
#: Maps a config to accept, reject or unknown.
Judge = Callable[[OpConfig, Target], str]


def validate(config: OpConfig, target: Target) -> str:
    """The verdict of ``opdb validate``."""
    return check(config, target).verdict


@dataclass
class Agreement:
    """The counts of one op: (our verdict, the library's) -> number; and the configs they disagree on."""

    op: str
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    differing: list[tuple[OpConfig, str, str]] = field(default_factory=list)

    @property
    def n(self) -> int:
        """Number of configs with a verdict of the library; crashes do not count."""
        return sum(c for (_, said), c in self.counts.items() if said in ("accept", "reject"))

    @property
    def both(self) -> int:
        return self.counts["accept", "accept"] + self.counts["reject", "reject"]

    @property
    def percent(self) -> float:
        return 100 * self.both / self.n if self.n else 100.0

    def add(self, other: Agreement) -> None:
        self.counts += other.counts


def measure(
    target: Target, ops: Sequence[str], n: int, seed: int, judge: Judge = validate
) -> dict[str, Agreement]:
    """Validates ``n`` blind configs of each op with the installed library; leaves out configs that QNN's structs cannot hold."""
    out = {}
    assert target.backend is not None
    with VendorWorker(target.backend, target.soc, timeout=20, log_level="warning") as worker:
        has = set(worker.supported_operations())
        for op in ops:
            if op in has:
                out[op] = _measured(worker, target, op, n, seed, judge)
    return out


def _measured(worker: VendorWorker, target: Target, op: str, n: int, seed: int, judge: Judge) -> Agreement:
    found = Agreement(op)
    made = list(configs(op, f"{target.backend}_{target.sdk}.0", seed, n))
    for start in range(0, len(made), BATCH):
        batch = made[start : start + BATCH]
        for config, said in zip(batch, worker.validate_many(batch), strict=True):
            if said.verdict != "invalid":
                ours = judge(config, target)
                found.counts[ours, said.verdict] += 1
                if ours != said.verdict and (ours, said.verdict) != ("reject", "crashed"):
                    found.differing.append((config, ours, "; ".join(said.reasons) or said.verdict))
    return found


def total(rows: dict[str, Agreement]) -> Agreement:
    """The sum over all ops."""
    out = Agreement(f"{len(rows)} ops")
    for row in rows.values():
        out.add(row)
    return out


def table(rows: dict[str, Agreement]) -> str:
    """One line per op, the worst first, then the total."""
    form = "{:32} {:>7} {:>8} {:>8} {:>12} {:>12} {:>9} {:>7} {:>8}\n"
    out = form.format("op", "n", "accept", "reject", "only we", "only it", "undecided", "crashed", "percent")
    for r in [*sorted(rows.values(), key=lambda r: (r.percent, r.op)), total(rows)]:
        c = r.counts
        undecided = c["unknown", "accept"] + c["unknown", "reject"]
        crashed = sum(v for (_, said), v in c.items() if said in ("crashed", "hung"))
        out += form.format(
            r.op, r.n, c["accept", "accept"], c["reject", "reject"], c["accept", "reject"], c["reject", "accept"],
            undecided, crashed, f"{r.percent:.2f}",
        )  # fmt: skip
    return out
