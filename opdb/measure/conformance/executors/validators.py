"""The executors ``python`` and ``c``: the generated validators, and the kernels through their shims."""

from __future__ import annotations

from collections.abc import Sequence

from opdb.catalog.store.records import ExecutorRecord
from opdb.core.errors import OpdbError
from opdb.core.version import __version__
from opdb.judge.validate import check
from opdb.measure.conformance.cases import Case
from opdb.measure.conformance.executors.base import Answer, Array, Executor
from opdb.runtime.checks import Violation


class PythonExecutor(Executor):
    """The generated Python validators.  They compute nothing."""

    name, backend, soc, half = "python", "", "", False

    def record(self) -> ExecutorRecord:
        return ExecutorRecord(self.name, __version__)

    def takes(self, case: Case) -> bool:
        return True

    def answer(self, case: Case, inputs: Sequence[Array | None]) -> Answer:
        return verdict(check(case.config, case.target).violations)


class CExecutor(Executor):
    """The generated C validators, and the C kernels through their generated shims."""

    name, backend, soc, half = "c", "", "", False

    def record(self) -> ExecutorRecord:
        return ExecutorRecord(self.name, __version__)

    def takes(self, case: Case) -> bool:
        return True

    def answer(self, case: Case, inputs: Sequence[Array | None]) -> Answer:
        from opdb.runtime import native

        said = verdict(native.validate(case.config, case.target.context()))
        if said.kind != "ok" or not case.runs:
            return said
        try:
            outputs = native.run(case.config, inputs)
        except native.KernelError as error:
            if error.status == "unsupported":
                return Answer("ok", rules=said.rules, text="no kernel for these types", computed=False)
            return Answer("error", rules=said.rules, stage="execute", text=str(error))
        except OpdbError as error:
            return Answer("error", rules=said.rules, stage="execute", text=str(error))
        return Answer("ok", tuple(outputs), said.rules)


def verdict(violations: Sequence[Violation]) -> Answer:
    """ok if all violations are warnings; the text has a message for each violation."""
    rules = tuple(dict.fromkeys(v.rule for v in violations))
    text = "\n".join(f"{v.rule}: {v.message}" for v in violations)
    broken = any(not v.warning for v in violations)
    return Answer("violation" if broken else "ok", rules=rules, text=text, computed=False)
