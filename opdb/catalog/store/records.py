"""Plain frozen records that probes and conformance runs pass to the store."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from opdb.catalog.store.state import now


def _uid() -> str:
    return uuid.uuid4().hex


@dataclass(frozen=True)
class LibraryRecord:
    """The identity of a vendor library, independent of its path."""

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
    """A sweep over one op.  ``catalog_hash`` is the op's hash; ``note`` states what else its configs depend on."""

    op: str = ""
    soc: str = ""


@dataclass(frozen=True)
class ExecutorRecord:
    """The executor of cases: python, c, hexagon, torch, onnx.reference, qnn-cpu, or qnn-htp."""

    name: str
    version: str  # e.g. 2.47
    backend: str = ""  # the QNN backend it measures; '' for opdb's own code and PyTorch
    library: LibraryRecord | None = None


@dataclass(frozen=True)
class CaseRecord:
    """One conformance case.  '' means that no backend, SoC, or SDK applies."""

    name: str  # e.g. LayerNorm-sample0-HTP.FP16.2-SM8650
    op: str
    kind: str  # positive, negative
    config: str  # JSON: the op config
    backend: str = ""
    soc: str = ""
    sdk: str = ""
    type_row: str = ""  # e.g. HTP.FP16.2
    rules: tuple[str, ...] = ()  # rules that a negative case must break, e.g. LayerNorm.C3


@dataclass(frozen=True)
class ResultRecord:
    """The result of one executor on one case: five statuses, each one of ``opdb.catalog.schema.STATUSES``."""

    case: CaseRecord
    executor: ExecutorRecord
    soc: str = ""
    declared: str = "unknown"
    validates: str = "unknown"
    finalizes: str = "unknown"
    executes: str = "unknown"
    matches: str = "unknown"
    rules: tuple[str, ...] = ()  # rules that the executor reported, e.g. LayerNorm.C3
    code: int | None = None
    code_name: str = ""
    log: str = ""
    error_max: float | None = None  # largest absolute difference; inf if only one side is NaN
    ulp: float | None = None
    magnitude: float | None = None  # of PyTorch's number at the largest ``ulp``
    seconds: float | None = None
    detail: str = ""


@dataclass(frozen=True)
class ProbeRecord:
    """A library's answer about one op config."""

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
    ours: str = ""  # our verdict: accept, reject, unknown; "" if we did not judge it
    rules: tuple[str, ...] = ()  # rules that we reported, e.g. LayerNorm.C3
    reasons: str = ""  # JSON, see opdb.execute.libraries.reasons
    position: int | None = None  # in the run; None: after the last
