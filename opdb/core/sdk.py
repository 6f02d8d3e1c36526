"""SDK versions as numbers that can be compared."""

from __future__ import annotations

import re

from opdb.core.errors import OpdbError


def sdk_number(sdk: str) -> int:
    """2.47 -> 2047.  Raises OpdbError if it is not a version."""
    match = re.fullmatch(r"(\d{1,3})\.(\d{1,3})(\.\d+)*", sdk)
    if match is None:
        raise OpdbError(f"'{sdk}' is not an SDK version; e.g. 2.47")
    return int(match[1]) * 1000 + int(match[2])


def version(text: str) -> tuple[int, ...]:
    """An SDK version as numbers, to compare; a part that is not a number counts as 0."""
    return tuple(int(p) if p.isdigit() else 0 for p in text.split("."))


def declared(since: str | None, until: str | None, sdk: str) -> bool:
    """True if an SDK lies in the range that a document gives; a missing end is open."""
    if since is not None and version(sdk) < version(since):
        return False
    return until is None or version(sdk) <= version(until) or same_sdk(sdk, until)


def same_sdk(a: str, b: str) -> bool:
    """True if two versions are the same, or one is the beginning of the other, e.g. 2.47 and 2.47.0."""
    return a == b or a.startswith(f"{b}.") or b.startswith(f"{a}.")
