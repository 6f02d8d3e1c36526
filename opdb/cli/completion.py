"""Shell completion: Typer's scripts, and the names of ops, chips, SDKs, and backends as words."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator

#: Set by the scripts when they ask for words.
VARIABLE = "_OPDB_COMPLETE"


def script(shell: str) -> str:
    """The text that a shell reads when it starts."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # Typer's own, re-exported

    return get_completion_script(prog_name="opdb", complete_var=VARIABLE, shell=shell)


def words() -> list[str]:
    """What is typed so far if a shell asks for words, and opdb gets ready to answer; else nothing."""
    if VARIABLE not in os.environ:
        return []
    from typer.completion import completion_init  # type: ignore[attr-defined]  # Typer's own, re-exported

    completion_init()
    typed = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    try:
        found = shlex.split(typed)
    except ValueError:  # an open quote
        found = typed.split()
    unfinished = os.environ.get("COMP_CWORD") == "1" or (len(found) == 2 and not typed.endswith(" "))
    return found[:1] if unfinished else found


def ops(incomplete: str) -> Iterator[str]:
    """The names of ops that begin so, in any case."""
    from opdb.generated.constants import ops as constants

    classes = (value for name, value in vars(constants).items() if name.startswith("Op"))
    return _beginning(dict.fromkeys(c.op_name for c in classes), incomplete)


def questions(incomplete: str) -> Iterator[str]:
    """The questions of ``opdb query`` that begin so."""
    from opdb.catalog.query import QUESTIONS

    return _beginning(QUESTIONS, incomplete)


def socs(incomplete: str) -> Iterator[str]:
    """The names of chips that begin so, in any case."""
    from opdb.generated.constants.socs import SOCS

    return _beginning(SOCS, incomplete)


def backends(incomplete: str) -> Iterator[str]:
    """The names of backends that begin so, in any case."""
    from opdb.generated.constants.backends import BACKENDS

    return _beginning(BACKENDS, incomplete)


def sdks(incomplete: str) -> Iterator[str]:
    """The versions of SDKs that begin so."""
    from opdb.generated.constants.sdks import SDKS

    return _beginning(SDKS, incomplete)


def _beginning(names: Iterable[str], incomplete: str) -> Iterator[str]:
    """The names that begin so; in lower case if that is how they are typed, since a shell only completes the same letters."""
    spelled = str.lower if incomplete and incomplete == incomplete.lower() else str
    return (spelled(name) for name in names if name.lower().startswith(incomplete.lower()))
