"""ONNX and TensorFlow Lite files as PyTorch modules.

A .tflite file is first converted to an ONNX model (opdb.programs.tflite), whose nodes name the operators of the file that they
come from.  The module's child n0, n1, ... is the node at that place in the file, which PyTorch's module paths keep.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opdb.core.errors import MissingExtra, OpdbError
from opdb.lower.candidates import ONNX_NODE
from opdb.programs.onnx.metadata import OPERATOR, RESULT


def read_onnx(
    path: str, *, dynamo: bool = False, dims: Mapping[str, int] | None = None, encodings: str | None = None
) -> tuple[Any, tuple[Any, ...]]:
    """The module of an ONNX or TensorFlow Lite file and inputs of its shapes: random for floats, 0 for integers.

    A node that PyTorch cannot express becomes a call of opdb_onnx.node (opdb.programs.onnx.host_node), with the reason.

    ``dynamo``: the modules contain only calls of operators, which TorchDynamo can trace; PyTorch's other export would not see the
    modules' names then.  ``dims``: sizes of dimensions that the file leaves open: see opdb.programs.onnx.inputs.
    ``encodings``: a file with the model's encodings (opdb.programs.onnx.encodings).

    Raises MissingExtra, and OpdbError for a file that cannot be read, an input that is not a tensor of numbers or has no
    static shape, and a node that reads a name that nothing makes.
    """
    model = open_model(path, weights=True)
    from opdb.programs.onnx.graph import to_module
    from opdb.programs.onnx.host_shapes import Unread
    from opdb.programs.onnx.inputs import inputs_of

    if encodings is not None:
        from opdb.programs.onnx.encodings import read_encodings, warn_of_unknown, with_encodings

        found = read_encodings(encodings)
        warn_of_unknown(model, found, encodings)
        model = with_encodings(model, found, encodings)
    inputs = inputs_of(path, _free_inputs(model), dims or {})
    try:
        module = to_module(model, inputs, Unread(model, dims or {}))
    except OpdbError as error:
        raise OpdbError(f"{path}: {error}") from error
    given = tuple(inputs.values())
    module.eval()
    return _of_operators(path, module, given) if dynamo else module, given


def _of_operators(path: str, module: Any, inputs: tuple[Any, ...]) -> Any:
    """The module exported and unflattened again: it and all its children are torch.fx.GraphModules."""
    import torch

    from opdb.programs.torch.export import export

    program = export(module, inputs, path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PyTorch warns about its own code
        made = _as_graphs(torch.export.unflatten(program))
    (output,) = [n for n in made.graph.nodes if n.op == "output"]
    if len(output.args[0]) == 1:
        output.args = tuple(output.args[0])
        made.recompile()
    return made.eval()


def _as_graphs(module: Any) -> Any:
    """An unflattened module and its children as torch.fx.GraphModules."""
    import torch

    for name, child in list(module.named_children()):
        if hasattr(child, "graph"):
            setattr(module, name, _as_graphs(child))
    return torch.fx.GraphModule(module, module.graph)


def ends(path: str) -> tuple[tuple[str, ...], tuple[str, ...], frozenset[str]]:
    """The names of a file's inputs and outputs, in the order of ``read_onnx``, and the names of the int64 ones."""
    import onnx

    model = open_model(path, weights=False)
    inputs, outputs = _free_inputs(model), list(model.graph.output)
    wide = {v.name for v in (*inputs, *outputs) if v.type.tensor_type.elem_type == onnx.TensorProto.INT64}
    return tuple(v.name for v in inputs), tuple(o.name for o in outputs), frozenset(wide)


def unread(path: str, program: Any) -> str | None:
    """The first node of a file's program that PyTorch cannot express: its number, operator, and the reason; None if there is none."""
    from opdb.programs.onnx.host_node import alone

    for node in program.graph.nodes:
        if str(node.target) == ONNX_NODE:
            proto = alone(node.args[1])
            nodes = open_model(path, weights=False).graph.node
            place = next(i for i, n in enumerate(nodes, 1) if list(n.output) == list(proto.output))
            number, operator, _ = place_of(nodes[place - 1], place)
            return f"node {number}, {operator}: {node.args[2]}"
    return None


def place_of(node: Any, place: int) -> tuple[str, str, str]:
    """The number, operator and name that a node has in its file; a node of an ONNX file has its own."""
    said = {p.key: p.value for p in node.metadata_props} if hasattr(node, "metadata_props") else {}
    if OPERATOR not in said:
        return str(place), node.op_type, node.name
    number, _, operator = said[OPERATOR].partition(": ")
    return number, operator, said[RESULT]


def open_model(path: str, *, weights: bool) -> Any:
    try:
        import onnx
    except ImportError:
        raise MissingExtra("onnx", "onnx") from None
    if not Path(path).is_file():
        raise OpdbError(f"{path}: no such file")
    if path.endswith(".tflite"):
        return _from_tflite(path)
    try:
        model = onnx.load(path, load_external_data=weights)
    except Exception as error:  # protobuf's own errors, and errors of external weight files
        lines = str(error).strip().splitlines() or [""]
        raise OpdbError(
            f"{path}: cannot be read as an ONNX model: {type(error).__name__}: {lines[0]}"
        ) from error
    if not model.graph.node:
        raise OpdbError(f"{path}: the ONNX model has no nodes")
    return model


def _from_tflite(path: str) -> Any:
    try:
        from opdb.programs.tflite import to_onnx
    except ImportError:
        raise MissingExtra("tflite", "tflite") from None
    return to_onnx(path)


def _free_inputs(model: Any) -> list[Any]:
    """Inputs without a value in the file; older files list the weights among the inputs."""
    known = {w.name for w in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in known]
