"""Caches the pieces of one op or family that catalog-wide artifacts need, so that unchanged ops are not compiled.

A piece is JSON data.  It may depend on the op (or the family and the ops of its candidates), on the files shipped with
opdb, and on ``also``, but on nothing else in the catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from opdb.codegen.artifact import Definitions, digest


@dataclass
class Pieces:
    """Known pieces by name, each with the key of its inputs."""

    definitions: Definitions
    tools: str  # identifies the code and the libraries
    known: dict[str, tuple[str, Any]]


_CURRENT: ContextVar[Pieces | None] = ContextVar("pieces", default=None)


@contextmanager
def remembered(pieces: Pieces) -> Iterator[None]:
    """Uses ``pieces`` as the cache inside the block."""
    token = _CURRENT.set(pieces)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def of_op(target: str, name: str, make: Callable[[], Any], also: str = "") -> Any:
    """The piece that ``target`` needs of one op."""
    return _piece(f"{target}/{name}", lambda d: d.op_hash(name), make, also)


def of_family(target: str, name: str, make: Callable[[], Any], also: str = "") -> Any:
    """The piece that ``target`` needs of one family."""
    return _piece(f"{target}/family {name}", lambda d: d.family_hash(name), make, also)


def _piece(name: str, hash_of: Callable[[Definitions], str], make: Callable[[], Any], also: str) -> Any:
    pieces = _CURRENT.get()
    if pieces is None:
        return make()
    key = digest("\0".join((pieces.tools, hash_of(pieces.definitions), also)))[:32]
    found = pieces.known.get(name)
    if found is None or found[0] != key:
        found = pieces.known[name] = (key, make())
    return found[1]


def read(raw: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """Reads pieces from JSON data."""
    return {str(name): (str(key), data) for name, (key, data) in raw.items()}
