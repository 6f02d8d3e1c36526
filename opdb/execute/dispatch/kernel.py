"""Finds out if the C kernels compute an op."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError
from opdb.core.op_config import OpConfig
from opdb.runtime import native


class Kernels:
    """Asks the C kernels, and remembers their answers."""

    def __init__(self) -> None:
        self._told: dict[str, str | None] = {}

    def missing(self, configs: Iterable[OpConfig]) -> str | None:
        """Why the C kernels cannot compute one of ``configs``; None if they compute them all.

        Only the kernel itself knows its data types: each is run once, on ones.
        """
        return next((why for c in configs if (why := self._ask(c)) is not None), None)

    def _ask(self, config: OpConfig) -> str | None:
        bare = replace(config, inputs=tuple(replace(t, data=None) for t in config.inputs), id=None)
        key = repr(bare)
        if key not in self._told:
            self._told[key] = _tried(bare)
        return self._told[key]


def _tried(config: OpConfig) -> str | None:
    try:
        arrays = [
            None if t.type == "NULL" else np.ones(t.shape, BY_SHORT[t.dtype].numpy or "uint8")
            for t in config.inputs
        ]
        native.run(config, arrays)
    except OpdbError as reason:
        return str(reason)
    return None
