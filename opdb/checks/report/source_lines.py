"""Finds the place of a coverage's row in the user's source, for reports that other tools read."""

from __future__ import annotations

import re
from pathlib import Path

from opdb.checks.coverage import Row

_LINE = re.compile(r"[^:]+:(\d+): ")


def place_of(row: Row, model: str) -> tuple[str, int | None]:
    """(path, line): the path is relative to the working directory if it is below it, else absolute.

    A row without its own source is at ``model``, the model as named on the command line.  The line is None if
    the file has no lines, e.g. an ONNX file, or if it is unknown.
    """
    if not row.file:
        file = model.rpartition(":")[0]  # FILE.py:callable
        return file if file.endswith(".py") else model, None
    path = Path(row.file)
    here = Path.cwd()
    shown = path.relative_to(here).as_posix() if path.is_relative_to(here) else path.as_posix()
    found = _LINE.match(row.line)
    return shown, int(found[1]) if found and path.suffix == ".py" else None
