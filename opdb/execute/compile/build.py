"""Compiles graphs to a context file, with the vendor's library in a child process."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opdb.core.errors import OpdbError
from opdb.core.graph import QnnGraph
from opdb.execute.libraries.client import Progress, VendorWorker
from opdb.execute.libraries.results import CompileResult
from opdb.judge.errata.contexts import recordable

if TYPE_CHECKING:
    from opdb.runtime.qnn.graph import GraphOptions


@dataclass(frozen=True)
class Compiled:
    """``path`` holds ``size`` bytes if ``result.stage`` is "done"; otherwise it is unchanged.

    ``seconds``: (stage, graph, wall time), including that of opening the library; ``build_id`` is the library's.
    """

    result: CompileResult
    path: Path
    size: int
    build_id: str
    seconds: tuple[tuple[str, str, float], ...]


def compile_to_file(
    graphs: Sequence[QnnGraph],
    path: Path,
    backend: str,
    soc: str | None = None,
    options: GraphOptions | None = None,
    *,
    metadata: Mapping[str, Any] | None = None,
    timeout: float = 600.0,
    libraries: Path | str | None = None,
    progress: Progress | None = None,
    weight_sharing: bool = False,
    worker: VendorWorker | None = None,
) -> Compiled:
    """Compiles ``graphs`` into one context and writes it to ``path`` atomically, with ``metadata`` (Context.save).

    ``weight_sharing``: graphs on HTP store equal weights once.  ``worker``: one of this backend and SoC, if the library is already open
    (``VendorWorker.open_ahead``); it stays open, and its own ``timeout`` and ``libraries`` apply.

    If the library refuses, crashes or hangs (for ``timeout`` seconds), the result says so, and nothing is
    left at ``path``.  Raises OpdbError for graphs or a path that cannot be used.
    """
    graphs = recordable(graphs, backend)
    path = path.resolve()
    if path.is_dir():
        raise OpdbError(f"{path}: this is a folder; name a file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise OpdbError(f"{path}: cannot write: {error.strerror}") from None
    with unfinished as place, ExitStack() as done:
        if worker is None:
            worker = done.enter_context(VendorWorker(backend, soc, libraries=libraries, timeout=timeout))
        begun = time.perf_counter()
        if progress is not None:
            progress("open", "", 0.0)
        build_id = worker.info().build_id
        opening = (("open", "", time.perf_counter() - begun),)
        made = Path(place, "context")
        result = worker.compile(graphs, made, options, metadata, progress, weight_sharing=weight_sharing)
        size = 0
        if result.stage == "done":
            size = made.stat().st_size
            os.replace(made, path)
    return Compiled(result, path, size, build_id, opening + result.seconds)
