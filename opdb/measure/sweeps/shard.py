"""The work of one process of a sweep (opdb.core.pool): makes configs, judges them, asks the libraries about them.

Chunks come in, records go out.  The libraries run in child processes of their own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opdb.catalog.store.records import ProbeRecord
from opdb.catalog.targets.target import Target, half
from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError
from opdb.core.graph import single
from opdb.core.op_config import OpConfig, TensorConfig, to_json
from opdb.core.pool.facts import code_facts, package_facts
from opdb.execute.libraries.client import VendorWorker
from opdb.execute.libraries.reasons import kept, parse
from opdb.execute.libraries.results import RunResult
from opdb.measure.sweeps.generate import Generator, Made
from opdb.measure.sweeps.verdicts import Validator
from opdb.runtime.qnn.errors import VendorVerdict
from opdb.runtime.qnn.libraries import Libraries, find

STATUSES = {"accept": "yes", "reject": "no", "crashed": "crashed", "hung": "hung", "invalid": "unknown"}


@dataclass(frozen=True)
class Settings:
    """The settings that all chunks of a sweep share: a Work of opdb.core.pool."""

    validators: Mapping[str, Validator]
    libraries: Libraries
    backends: tuple[str, ...]
    seed: int
    execute: int  # one good and accepted config in so many is finalized and executed; 0: none
    timeout: float  # seconds for each request
    memory: int  # bytes that a library may allocate
    flaky: frozenset[tuple[str, str]] = (
        frozenset()
    )  # (backend, op): whether it crashes depends on what ran before

    def open(self) -> Shard:
        return Shard(self)

    def facts(self) -> dict[str, str]:
        """See opdb.core.pool.Work: opdb, numpy, and each library."""
        libraries = self.here()
        sums = {f"QNN's {b} library": libraries.sha256(b) for b in self.backends}
        return code_facts() | package_facts("numpy") | sums

    def here(self) -> Libraries:
        """Finds the libraries on this machine: in the same folder, or of the same version of the wheel.

        Raises OpdbError if there are none.
        """
        same_place = self.libraries.folder.is_dir() or not self.libraries.version
        return self.libraries if same_place else find(self.libraries.version)


@dataclass(frozen=True)
class Chunk:
    """Configs of one op to ask one library about."""

    op: str
    target: Target
    indices: tuple[int, ...]

    @property
    def name(self) -> str:
        return self.op


class Shard:
    """Generators and workers, kept from chunk to chunk."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._generators: dict[tuple[str, Target], Generator] = {}
        self._workers: dict[tuple[Target, str], VendorWorker] = {}

    def answer(self, chunk: Chunk) -> list[ProbeRecord]:
        """Returns a record for each config.  Raises OpdbError if the spec gives no config, or the library does not open."""
        generator = self._generators.get((chunk.op, chunk.target))
        if generator is None:
            validator = self.settings.validators[chunk.op]
            generator = Generator(validator, chunk.target, self.settings.seed)
            self._generators[chunk.op, chunk.target] = generator
        made = [generator.config(i) for i in chunk.indices]
        worker = self._worker(chunk.target)
        verdicts = worker.validate_many([m.config for m in made])
        records = []
        for m, said in zip(made, verdicts, strict=True):
            every = self.settings.execute
            wanted = bool(every) and m.index % every == 0 and bool(m.type_row) and said.verdict == "accept"
            ran = self._run(chunk.target, m) if wanted else None
            records.append(_record(generator, m, said, ran))
        return records

    def _run(self, target: Target, made: Made) -> RunResult | str:
        """Runs a graph of the op alone; in a fresh process for ops known to be flaky."""
        if (target.backend or "", made.config.op) not in self.settings.flaky:
            return _run(self._worker(target), made.config, made.index)
        worker = self._worker(target, "run")
        try:
            return _run(worker, made.config, made.index)
        finally:
            worker.restart()

    def _worker(self, target: Target, use: str = "") -> VendorWorker:
        if (target, use) not in self._workers:
            s = self.settings
            assert target.backend is not None
            self._workers[target, use] = VendorWorker(
                target.backend, target.soc, libraries=s.here().folder, timeout=s.timeout, log_level="warning",
                memory=s.memory,
            )  # fmt: skip
        return self._workers[target, use]

    def close(self) -> None:
        for worker in self._workers.values():
            worker.close()


def _record(
    generator: Generator, made: Made, said: VendorVerdict, ran: RunResult | str | None
) -> ProbeRecord:
    ours, target = generator.judged(made.config), generator.target
    log = list(kept(said.log) if said.verdict != "invalid" else said.log)
    reasons = parse(said.log) if said.verdict == "reject" else ()
    finalizes = executes = "unknown"
    code, code_name = said.code, said.code_name
    if isinstance(ran, RunResult):
        stages = ("finalize", "execute", "done")
        reached = stages.index(ran.stage) if ran.stage in stages else 0
        finalizes = "yes" if reached > 0 else ran.verdict
        executes = "yes" if reached > 1 else ran.verdict if reached == 1 else "unknown"
        code, code_name = ran.code, ran.code_name
        log += kept(ran.log)
    detail = [*made.changes] + ([f"not executed: {ran}"] if isinstance(ran, str) else [])
    return ProbeRecord(
        op=made.config.op,
        backend=target.backend or "",
        sdk=target.sdk or "",
        config=json.dumps(to_json(made.config), separators=(",", ":")),
        soc=target.soc or "",
        type_row=made.type_row,
        validates=STATUSES[said.verdict],
        finalizes=finalizes,
        executes=executes,
        code=code,
        code_name=code_name,
        log="\n".join(log),
        detail="; ".join(detail),
        ours=ours.verdict,
        rules=tuple(dict.fromkeys(v.rule for v in ours.violations if not v.warning)),
        reasons=json.dumps([r.json() for r in reasons], separators=(",", ":")) if reasons else "",
        position=made.index,
    )


def _run(worker: VendorWorker, config: OpConfig, index: int) -> RunResult | str:
    """Runs a graph of the op alone; returns the reason if it cannot be tried."""
    inputs = [None if t.type == "NULL" else _data(t, index + i) for i, t in enumerate(config.inputs)]
    graph = single(config, inputs)
    given = {t.name: inputs[int(t.name)] for t in graph.inputs}
    floats = config.inputs and any(t.dtype == "f32" for t in graph.tensors.values())
    precision = "fp16" if half(worker.info().backend) and floats else None
    try:
        return worker.run(graph, given, precision)
    except OpdbError as error:  # for what cannot be passed on
        return str(error)


def _data(tensor: TensorConfig, seed: int) -> np.ndarray[Any, Any]:
    """Small numbers; zeros if they may be indices."""
    kind = BY_SHORT[tensor.dtype]
    stored = np.dtype(kind.numpy or "uint8")
    rng = np.random.default_rng(seed)
    if stored.kind == "f":
        return rng.uniform(-1, 1, tensor.shape).astype(stored)
    if kind.quantized and kind.bits <= 16:
        return rng.integers(0, 16, tensor.shape).astype(stored)
    return np.zeros(tensor.shape, stored)
