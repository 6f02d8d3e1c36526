"""Takes one sample from the call to numbers: export, lower, QNN graph, library, compared with PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from opinfo_compare import difference, rounded
from opinfo_samples import Call, Sample
from torch import Tensor
from torch.utils import _pytree as pytree

from opdb.catalog.targets.target import Target
from opdb.checks.graph import Part, build_part
from opdb.checks.verdicts import check_nodes
from opdb.core.errors import OpdbError
from opdb.core.graph import QnnGraph
from opdb.lower.candidates import mapped
from opdb.programs.torch.export import export
from opdb.programs.torch.program import Program
from opdb.runtime.kernels import run_graph
from opdb.runtime.native import KernelError

#: opdb's own kernels accept everything that the op definitions accept.
PLACES = {
    "CPU": Target("CPU", execution="emulator"),
    "HTP": Target("HTP", "SM8650", execution="emulator"),
    "KERNELS": Target(),
}
#: The outcome of a sample: its numbers match PyTorch's; refused with a reason; a target that no spec maps; torch.export or
#: PyTorch itself refuses it; anything else.
RIGHT, REFUSED, UNMAPPED, NO_PROGRAM, FAILED = "right", "refused", "unmapped", "no program", "failed"


@dataclass(frozen=True)
class Computed:
    """The part of the result of ``Library.run`` that is read here."""

    outputs: Mapping[str, np.ndarray[Any, Any]]
    verdict: str = "yes"


class Library(Protocol):
    """Runs a graph: a VendorWorker, or Kernels."""

    def run(self, graph: QnnGraph, inputs: Mapping[str, np.ndarray[Any, Any]]) -> Any: ...


class Kernels:
    """opdb's C kernels, in this process."""

    def run(self, graph: QnnGraph, inputs: Mapping[str, np.ndarray[Any, Any]]) -> Computed:
        return Computed(run_graph(graph, inputs))


@dataclass(frozen=True)
class Outcome:
    """``targets``: the ATen targets of the program's nodes.  ``text``: the reason it is not right."""

    sample: str
    backend: str
    form: str
    outcome: str
    targets: tuple[str, ...] = ()
    text: str = ""


def outcomes(sample: Sample, workers: Mapping[str, Library]) -> Iterator[Outcome]:
    """The outcome on each backend of ``workers``: of the first accepted form, else of the first form."""
    left = dict.fromkeys(workers)
    for form, module, inputs in sample.forms():
        program = read(module, inputs)
        for backend in list(left):
            result = (
                Outcome(sample.id, backend, form, NO_PROGRAM, text=program)
                if isinstance(program, str)
                else None
            )
            if result is None:
                result = judge(sample.id, form, module, inputs, program, backend, workers[backend])
            if result.outcome in (RIGHT, FAILED):
                del left[backend]
                yield result
            elif left[backend] is None:
                left[backend] = result
    yield from (r for r in left.values() if r is not None)


def read(module: Call, inputs: tuple[Tensor, ...]) -> Program | str:
    """The program of a call, or the reason there is none."""
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            return Program(export(module, inputs))
    except OpdbError as error:
        return str(error)


def judge(
    sample: str,
    form: str,
    module: Call,
    inputs: tuple[Tensor, ...],
    program: Program,
    backend: str,
    worker: Library,
) -> Outcome:
    targets = tuple(dict.fromkeys(n.target for n in program.nodes))
    base = Outcome(sample, backend, form, FAILED, targets)
    if not program.nodes:
        return replace(base, outcome=REFUSED, text="no node is left to be computed")
    try:
        coverage = check_nodes(program, PLACES[backend])
        missing = [t for t in targets if not mapped(t)]
        if missing:
            return replace(base, outcome=UNMAPPED, text=", ".join(missing))
        if not coverage.complete:
            told = [r["message"] for row in coverage.rows for r in row.reasons]
            return (
                replace(base, outcome=REFUSED, text="; ".join(told))
                if told
                else replace(base, text="no reason")
            )
        try:
            part = build_part(
                program, coverage.lowered, "graph", program.nodes, program.inputs, program.outputs
            )
        except OpdbError as error:
            return replace(base, outcome=REFUSED, text=f"graph: {error}")
        wrong = run(part, program, module, inputs, backend, worker)
    except KernelError as error:
        if error.status != "unsupported":
            return replace(base, text=str(error))
        return replace(base, outcome=REFUSED, text=str(error))
    except Exception as error:  # must never happen
        return replace(base, text=f"{type(error).__name__}: {str(error)[:300]}")
    return replace(base, outcome=FAILED, text=wrong) if wrong else replace(base, outcome=RIGHT)


def run(
    part: Part, program: Program, module: Call, inputs: tuple[Tensor, ...], backend: str, worker: Library
) -> str:
    """The error of the library's results; "" for none."""
    if backend == "HTP":
        inputs = tuple(rounded(x) for x in inputs)
    pairs = [(part.inputs[k], x) for k, x in zip(program.inputs, inputs, strict=True) if k in part.inputs]
    given = {n: held(x).reshape(part.graph.tensors[n].shape) for n, x in pairs}
    answer = worker.run(part.graph, given)
    if answer.verdict != "yes":
        log = " | ".join(line for line in answer.log if "rror" in line or "output:" in line)[-300:]
        return f"{answer.stage}: {answer.verdict} {answer.code_name or answer.code} {answer.node} {log}"
    names = [part.outputs[key] for key in program.outputs]
    got = [as_numpy(answer.outputs[n], part.graph.tensors[n].dtype) for n in names]
    return difference(got, inputs, lambda x: called(module, x), backend, [n.target for n in program.nodes])


def called(module: Call, inputs: Sequence[Tensor]) -> list[Tensor]:
    """The tensors that PyTorch returns."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = [t for t in pytree.tree_leaves(module(*inputs)) if isinstance(t, Tensor)]
    return [t.float() if t.dtype == torch.bfloat16 else t for t in made]


def as_numpy(stored: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """Widens bfloat16, which numpy lacks: it is stored as the upper halves of floats."""
    return (stored.astype(np.uint32) << 16).view(np.float32) if dtype == "bf16" else stored


def held(x: Tensor) -> np.ndarray[Any, Any]:
    """Converts 64-bit indices, which QNN lacks, to 32 bits."""
    return (x.to(torch.int32) if x.dtype == torch.int64 else x).contiguous().numpy()
