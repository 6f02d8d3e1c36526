"""Errors that a user can cause.  The command line prints each as one line per problem and exits 2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opdb.core.install import add_extras


class OpdbError(Exception):
    """A user's mistake or a missing part: what is wrong, where, and the cure, in one line.

    >>> import opdb
    >>> try:
    ...     opdb.check_config({"op": "Relou"})
    ... except opdb.OpdbError as error:
    ...     print(error)
    unknown op 'Relou'; did you mean 'Relu'? ('opdb query ops' lists the known ones)
    """


@dataclass(frozen=True, order=True)
class Problem:
    """One fault in one file.  ``line`` and ``column`` count from 1; 0 means "the file as a whole"."""

    path: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}:{self.column}" if self.line else self.path
        return f"{place}: {self.message}"


class SpecError(OpdbError):
    """All faults found in all spec files of one reading; nothing was changed."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__("\n".join(map(str, self.problems)))


class MissingExtra(OpdbError):
    """An optional part of the installation is needed."""

    def __init__(self, what: str, extra: str) -> None:
        self.extra = extra
        super().__init__(f"{what} is not installed; install it with: {add_extras(extra)}")
