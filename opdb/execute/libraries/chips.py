"""Lists the chips that the HTP libraries of this machine know, with each library's answers on each chip.

Every question runs in its own child process: a library holds one chip per process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from opdb.core.errors import OpdbError
from opdb.execute.libraries.client import VendorWorker
from opdb.execute.libraries.results import Chip
from opdb.generated.constants.backends import ASKED
from opdb.runtime.qnn.errors import QnnError
from opdb.runtime.qnn.libraries import Libraries

#: The SoC numbers to try: no library seen opens one above 114.
NUMBERS = range(1, 141)


def chips(libraries: Libraries, numbers: Iterable[int] = NUMBERS) -> Iterator[Chip]:
    """Yields the chips that an HTP library opens, in the order of ``numbers``.

    Raises OpdbError if the library does not open at all, or crashes or hangs while answering.
    """
    for number in numbers:
        with VendorWorker(
            _by_number(), soc_model=number, libraries=libraries.folder, log_level="debug"
        ) as worker:
            try:
                yield worker.chip()
            except QnnError:  # QnnDevice_create refuses the number
                continue


def _by_number() -> str:
    """The backend whose library opens a chip by its number."""
    found = next((b.name for b in ASKED if "soc_model" in b.context), None)
    if found is None:
        raise OpdbError(
            "no backend whose library opens chips by number: specs/backends has none with soc_model"
        )
    return found


def rows(libraries: Libraries, numbers: Iterable[int] = NUMBERS) -> Iterator[dict[str, Any]]:
    """Yields the chips as rows, with the version of QNN."""
    version = libraries.qnn_version()
    for chip in chips(libraries, numbers):
        yield {"qnn_version": version} | asdict(chip)
