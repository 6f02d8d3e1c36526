"""Prepares graphs so that a backend's library can put them into a context."""

from __future__ import annotations

from collections.abc import Sequence

from opdb.core.graph import QnnGraph


def recordable(graphs: Sequence[QnnGraph], backend: str) -> list[QnnGraph]:
    """The graphs; for CPU, without inputs on which no result depends: QNN CPU 2.47 leaves them out of a context's record, and asks for
    them when it runs.
    """
    return [g.needed() for g in graphs] if backend == "CPU" else list(graphs)
