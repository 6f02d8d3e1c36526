"""What a mutant is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """``file``: below src/packages; ``old`` is in it once."""

    what: str
    file: str
    old: str
    new: str
