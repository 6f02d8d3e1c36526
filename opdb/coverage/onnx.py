"""ONNX files as PyTorch modules, and rows with the names of the file's nodes.

The module's child n0, n1, ... is the node at that place in the file, which PyTorch's module paths keep.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from opdb.coverage.check import Coverage, Row
from opdb.errors import MissingExtra, OpdbError

#: ONNX operators with a scale that is computed when the model runs.
DYNAMIC = frozenset({"DynamicQuantizeLinear", "DynamicQuantizeMatMul"})
_PLACE = re.compile(r"n(\d+)(?:\.|$)")


def read_onnx(path: str, *, dynamo: bool = False) -> tuple[Any, tuple[Any, ...]]:
    """The module of an ONNX file and inputs of its shapes: floats random, integers 0.

    ``dynamo``: the modules hold calls of operators alone, which TorchDynamo can trace; the other export of PyTorch
    would not see their names then.

    Raises MissingExtra, and OpdbError for a file that cannot be read, an input without static shape, and a node
    that has no form in PyTorch.
    """
    model = _load(path, weights=True)
    from opdb.onnx_modules.graph import to_module

    inputs = {value.name: _input(path, value) for value in _free_inputs(model)}
    try:
        module = to_module(model, inputs)
    except OpdbError as error:
        raise OpdbError(f"{path}: {error}") from error
    given = tuple(inputs.values())
    module.eval()
    return _of_operators(path, module, given) if dynamo else module, given


def _of_operators(path: str, module: Any, inputs: tuple[Any, ...]) -> Any:
    """The modules as PyTorch's export writes them down, torch.fx.GraphModules all."""
    import torch

    from opdb.coverage.load import export

    made = _as_graphs(torch.export.unflatten(export(module, inputs, path)))
    (output,) = [n for n in made.graph.nodes if n.op == "output"]
    if len(output.args[0]) == 1:
        output.args = tuple(output.args[0])
        made.recompile()
    return made.eval()


def _as_graphs(module: Any) -> Any:
    """A torch.fx.GraphModule of an unflattened module, whose children are such too."""
    import torch

    for name, child in list(module.named_children()):
        if hasattr(child, "graph"):
            setattr(module, name, _as_graphs(child))
    return torch.fx.GraphModule(module, module.graph)


def end_names(path: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of a file's inputs and outputs, in the order of ``read_onnx``."""
    model = _load(path, weights=False)
    return tuple(v.name for v in _free_inputs(model)), tuple(o.name for o in model.graph.output)


def with_names(coverage: Coverage, path: str) -> Coverage:
    """Rows with the ONNX node's name as the module; the line is the file, the node's number from 1 and its operator."""
    nodes = [(node.name, node.op_type) for node in _load(path, weights=False).graph.node]
    told: set[int] = set()

    def named(row: Row) -> Row:
        found = _PLACE.match(row.module)
        if found is None:
            return row
        place = int(found[1])
        name, kind = nodes[place]
        if kind in DYNAMIC and place not in told:
            told.add(place)
            row = replace(
                row,
                said=(
                    f"{kind} in floats: its scale is computed when the model runs, and QNN's are constants",
                ),
            )
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
            "e.g. with onnx.tools.update_model_dims"
        )
    array = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
    zeros = torch.zeros(dims, dtype=getattr(torch, "bool" if array.name == "bool" else array.name))
    if not zeros.dtype.is_floating_point:
        return zeros
    return torch.randn(dims, generator=torch.Generator().manual_seed(0)).to(zeros.dtype)
