"""Finds a chip by its name, its part number, or its marketing name; and the nearest chip that a backend can prepare for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from opdb.core.errors import OpdbError
from opdb.core.guess import did_you_mean
from opdb.generated.constants.socs import SOCS

#: How many candidates one error lists.
LISTED = 12
_BRANDS = re.compile(r"\b(qualcomm|snapdragon)\b|[®™]")
_VARIANT = re.compile(r"-A[A-Z]$")  # of a part number; e.g. SM8650-AB
_HEXAGON = re.compile(r"(?:hexagon\s*)?v(\d\d)", re.I)
_PART = re.compile(r"([A-Z]+)(\d+)")
#: Prefixes of part numbers that are of one line with another: phones, and boards and modules for things.
_LINES = {"SDM": "SM", "QCM": "QCS", "QRB": "QCS", "CQ": "QCS"}


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
    if version := _HEXAGON.fullmatch(name.strip()):
        raise OpdbError(_with_hexagon(name.strip(), int(version[1]), chips))
    hint = did_you_mean(name.strip(), chips, lists="'opdb query socs' lists them", most=3)
    raise OpdbError(f"unknown SoC '{name}'{hint}")


def _with_hexagon(name: str, version: int, chips: Mapping[str, Sequence[str]]) -> str:
    """The message about a Hexagon version where a chip is needed."""
    found = [chip for chip in chips if chip in SOCS and SOCS[chip].htp_arch == version]
    if not found:
        versions = sorted({SOCS[c].htp_arch or 0 for c in chips if c in SOCS} - {0})
        return f"'{name}' is no SoC, and none has Hexagon v{version}; known: {', '.join(f'v{v}' for v in versions)}"
    return f"'{name}' is a Hexagon version, not a SoC; name one that has it: {_listed(found, chips)}"


def nearest_of(chip: str, usable: Iterable[str]) -> str | None:
    """The chip of ``usable`` that is likest to ``chip``: of its line (SM8250 and SM8350), then of its tier (the first digit), then one
    that is sold under a name, then with the nearest number.  None if there is none.
    """
    return min(usable, key=lambda other: _distance(chip, other), default=None)


def _distance(chip: str, other: str) -> tuple[bool, int, bool, int, str]:
    (line, number), (others, number2) = _parts(chip), _parts(other)
    tiers = abs(number // 1000 - number2 // 1000)
    return line != others, tiers, not SOCS[other].names, abs(number - number2), other


def _parts(chip: str) -> tuple[str, int]:
    """The line of a part number, and its number with four digits: SDM845 is ("SM", 8045)."""
    found = _PART.match(chip)
    if found is None:
        return chip, 0
    line, digits = found[1], found[2]
    number = int(digits[0]) * 1000 + int(digits[1:]) if len(digits) == 3 else int(digits)
    return _LINES.get(line, line), number


def with_name(chip: str) -> str:
    """A chip and what it is sold as, e.g. "SM8350 (Snapdragon 888)"."""
    names = SOCS[chip].names if chip in SOCS else ()
    return f"{chip} ({names[0]})" if names else chip


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


def _listed(found: Sequence[str], chips: Mapping[str, Sequence[str]]) -> str:
    rows = [f"{chip} ({', '.join(n for n in chips[chip] if n)})".replace(" ()", "") for chip in found]
    return ", ".join(rows[:LISTED]) + (f" and {len(rows) - LISTED} more" if len(rows) > LISTED else "")
