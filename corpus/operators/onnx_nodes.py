"""Runs ONNX's own tests of operators on the C kernels: the module of its model, through the specs, and its outputs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from onnx_cases import difference, read

from opdb.catalog.targets.target import Target
from opdb.checks.graph import build_part
from opdb.checks.verdicts import check_nodes
from opdb.core.errors import OpdbError
from opdb.lower.candidates import mapped
from opdb.programs.torch.export import export
from opdb.programs.torch.program import Program
from opdb.runtime.kernels import run_graph
from opdb.runtime.native import KernelError

RIGHT, WRONG, UNREAD, KNOWN, UNMAPPED, REFUSED, NO_KERNEL = (
    "right", "wrong", "not read", "known", "unmapped", "refused", "no kernel"
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """``operator``: that of the model's first node.  ``text``: the reason it is not right."""

    name: str
    operator: str
    outcome: str
    text: str = ""


def outcomes(chosen: Iterator[Any] | tuple[Any, ...]) -> Iterator[Outcome]:
    for case in chosen:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield _outcome(case)


def _outcome(case: Any) -> Outcome:
    base = Outcome(case.name, case.model.graph.node[0].op_type, RIGHT)
    try:
        module, given = read(case)
        program = Program(export(module, given))
    except OpdbError as error:
        return replace(base, outcome=UNREAD, text=str(error))
    if not program.nodes:
        return replace(base, outcome=KNOWN, text="no node is left to be computed")
    missing = [n.target for n in program.nodes if not mapped(n.target)]
    if missing:
        return replace(base, outcome=UNMAPPED, text=", ".join(missing))
    coverage = check_nodes(program, Target())
    if not coverage.complete:
        told = [r["message"] for row in coverage.rows for r in row.reasons]
        return replace(base, outcome=REFUSED, text="; ".join(told))
    part = build_part(program, coverage.lowered, "graph", program.nodes, program.inputs, program.outputs)
    arrays = {
        part.inputs[k]: _held(x).reshape(part.graph.tensors[part.inputs[k]].shape)
        for k, x in zip(program.inputs, given, strict=True)
        if k in part.inputs
    }
    try:
        made = run_graph(part.graph, arrays)
    except KernelError as error:
        return replace(base, outcome=NO_KERNEL, text=str(error))
    wrong = difference([made[part.outputs[k]] for k in program.outputs], case)
    return replace(base, outcome=WRONG, text=wrong) if wrong else base


def _held(x: torch.Tensor) -> np.ndarray[Any, Any]:
    """Converts a tensor to the form of opdb's graphs: no 64-bit indices, bfloat16 by its bits."""
    x = x.to(torch.int32) if x.dtype == torch.int64 else x
    return np.ascontiguousarray((x.view(torch.uint16) if x.dtype == torch.bfloat16 else x).numpy())
