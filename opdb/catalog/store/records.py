"""What probes and conformance runs hand to the store: plain frozen records."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from opdb.catalog.store.state import now


def _uid() -> str:
    return uuid.uuid4().hex


@dataclass(frozen=True)
class LibraryRecord:
    """A vendor library by what it is; never by its path."""

    package: str  # e.g. onnxruntime-qnn
    version: str  # of the package; e.g. 2.3.0
    build_id: str
    sha256: str
    backend: str  # e.g. HTP
    sdk: str  # e.g. 2.47
    emulated: bool = False


@dataclass(frozen=True)
class RunRecord:
    """One conformance or probe run."""

    opdb_version: str
    catalog_hash: str
    seed: int | None = None
    command: str = ""
    note: str = ""
    started: str = field(default_factory=now)
    uid: str = field(default_factory=_uid)


@dataclass(frozen=True)
class ProbeRunRecord(RunRecord):
    """A sweep over one op.  ``catalog_hash`` is that of the op; ``note``: what else its configs depend on."""

    op: str = ""
    soc: str = ""


@dataclass(frozen=True)
class ExecutorRecord:
    """Who computes: python, c, hexagon, torch, onnx.reference, qnn-cpu, qnn-htp."""

    name: str
    version: str  # e.g. 2.47
    backend: str = ""  # the QNN backend that it measures; '' for opdb's own code and PyTorch
    library: LibraryRecord | None = None


@dataclass(frozen=True)
class CaseRecord:
    """One conformance case.  '' where the backend, SoC or SDK plays no part."""

    name: str  # e.g. LayerNorm-sample0-HTP.FP16.2-SM8650
    op: str
    kind: str  # positive, negative
    config: str  # JSON: the op config
    backend: str = ""
    soc: str = ""
    sdk: str = ""
    type_row: str = ""  # e.g. HTP.FP16.2
    rules: tuple[str, ...] = ()  # that a negative case must break; e.g. LayerNorm.C3


@dataclass(frozen=True)
class ResultRecord:
    """What one executor made of one case: five statuses, each one of ``opdb.catalog.schema.STATUSES``."""

    case: CaseRecord
    executor: ExecutorRecord
    soc: str = ""
    declared: str = "unknown"
    validates: str = "unknown"
    finalizes: str = "unknown"
    executes: str = "unknown"
    matches: str = "unknown"
    rules: tuple[str, ...] = ()  # that the executor reported; e.g. LayerNorm.C3
    code: int | None = None
    code_name: str = ""
    log: str = ""
    error_max: float | None = None  # largest absolute difference; inf where a NaN is not shared
    ulp: float | None = None
    magnitude: float | None = None  # of PyTorch's number where ``ulp`` is largest
    seconds: float | None = None
    detail: str = ""


@dataclass(frozen=True)
class ProbeRecord:
    """What a library said to one op config."""

    op: str
    backend: str
    sdk: str
    config: str  # JSON
    soc: str = ""
    type_row: str = ""
    validates: str = "unknown"
    finalizes: str = "unknown"
    executes: str = "unknown"
    code: int | None = None
    code_name: str = ""
    log: str = ""
    seconds: float | None = None
    detail: str = ""
    ours: str = ""  # our verdict: accept, reject, unknown; "" where we were not asked
    rules: tuple[str, ...] = ()  # that we reported; e.g. LayerNorm.C3
    reasons: str = ""  # JSON, see opdb.execute.libraries.reasons
    position: int | None = None  # in its run; None: after the last
