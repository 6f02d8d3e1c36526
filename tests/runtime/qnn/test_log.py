"""The log level of a library, changed while it is open."""

from __future__ import annotations

import pytest

from opdb.core.errors import OpdbError
from opdb.core.op_config import OpConfig, TensorConfig
from opdb.runtime.qnn.backend import Backend

pytestmark = [pytest.mark.vendor, pytest.mark.usefixtures("libraries")]


def levels(backend: Backend) -> set[str]:
    """The levels of the lines logged when an op is refused."""
    wrong = OpConfig("Relu", (TensorConfig("x", "f64", (2, 3)),), (), (TensorConfig("y", "f64", (2, 3)),))
    verdict = backend.validate(wrong)
    assert verdict.verdict == "reject"
    return {line.split(":")[0] for line in verdict.log}


def test_the_level_can_change_while_the_library_is_open() -> None:
    with Backend.open("HTP", "SM8650") as backend:
        assert backend.log_level == "debug"
        talkative = levels(backend)
        assert {"error", "verbose"} <= talkative
        backend.log_level = "error"
        assert backend.log_level == "error"
        assert levels(backend) <= {"error"}
        with pytest.raises(
            OpdbError, match="'loud' is not a log level; one of error, warning, info, verbose, debug"
        ):
            backend.log_level = "loud"
        assert backend.log_level == "error"
        backend.log_level = "debug"
        assert levels(backend) == talkative


def test_the_level_applies_from_opening() -> None:
    with Backend.open("HTP", "SM8650", log_level="warning") as backend:
        assert backend.log_level == "warning"
        assert levels(backend) <= {"error", "warning"}
