"""What a probe of a vendor library ends in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class LibraryInfo:
    """Which library answered, without paths."""

    backend: str  # CPU or HTP
    soc: str | None
    soc_model: int | None
    package: str  # ex) onnxruntime-qnn; "" for a plain folder
    version: str  # of the package; ex) 2.3.0
    build_id: str  # ex) v2.47.0.260601114230
    api_version: tuple[int, int, int]  # core API
    backend_api_version: tuple[int, int, int]
    sha256: str = ""


@dataclass(frozen=True)
class RunResult:
    """How far a graph came.

    ``stage`` is validate, finalize, execute, or "done" when all three went well; ``verdict`` is then
    "yes", else "no", "crashed" or "hung".  ``code`` and ``code_name`` are QNN's; for "crashed" the
    signal's (or the exit code), for "hung" 0 and "".
    """

    stage: str
    verdict: str
    code: int
    code_name: str
    log: tuple[str, ...] = ()
    outputs: Mapping[str, Any] = field(default_factory=dict)  # numpy arrays by the name of the tensor
    node: str = ""  # the node that validation refused
