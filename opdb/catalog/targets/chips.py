"""Finds a chip by its name, its part number, or its marketing name."""

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
    """The chip that ``name`` means, e.g. sm8650, SM8650-AB, "8 Gen 3"; ``chips`` maps chips to marketing names.

    Raises OpdbError if no chip, or more than one, has the name.
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
    """The chips with the marketing name ``name``; if there are none, the chips whose names contain it."""
    wanted = plain(name)
    if not wanted:
        return []
    names = {chip: [plain(n) for n in sold] for chip, sold in chips.items()}
    exact = [chip for chip, sold in names.items() if wanted in sold]
    return exact or [chip for chip, sold in names.items() if any(_within(wanted, n) for n in sold)]


def _within(wanted: str, name: str) -> bool:
    """True if ``name`` contains the words of ``wanted`` in sequence."""
    return f" {wanted} " in f" {name} "


def plain(name: str) -> str:
    """Strips brand, case, and extra blanks, e.g. "Snapdragon® 8 Gen 3" -> "8 gen 3"."""
    return " ".join(_BRANDS.sub(" ", name.lower()).split())


def _listed(found: Iterable[str], chips: Mapping[str, Sequence[str]]) -> str:
    rows = [f"{chip} ({', '.join(chips[chip])})" for chip in found]
    return ", ".join(rows[:LISTED]) + (f" and {len(rows) - LISTED} more" if len(rows) > LISTED else "")


def _hint(name: str, chips: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(chips), 1)
    return f"; did you mean '{close[0]}'?" if close else ""
