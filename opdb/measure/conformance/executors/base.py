"""The protocol of executors: a case goes in, one of four answers comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np

from opdb.catalog.store.records import ExecutorRecord
from opdb.measure.conformance.cases import Case

Array = np.ndarray[Any, Any]
Stage = Literal["validate", "finalize", "execute"]
T = Any  # torch.Tensor
Inputs = Sequence[Any]  # torch tensors; None for an omitted input
Params = Mapping[str, Any]


@dataclass(frozen=True)
class Answer:
    """An executor's answer to a case.

    ok: accepted, with the outputs as stored (None if nothing was computed).  violation: rejected, for
    these rules (a vendor's library names none).  unsupported: it cannot handle the case.  error: a
    ``stage`` failed ("no"), crashed or hung (``how``).
    """

    kind: Literal["ok", "violation", "unsupported", "error"]
    outputs: tuple[Array, ...] | None = None
    rules: tuple[str, ...] = ()  # for a violation; for ok: warnings
    stage: Stage = "validate"
    how: Literal["no", "crashed", "hung"] = "no"
    text: str = ""
    code: int | None = None
    code_name: str = ""
    log: tuple[str, ...] = field(default=())
    #: False if no kernel or graph was needed, or none is available.
    computed: bool = True


class NoOracle(Exception):
    """Raised with the reason if the documents do not define the result."""


class Executor(Protocol):
    """``name`` is the value for --executor; ``backend`` the QNN backend that it measures, or ''.

    Executors that hold no resources inherit ``renew`` and ``close``.
    """

    name: str
    backend: str
    soc: str
    #: True if it computes with float16 where the config says float32.
    half: bool

    def record(self) -> ExecutorRecord:
        """Returns the executor's record for SQL.  Raises OpdbError if it cannot be started."""
        ...

    def takes(self, case: Case) -> bool:
        """True if the case applies to this executor at all."""
        ...

    def answer(self, case: Case, inputs: Sequence[Array | None]) -> Answer:
        """Answers a case.  ``inputs``: the data of each input of the config, as stored."""
        ...

    def renew(self) -> None:
        """Starts fresh after a wrong result, which may have overwritten memory."""
        return

    def close(self) -> None:
        """Releases all resources."""
        return
