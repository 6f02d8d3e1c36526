"""One executor's way through its cases: data in, answer out, compared with PyTorch."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from opdb.catalog import Catalog
from opdb.conformance import data
from opdb.conformance.cases import Case
from opdb.conformance.executors.base import Array, Executor
from opdb.conformance.judge import result
from opdb.conformance.tolerance import Comparison, bounds, compare
from opdb.errors import MissingExtra
from opdb.op_config import OpConfig
from opdb.store.records import ExecutorRecord, ResultRecord

Oracle = Callable[[OpConfig, Sequence[Array | None]], "list[Array] | str"]


@dataclass
class Lane:
    """One executor (for one SoC), and the cases that it is asked."""

    executor: Executor
    record: ExecutorRecord
    cases: list[Case]

    @property
    def name(self) -> str:
        return " ".join(filter(None, (self.executor.name, self.executor.soc)))


def pytorch(config: OpConfig, inputs: Sequence[Array | None]) -> list[Array] | str:
    """The expected real values, or why there are none."""
    try:
        from opdb.conformance.executors.base import NoOracle
        from opdb.conformance.executors.torch_oracle import compute
    except MissingExtra as missing:
        return f"nothing to compare with: {missing}"
    try:
        return compute(config, inputs)
    except NoOracle as reason:
        return f"nothing to compare with: {reason}"


class Judge:
    """Asks an executor about a case and compares what it computed with ``oracle``."""

    def __init__(self, catalog: Catalog, seed: int = 0, oracle: Oracle = pytorch) -> None:
        self.catalog, self.seed, self.oracle = catalog, seed, oracle

    def inputs(self, case: Case) -> list[Array | None]:
        """The data of a case; HTP's floats are values of float16."""
        if not case.runs:
            return [None] * len(case.config.inputs)
        ident = case.id if self.seed == 0 else f"{case.id}#{self.seed}"
        return data.inputs(ident, case.config, half=case.backend == "HTP")

    def ask(self, lane: Lane, case: Case) -> ResultRecord:
        """The result of one case on one executor."""
        executor, inputs = lane.executor, self.inputs(case)
        started = time.perf_counter()
        try:
            answer = executor.answer(case, inputs)
        except Exception as error:
            error.add_note(f"{lane.name} was asked about the case {case.id}")
            raise
        seconds = time.perf_counter() - started
        compared: Comparison | None = None
        reason = "not run: values of less than a byte" if case.packed else ""
        if answer.outputs is not None and executor.name != "torch":
            expected = self.oracle(case.config, inputs)
            if isinstance(expected, str):
                reason = expected
            else:
                allowed = bounds(self.catalog, case.config)
                compared = compare(case.config, expected, answer.outputs, allowed, executor.half)
        return result(case, lane.record, executor.soc, answer, compared, seconds, reason)


def answers(lanes: Sequence[Lane], judge: Judge, jobs: int) -> Iterator[tuple[Lane, ResultRecord]]:
    """The results of all lanes, as they come; ``jobs`` lanes at once, each in a thread of its own."""
    if jobs <= 1:
        for lane in lanes:
            for case in lane.cases:
                yield lane, judge.ask(lane, case)
        return
    yield from _at_once(lanes, judge, jobs)


def _at_once(lanes: Sequence[Lane], judge: Judge, jobs: int) -> Iterator[tuple[Lane, ResultRecord]]:
    out: queue.Queue[tuple[Lane, ResultRecord] | BaseException | None] = queue.Queue(maxsize=1000)
    waiting: queue.SimpleQueue[Lane] = queue.SimpleQueue()
    for lane in lanes:
        waiting.put(lane)
    stop = threading.Event()

    def work() -> None:
        try:
            while not stop.is_set():
                lane = waiting.get_nowait()
                for case in lane.cases:
                    if stop.is_set():
                        return
                    out.put((lane, judge.ask(lane, case)))
        except queue.Empty:
            out.put(None)
        except BaseException as error:
            out.put(error)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(jobs, len(lanes)))]
    for thread in threads:
        thread.start()
    running = len(threads)
    try:
        while running:
            item = out.get()
            if isinstance(item, BaseException):
                raise item
            if item is None:
                running -= 1
            else:
                yield item
    finally:
        stop.set()
        while any(t.is_alive() for t in threads):
            try:  # a thread may wait for room
                out.get(timeout=0.05)
            except queue.Empty:
                continue
