"""The cases of the battery as ONNX models of one node, in ONNX Runtime with a library of custom ops."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
from case import Case, judge

DOMAIN = "com.opdb.mutants"
TYPES = {"f32": 1, "u8": 2, "i8": 3, "u16": 4, "i16": 5}


def on_onnx_runtime(library: Path, found: Iterator[Case]) -> None:
    held = ctypes.CDLL(str(library))  # ONNX Runtime unloads it; a sanitizer cannot name unloaded code
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.register_custom_ops_library(held._name)
    for case in found:
        try:
            session = onnxruntime.InferenceSession(model(case), options, providers=["CPUExecutionProvider"])
            names = [out.name for out in session.get_outputs()]
            got = dict(zip(names, session.run(None, dict(case.inputs)), strict=True))
        except Exception as error:  # ONNX Runtime has many classes; the message says which
            if case.wanted is not None or case.refused not in str(error):
                sys.exit(f"{case.name}: {str(error)[:300]}")
            continue
        judge(case, got)
        assert case.wanted is not None
        for out in session.get_outputs():
            if out.shape != list(case.wanted[out.name].shape):
                sys.exit(f"{case.name}: {out.name} is inferred as {out.shape}")


def model(case: Case) -> bytes:
    """A model of one node; its outputs have no shape, so the library has to infer it."""
    (op,), make = case.graph.ops, onnx.helper
    attributes: dict[str, Any] = {
        p.name: list(p.value) if p.shape is not None else int(p.value) if p.dtype == "bool8" else p.value
        for p in op.params
    }
    node = make.make_node(op.op, [n or "" for n in op.inputs], list(op.outputs), domain=DOMAIN, **attributes)
    tensors = case.graph.tensors
    ins = [make.make_tensor_value_info(n, TYPES[tensors[n].dtype], tensors[n].shape) for n in op.inputs if n]
    outs = [make.make_tensor_value_info(n, TYPES[tensors[n].dtype], None) for n in op.outputs]
    opsets = [make.make_opsetid("", 17), make.make_opsetid(DOMAIN, 1)]
    graph = make.make_graph([node], "graph", ins, outs)
    return bytes(make.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString())
