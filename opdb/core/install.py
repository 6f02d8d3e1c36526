"""How opdb is installed: the distribution's name, and the command that adds an extra."""

from __future__ import annotations

#: The command and the Python package are ``opdb``.  On the Python package index that name belongs to an unrelated debugger.
DISTRIBUTION = "qnn-opdb"


def add_extras(*extras: str) -> str:
    """The command that adds ``extras`` to the opdb that is installed, e.g. ``pip install 'qnn-opdb[torch]'``.

    pip keeps the installed opdb, whether it came from a wheel or a checkout, and fetches only what the extras need.
    """
    return f"pip install '{DISTRIBUTION}[{','.join(extras)}]'"
