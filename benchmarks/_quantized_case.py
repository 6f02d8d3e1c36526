"""Takes one module through check --quantize, compile --quantize and HTP's emulation, compared with PyTorch in floats."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from opdb.catalog.targets.target import Target
from opdb.checks.coverage import Coverage
from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.execute.compile.calibration import named_samples
from opdb.execute.compile.model import lowered, precision_of
from opdb.execute.compile.quantized_check import quantized_coverage
from opdb.execute.libraries.client import VendorWorker
from opdb.lower.quantize import named, quantize
from opdb.programs.torch.export import export
from opdb.runtime.kernels import run_graph
from opdb.runtime.native import KernelError
from opdb.runtime.qnn.graph import GraphOptions
from opdb.runtime.qnn.real_numbers import to_real, to_stored

Array = np.ndarray[Any, Any]
#: Signal in noise, in dB, that is right whatever the encodings are: 8 bits have 49 dB for a uniform tensor, 16 have 98.
BOUND = {"8a8w": 25.0, "16a8w": 45.0}
#: The dB by which the emulation may be further from floats than rounding to the same encodings.
SLACK = 3.0
#: The steps of a result by which the emulation may differ from that rounding, if a result is too short for a ratio.
STEPS = {"8a8w": 2.01, "16a8w": 16.01}
#: Results for modules that say nothing about opdb: PyTorch cannot export them, or their values are not finite.
LEFT = ("no program", "not finite")


@dataclass(frozen=True)
class Row:
    """``check``, ``compile``: "yes", "no" or another outcome; ``values``: "right", "coarse", "wrong" or "".

    ``found``: dB of the emulation to floats, ``rounded``: of the same graph computed in floats with every tensor rounded to its
    encoding; both of the worst result.  ``steps``: distance from that graph.  ``why``: the reason for the first problem.
    """

    case: str
    soc: str
    scheme: str
    check: str = ""
    compile: str = ""
    values: str = ""
    found: float | None = None
    rounded: float | None = None
    steps: float | None = None
    why: str = ""
    told: tuple[str, ...] = field(default=())
    seconds: float = 0.0

    @property
    def agree(self) -> bool:
        return self.check == self.compile


def rows(
    name: str,
    module: torch.nn.Module,
    inputs: tuple[Any, ...],
    wished: Sequence[tuple[str, str]],
    worker: Callable[[str], VendorWorker],
    folder: Path,
) -> Iterator[Row]:
    """A row for each (SoC, scheme); ``worker`` gives the library for a SoC, ``folder`` is for contexts."""
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            program = export(module, inputs)
            made = module(*(x.clone() for x in inputs))
    except Exception as error:  # PyTorch's, of any kind
        yield from (Row(name, soc, scheme, "no program", why=short(error)) for soc, scheme in wished)
        return
    tensors = [t.detach().numpy() for t in pytree.tree_leaves(made) if isinstance(t, torch.Tensor)]
    names = [str(n) for n in program.graph_signature.user_outputs]
    wanted = list(dict(zip(names, tensors, strict=False)).values())
    finite = all(np.isfinite(x).all() for x in (*tensors, *(np.asarray(x) for x in inputs)))
    for soc, scheme in wished:
        row = Row(name, soc, scheme)
        yield _row(row, program, wanted, worker(soc), folder) if finite else replace(row, check="not finite")


def _row(row: Row, program: Any, wanted: Sequence[Array], worker: VendorWorker, folder: Path) -> Row:
    target = Target("HTP", row.soc, execution="emulator")
    try:
        checked = quantized_coverage(program, target, named(row.scheme))
        row = replace(row, check="yes" if checked.complete else "no", why=_reasons(checked))
        coverage, graph = lowered(program, target, "graph", to_quantize=True)
        if graph is None:
            return replace(row, compile="no", why=_reasons(coverage))
        if not graph.ops:
            return replace(row, check="no program", why="no node is left to be computed")
        (sample,) = named_samples("example", graph.inputs, program)
        told: list[str] = []
        made = quantize(graph, [sample], target=target, recipe=row.scheme, told=told)
        row = replace(row, told=tuple(told))
    except OpdbError as error:
        if "not finite" in str(error):
            return replace(row, check="not finite", why=short(error))
        return replace(row, compile="no", why=short(error))
    except Exception as error:  # must never happen
        return replace(row, compile="traceback", why=short(error) + " " + _last_line(error))
    return _run(row, made, sample, wanted, worker, folder)


def _run(
    row: Row,
    made: QnnGraph,
    sample: Mapping[str, Any],
    wanted: Sequence[Array],
    worker: VendorWorker,
    folder: Path,
) -> Row:
    path = folder / "context.bin"
    options = GraphOptions(precision=precision_of([made], "HTP"))
    compiled = worker.compile([made], path, options)
    if compiled.stage != "done":
        said = " | ".join(line for line in compiled.log if "rror" in line)[-300:]
        verdict = f"{compiled.stage}: {compiled.verdict} {compiled.code_name or compiled.code}"
        return replace(row, compile=verdict, why=f"{compiled.node} {said}")
    row = replace(row, compile="yes")
    stored = {t.name: to_stored(t, sample[t.name]) for t in made.inputs}
    ran = worker.load(path)
    if ran.stage == "done":
        ran = worker.execute("graph", stored)  # type: ignore[assignment]
    if ran.stage != "done":
        return replace(
            row,
            values=f"{ran.stage}: {ran.verdict} {ran.code_name or ran.code}",
            why=" | ".join(ran.log)[-300:],
        )
    try:
        expected = computed(made, stored)
    except (KernelError, OpdbError) as error:
        expected, row = {}, replace(row, why=f"no rounding: {short(error)}")
    found = [to_real(t, ran.outputs[t.name]) for t in made.outputs]  # type: ignore[attr-defined]
    near = [expected.get(t.name) for t in made.outputs]
    return judged(row, made.outputs, found, near, wanted)


def judged(
    row: Row,
    outputs: Sequence[GraphTensor],
    found: Sequence[Array],
    near: Sequence[Array | None],
    wanted: Sequence[Array],
) -> Row:
    """The row of the worst result: "right" within BOUND, "coarse" if rounding to the same encodings is as far off, else "wrong"."""
    if len(found) != len(wanted):
        return replace(row, values="wrong", why=f"{len(found)} results for {len(wanted)}")
    ranks = {"right": 0, "coarse": 1, "wrong": 2}
    worst = replace(row, values="right")
    for tensor, got, other, want in zip(outputs, found, near, wanted, strict=True):
        if got.size != want.size:
            return replace(row, values="wrong", why=f"{got.shape} for {want.shape}")
        got = got.reshape(want.shape).astype(np.float64)
        to_floats = noise(got, want)
        rounding = None if other is None else noise(other.reshape(want.shape).astype(np.float64), want)
        steps = None
        if other is not None and want.size:
            scale = tensor.quant.scale[0] if tensor.quant is not None else 1.0
            steps = float(np.abs(got - other.reshape(want.shape)).max()) / scale
        if to_floats >= BOUND[row.scheme]:
            values = "right"
        elif (rounding is not None and to_floats >= rounding - SLACK) or (
            steps is not None and tensor.quant is not None and steps <= STEPS[row.scheme]
        ):
            values = "coarse"
        else:
            values = "wrong"
        key = (ranks[values], -to_floats)
        if worst.found is None or key > (ranks[worst.values], -worst.found):
            worst = replace(row, values=values, found=to_floats, rounded=rounding, steps=steps)
    return worst


def noise(got: Array, want: Array) -> float:
    """The signal-to-noise ratio in dB, at most 120."""
    real = want.astype(np.float64)
    if not np.isfinite(got).all():
        return -120.0
    off = float(((got - real) ** 2).sum())
    if off == 0:
        return 120.0
    signal = float((real**2).sum())
    return float(np.clip(10 * np.log10(max(signal, 1e-30) / off), -120, 120))


def computed(made: QnnGraph, stored: Mapping[str, Array]) -> dict[str, Array]:
    """Real results of a quantized graph whose ops compute in floats, with each tensor rounded to its encoding.

    Runs opdb's C kernel of each op in turn.  Raises KernelError for an op without one.
    """
    real: dict[str, Array] = {}
    for tensor in made.tensors.values():
        if tensor.type == "STATIC":
            kept = np.asarray(tensor.data, BY_SHORT[tensor.dtype].numpy).reshape(tensor.shape)
            real[tensor.name] = to_real(tensor, kept)
        elif tensor.type == "APP_WRITE":
            real[tensor.name] = to_real(tensor, np.asarray(stored[tensor.name]))
    for op in made.ops:
        for name, value in _one(made, op, real).items():
            tensor = made.tensors[name]
            real[name] = to_real(tensor, to_stored(tensor, value))
    return real


def _one(made: QnnGraph, op: GraphOp, real: Mapping[str, Array]) -> Mapping[str, Array]:
    if op.op in ("Convert", "Quantize", "Dequantize"):
        return {op.outputs[0]: real[op.inputs[0] or ""]}
    kept = [n for n in dict.fromkeys((*op.inputs, *op.outputs)) if n is not None]
    graph = QnnGraph(op.name)
    for name in kept:
        tensor = made.tensors[name]
        kind = "APP_READ" if name in op.outputs else "STATIC" if tensor.type == "STATIC" else "APP_WRITE"
        dtype = "f32" if BY_SHORT[tensor.dtype].quantized or tensor.dtype == "f16" else tensor.dtype
        data = real[name] if kind == "STATIC" else None
        graph.tensors[name] = GraphTensor(name, dtype, tensor.shape, kind, data)
    graph.ops.append(op)
    return run_graph(graph, {n: real[n] for n in kept if graph.tensors[n].type == "APP_WRITE"})


def _reasons(coverage: Coverage) -> str:
    """Returns the reason of the first refused node."""
    for row in coverage.rows:
        if row.verdict != "supported":
            said = "; ".join(str(r.get("brief") or r["message"]) for r in row.reasons)
            return f"{row.node} ({row.target}): {said}"[:400]
    return ""


def short(error: BaseException) -> str:
    kind = "" if isinstance(error, OpdbError) else f"{type(error).__name__}: "
    return (kind + " ".join(str(error).split()))[:400]


def _last_line(error: BaseException) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"at {Path(frame.filename).name}:{frame.lineno}"
