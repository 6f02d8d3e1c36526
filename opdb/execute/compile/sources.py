"""Traces the nodes of a graph back to the model, for the rules of recipes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from opdb.lower.quantize import Source

if TYPE_CHECKING:
    from opdb.checks.coverage import Row

#: The line of a node of an ONNX or TensorFlow Lite file: file, number, operator.
_IN_FILE = re.compile(r"[^:]*:(\d+): (\w+)$")


def sources_of(rows: Iterable[Row]) -> dict[str, Source]:
    """The sources by node name; a file's operator is also known by its own name."""
    found = {}
    for row in rows:
        in_file = _IN_FILE.match(row.line)
        named = (in_file[2],) if in_file else ()
        short = row.target.split(".")[1:2]
        names = (row.node, row.module) if in_file else (row.node,)
        found[row.node] = Source(names, row.module, (row.target, *short, *named), row.form)
    return found


def place_in_file(row: Row) -> int | None:
    """The number, from 1, of a row's node in the file; None if it has none."""
    in_file = _IN_FILE.match(row.line)
    return int(in_file[1]) if in_file else None
