"""The executors ``qnn-cpu`` and ``qnn-htp``: Qualcomm's libraries, each in a child process that may crash."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from opdb.catalog.store.records import ExecutorRecord, LibraryRecord
from opdb.catalog.targets.target import Target, half
from opdb.codegen.constants import PACKAGE
from opdb.codegen.packages import of_catalog
from opdb.core.errors import MissingExtra, OpdbError
from opdb.core.graph import single
from opdb.core.op_config import OpConfig
from opdb.execute.libraries.client import VendorWorker
from opdb.execute.packages import package as op_package
from opdb.generated.constants.backends import BACKENDS
from opdb.judge.validate import check
from opdb.measure.conformance.cases import Case
from opdb.measure.conformance.executors.base import Answer, Array, Stage
from opdb.spec.catalog import Catalog

STAGES: dict[str, Stage] = {"validate": "validate", "finalize": "finalize", "execute": "execute"}


class VendorExecutor:
    """One library for one SoC.  Cases that must be rejected, or break rules that it does not check, are only validated.

    ``catalog``: the source of op packages; ``libraries``: the folder of QNN's libraries, None for the installed wheel.
    Each op has its own process: earlier ops can change its results (flaky records of specs/errata).
    """

    def __init__(
        self, name: str, backend: str, catalog: Catalog, soc: str = "", libraries: Path | None = None
    ) -> None:
        self.name, self.backend, self.soc, self._libraries = name, backend, soc, libraries
        self._catalog, self.half = catalog, half(backend)
        self._op = ""
        self._packaged: dict[str, VendorWorker] = {}  # by op package; QNN's own has ``_worker``
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        try:
            self._worker = VendorWorker(backend, soc or None, libraries=libraries)
        except MissingExtra:
            raise MissingExtra(
                f"the package onnxruntime-qnn that the executor '{name}' needs", "qnn"
            ) from None

    def record(self) -> ExecutorRecord:
        info = self._worker.info()
        sdk = ".".join(info.build_id.removeprefix("v").split(".")[:2])
        library = LibraryRecord(
            info.package,
            info.version,
            info.build_id,
            info.sha256,
            self.backend,
            sdk,
            BACKENDS[self.backend].emulated,
        )
        return ExecutorRecord(self.name, sdk, self.backend, library)

    def takes(self, case: Case) -> bool:
        """True for cases of its own backend and SoC, and for cases that break the op definition, if it checks any of the broken rules."""
        if not case.backend:
            return case.kind == "negative" and not self._unchecked(case)
        return (case.backend, case.soc) == (self.backend, self.soc)

    def _unchecked(self, case: Case) -> bool:
        """True if all rules that a case of the op definition breaks are warnings for this backend."""
        found = check(case.config, Target(self.backend, self.soc or None, execution="emulator")).violations
        return set(case.rules) <= {v.rule for v in found if v.warning}

    def answer(self, case: Case, inputs: Sequence[Array | None]) -> Answer:
        if case.op != self._op:
            self.renew()
            self._op = case.op
        try:
            if not case.runs:
                return self._validated(case.config)
            return self._run(case, inputs)
        except OpdbError as error:  # a config that C structs cannot hold, or that a library cannot be given
            return Answer("unsupported", text=str(error), computed=False)

    def _worker_for(self, package: str) -> VendorWorker:
        """The worker whose backend has an op package; a package other than QNN's is first built from its specs.

        Raises OpdbError if it cannot be built for this backend.
        """
        if package == PACKAGE:
            return self._worker
        if package not in self._packaged:
            self._folder = self._folder or tempfile.TemporaryDirectory(prefix="opdb-packages-")
            ops = of_catalog(self._catalog).get(package, [])
            made = op_package.write(
                self._catalog, ops, Path(self._folder.name, package), backend=self.backend
            )
            library = op_package.build(made)
            self._packaged[package] = VendorWorker(
                self.backend, self.soc or None, libraries=self._libraries, op_packages=[library]
            )
        return self._packaged[package]

    def _validated(self, config: OpConfig) -> Answer:
        said = self._worker_for(config.package).validate(config)
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
        said = self._worker_for(case.config.package).run(
            graph, dynamic, "fp16" if self.half and floats else None
        )
        more = {"code": said.code, "code_name": said.code_name, "log": said.log}
        if said.verdict == "yes":
            return Answer("ok", tuple(said.outputs[t.name] for t in graph.outputs), **more)  # type: ignore[arg-type]
        if said.stage == "validate" and said.verdict == "no":
            return Answer("violation", **more)  # type: ignore[arg-type]
        stage = STAGES.get(said.stage, "execute")
        return Answer("error", stage=stage, how=said.verdict, **more)  # type: ignore[arg-type]

    def renew(self) -> None:
        for worker in self._workers():
            worker.restart()

    def _workers(self) -> tuple[VendorWorker, ...]:
        return (self._worker, *self._packaged.values())

    def close(self) -> None:
        for worker in self._workers():
            worker.close()
        if self._folder is not None:
            self._folder.cleanup()
