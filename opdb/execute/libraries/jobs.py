"""The work of a child process on its backend: graphs to a file, a file to results.

Imported by opdb.execute.libraries.worker only: it loads the vendor binding.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opdb.core.errors import OpdbError
from opdb.core.graph import QnnGraph, single
from opdb.core.op_config import OpConfig, from_json
from opdb.execute.libraries.results import (
    Chip,
    CompileResult,
    ExecuteResult,
    LoadResult,
    RunResult,
    SimulateResult,
)
from opdb.runtime.qnn import profile_report
from opdb.runtime.qnn.backend import Backend
from opdb.runtime.qnn.context import Context, ContextOptions
from opdb.runtime.qnn.errors import QnnError, VendorVerdict
from opdb.runtime.qnn.graph import GraphOptions
from opdb.runtime.qnn.native import lib

_ESTIMATE = "QNN_HTP_PROFILE_EVENTTYPE_GRAPH_FINALIZE_PERF_ESTIMATE"
#: The simulation's figures for a graph: opdb's name -> QNN's name of the event, without the common prefix.
FIGURES = {
    "cycles": "SIM_EXEC_CYCLES",
    "cycles_lower": "SIM_EXEC_LOWER_CYCLES",
    "cycles_upper": "SIM_EXEC_UPPER_CYCLES",
    "read_bytes": "INPUT_FILL",
    "filled_bytes": "INTERMEDIATE_FILL",
    "spilled_bytes": "INTERMEDIATE_SPILL",
    "written_bytes": "OUTPUT_SPILL",
    "missing_ops": "MISSING_COST_OPS",
}
#: Tells the parent that a stage starts: its name, and the graph ("": all of them).
Say = Callable[[str, str], None]


class Stages:
    """Tracks the current stage of the work, reports it to the parent, and times each stage."""

    def __init__(self, say: Say) -> None:
        self.stage = self.graph = ""
        self._say = say
        self._begun = 0.0
        self._seconds: list[tuple[str, str, float]] = []

    def enter(self, stage: str, graph: str = "") -> None:
        self.leave()
        self.stage, self.graph, self._begun = stage, graph, time.perf_counter()
        self._say(stage, graph)

    def leave(self) -> tuple[tuple[str, str, float], ...]:
        """Ends the stage; returns the seconds of all stages."""
        if self._begun:
            self._seconds.append((self.stage, self.graph, time.perf_counter() - self._begun))
            self._begun = 0.0
        return tuple(self._seconds)


def run(
    backend: Backend, say: Say, graph: QnnGraph, inputs: Mapping[str, Any], precision: str | None
) -> RunResult:
    """See VendorWorker.run."""
    stages = Stages(say)
    stages.enter("validate")
    if refused := _refused(backend, graph):
        node, verdict = refused
        return RunResult("validate", "no", verdict.code, verdict.code_name, verdict.log, node=node)
    try:
        stages.enter("finalize")
        with backend.prepare(graph, precision) as prepared:
            stages.enter("execute")
            outputs = prepared.execute(inputs)
            return RunResult("done", "yes", 0, "QNN_SUCCESS", prepared.log, outputs)
    except QnnError as error:
        return RunResult(stages.stage, "no", error.code, error.name, error.log)


def _refused(backend: Backend, graph: QnnGraph) -> tuple[str, VendorVerdict] | None:
    """The first node that the library's validation refuses, and its verdict."""
    for op in graph.ops:
        verdict = backend.validate(graph.op_config(op))
        if verdict.code:
            return op.name, verdict
    return None


def compile_graphs(
    backend: Backend,
    say: Say,
    graphs: Sequence[QnnGraph],
    path: str,
    options: GraphOptions | None,
    metadata: Mapping[str, Any],
    weight_sharing: bool = False,
) -> CompileResult:
    """See VendorWorker.compile."""
    options = options or GraphOptions()
    options.check(backend.name)
    stages = Stages(say)
    for graph in graphs:
        stages.enter("validate", graph.name)
        if refused := _refused(backend, graph):
            node, verdict = refused
            return CompileResult(
                "validate",
                "no",
                verdict.code,
                verdict.code_name,
                verdict.log,
                graph.name,
                node,
                stages.leave(),
            )
    log: tuple[str, ...] = ()
    try:
        with backend.create_context(ContextOptions(weight_sharing=weight_sharing)) as context:
            for graph in graphs:
                stages.enter("build", graph.name)
                made = context.create_graph(graph.name, options)
                made.add(graph)
                stages.enter("finalize", graph.name)
                made.finalize()
                log += made.log
            stages.enter("save")
            context.save(path, metadata)
    except QnnError as error:
        where = stages.stage, stages.graph
        return CompileResult(
            where[0], "no", error.code, error.name, error.log, where[1], seconds=stages.leave()
        )
    return CompileResult("done", "yes", 0, "QNN_SUCCESS", log, seconds=stages.leave())


