"""Errors for files that are plainly no model, before a reader meets them."""

from __future__ import annotations

import ast
import zipfile
from collections.abc import Sequence
from pathlib import Path

from opdb.core.errors import OpdbError

GIT_LFS = b"version https://git-lfs"
NUMPY = b"\x93NUMPY"
#: A part of the names in a zip file that torch.save wrote, and of those that torch.export.save wrote (PyTorch 2.1 to 2.13).
CHECKPOINT, PROGRAMS = "data.pkl", ("archive_format", "serialized_exported_program.json")
#: A part of the names in a zip file that torch.jit.save wrote.
SCRIPT = "/code/__torch__"


def refuse_other_files(path: str) -> None:
    """Raises OpdbError for an empty file, a Git LFS pointer, a .py file, an array of NumPy, and files of torch.save and torch.jit.save."""
    file = Path(path)
    if not file.is_file():
        return
    with file.open("rb") as opened:
        head = opened.read(len(GIT_LFS))
    if not head:
        raise OpdbError(f"{path}: the file is empty")
    if head.startswith(GIT_LFS):
        raise OpdbError(f"{path}: a Git LFS pointer, not the file itself; run 'git lfs pull'")
    if path.endswith(".py"):
        raise OpdbError(f"{path}: {_callable_hint(path)}")
    if head.startswith(NUMPY):
        raise OpdbError(f"{path}: an array of NumPy, not a model; inputs are given with --data or --inputs")
    names = zipfile.ZipFile(path).namelist() if zipfile.is_zipfile(path) else []
    if any(SCRIPT in name for name in names):
        raise OpdbError(
            f"{path}: a TorchScript file, not a program of torch.export.save; export the module itself with torch.export, "
            "or give FILE.py:FUNCTION"
        )
    if _is_checkpoint(names):
        raise OpdbError(
            f"{path}: a checkpoint of torch.save (e.g. a state_dict), not a program of torch.export.save; write a function "
            "that builds the module and loads it, and give FILE.py:FUNCTION"
        )


def _callable_hint(path: str) -> str:
    """The hint for a .py file without ``:callable``, with the file's functions."""
    try:
        tree = ast.parse(Path(path).read_bytes())
    except (SyntaxError, ValueError):
        return f"give a function of it that returns (module, example inputs), e.g. {path}:make"
    names = [
        node.name for node in tree.body if isinstance(node, ast.FunctionDef) and not _needs_arguments(node)
    ]
    if not names:
        return f"add a function that returns (module, example inputs), and give {path}:FUNCTION"
    first = "make" if "make" in names else names[0]
    others = [name for name in names if name != first]
    return f"give {path}:{first}" + (f" (or {', '.join(others)})" if others else "")


def _needs_arguments(node: ast.FunctionDef) -> bool:
    args = node.args
    return len(args.posonlyargs) + len(args.args) > len(args.defaults) or None in args.kw_defaults


def _is_checkpoint(names: Sequence[str]) -> bool:
    return any(n.endswith(CHECKPOINT) for n in names) and not any(n.endswith(PROGRAMS) for n in names)
