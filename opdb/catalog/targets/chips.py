"""Which chip is meant: by its own name, its number in Linux or what it is sold as."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence

from opdb.core.errors import OpdbError

#: How many candidates one error lists.
LISTED = 12
_BRANDS = re.compile(r"\b(qualcomm|snapdragon)\b|[®™]")
_VARIANT = re.compile(r"-A[A-Z]$")  # of a part number; e.g. SM8650-AB


def resolve(name: str, chips: Mapping[str, Sequence[str]]) -> str:
    """The chip that ``name`` means, of ``chips`` with what each is sold as; e.g. sm8650, SM8650-AB, "8 Gen 3".

    Raises OpdbError for a name that is no chip's, or several chips'.
    """
    part = _VARIANT.sub("", name.strip().upper())
    if part in chips:
        return part
    found = _sold_as(name, chips)
    if len(found) == 1:
        return found[0]
    if found:
        raise OpdbError(f"'{name}' may mean several SoCs; name one of them: {_listed(found, chips)}")
    raise OpdbError(f"unknown SoC '{name}'{_hint(part, chips)}; 'opdb query socs' lists them")


def _sold_as(name: str, chips: Mapping[str, Sequence[str]]) -> list[str]:
    """The chips that are sold as ``name``; without one, those of whose names it is a part."""
    wanted = plain(name)
    if not wanted:
        return []
    names = {chip: [plain(n) for n in sold] for chip, sold in chips.items()}
    exact = [chip for chip, sold in names.items() if wanted in sold]
    return exact or [chip for chip, sold in names.items() if any(_within(wanted, n) for n in sold)]


def _within(wanted: str, name: str) -> bool:
    """Whether all words of ``wanted`` stand in ``name``, one after the other."""
    return f" {wanted} " in f" {name} "


def plain(name: str) -> str:
    """A name without brand, case and spare blanks; e.g. "Snapdragon® 8 Gen 3" -> "8 gen 3"."""
    return " ".join(_BRANDS.sub(" ", name.lower()).split())


def _listed(found: Iterable[str], chips: Mapping[str, Sequence[str]]) -> str:
    rows = [f"{chip} ({', '.join(chips[chip])})" for chip in found]
    return ", ".join(rows[:LISTED]) + (f" and {len(rows) - LISTED} more" if len(rows) > LISTED else "")


def _hint(name: str, chips: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(chips), 1)
    return f"; did you mean '{close[0]}'?" if close else ""
