"""Graphs as DLC files: libQnnIr validates nodes against the op definition and writes graphs to files.

Measured with 2.47: it has no devices, no list of ops, and no context binaries, and executes nothing (each call
answers 1000, not supported).  A DLC is a zip archive whose entries have no checksums.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from opdb.core.errors import OpdbError
from opdb.core.graph import QnnGraph
from opdb.runtime.qnn.backend import Backend
from opdb.runtime.qnn.errors import QnnError
from opdb.runtime.qnn.graph import GraphOptions
from opdb.runtime.qnn.libraries import Libraries


def write_dlc(graph: QnnGraph, path: Path | str, *, libraries: Libraries | None = None) -> tuple[str, ...]:
    """Writes a graph to ``path`` as a DLC; returns the library's warnings.

    Every node is validated first.  Raises QnnError if the library refuses a node or the graph, OpdbError if the
    path cannot be written; then the file is unchanged.
    """
    path = Path(path).resolve()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise OpdbError(f"{path}: cannot write: {error.strerror}") from None
    with unfinished as place, Backend.open("IR", libraries=libraries) as backend:
        for op in graph.ops:
            verdict = backend.validate(graph.op_config(op))
            if verdict.code:
                raise QnnError(f"validate the node {op.name} ({op.op})", verdict.code, verdict.log)
        made = Path(place, "graph.dlc")
        with backend.create_context() as context:
            log = context.add_graph(graph, GraphOptions(dlc=str(made))).log
        if not made.is_file():
            raise OpdbError(f"{path}: libQnnIr.so finalized the graph {graph.name} and wrote no file")
        try:
            os.replace(made, path)
        except OSError as error:
            raise OpdbError(f"{path}: cannot write: {error.strerror}") from None
    return log
