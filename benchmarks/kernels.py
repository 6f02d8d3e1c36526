"""Time of the C kernels next to other runtimes on the CPU: the same float32 numbers, one thread (QNN CPU as it is).

All in this process, each op in three sizes (_kernel_cases.py).  Against torch (PyTorch eager; images channels last, as
for opdb), qnn-cpu (libQnnCpu, a finalized graph), onnxruntime (its CPU provider, a session) and executorch (portable
kernels, a loaded .pte); images channels first for the last two.  Anything built once is not timed.  All take turns; a
turn's time is its best run.  A column has the best of all turns in microseconds and the least, median and greatest
ratio of a turn: the other's time over opdb's, above 1 opdb is faster.

"copy" is the time to copy as many bytes as the op reads and writes over opdb's: 1.00 is memory speed.  Elementwise
functions have a fourth size, larger than the caches, for this column only: other runtimes' times would include the
system's new pages for their results.

    python benchmarks/kernels.py [--only NAME]... [--against RUNTIME]... [--seconds S]
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from statistics import median
from typing import Any

import numpy as np
import torch
from _kernel_cases import Case, of_elements, of_images, of_rows
from _kernel_runtimes import RUNTIMES

from opdb.runtime.native import Prepared

SLOWER, TURNS = 0.8, 5
OF_COPY = 0.8


def own(case: Case) -> Callable[[], Any]:
    made = [np.empty(s, d) for s, d in case.results]
    return Prepared(case.config, list(case.inputs), made).run


def copy_of(case: Case) -> Callable[[], Any]:
    """Copies half of the bytes that the case reads and writes."""
    size = sum(a.nbytes for a in case.inputs)
    size += sum(int(np.prod(s)) * np.dtype(d).itemsize for s, d in case.results)
    source = np.ones(size // 8, np.float32)
    target = np.empty_like(source)
    return lambda: np.copyto(target, source)


def turns(calls: Sequence[Callable[[], Any]], seconds: float) -> list[list[float]]:
    """The best microseconds of each turn, for each call; a turn's first run, after the others', does not count."""
    found: list[list[float]] = [[] for _ in calls]
    for _ in range(TURNS):
        for times, call in zip(found, calls, strict=True):
            call()
            best, end = math.inf, time.perf_counter() + seconds / TURNS
            while best == math.inf or time.perf_counter() < end:
                start = time.perf_counter_ns()
                call()
                best = min(best, (time.perf_counter_ns() - start) / 1000)
            times.append(best)
    return found


class Table:
    """Prints a line for each case; keeps the ratios."""

    def __init__(self, against: Sequence[str]) -> None:
        self.against = against
        self.ratios: dict[str, dict[str, float]] = {name: {} for name in against}
        self.of_copy: dict[str, float] = {}  # of the largest functions of elements
        heads = f"{'op':24}{'size':>14}{'opdb us':>11}{'copy':>7}"
        self.write(heads + "".join(f"{name + ' us':>16}{'ratio':>20}" for name in against))

    def write(self, line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def add(self, case: Case, found: Sequence[list[float] | None], copied: list[float]) -> None:
        mine = found[0]
        assert mine is not None
        if case.large:
            self.of_copy.setdefault(case.op, median(c / m for c, m in zip(copied, mine, strict=True)))
        line = f"{case.op:24}{case.size:>14}{min(mine):11.1f}{min(copied) / min(mine):7.2f}"
        for name, times in zip(self.against, found[1:], strict=True):
            line += self.cell(case, name, mine, times)
        self.write(line)

    def cell(self, case: Case, name: str, mine: list[float], times: list[float] | None) -> str:
        if times is None:
            return f"{'-':>16}{'-':>20}"
        ratios = sorted(t / m for t, m in zip(times, mine, strict=True))
        place = f"{case.op} {case.size}"
        self.ratios[name][place if place not in self.ratios[name] else f"{place} (2)"] = median(ratios)
        return f"{min(times):16.1f}{f'{ratios[0]:.2f}/{median(ratios):.2f}/{ratios[-1]:.2f}':>20}"

    def summary(self) -> None:
        if self.of_copy:
            below = sorted((share, op) for op, share in self.of_copy.items() if share < OF_COPY)
            self.write(
                f"\n{len(self.of_copy) - len(below)} of {len(self.of_copy)} functions of elements in memory run at "
                f"{OF_COPY:.0%} of a copy's speed or more; slower: "
                + (", ".join(f"{op} {share:.2f}" for share, op in below) or "none")
            )
        for name, ratios in self.ratios.items():
            every = sorted(ratios.values())
            if not every:
                self.write(f"\n{name}: computes none of them")
                continue
            mean = math.exp(sum(map(math.log, every)) / len(every))
            self.write(
                f"\n{name}: {len(every)} cases: geometric mean {mean:.2f}, least {every[0]:.2f}, median "
                f"{median(every):.2f}, most {every[-1]:.2f}"
            )
            slower = sorted((r, place) for place, r in ratios.items() if r < SLOWER)
            if slower:
                self.write(f"slower than {name} by more than {1 - SLOWER:.0%}:")
                self.write("  " + ", ".join(f"{place} {r:.2f}" for r, place in slower))


def chosen(only: Sequence[str]) -> Iterator[Case]:
    return (c for c in chain(of_images(), of_rows(), of_elements()) if not only or c.op in only)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="OP", help="these ops; by default all")
    parser.add_argument(
        "--against", action="append", default=[], choices=RUNTIMES, help="by default PyTorch eager"
    )
    parser.add_argument("--seconds", type=float, default=0.15, help="per column and case")
    options = parser.parse_args()
    torch.set_num_threads(1)
    against = list(dict.fromkeys(options.against)) or ["torch"]
    cases = list(chosen(options.only))
    if not cases:
        sys.stderr.write("kernels: no case has one of these ops\n")
        return 2
    runtimes = [RUNTIMES[name]() for name in against]
    table = Table(against)
    for case in cases:
        with torch.no_grad():
            others = [None if case.large else runtime(case) for runtime in runtimes]
            calls = [own(case), *others]
            there = [c for c in calls if c is not None]
            times = turns([*there, copy_of(case)], options.seconds)
        measured = iter(times)
        table.add(case, [None if c is None else next(measured) for c in calls], times[-1])
    table.summary()
    return 0


if __name__ == "__main__":
    sys.exit(main())
