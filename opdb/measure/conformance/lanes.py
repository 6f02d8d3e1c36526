"""One executor's pass through its cases: data in, answer out, compared with PyTorch."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from opdb.catalog.store.records import ExecutorRecord, ResultRecord
from opdb.catalog.targets.target import half
from opdb.core.errors import MissingExtra
from opdb.core.op_config import OpConfig
from opdb.measure.conformance import data
from opdb.measure.conformance.cases import Case
from opdb.measure.conformance.executors.base import Array, Executor, NoOracle
from opdb.measure.conformance.judge import result
from opdb.measure.conformance.tolerance import Comparison, bounds, compare
from opdb.spec.catalog import Catalog

Oracle = Callable[[OpConfig, Sequence[Array | None]], "list[Array] | str"]


@dataclass
class Lane:
    """One executor (for one SoC), and its cases."""

    executor: Executor
    record: ExecutorRecord
    cases: list[Case]

    @property
    def name(self) -> str:
        return " ".join(filter(None, (self.executor.name, self.executor.soc)))


def pytorch(config: OpConfig, inputs: Sequence[Array | None]) -> list[Array] | str:
    """The expected real values, or the reason why there are none."""
    try:
        from opdb.measure.conformance.executors.torch_oracle import compute

        return compute(config, inputs)
    except (MissingExtra, NoOracle) as reason:
        return f"nothing to compare with: {reason}"


class Judge:
    """Asks an executor about a case and compares its results with ``oracle``."""

    def __init__(self, catalog: Catalog, seed: int = 0, oracle: Oracle = pytorch) -> None:
        self.catalog, self.seed, self.oracle = catalog, seed, oracle

    def inputs(self, case: Case) -> list[Array | None]:
        """The data of a case; floats are values of float16 if the backend computes in it."""
        if not case.runs:
            return [None] * len(case.config.inputs)
        ident = case.id if self.seed == 0 else f"{case.id}#{self.seed}"
        return data.inputs(ident, case.config, half=half(case.backend))

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
                if not compared.matches:
                    executor.renew()
        return result(case, lane.record, executor.soc, answer, compared, seconds, reason)
