"""Prints the results of a graph's run."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from json import loads
from typing import TYPE_CHECKING, Any

from opdb.cli.library_output import outcome_json, print_failure, quant_text, tensor_json
from opdb.cli.output import print_json
from opdb.core.names import counted

if TYPE_CHECKING:
    from opdb.core.graph import GraphTensor
    from opdb.execute.compile.execute import Executed, Execution
    from opdb.execute.compile.outputs import Array

EMULATION = "wall times of QNN's emulation on this machine, not of a device"


@dataclass(frozen=True)
class RunReport:
    """The report of a run.  ``values``: displayed values of the outputs ``tensors``; empty after a failure."""

    execution: Execution
    found: Executed
    tensors: Sequence[GraphTensor]
    values: Mapping[str, Array]
    notice: str | None

    @property
    def done(self) -> bool:
        """True if the library ran the graph."""
        return self.found.result.stage == "done"

    def print_json(self) -> None:
        """Prints one document with stable keys."""
        from opdb.execute.compile.outputs import figures

        header, result = self.execution.header, self.found.result
        report = result.reports.get("json")
        print_json(
            {
                "file": str(self.execution.file),
                "backend": header.backend,
                "soc": header.soc,
                "graph": self.execution.graph,
                "notice": self.notice,
                "outputs": [
                    tensor_json(t) | {"shape": list(value.shape), "stored": str(value.dtype)} | figures(value)
                    for t in self.tensors
                    if (value := self.values.get(t.name)) is not None
                ],
                "load_seconds": self.found.load_seconds,
                "seconds": list(result.seconds),
                "profile": None if report is None else loads(report),
                "result": outcome_json(result),
            }
        )

    def print(self) -> None:
        """Prints figures of the outputs and the times; after a failure its reason, on stderr."""
        header = self.execution.header
        if not self.done:
            print_failure(
                self.found.result, f"{self.execution.file} on {header.backend} {header.soc or ''}".rstrip()
            )
            return
        where = f"graph {self.execution.graph} on {header.backend} {header.soc or ''}".rstrip()
        print(f"{where}, QNN {header.build_id}")
        for tensor in self.tensors:
            print(_figures(tensor, self.values[tensor.name]))
        self._print_times()
        if self.notice:
            print(f"  {self.notice}")

    def _print_times(self) -> None:
        from opdb.catalog.targets.target import emulates_here

        result = self.found.result
        runs = counted(len(result.seconds), "run")
        times = "  ".join(f"{k} {v * 1e3:.3f} ms" for k, v in _times(result.seconds).items())
        print(f"load {self.found.load_seconds * 1e3:.1f} ms; {runs}: {times}")
        if emulates_here(self.execution.header.backend):
            print(f"  {EMULATION}")
        if "text" in result.reports:
            print(result.reports["text"], end="")


def warn_not_finite(fed: Mapping[str, Array]) -> None:
    """Warns on stderr of inputs with NaN or infinite values."""
    from opdb.execute.compile.inputs import not_finite

    for name, count in not_finite(fed).items():
        values = f"{count} NaN or infinite value{'s' * (count != 1)}"
        print(
            f"opdb: warning: the input {name} has {values}; QNN defines no result for them", file=sys.stderr
        )


def _figures(tensor: GraphTensor, value: Array) -> str:
    """Formats the line of one output."""
    from opdb.core.dtypes import BY_SHORT
    from opdb.execute.compile.outputs import figures

    found = figures(value)
    numbers = figures_text(found)
    odd = f"  {found['not_finite']} not finite" if found["not_finite"] else ""
    kind = BY_SHORT[tensor.dtype].qnn
    return f"  {tensor.name}  {kind} {list(value.shape)}{quant_text(tensor)}  {numbers}{odd}"


def figures_text(found: Mapping[str, Any]) -> str:
    """Formats figures, e.g. `min -1  max 2  mean 0.5`, without missing ones."""
    return "  ".join(f"{k} {found[k]:.6g}" for k in ("min", "max", "mean") if found[k] is not None)


def _times(seconds: Sequence[float]) -> dict[str, float]:
    return {
        "first": seconds[0],
        "min": min(seconds),
        "median": statistics.median(seconds),
        "max": max(seconds),
    }
