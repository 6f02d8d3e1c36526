"""ONNX files as PyTorch modules: onnx2torch converts the nodes, and rows get the names of the file's nodes back.

Before the conversion each node is called n0, n1, ... by its place in the file, which PyTorch's module paths keep.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from opdb.coverage.check import Coverage, Row
from opdb.errors import MissingExtra, OpdbError

_PLACE = re.compile(r"n(\d+)(?:\.|$)")


def read_onnx(path: str) -> tuple[Any, tuple[Any, ...]]:
    """The module (torch.fx.GraphModule) of an ONNX file and inputs of its shapes: floats random, integers 0.

    Raises MissingExtra, and OpdbError for a file that cannot be read, an input without static shape, and operators
    that onnx2torch does not know.
    """
    import torch

    model = _load(path, weights=True)
    inputs = tuple(_input(path, value) for value in _free_inputs(model))
    for place, node in enumerate(model.graph.node):
        node.name = f"n{place}"
    convert = _onnx2torch().convert
    try:
        module = convert(model)
    except NotImplementedError as error:
        operator = re.search(r"operation_type='(\w+)', version=(\d+)", str(error))
        what = f"{operator[1]} of opset {operator[2]}" if operator else str(error)
        raise OpdbError(f"{path}: onnx2torch does not know the operator {what}") from error
    except Exception as error:  # the converter of a node raises whatever it meets
        raise OpdbError(f"{path}: onnx2torch cannot convert it: {type(error).__name__}: {error}") from error
    assert isinstance(module, torch.nn.Module)
    return module.eval(), inputs


def with_names(coverage: Coverage, path: str) -> Coverage:
    """Rows with the ONNX node's name as the module; the line is the file, the node's number from 1 and its operator."""
    nodes = [(node.name, node.op_type) for node in _load(path, weights=False).graph.node]

    def named(row: Row) -> Row:
        found = _PLACE.match(row.module)
        if found is None:
            return row
        place = int(found[1])
        name, kind = nodes[place]
        return replace(
            row, module=name, line=f"{Path(path).name}:{place + 1}: {kind}", file=str(Path(path).absolute())
        )

    return replace(coverage, rows=tuple(map(named, coverage.rows)))


def _load(path: str, *, weights: bool) -> Any:
    try:
        import onnx
    except ImportError:
        raise MissingExtra("onnx", "onnx") from None
    if not Path(path).is_file():
        raise OpdbError(f"{path}: no such file")
    try:
        return onnx.load(path, load_external_data=weights)
    except Exception as error:  # protobuf's own errors, and those of files with weights
        lines = str(error).strip().splitlines() or [""]
        raise OpdbError(
            f"{path}: cannot be read as an ONNX model: {type(error).__name__}: {lines[0]}"
        ) from error


def _onnx2torch() -> Any:
    """torchvision, which onnx2torch imports, is built for one build of PyTorch: with another one, importing it stops at
    two operators that it describes.  Once they are declared it can be imported; calling them still fails.
    """
    import torch

    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            torch.library.define(f"torchvision::{name}", schema)
    try:
        import onnx2torch
    except ImportError:
        raise MissingExtra("onnx2torch", "onnx") from None
    return onnx2torch


def _free_inputs(model: Any) -> list[Any]:
    """Inputs without a value in the file; older files list the weights among the inputs."""
    known = {w.name for w in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in known]


def _input(path: str, value: Any) -> Any:
    import onnx
    import torch

    kind = value.type.tensor_type
    dims = [d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in kind.shape.dim]
    if not kind.HasField("shape") or any(not isinstance(d, int) or d < 1 for d in dims):
        raise OpdbError(
            f"{path}: the input {value.name} has the shape [{', '.join(map(str, dims))}]; fix all dimensions, "
            "ex) with onnx.tools.update_model_dims"
        )
    array = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
    zeros = torch.zeros(dims, dtype=getattr(torch, "bool" if array.name == "bool" else array.name))
    if not zeros.dtype.is_floating_point:
        return zeros
    return torch.randn(dims, generator=torch.Generator().manual_seed(0)).to(zeros.dtype)
