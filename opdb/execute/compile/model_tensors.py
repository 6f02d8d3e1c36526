"""The tensors of the user's model, by their own names: their values on one sample, and its constants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from opdb.execute.compile.same_values import Print
from opdb.execute.compile.sources import place_in_file

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from opdb.checks.coverage import Row

Array = np.ndarray[Any, Any]
#: ONNX operators whose constant operands get encodings like those of the other operands.
ELEMENTWISE = frozenset({"Add", "Concat", "Div", "Max", "Min", "Mul", "PRelu", "Pow", "Sub", "Where"})


@dataclass(frozen=True)
class ModelTensors:
    """``values``: fingerprints of the float tensors on the sample, in the order of the model.  ``constants``: float32 arrays.

    ``of_node``: the result of a node of the program, by the node's name.  ``reads``: the inputs of the node that makes a tensor.
    ``operands``: (constant, tensors beside it) of nodes that compute element by element.
    """

    values: Mapping[str, Print]
    constants: Mapping[str, Array]
    of_node: Mapping[str, str]
    reads: Mapping[str, tuple[str, ...]]
    operands: tuple[tuple[str, tuple[str, ...]], ...] = field(default=())


def of_onnx(
    path: str, dims: Mapping[str, int], sample: Mapping[str, Array], rows: Iterable[Row]
) -> ModelTensors:
    """Reads the tensors of an ONNX file.  ``sample``: by input name; ``rows``: of the coverage, with their nodes' places in the file."""
    import onnx
    import torch

    from opdb.programs.onnx.encodings import weights_of
    from opdb.programs.onnx.files import read_onnx

    module, given = read_onnx(path, dims=dims)
    model = onnx.load(path)
    values: dict[str, Print] = {}

    def see(name: str, value: Any) -> None:
        if isinstance(value, torch.Tensor) and value.dtype == torch.float32:
            values[name] = Print.of(value.numpy())

    module.watch = see
    with torch.no_grad():
        module(*(_like(sample[n], g) for n, g in zip(module.inputs, given, strict=True)))
    constants = {n: onnx.numpy_helper.to_array(w) for n, w in weights_of(model.graph).items()}
    constants = {n: a for n, a in constants.items() if a.dtype == np.float32}
    nodes = model.graph.node
    of_node = {r.node: nodes[at - 1].output[0] for r in rows if (at := place_in_file(r)) and at <= len(nodes)}
    operands = [
        (name, tuple(n for n in (*node.input, *node.output) if n in values))
        for node in nodes
        if node.op_type in ELEMENTWISE
        for name in node.input
        if name in constants
    ]
    read = {name: tuple(node.input) for node in nodes for name in node.output}
    return ModelTensors(values, constants, of_node, read, tuple(operands))


def of_program(program: ExportedProgram, sample: Mapping[str, Array]) -> ModelTensors:
    """Reads the tensors of an exported program by the names of its nodes, parameters, and buffers.  ``sample``: by input name."""
    import torch
    from torch.export.graph_signature import InputKind

    values: dict[str, Print] = {}

    class Watched(torch.fx.Interpreter):  # type: ignore[misc]  # PyTorch has no types here
        def run_node(self, n: Any) -> Any:
            made = super().run_node(n)
            if isinstance(made, torch.Tensor) and made.dtype == torch.float32 and n.name not in held:
                values[n.name] = Print.of(made.numpy())
            return made

    state = {**program.state_dict, **program.constants}
    held, given, constants = set(), [], {}
    examples = iter(program.example_inputs[0] if program.example_inputs else ())
    for spec in program.graph_signature.input_specs:
        name = getattr(spec.arg, "name", "")
        if spec.kind == InputKind.USER_INPUT:
            example = next(examples, None)
            given.append(_like(sample[name], example) if name in sample else example)
            continue
        value = state[spec.target].detach()
        held.add(name)
        given.append(value)
        if value.dtype == torch.float32:
            constants[spec.target] = value.numpy()
    with torch.no_grad():
        Watched(program.graph_module).run(*(g.clone() if isinstance(g, torch.Tensor) else g for g in given))
    read = {n.name: tuple(i.name for i in n.all_input_nodes) for n in program.graph.nodes}
    return ModelTensors(values, constants, {n: n for n in values}, read)


def _like(values: Array, given: Any) -> Any:
    """A sample's values in the type and shape with which the model was read; images with channels last are transposed."""
    import torch

    found = torch.from_numpy(np.array(values))
    if not isinstance(given, torch.Tensor):
        return found
    if found.shape != given.shape and found.dim() > 2:
        found = found.movedim(-1, 1)
    return found.reshape(given.shape).to(given.dtype)
