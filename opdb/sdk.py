"""SDK versions as numbers that can be compared."""

from __future__ import annotations

import re

from opdb.errors import OpdbError


def sdk_number(sdk: str) -> int:
    """2.47 -> 2047.  Raises OpdbError for what is not a version."""
    match = re.fullmatch(r"(\d{1,3})\.(\d{1,3})(\.\d+)*", sdk)
    if match is None:
        raise OpdbError(f"'{sdk}' is not an SDK version; ex) 2.47")
    return int(match[1]) * 1000 + int(match[2])
