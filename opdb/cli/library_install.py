"""Finds QNN's libraries, and offers to download those that are not here."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opdb.runtime.qnn.libraries import Libraries, NoLibraries


def found_or_installed(wanted: str) -> Libraries:
    """The libraries of a version or in a folder; on a terminal, downloads a missing version if the user agrees.

    Raises NoLibraries, with the command that downloads them, without a terminal or if the user does not want to.
    """
    from opdb.runtime.qnn.libraries import NoLibraries, find

    try:
        return find(wanted)
    except NoLibraries as missing:
        if not _wants(missing):
            raise
        return _installed(missing.qnn)


def _wants(missing: NoLibraries) -> bool:
    """Asks the user; False without a terminal."""
    import typer

    from opdb.runtime.qnn.libraries import PACKAGE, WHEELS

    if not missing.qnn or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    wheel = f"{PACKAGE} {WHEELS[missing.qnn]}"
    return typer.confirm(f"QNN {missing.qnn} is not here.  Download {wheel}, about 250 MB?", err=True)


def _installed(qnn: str) -> Libraries:
    from opdb.cli.progress import working
    from opdb.runtime.qnn.install import install

    with working("download and unpack"):
        return install(qnn)[0]
