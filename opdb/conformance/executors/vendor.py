"""The executors ``qnn-cpu`` and ``qnn-htp``: Qualcomm's libraries, each in a child process that may crash."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from opdb.conformance.cases import Case
from opdb.conformance.executors.base import Answer, Array, Stage
from opdb.errors import MissingExtra, OpdbError
from opdb.graph import GraphOp, GraphTensor, QnnGraph
from opdb.op_config import OpConfig
from opdb.probe.client import VendorWorker
from opdb.store.records import ExecutorRecord, LibraryRecord

STAGES: dict[str, Stage] = {"validate": "validate", "finalize": "finalize", "execute": "execute"}


class VendorExecutor:
    """One library for one SoC.  Cases that must be rejected are only validated."""

    def __init__(self, name: str, backend: str, soc: str = "") -> None:
        self.name, self.backend, self.soc = name, backend, soc
        self.half = backend == "HTP"
        try:
            self._worker = VendorWorker(backend, soc or None)
        except MissingExtra:
            raise MissingExtra(
                f"the package onnxruntime-qnn that the executor '{name}' needs", "qnn"
            ) from None

    def record(self) -> ExecutorRecord:
        info = self._worker.info()
        sdk = ".".join(info.build_id.removeprefix("v").split(".")[:2])
        library = LibraryRecord(
            info.package, info.version, info.build_id, info.sha256, self.backend, sdk, self.backend == "HTP"
        )
        return ExecutorRecord(self.name, sdk, self.backend, library)

    def takes(self, case: Case) -> bool:
        """Cases of its own backend and SoC; and what the op definition forbids, which no backend may take."""
        if not case.backend:
            return case.kind == "negative"
        return (case.backend, case.soc) == (self.backend, self.soc)

    def answer(self, case: Case, inputs: Sequence[Array | None]) -> Answer:
        try:
            if case.kind == "negative":
                return self._validated(case.config)
            return self._run(case, inputs)
        except OpdbError as error:  # what C structs cannot hold, or a library cannot be given
            return Answer("unsupported", text=str(error), computed=False)

    def _validated(self, config: OpConfig) -> Answer:
        said = self._worker.validate(config)
        more = {"code": said.code, "code_name": said.code_name, "log": said.log}
        if said.verdict == "accept":
            return Answer("ok", computed=False, **more)  # type: ignore[arg-type]
        if said.verdict == "reject":
            return Answer("violation", **more)  # type: ignore[arg-type]
        return Answer("error", stage="validate", how=said.verdict, **more)  # type: ignore[arg-type]

    def _run(self, case: Case, inputs: Sequence[Array | None]) -> Answer:
        graph = single(case.config, inputs)
        given = {f"{i}": a for i, a in enumerate(inputs) if f"{i}" in graph.tensors}
        dynamic = {n: a for n, a in given.items() if graph.tensors[n].type == "APP_WRITE"}
        floats = any(t.dtype == "f32" for t in graph.tensors.values())
        said = self._worker.run(graph, dynamic, "fp16" if self.half and floats else None)
        more = {"code": said.code, "code_name": said.code_name, "log": said.log}
        if said.verdict == "yes":
            return Answer("ok", tuple(said.outputs[t.name] for t in graph.outputs), **more)  # type: ignore[arg-type]
        if said.stage == "validate" and said.verdict == "no":
            return Answer("violation", **more)  # type: ignore[arg-type]
        stage = STAGES.get(said.stage, "execute")
        return Answer("error", stage=stage, how=said.verdict, **more)  # type: ignore[arg-type]

    def close(self) -> None:
        self._worker.close()


def single(config: OpConfig, inputs: Sequence[Array | None]) -> QnnGraph:
    """A graph of one op: inputs 0, 1, ...; outputs y0, y1, ...; static tensors with their data."""
    graph = QnnGraph(config.op)
    names: list[str | None] = []
    for i, (tensor, array) in enumerate(zip(config.inputs, inputs, strict=True)):
        names.append(None if tensor.type == "NULL" else f"{i}")
        if tensor.type != "NULL":
            kind = "STATIC" if tensor.type == "STATIC" else "APP_WRITE"
            made = GraphTensor(f"{i}", tensor.dtype, tensor.shape, kind, None, tensor.quant)
            graph.tensors[f"{i}"] = replace(made, data=array) if kind == "STATIC" else made
    outputs = tuple(f"y{i}" for i in range(len(config.outputs)))
    for name, tensor in zip(outputs, config.outputs, strict=True):
        graph.tensors[name] = GraphTensor(name, tensor.dtype, tensor.shape, "APP_READ", None, tensor.quant)
    graph.ops.append(GraphOp("op", config.op, tuple(names), config.params, outputs, config.package))
    return graph
