"""Models as the command line names them: a ``.pt2``, ``.onnx`` or ``.tflite`` file, or ``module:callable``."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opdb.core.errors import OpdbError
from opdb.core.foreign import quiet
from opdb.programs.callables import check_callable, named_callable, parts, place_of
from opdb.programs.file_faults import refuse_other_files
from opdb.programs.torch.export import export, first_line, require_torch

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.nn import Module

Inputs = tuple[Any, ...]


def has_names(spec: str) -> bool:
    """True if a model is a file that names its inputs, outputs and nodes: ONNX or TensorFlow Lite."""
    return spec.endswith((".onnx", ".tflite"))


def load_model(
    spec: str,
    *,
    dynamo: bool = False,
    dims: Mapping[str, int] | None = None,
    encodings: str | None = None,
) -> tuple[Module, Inputs]:
    """The module and its example inputs.

    ``spec`` is a file that torch.export.save wrote, an ONNX or TensorFlow Lite file, or ``module:callable`` (a module found on
    sys.path and in the current folder, or the path of a .py file), whose callable takes nothing and returns
    (torch.nn.Module, tuple of inputs).  ``dynamo``: for TorchDynamo (``strict=True``), with which ExecuTorch's flow exports.
    ``dims``: sizes of the dimensions that an ONNX file leaves open (opdb.programs.onnx.inputs).  ``encodings``: a file with the
    encodings of a float ONNX file (opdb.programs.onnx.encodings).
    Raises OpdbError for anything else, MissingExtra without PyTorch.
    """
    _refuse(spec)
    require_torch()
    if encodings is not None and not spec.endswith(".onnx"):
        raise OpdbError(
            f"--encodings {encodings}: for ONNX files in floats, whose tensors they name; not for {spec}"
        )
    if has_names(spec):
        from opdb.programs.onnx.files import read_onnx

        return read_onnx(spec, dynamo=dynamo, dims=dims, encodings=encodings)
    _no_dims(spec, dims)
    if spec.endswith(".pt2") or (":" not in spec and Path(spec).exists()):
        return _from_file(spec)
    if parts(spec) is None:
        raise OpdbError(
            f"{spec}: not a model; give a .pt2, .onnx or .tflite file, or module:callable that returns (module, example inputs)"
        )
    return _made(named_callable(spec), spec)


def load_program(
    spec: str, dims: Mapping[str, int] | None = None, encodings: str | None = None, *, quick: bool = False
) -> ExportedProgram:
    """The exported program of a model: a ``.pt2`` file as it is, a module after torch.export.export.

    ``dims``, ``encodings``: see ``load_model``.  ``quick``: record the program of an ONNX or TensorFlow Lite file in one run
    instead of tracing it (opdb.programs.onnx.recorder).  That is much faster, but the nodes have meta tensors, which PyTorch's own
    passes and torch.export.save do not accept.
    """
    _refuse(spec)
    require_torch()
    if spec.endswith(".pt2") and encodings is None:
        _no_dims(spec, dims)
        return _read(spec)
    module, inputs = load_model(spec, dims=dims, encodings=encodings)
    if quick and has_names(spec):
        from opdb.programs.onnx.recorder import Unrecordable, recorded
        from opdb.programs.torch.composites import stays_whole
        from opdb.programs.torch.targets import READ_WITHOUT_SPEC

        with suppress(Unrecordable):
            return recorded(module, inputs, partial(stays_whole, kept=READ_WITHOUT_SPEC))
    return export(module, inputs, name=spec)


def _refuse(spec: str) -> None:
    """Raises OpdbError for what is plainly no model, before PyTorch is imported."""
    if spec.endswith((".pt2", ".onnx", ".tflite", ".py")) and not Path(spec).exists():
        raise OpdbError(f"{spec}: no such file")
    refuse_other_files(spec)
    if parts(spec) is not None:
        check_callable(spec)


def _no_dims(spec: str, dims: Mapping[str, int] | None) -> None:
    if dims:
        name, size = next(iter(dims.items()))
        raise OpdbError(
            f"--dim {name}={size}: for ONNX files; the shapes of {spec} are those of its example inputs"
        )


def _from_file(path: str) -> tuple[Module, Inputs]:
    program = _read(path)
    if program.example_inputs is None:
        raise OpdbError(
            f"{path}: the program was saved without example inputs; export it again with torch.export.export"
        )
    args, kwargs = program.example_inputs
    if kwargs:
        raise OpdbError(
            f"{path}: the program takes keyword inputs ({', '.join(kwargs)}); export it with positional ones"
        )
    return program.module(), tuple(args)


def _read(path: str) -> ExportedProgram:
    torch = require_torch()
    import opdb.programs.torch_ops

    with suppress(ImportError):
        import opdb.programs.onnx.host_node  # noqa: F401  it may have nodes of an ONNX file

    if not Path(path).is_file():
        raise OpdbError(f"{path}: no such file")
    if not zipfile.is_zipfile(path):
        raise OpdbError(f"{path}: not a file of torch.export.save")
    try:
        with quiet():
            return torch.export.load(path)
    except Exception as error:  # the reader raises whatever it meets in a damaged file
        raise OpdbError(f"{path}: cannot be read as an exported program: {first_line(error)}") from error


def _made(make: Callable[[], Any], spec: str) -> tuple[Module, Inputs]:
    """Calls ``make``; returns its model and example inputs."""
    torch = require_torch()
    try:
        made = make()
    except Exception as error:
        raise OpdbError(f"{spec}() fails{place_of(error)}: {first_line(error)}") from error
    if isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], torch.nn.Module):
        if isinstance(made[1], torch.Tensor):
            return made[0], (made[1],)
        if isinstance(made[1], (tuple, list)) and not isinstance(made[1], Mapping):
            return made[0], tuple(made[1])
    raise OpdbError(f"{spec}() must return (torch.nn.Module, tuple of example inputs), not {_kind(made)}")


def _kind(value: Any) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}: ({', '.join(type(v).__name__ for v in value)})"
    return type(value).__name__
