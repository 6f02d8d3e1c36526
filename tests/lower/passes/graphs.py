"""Handmade graphs, one op after the other, and checks of passes: the numbers before and after, on opdb's C kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from opdb.catalog.targets.target import Target
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.core.op_config import ParamConfig, Quant
from opdb.lower.passes import PASSES, Optimized, optimize
from opdb.runtime.kernels import run_graph
from opdb.runtime.qnn.real_numbers import to_real

Array = np.ndarray[Any, Any]
CPU, HTP = Target("CPU"), Target("HTP", "SM8650")


class Made:
    """A graph under construction: every method returns the name of the tensor that it adds."""

    def __init__(self, seed: int = 0) -> None:
        self.graph = QnnGraph("made")
        self.rng = np.random.default_rng(seed)

    def input(self, *shape: int, dtype: str = "f32", quant: Quant | None = None) -> str:
        return self._tensor(
            GraphTensor(f"x{len(self.graph.tensors)}", dtype, shape, "APP_WRITE", None, quant)
        )

    def constant(self, data: Any, dtype: str = "f32", quant: Quant | None = None) -> str:
        kinds = {"f32": np.float32, "f16": np.float16, "i32": np.int32, "uq8": np.uint8, "sq8": np.int8}
        array = np.asarray(data, kinds[dtype])
        return self._tensor(
            GraphTensor(f"c{len(self.graph.tensors)}", dtype, array.shape, "STATIC", array, quant)
        )

    def random(self, *shape: int, low: float = -1.0, high: float = 1.0) -> str:
        return self.constant(self.rng.uniform(low, high, shape))

    def op(
        self,
        kind: str,
        inputs: Sequence[str | None],
        shape: Sequence[int],
        params: Sequence[ParamConfig] = (),
        dtype: str | None = None,
        quant: Quant | None = None,
    ) -> str:
        """Adds an op with one result; its dtype is that of the first input unless given."""
        first = self.graph.tensors[inputs[0] or ""]
        made = GraphTensor(
            f"t{len(self.graph.tensors)}",
            dtype or first.dtype,
            tuple(shape),
            quant=quant if dtype else (quant or first.quant),
        )
        name = self._tensor(made)
        self.graph.ops.append(
            GraphOp(f"op{len(self.graph.ops)}", kind, tuple(inputs), tuple(params), (name,))
        )
        return name

    def output(self, *names: str) -> QnnGraph:
        """The graph, with these results as its outputs."""
        for name in names:
            held = self.graph.tensors[name]
            self.graph.tensors[name] = GraphTensor(name, held.dtype, held.shape, "APP_READ", None, held.quant)
        return self.graph

    def _tensor(self, tensor: GraphTensor) -> str:
        self.graph.tensors[tensor.name] = tensor
        return tensor.name


def number(name: str, value: float, dtype: str = "u32") -> ParamConfig:
    return ParamConfig(name, dtype, value)


def numbers(name: str, *values: int, shape: tuple[int, ...] | None = None) -> ParamConfig:
    return ParamConfig(name, "u32", values, shape or (len(values),))


def pads(*pairs: int) -> ParamConfig:
    return numbers("pad_amount", *pairs, shape=(len(pairs) // 2, 2))


def passed(graph: QnnGraph, *names: str, target: Target = HTP) -> Optimized:
    """``graph`` after the passes with these names only."""
    chosen = tuple(p for p in PASSES if p.name in names)
    assert len(chosen) == len(names), "a test names a pass that there is not"
    return optimize(graph, target, passes=chosen)


def kinds(graph: QnnGraph) -> list[str]:
    """The ops in the order of execution."""
    return [op.op for op in graph.ops]


def drawn(graph: QnnGraph, seed: int = 1, low: float = -2.0, high: float = 2.0) -> dict[str, Array]:
    """Values for every input, as QNN stores them."""
    rng = np.random.default_rng(seed)
    made: dict[str, Array] = {}
    for t in graph.inputs:
        if t.dtype in ("f32", "f16"):
            made[t.name] = rng.uniform(low, high, t.shape).astype(
                np.float16 if t.dtype == "f16" else np.float32
            )
        elif t.dtype == "bool8":
            made[t.name] = rng.integers(0, 2, t.shape).astype(np.uint8)
        else:
            kind: Any = {"uq8": np.uint8, "sq8": np.int8, "uq16": np.uint16, "i32": np.int32, "u8": np.uint8}[
                t.dtype
            ]
            made[t.name] = rng.integers(np.iinfo(kind).min, int(np.iinfo(kind).max) + 1, t.shape).astype(kind)
    return made


def agree(before: QnnGraph, after: QnnGraph, tolerance: float | None = 2e-6, seed: int = 1) -> None:
    """Asserts equal inputs, outputs and results.  ``tolerance``: relative to the largest result; None: bit for bit."""
    assert [(t.name, t.dtype, t.shape, t.quant) for t in before.inputs] == [
        (t.name, t.dtype, t.shape, t.quant) for t in after.inputs
    ]
    given = drawn(before, seed)
    want, got = run_graph(before, given), run_graph(after, given)
    assert list(want) == list(got)
    for name, array in want.items():
        assert array.dtype == got[name].dtype and array.shape == got[name].shape
        if tolerance is None:
            np.testing.assert_array_equal(got[name], array)
            continue
        tensor = before.tensors[name]
        a, b = (to_real(tensor, v) if tensor.quant else v.astype(np.float64) for v in (array, got[name]))
        assert np.abs(a - b).max() <= tolerance * max(1.0, float(np.abs(a).max()))
