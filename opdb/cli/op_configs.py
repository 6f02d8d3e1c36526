"""Reads op configs from a file: a JSON document, a list of them, or JSON lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opdb.core.errors import OpdbError
from opdb.core.op_config import ConfigError, OpConfig, from_json


def configs(file: str) -> Iterator[tuple[str, OpConfig]]:
    """(place, op config) for each op config in the file.  Raises OpdbError for the first invalid one."""
    items = _items(file)
    for place, item in items:
        if isinstance(item, OpdbError):
            raise OpdbError(f"{place}: {item}")
    for place, item in items:
        try:
            yield place, from_json(item)
        except ConfigError as error:
            raise OpdbError(f"{place}: {error}") from None


def rows(file: str) -> Iterator[tuple[str, str | None, OpConfig | OpdbError]]:
    """(place, id, op config) for each item in the file; for an invalid one, the error instead of the op config."""
    for place, item in _items(file):
        ident = item.get("id") if isinstance(item, dict) else None
        ident = None if ident is None else str(ident)
        try:
            yield place, ident, item if isinstance(item, OpdbError) else from_json(item)
        except ConfigError as error:
            yield place, ident, error


def _items(file: str) -> list[tuple[str, Any]]:
    """(place, document), with the error instead of the document for an invalid line."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OpdbError(f"{file}: cannot read: {error}") from None
    name = "standard input" if file == "-" else file
    items: list[tuple[str, Any]]
    try:
        document = json.loads(text)
        items = [(name if not isinstance(document, list) else f"{name}[{i}]", d)
                 for i, d in enumerate(document if isinstance(document, list) else [document])]  # fmt: skip
    except json.JSONDecodeError:
        items = [_line(name, i, line) for i, line in enumerate(text.splitlines(), 1) if line.strip()]
    except RecursionError:
        raise OpdbError(f"{name}: nested too deeply") from None
    if not items:
        raise OpdbError(
            f'{name}: no op config in it; e.g. {{"op": "Relu", "inputs": [...], "outputs": [...]}}'
        )
    return items


def _line(name: str, number: int, line: str) -> tuple[str, Any]:
    try:
        return f"{name}:{number}", json.loads(line)
    except json.JSONDecodeError as error:
        return f"{name}:{number}:{error.colno}", OpdbError(f"not JSON: {error.msg}")
    except RecursionError:
        return f"{name}:{number}", OpdbError("nested too deeply")
