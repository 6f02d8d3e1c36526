"""QNN's answers: error codes with their names, log lines, and a validator's verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from opdb.core.errors import OpdbError
from opdb.generated.constants.qnn_errors import NAMES, RANGES

#: QnnLog_Level_t; a log line begins with the level's name: "error: Unknown config socModel 0".
LEVELS = {1: "error", 2: "warning", 3: "info", 4: "verbose", 5: "debug"}


def error_name(code: int) -> str:
    """QNN's name of an error code, e.g. 3110 -> QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE.

    A code without a name in the headers is named by its module, e.g. QNN_GRAPH_ERROR_6999.
    """
    if code in NAMES:
        return NAMES[code][0]
    module = next((m for m, (first, last) in RANGES.items() if first <= code <= last), None)
    return f"QNN_{module}_ERROR_{code}" if module else f"QNN_ERROR_{code}"


def reasons(log: Sequence[str]) -> tuple[str, ...]:
    """The error lines of a log, without the level."""
    return tuple(line.removeprefix("error: ") for line in log if line.startswith("error: "))


def warnings(log: Sequence[str]) -> tuple[str, ...]:
    """The log lines of level warning or error."""
    return tuple(line for line in log if line.startswith(("error: ", "warning: ")))


def explained(code: int, name: str) -> str:
    """A library's code for people, e.g. "1002 QNN_COMMON_ERROR_MEM_ALLOC; see opdb explain 1002"; a signal has its name alone."""
    return (f"{code} {name}".strip() if code else name) + see(code)


def see(code: int) -> str:
    """The end of a message about one of QNN's codes; "" for another number."""
    return f"; see opdb explain {code}" if code and code in NAMES else ""


class QnnError(OpdbError):
    """A QNN function returned an error.

    ``stage`` is the failed step, ``code`` the low 16 bits of the answer, ``name`` QNN's name for it,
    ``log`` the lines logged during the call, ``message`` the library's text for the code ("": none).
    """

    def __init__(self, stage: str, code: int, log: Sequence[str] = (), message: str = "") -> None:
        self.stage = stage
        self.code = code
        self.name = error_name(code)
        self.log = tuple(log)
        self.message = message
        why = reasons(self.log) or (message,) * bool(message)
        reason = f": {why[0]}" if why else ""
        super().__init__(f"QNN failed to {stage}: {code} {self.name}{reason}{see(code)}")

    def __reduce__(self) -> tuple[type[QnnError], tuple[str, int, tuple[str, ...], str]]:
        return type(self), (self.stage, self.code, self.log, self.message)


@dataclass(frozen=True)
class VendorVerdict:
    """The answer of ``QnnBackend_validateOpConfig`` about one op config.

    ``verdict`` is "accept" or "reject"; from a child process (opdb.execute.libraries) also "crashed", "hung", or "invalid"
    (QNN's structs cannot hold the config).
    ``code`` is 0 for "accept", the signal's number for "crashed".
    """

    verdict: str
    code: int
    code_name: str
    log: tuple[str, ...] = ()

    @cached_property
    def reasons(self) -> tuple[str, ...]:
        """The error lines of the log, without the level."""
        return reasons(self.log)
