"""What an artifact of the whole catalogue needs of one op or family, remembered: what did not change is not compiled.

A piece is data as JSON has it.  It may depend on the op (or the family and the ops of its candidates), on the files that
come with opdb, and on what ``also`` says; on nothing else of the catalogue.
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
    """By name: the key of what it was made from, and the piece."""

    definitions: Definitions
    tools: str  # names the code and the libraries
    known: dict[str, tuple[str, Any]]


_CURRENT: ContextVar[Pieces | None] = ContextVar("pieces", default=None)


@contextmanager
def remembered(pieces: Pieces) -> Iterator[None]:
    """Inside, pieces are taken from ``pieces``, and added to them."""
    token = _CURRENT.set(pieces)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def of_op(target: str, name: str, make: Callable[[], Any], also: str = "") -> Any:
    """What ``target`` needs of one op."""
    return _piece(f"{target}/{name}", lambda d: d.op_hash(name), make, also)


def of_family(target: str, name: str, make: Callable[[], Any], also: str = "") -> Any:
    """What ``target`` needs of one family."""
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
    """Pieces out of JSON."""
    return {str(name): (str(key), data) for name, (key, data) in raw.items()}