def simulate(
    backend: Backend, say: Say, graph: QnnGraph, options: GraphOptions | None, folder: str
) -> SimulateResult:
    """See VendorWorker.simulate."""
    options = options or GraphOptions()
    options.check(backend.name)
    stages = Stages(say)
    profile = backend.create_profile("detailed", optrace=True)
    try:
        with profile, backend.create_context() as context, contextlib.chdir(folder):
            stages.enter("build", graph.name)
            made = context.create_graph(graph.name, options)
            made.add(graph)
            stages.enter("finalize", graph.name)
            made.finalize(profile=profile)
    except QnnError as error:
        return SimulateResult(stages.stage, "no", error.code, error.name, error.log)
    events = [e for top in profile.events("finalize") for e in top.walk()]
    types = {getattr(lib, f"{_ESTIMATE}_{name}"): ours for ours, name in FIGURES.items()}
    figures = {types[e.type]: int(e.value) for e in events if e.type in types}
    missing = tuple(e.name for e in events if e.type == getattr(lib, f"{_ESTIMATE}_MISSING_COST_OPID"))
    trace = next((e.data for e in events if e.type == lib.QNN_PROFILE_EVENTTYPE_TRACE), b"")
    seconds = stages.leave()[-1][2]
    return SimulateResult("done", "yes", 0, "QNN_SUCCESS", made.log, figures, missing, trace, seconds)


def load(backend: Backend, say: Say, path: str) -> tuple[Context | None, LoadResult]:
    """See VendorWorker.load."""
    begun = time.perf_counter()
    try:
        context = backend.load_context(path)
    except QnnError as error:
        return None, LoadResult("load", "no", error.code, error.name, error.log)
    graphs = {}
    for name in context.graph_names:
        graph = context.graph(name)
        graphs[name] = (graph.inputs, graph.outputs)
    seconds = time.perf_counter() - begun
    return context, LoadResult("done", "yes", 0, "QNN_SUCCESS", (), graphs, seconds)


def execute(
    backend: Backend,
    context: Context | None,
    say: Say,
    graph: str,
    inputs: Mapping[str, Any],
    repeat: int,
    level: str,
    formats: Sequence[str],
) -> ExecuteResult:
    """See VendorWorker.execute."""
    if context is None:
        raise OpdbError("no context is loaded; load one first")
    say("execute", graph)
    seconds = []
    try:
        profile = backend.create_profile(level)
        execution = context.graph(graph).bind(inputs, profile=profile)
        outputs = {}
        for _ in range(repeat):
            begun = time.perf_counter()
            outputs = execution.run()
            seconds.append(time.perf_counter() - begun)
        reports = {f: profile_report.render(profile, f) for f in formats}
    except QnnError as error:
        return ExecuteResult("execute", "no", error.code, error.name, error.log, seconds=tuple(seconds))
    return ExecuteResult("done", "yes", 0, "QNN_SUCCESS", (), outputs, tuple(seconds), reports)


def chip(backend: Backend) -> Chip:
    """Asks the library about its chip; see VendorWorker.chip."""
    number = backend.soc_model
    assert number is not None  # the client opens HTP with a number
    floats = {kind: not backend.validate(_relu(kind)).code for kind in ("FLOAT_32", "BFLOAT_16")}
    with backend.session.listening() as log:
        try:
            backend.prepare(single(_relu("UFIXED_POINT_8"), [None])).close()
        except QnnError as error:
            log += error.log
    return Chip(
        number,
        _said(log, r"SoC model name is (\S+)"),
        int(_said(log, r"option: min_arch = (\d+)") or 0) or None,
        floats["FLOAT_32"],
        floats["BFLOAT_16"],
    )


def _relu(dtype: str) -> OpConfig:
    tensor: dict[str, Any] = {"dtype": dtype, "shape": [1, 2, 4, 8]}
    if "FIXED" in dtype:
        tensor["quant"] = {"encoding": "SCALE_OFFSET", "scale": 0.1, "offset": 0}
    return from_json({"op": "Relu", "inputs": [{"name": "x"} | tensor], "outputs": [{"name": "y"} | tensor]})


def _said(log: Sequence[str], pattern: str) -> str:
    """The first group of a pattern in the lines of a log; "" if no line matches."""
    return next((found[1] for line in log if (found := re.search(pattern, line))), "")
