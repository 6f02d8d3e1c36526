"""A case of the battery: a graph with its inputs, and its results or the refusal."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from opdb.core.graph import QnnGraph

Arrays = Mapping[str, Any]


class Case:
    """``wanted``: results by name; None if the graph has to fail.  ``refused``: words of the package's refusal."""

    def __init__(
        self, name: str, graph: QnnGraph, inputs: Arrays, wanted: Arrays | None, refused: str = ""
    ) -> None:
        self.name, self.graph, self.inputs = name, graph, inputs
        self.wanted, self.refused = None if refused else wanted, refused


def judge(case: Case, got: Arrays) -> None:
    if case.wanted is None:
        sys.exit(f"{case.name}: not refused")
    for name, want in case.wanted.items():
        if not np.array_equal(got[name], want):
            sys.exit(f"{case.name}: {name} is wrong")
