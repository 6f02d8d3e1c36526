"""The known SDKs: versions of documents and libraries, and of the libraries on this machine."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from opdb.core.errors import OpdbError
from opdb.core.sdk import sdk_number
from opdb.generated.constants.sdks import SDKS


@lru_cache(256)
def known_sdk(sdk: str, known: tuple[str, ...] = SDKS) -> int:
    """The number of an SDK, e.g. 2047.  Raises OpdbError that lists the known SDKs if it is unknown."""
    number = sdk_number(sdk)
    if number in map(sdk_number, known):
        return number
    here = installed_sdks()
    if number in map(sdk_number, here):
        return number
    raise OpdbError(
        f"unknown SDK '{sdk}': opdb has no document or library of that version; known: {', '.join(_short((*known, *here)))}"
    )


@lru_cache(1)
def installed_sdks() -> tuple[str, ...]:
    """The versions of QNN's libraries on this machine; () if none can be queried."""
    from opdb.runtime.qnn.libraries import discover

    return tuple(filter(None, (each.qnn_version() for each in discover([]))))


def _short(versions: Iterable[str]) -> list[str]:
    """The sorted, unique major.minor versions."""
    return sorted({".".join(v.split(".")[:2]) for v in versions}, key=sdk_number)
