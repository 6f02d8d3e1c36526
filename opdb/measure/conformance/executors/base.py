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
    """What an executor made of a case.

    ok: accepted, with the outputs as stored (None where nothing was computed).  violation: rejected, for
    these rules (a vendor's library names none).  unsupported: it has nothing for such a case.  error: a
    ``stage`` failed ("no"), crashed or hung (``how``).
    """

    kind: Literal["ok", "violation", "unsupported", "error"]
    outputs: tuple[Array, ...] | None = None
    rules: tuple[str, ...] = ()  # of a violation; of ok: warnings
    stage: Stage = "validate"
    how: Literal["no", "crashed", "hung"] = "no"
    text: str = ""
    code: int | None = None
    code_name: str = ""
    log: tuple[str, ...] = field(default=())
    #: Whether a kernel or a graph was asked for, and none is there.
    computed: bool = True


class NoOracle(Exception):
    """The documents do not say what comes out; the reason."""


class Executor(Protocol):
    """``name`` is what --executor takes; ``backend`` the QNN backend that it measures, or ''.

    Executors that hold nothing inherit ``renew`` and ``close``.
    """

    name: str
    backend: str
    soc: str
    #: Whether it computes with float16 what the config says in float32.
    half: bool

    def record(self) -> ExecutorRecord:
        """Who computes, for SQL.  Raises OpdbError when it cannot be started."""
        ...

    def takes(self, case: Case) -> bool:
        """Whether the case is a question to this executor at all."""
        ...

    def answer(self, case: Case, inputs: Sequence[Array | None]) -> Answer:
        """``inputs``: the data of each input of the config, as stored."""
        ...

    def renew(self) -> None:
        """What it computed was wrong, and may have overwritten memory: what comes next starts anew."""
        return

    def close(self) -> None:
        """Lets go of what is held."""
        return
