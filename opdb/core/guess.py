"""The name that somebody meant: a known name in another case, with a typo, in another order of words, or longer or shorter.

A wrong guess costs more than none, so there is none where the names only look alike: SM8560 is SM8550 or SM8650, and not SM8950.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+\w?")
#: Names up to this length have no typos: most of them are one letter away from each other.
_SHORT = 2
#: Names up to this length begin as they were meant: NPU is not CPU.
_WORD = 3
#: The shortest name that may stand for a longer one that begins or ends with it.
_PART = 3


def guesses(name: str, known: Iterable[str], most: int = 1) -> list[str]:
    """The known names that ``name`` probably stands for, the likeliest first; at most ``most``.

    >>> guesses("Rellu", ["Relu", "Prelu"])
    ['Relu']
    >>> guesses("SM8560", ["SM8950", "SM8650", "SM8550"], 3)
    ['SM8650', 'SM8550']
    >>> guesses("v75", ["XRV7205", "SM8650"])
    []
    """
    listed = list(dict.fromkeys(known))
    wanted = name.lower()
    ranked = [(_rank(name, k), -_same_start(wanted, k.lower()), i, k) for i, k in enumerate(listed)]
    found = sorted((rank, start, i, k) for rank, start, i, k in ranked if rank is not None)
    return [k for rank, _, _, k in found if rank[0] == found[0][0][0]][:most]


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "", lists: str = "", most: int = 1) -> str:
    """The end of a message about an unknown name: "; did you mean 'Relu'?", or, without a guess, ``otherwise`` after "; ".

    ``lists``: a sentence about where all names are, which follows either, e.g. "'opdb query ops' lists them".

    >>> did_you_mean("Rellu", ["Relu"], lists="'opdb query ops' lists them")
    "; did you mean 'Relu'? ('opdb query ops' lists them)"
    """
    found = guesses(name, known, most)
    if found:
        quoted = " or ".join(f"'{k}'" for k in found)
        asked = f"; did you mean {quoted}?"
        return f"{asked} ({lists})" if lists else asked
    return "".join(f"; {said}" for said in (otherwise, lists) if said)


def _rank(name: str, known: str) -> tuple[int, int] | None:
    """(kind of likeness, distance), smaller is likelier; None if ``known`` is no guess."""
    a, b = name.lower(), known.lower()
    if a == b:
        return 0, 0
    edits = _edits(a, b, 0 if max(len(a), len(b)) <= _WORD and a[:1] != b[:1] else _allowed(a, b))
    if edits is not None:
        return 1, edits
    if _words(name) == _words(known) or _abbreviated(a, b):
        return 2, 0
    short, long = sorted((a, b), key=len)
    if len(short) >= _PART and (_begins(short, long) or (short == a and _last_words(name, known))):
        return 3, len(long)
    return None


def _allowed(a: str, b: str) -> int:
    """The number of typos in a name of this length: one if only digits differ; none in two letters, but for a doubled one."""
    if max(len(a), len(b)) <= _SHORT and set(a) != set(b):
        return 0
    only_digits = re.sub(r"\d", "", a) == re.sub(r"\d", "", b)
    return 1 if only_digits else max(1, max(len(a), len(b)) // 4)


def _edits(a: str, b: str, most: int) -> int | None:
    """The number of letters to insert, delete, replace, or swap with the next one; None if there are more than ``most``."""
    if abs(len(a) - len(b)) > most:
        return None
    before: list[int] = []
    last = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row = [i]
        for j, y in enumerate(b, 1):
            cost = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return None
        before, last = last, row
    return last[-1] if last[-1] <= most else None


def _words(name: str) -> list[str]:
    """The words of a name, sorted, e.g. ["2d", "max", "pool"] for MaxPool2d."""
    return sorted(word.lower() for word in _WORDS.findall(name))


def _abbreviated(a: str, b: str) -> bool:
    """True if one is the other without some letters, e.g. f32 for float32."""
    short, long = sorted((a, b), key=len)
    letters = iter(long)
    digits = [re.sub(r"\D", "", text) for text in (a, b)]
    return (
        len(short) >= 2
        and bool(digits[0])
        and digits[0] == digits[1]
        and short[0] == long[0]
        and all(c in letters for c in short)
    )


def _begins(short: str, long: str) -> bool:
    """True if ``long`` begins with ``short``, which is half of it or more."""
    return long.startswith(short) and 2 * len(short) >= len(long)


def _last_words(name: str, known: str) -> bool:
    """True if ``known`` ends with ``name`` as whole words, e.g. ElementWiseMultiply with multiply."""
    at = len(known) - len(name)
    return known.lower().endswith(name.lower()) and (known[at].isupper() or not known[at - 1].isalnum())


def _same_start(a: str, b: str) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
