"""ONNX's own tests of operators on the C kernels: its model, through onnx2torch and the specs, and its outputs.

``onnx.backend.test`` makes the models; those of newer opsets than onnx2torch's are brought to opset 16 where ONNX can.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx.backend.test.case.node as node_tests
import torch
from onnx import version_converter

from opdb.coverage.check import check_nodes
from opdb.coverage.graph import build_part
from opdb.coverage.load import export
from opdb.coverage.nodes import Program
from opdb.coverage.onnx import _onnx2torch
from opdb.errors import OpdbError
from opdb.lower import mapped
from opdb.runtime.kernels import run_graph
from opdb.runtime.native import KernelError
from opdb.validate import Target

RIGHT, WRONG, UNCONVERTED, NO_PROGRAM, UNMAPPED, REFUSED, NO_KERNEL = (
    "right", "wrong", "not converted", "no program", "unmapped", "refused", "no kernel"
)  # fmt: skip
OPSET = 16
#: onnx.backend.test compares with these.
RELATIVE, ABSOLUTE = 1e-3, 1e-7


@dataclass(frozen=True)
class Outcome:
    """``operator``: that of the model's first node.  ``text``: why it is not right."""

    name: str
    operator: str
    outcome: str
    text: str = ""


@cache
def cases() -> tuple[Any, ...]:
    """onnx.backend.test's test cases of nodes: name, model, data sets."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple(c for c in node_tests.collect_testcases(None) if c.model is not None)


def outcomes(chosen: Iterator[Any] | tuple[Any, ...]) -> Iterator[Outcome]:
    for case in chosen:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield _outcome(case)


def _outcome(case: Any) -> Outcome:
    base = Outcome(case.name, case.model.graph.node[0].op_type, RIGHT)
    try:
        module = _onnx2torch().convert(_of_known_opset(case.model)).eval()
    except Exception as error:  # its converters raise whatever they meet
        return replace(base, outcome=UNCONVERTED, text=f"{type(error).__name__}: {error}")
    inputs, outputs = case.data_sets[0]
    try:
        given = tuple(torch.from_numpy(np.array(x)) for x in inputs)
        program = Program(export(module, given))
    except (OpdbError, TypeError, RuntimeError) as error:  # sequences, strings, types that PyTorch has not
        return replace(base, outcome=NO_PROGRAM, text=f"{type(error).__name__}: {error}")
    if not program.nodes:
        return replace(base, outcome=NO_PROGRAM, text="no node is left to be computed")
    missing = [n.target for n in program.nodes if not mapped(n.target)]
    if missing:
        return replace(base, outcome=UNMAPPED, text=", ".join(missing))
    coverage = check_nodes(program, Target())
    if not coverage.complete:
        told = [r["message"] for row in coverage.rows for r in row.reasons]
        return replace(base, outcome=REFUSED, text="; ".join(told))
    part = build_part(program, coverage.lowered, "graph", program.nodes, program.inputs, program.outputs)
    arrays = {
        part.inputs[k]: _held(x.numpy()).reshape(part.graph.tensors[part.inputs[k]].shape)
        for k, x in zip(program.inputs, given, strict=True)
        if k in part.inputs
    }
    try:
        made = run_graph(part.graph, arrays)
    except KernelError as error:
        return replace(base, outcome=NO_KERNEL, text=str(error))
    wrong = _difference([made[part.outputs[k]] for k in program.outputs], outputs)
    return replace(base, outcome=WRONG, text=wrong) if wrong else base


def _of_known_opset(model: Any) -> Any:
    own = {i.domain: i.version for i in model.opset_import}
    if set(own) != {""} or own[""] <= OPSET:
        return model
    try:
        return version_converter.convert_version(model, OPSET)
    except (RuntimeError, onnx.checker.ValidationError):  # what the older opset cannot say
        return model


def _held(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """opdb's graphs have no 64-bit indices."""
    return np.ascontiguousarray(x.astype(np.int32) if x.dtype == np.int64 else x)


def _difference(got: list[np.ndarray[Any, Any]], wanted: list[Any]) -> str:
    for g, w in zip(got, map(np.asarray, wanted), strict=False):
        if g.size != w.size:
            return f"{g.size} numbers, not {w.size}"
        a, b = g.reshape(w.shape).astype(np.float64), w.astype(np.float64)
        if not np.allclose(a, b, rtol=RELATIVE, atol=ABSOLUTE, equal_nan=True):
            return f"{np.nanmax(np.abs(a - b))} off"
    return ""
