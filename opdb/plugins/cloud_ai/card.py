"""Kernels for Cloud AI's card, compiled for Hexagon and run by QEMU in the four threads of a core.

opdb.plugins.cloud_ai.conformance turns an op config into a node for this machine; its bytes go to the process under QEMU.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError
from opdb.core.op_config import OpConfig
from opdb.plugins.cloud_ai.codegen import aic
from opdb.plugins.cloud_ai.conformance import Ran, entries
from opdb.plugins.cloud_ai.node_layout import DATA_TYPES, Array, Node
from opdb.plugins.hexagon import emulator
from opdb.plugins.hexagon.card import THREADS, Card, CardParam, CardRan, CardTensor, compile_card


class HexagonCard:
    """The kernel of one op of a package that opdb wrote; a context manager.

    ``folder``: the package's, for generation ``api``; ``made``: the path of the program to compile; ``flags``: the kernel's,
    by default those of the configuration.  ``last``: what else the last run reported.
    Raises OpdbError: there is no compiler or emulator, or the compiler's first complaint.
    """

    def __init__(
        self, folder: Path, api: str, op: str, made: Path, flags: Sequence[str] = aic.COMPILER_ARGS
    ) -> None:
        self.api, self.entry = api, entries(folder)[op]
        # The kernel for the host is a library, not a C source.
        self.symbol, source = next(k for k in self.entry.kernels.values() if k[1].suffix == ".c")
        program = compile_card(
            source, folder / aic.STAND_IN, self.symbol, made, arrays=api == "1.17", flags=flags
        )
        self._card = Card([emulator(), str(program.resolve())])
        self.last: CardRan | None = None

    def run(self, config: OpConfig, inputs: Sequence[Array], order: Sequence[int] = range(THREADS)) -> Ran:
        """Runs the kernel on the data of all inputs; the threads start in ``order``.

        Raises OpdbError if a thread was left waiting, or wrote outside of its scratch buffers; ServerLost.
        """
        node = Node(self.api, config)
        n_in, n_out, n_params = node.counts
        ins = [_tensor(t, np.ascontiguousarray(a)) for t, a in zip(node.inputs[:n_in], inputs, strict=True)]
        results = [np.empty(t.shape, BY_SHORT[t.dtype].numpy) for t in config.outputs]
        outs = [_tensor(t, a, given=False) for t, a in zip(node.outputs[:n_out], results, strict=True)]
        params = [_param(p) for p in node.params[:n_params]]
        ran = self.last = self._card.run(self.symbol, ins, outs, params, self.entry.scratch, order)
        if ran.stuck:
            raise OpdbError(
                f"{self.symbol}: threads waited for one that had ended; calls of syncThread: {ran.waits}"
            )
        if ran.overrun:
            raise OpdbError(f"{self.symbol}: it writes outside of its scratch buffers")
        outputs = [
            np.frombuffer(block, a.dtype).reshape(a.shape)
            for block, a in zip(ran.outputs, results, strict=True)
        ]
        return Ran(outputs, list(ran.waits), ran.log)

    def close(self) -> None:
        """Ends the emulator; safe to repeat."""
        self._card.close()

    def __enter__(self) -> HexagonCard:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _tensor(t: Any, array: Array, given: bool = True) -> CardTensor:
    shape = tuple(t.sizes[d] for d in range(t.rank))
    return CardTensor(t.dtype, shape, t.scale, t.offset, array.nbytes, array.tobytes() if given else None)


def _param(p: Any) -> CardParam:
    wide = {"DTBool": 1, "DTIInt64": 8}.get(DATA_TYPES[p.dtype], 4)
    return CardParam(p.name.decode(), p.dtype, p.size, ctypes.string_at(p.data, wide * max(p.size, 1)))
