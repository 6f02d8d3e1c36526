"""Models as the command line names them: a ``.pt2``, ``.onnx`` or ``.tflite`` file, or ``module:callable``."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opdb.core.errors import OpdbError
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
    require_torch()
    if encodings is not None and not spec.endswith(".onnx"):
        raise OpdbError(
            f"--encodings {encodings}: for ONNX files in floats, whose tensors they name; not for {spec}"
        )
    refuse_other_files(spec)
    if has_names(spec):
        from opdb.programs.onnx.files import read_onnx

        return read_onnx(spec, dynamo=dynamo, dims=dims, encodings=encodings)
    _no_dims(spec, dims)
    if spec.endswith(".pt2") or (":" not in spec and Path(spec).exists()):
        return _from_file(spec)
    if _callable_parts(spec) is None:
        raise OpdbError(
            f"{spec}: not a model; give a .pt2, .onnx or .tflite file, or module:callable that returns (module, example inputs)"
        )
    return _made(named_callable(spec), spec)


def named_callable(spec: str) -> Callable[[], Any]:
    """Loads ``module:callable``; the module is found on sys.path and in the current folder, or is the path of a .py file.

    Raises OpdbError for another form, for a module that cannot be imported, and if it has no such callable.
    """
    parts = _callable_parts(spec)
    if parts is None:
        raise OpdbError(f"{spec}: not module:callable; e.g. package.module:make or file.py:make")
    module, name = parts
    found = _imported_file(module) if module.endswith(".py") else _imported(module)
    make: Callable[[], Any] | None = getattr(found, name, None)
    if make is None or not callable(make):
        known = ", ".join(
            k
            for k, v in vars(found).items()
            if callable(v) and getattr(v, "__module__", None) == found.__name__
        )
        raise OpdbError(f"{module}: no callable '{name}'" + (f"; it has {known}" if known else ""))
    return make


def _callable_parts(spec: str) -> tuple[str, str] | None:
    """The module (or file) and the name, or None if ``spec`` is not ``module:callable``."""
    module, colon, name = spec.rpartition(":")
    importable = module.endswith(".py") or all(p.isidentifier() for p in module.split("."))
    return (module, name) if colon and name.isidentifier() and importable else None


def load_program(
    spec: str, dims: Mapping[str, int] | None = None, encodings: str | None = None, *, quick: bool = False
) -> ExportedProgram:
    """The exported program of a model: a ``.pt2`` file as it is, a module after torch.export.export.

    ``dims``, ``encodings``: see ``load_model``.  ``quick``: record the program of an ONNX or TensorFlow Lite file in one run
    instead of tracing it (opdb.programs.onnx.recorder).  That is much faster, but the nodes have meta tensors, which PyTorch's own
    passes and torch.export.save do not accept.
    """
    require_torch()
    if spec.endswith(".pt2") and encodings is None:
        _no_dims(spec, dims)
        refuse_other_files(spec)
        return _read(spec)
    module, inputs = load_model(spec, dims=dims, encodings=encodings)
    if quick and has_names(spec):
        from opdb.programs.onnx.recorder import Unrecordable, recorded
        from opdb.programs.torch.composites import stays_whole
        from opdb.programs.torch.targets import READ_WITHOUT_SPEC

        with suppress(Unrecordable):
            return recorded(module, inputs, partial(stays_whole, kept=READ_WITHOUT_SPEC))
    return export(module, inputs, name=spec)


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
        return torch.export.load(path)
    except Exception as error:  # the reader raises whatever it meets in a damaged file
        raise OpdbError(f"{path}: cannot be read as an exported program: {first_line(error)}") from error


def _imported_file(path: str) -> Any:
    """Imports a file as a module into sys.modules, where PyTorch looks for the source of what it exports."""
    if not Path(path).is_file():
        raise OpdbError(f"{path}: no such file")
    name = Path(path).stem
    while name in sys.modules:  # two files may share a name, and a file may have a library's
        name += "_"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise OpdbError(f"{path}: importing it fails: {first_line(error)}") from error
    return module


def _imported(module: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or module
        why = (
            "no such module on the path or in the current folder"
            if module.startswith(missing)
            else f"it needs {missing}"
        )
        raise OpdbError(f"{module}: {why}") from error
    except Exception as error:
        raise OpdbError(f"{module}: importing it fails: {first_line(error)}") from error


def _made(make: Callable[[], Any], spec: str) -> tuple[Module, Inputs]:
    """Calls ``make``; returns its model and example inputs."""
    torch = require_torch()
    try:
        made = make()
    except Exception as error:
        raise OpdbError(f"{spec}() fails: {first_line(error)}") from error
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
