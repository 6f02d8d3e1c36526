"""The definition of a mutant."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """``file``: below src/packages; ``old`` occurs in it once."""

    what: str
    file: str
    old: str
    new: str
