"""Names as people type them: in any case."""

from __future__ import annotations

from collections.abc import Iterable


def spelled(name: str, known: Iterable[str]) -> str:
    """The one of ``known`` that differs from ``name`` at most in case; ``name`` itself if there is none."""
    known = list(known)
    return name if name in known else next((k for k in known if k.lower() == name.lower()), name)


def counted(number: int, word: str, words: str = "") -> str:
    """A number with its noun, e.g. "1 node", "2 nodes"; ``words``: the plural if it is not ``word`` + s."""
    return f"{number} {word if number == 1 else words or f'{word}s'}"


def plural(number: int, one: str, many: str) -> str:
    """``one`` for 1, else ``many``; for words that stand apart from their number, e.g. "is" and "are"."""
    return one if number == 1 else many
