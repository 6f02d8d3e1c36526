"""Which chips the HTP libraries of this machine know, and what each library says of each chip.

Every question is asked in a child process of its own: a library holds one chip per process.
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

#: The SoC numbers that are asked about: no library seen opens one above 114.
NUMBERS = range(1, 141)


def chips(libraries: Libraries, numbers: Iterable[int] = NUMBERS) -> Iterator[Chip]:
    """The chips that an HTP library opens, in the order of ``numbers``.

    Raises OpdbError where the library does not open at all, or is lost while it tells.
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
    """The same as rows, with the version of QNN."""
    version = libraries.qnn_version()
    for chip in chips(libraries, numbers):
        yield {"qnn_version": version} | asdict(chip)
