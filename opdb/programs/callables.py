"""A user's function as ``module:callable``: a module on sys.path or in the current folder, or the path of a .py file."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from opdb.core.errors import OpdbError
from opdb.programs.torch.export import first_line

#: Parts of the paths of frames that are not the user's code.
OTHERS = ("<frozen ", "/importlib/", "/opdb/programs/", "-packages/torch/")


def named_callable(spec: str) -> Callable[[], Any]:
    """Loads ``module:callable``; the module is found on sys.path and in the current folder, or is the path of a .py file.

    Raises OpdbError for another form, for a module that cannot be imported, and if it has no such callable.
    """
    found = parts(spec)
    if found is None:
        raise OpdbError(f"{spec}: not module:callable; e.g. package.module:make or file.py:make")
    module, name = found
    imported = _imported_file(module) if module.endswith(".py") else _imported(module)
    make: Callable[[], Any] | None = getattr(imported, name, None)
    if make is None or not callable(make):
        known = ", ".join(
            k
            for k, v in vars(imported).items()
            if callable(v) and getattr(v, "__module__", None) == imported.__name__
        )
        raise OpdbError(f"{module}: no callable '{name}'" + (f"; it has {known}" if known else ""))
    return make


def parts(spec: str) -> tuple[str, str] | None:
    """The module (or file) and the name, or None if ``spec`` is not ``module:callable``."""
    module, colon, name = spec.rpartition(":")
    importable = module.endswith(".py") or all(p.isidentifier() for p in module.split("."))
    return (module, name) if colon and name.isidentifier() and importable else None


def check_callable(spec: str) -> None:
    """Raises OpdbError for another form, a missing file, and a file that defines no such name; runs none of it."""
    found = parts(spec)
    if found is None:
        raise OpdbError(f"{spec}: not module:callable; e.g. package.module:make or file.py:make")
    module, name = found
    if not module.endswith(".py"):
        return
    if not Path(module).is_file():
        raise OpdbError(f"{module}: no such file")
    try:
        body = ast.parse(Path(module).read_bytes()).body
    except (SyntaxError, ValueError):
        return  # the import says where
    names = {n for node in body for n in _defined(node)}
    if "*" not in names and name not in names:
        functions = [node.name for node in body if isinstance(node, ast.FunctionDef)]
        raise OpdbError(
            f"{module}: no callable '{name}'" + (f"; it has {', '.join(functions)}" if functions else "")
        )


def _defined(node: ast.stmt) -> set[str]:
    """The names that a statement of a module binds; those of statements inside it, too."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        return {node.name}
    imports = [n for n in ast.walk(node) if isinstance(n, ast.Import | ast.ImportFrom)]
    names = {(a.asname or a.name).partition(".")[0] for n in imports for a in n.names}
    stored = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    inside = {n.name for n in ast.walk(node) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    return names | stored | inside


def place_of(error: BaseException) -> str:
    """Where the user's code raised an error: " at FILE:LINE" of the last frame that is the user's, else ""."""
    if isinstance(error, SyntaxError):  # its text has the place
        return ""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not any(part in f.filename.replace("\\", "/") for part in OTHERS)]
    return f" at {_shown(own[-1].filename)}:{own[-1].lineno}" if own else ""


def _shown(path: str) -> str:
    """A path below the current folder without that folder."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path


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
        raise OpdbError(f"{path}: importing it fails{place_of(error)}: {first_line(error)}") from error
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
        raise OpdbError(f"{module}: {why}{place_of(error)}") from error
    except Exception as error:
        raise OpdbError(f"{module}: importing it fails{place_of(error)}: {first_line(error)}") from error
