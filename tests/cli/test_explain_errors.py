"""`opdb explain` of error codes and log lines, as a user types it."""

from __future__ import annotations

import json
import shlex

import pytest

from opdb.judge import error_codes

from .conftest import Run, one_line

KNOWN = error_codes.known()
#: Commands of the entries that only read the database.
READING = sorted(
    {
        step["run"]
        for entry in (*KNOWN.codes.values(), *KNOWN.lines)
        for step in entry.steps
        if step["run"].split()[1] in ("query", "explain", "show")
    }
)


@pytest.mark.parametrize("text", ["3110", "0xC26", "QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE"])
def test_a_code_is_explained_without_a_database(opdb: Run, text: str) -> None:
    done = opdb("explain", text)
    assert (done.returncode, done.stderr) == (0, "")
    for part in (
        "3110 (0xC26), QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE\n",
        "The validator refused a node",
        "opdb check model.onnx --soc SM8650 ",
        "docs/reference/qnn-libraries.md",
    ):
        assert part in done.stdout


def test_a_line_is_explained_as_json(opdb: Run) -> None:
    facts = json.loads(opdb("explain", "The SocModel doesn't support FP16", "--json").stdout)
    assert list(facts) == ["line", "says", "code", "hex", "name", "means", "why", "type", "see", "source"]
    assert (facts["code"], facts["hex"]) == (3110, "0xC26")
    assert {"run": "opdb libraries chips", "to": "see which chips have fp16 and bf16"} in facts["type"]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("6999", "6000-6999, GRAPH: building, finalizing and executing graphs"),
        ("QNN_GRAPH_ERROR_ABORT", "did you mean 'QNN_GRAPH_ERROR_ABORTED'"),
        ("no such line", "nothing is known about a log line like 'no such line'"),
    ],
)
def test_an_unknown_error_is_one_line(opdb: Run, text: str, part: str) -> None:
    assert part in one_line(opdb("explain", text))


@pytest.mark.parametrize("command", READING)
def test_commands_to_type_that_read_the_catalog_run(loaded: Run, command: str) -> None:
    done = loaded(*shlex.split(command)[1:])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip()
