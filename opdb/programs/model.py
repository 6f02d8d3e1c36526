"""Models as Python programs have them: a module, an exported program, or a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opdb.core.errors import OpdbError

if TYPE_CHECKING:
    from torch.export import ExportedProgram

#: torch.nn.Module, torch.export.ExportedProgram, or a model as the command line spells it: str or Path.
Model = Any


def program_of(
    model: Model,
    inputs: tuple[Any, ...] | None = None,
    *,
    dims: Mapping[str, int] | None = None,
    encodings: str | None = None,
) -> tuple[ExportedProgram, str | None]:
    """The program of a model, and the model as the command line spells it (None if it is not a file).

    ``model``: a torch.nn.Module with its example ``inputs``, a program of torch.export, or what `opdb check` takes: the path of a
    .pt2, .onnx or .tflite file, or "module:callable".  ``dims``, ``encodings``: see opdb.programs.load.load_model.
    Raises OpdbError for a module without inputs, and for a model that cannot be read or exported.
    """
    if isinstance(model, str | Path):
        from opdb.programs.load import load_program

        return load_program(str(model), dims, encodings, quick=True), str(model)
    from torch.export import ExportedProgram

    if isinstance(model, ExportedProgram):
        return model, None
    if inputs is None:
        raise OpdbError(f"{type(model).__name__}: give its example inputs, a tuple of tensors")
    from opdb.programs.torch.export import export

    return export(model, inputs, name=type(model).__name__), None
