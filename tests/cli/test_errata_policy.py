"""--errata, --ignore-erratum, --execution, --strict and --lenient: output, compiled graph and exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opdb.catalog.targets.target import Target
from opdb.judge.errata.policy import decide
from opdb.judge.errata.records import RECORDS

from .compiling import Here

pytest.importorskip("torch")
pytestmark = pytest.mark.torch
SM8650 = ("--backend", "HTP", "--soc", "SM8650")
#: A convolution to one channel of an image one pixel wide, which HTP's compiler changes (HTP-0394).
COLUMN = """
import torch
from torch.nn import functional as f

class Column(torch.nn.Module):
    def forward(self, x):
        return f.conv2d(x, torch.arange(12.0).reshape(1, 4, 3, 1), padding=(1, 0))

def make():
    return Column(), (torch.randn(2, 4, 7, 1),)
"""
FAULT = "HTP-0394"
#: A mean pool that is high and narrow.
POOL = {
    "op": "PoolAvg2d",
    "inputs": [{"name": "x", "dtype": "FLOAT_32", "shape": [1, 16, 8, 3]}],
    "params": {
        "filter_size": {"dtype": "UINT_32", "shape": [2], "data": [3, 1]},
        "stride": {"dtype": "UINT_32", "shape": [2], "data": [1, 1]},
        "pad_amount": {"dtype": "UINT_32", "shape": [2, 2], "data": [0, 0, 0, 0]},
    },
    "outputs": [{"name": "y", "dtype": "FLOAT_32", "shape": [1, 14, 8, 3]}],
}


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str]) -> Here:
    return Here(capsys)


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "column.py"
    path.write_text(COLUMN)
    return f"{path}:make"


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    path = tmp_path / "pool.json"
    path.write_text(json.dumps(POOL))
    return path


def test_check_names_avoided_and_warned_errata(here: Here, model: str) -> None:
    title = RECORDS[FAULT].title
    done = here("check", model, *SM8650)
    assert (done.code, done.out.splitlines()[-1]) == (
        0,
        f"avoided {FAULT} in 1 node: {title}; that costs nothing",
    )
    done = here("check", model, *SM8650, "--errata", "warn")
    assert done.code == 0
    last = done.out.splitlines()[-1]
    assert last.startswith(f"warning {FAULT} in 1 node: {title} (seen on the emulator, HTP 2.47.0 for ")
    assert last.endswith("; avoiding it costs nothing")
    for silent in (("--errata", "ignore"), ("--ignore-erratum", FAULT.lower())):
        done = here("check", model, *SM8650, *silent)
        assert done.code == 0 and "HTP-" not in done.out


def test_a_marketing_name_has_the_errata_of_its_chip(here: Here, model: str) -> None:
    by_name = here("check", model, "--soc", "8 Gen 3")
    assert by_name.out == here("check", model, *SM8650).out and " (HTP SM8650)" in by_name.out


def test_strict_check_counts_warnings(here: Here, model: str) -> None:
    assert here("check", model, *SM8650, "--strict").code == 0
    assert here("check", model, *SM8650, "--strict", "--errata", "warn").code == 1
    document = here("check", model, *SM8650, "--errata", "warn", "--json").document
    assert [(e["erratum"], e["policy"], e["nodes"]) for e in document["errata"]] == [(FAULT, "warn", 1)]
    assert [row["warned"] for row in document["rows"]] == [[FAULT]]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--errata", "never"), "unknown policy for errata 'never'; one of avoid, warn, ignore"),
        (("--execution", "moon"), "unknown execution 'moon'; one of device, emulator"),
        (("--ignore-erratum", "HTP-394"), "unknown erratum 'HTP-394'; did you mean 'HTP-0394'?"),
        (("--strict", "--lenient"), "--strict and --lenient contradict each other"),
    ],
)
@pytest.mark.parametrize("command", ["check", "validate"])
def test_unknown_policies_and_errata_are_refused(
    here: Here, model: str, pool: Path, command: str, options: tuple[str, ...], said: str
) -> None:
    done = here(command, model if command == "check" else pool, *SM8650, *options)
    assert done.code == 2 and said in done.err


@pytest.mark.parametrize(
    ("options", "code", "policy"),
    [
        (("--execution", "emulator"), 1, "avoid"),
        (("--execution", "emulator", "--lenient"), 0, "avoid"),
        (("--errata", "warn"), 0, "warn"),
        (("--errata", "warn", "--strict"), 1, "warn"),
        (("--errata", "ignore", "--strict"), 0, "ignore"),
    ],
)
def test_validate_fails_for_accepted_but_wrong_results(
    here: Here, pool: Path, options: tuple[str, ...], code: int, policy: str
) -> None:
    done = here("validate", pool, *SM8650, *options, "--json")
    assert (done.code, done.document["verdict"]) == (code, "accept")
    (violation,) = done.document["violations"]
    assert violation["policy"] == policy
    told = here("validate", pool, *SM8650, *options).out
    assert (violation["rule"] in told) == (policy != "ignore")


def test_validate_assumes_a_device_by_default(here: Here, pool: Path) -> None:
    done = here("validate", pool, *SM8650, "--json")
    (violation,) = done.document["violations"]
    assert violation["policy"] == decide(RECORDS[violation["rule"]], Target("HTP", "SM8650"))
    assert done.code == (violation["policy"] == "avoid")


@pytest.mark.vendor
@pytest.mark.usefixtures("libraries")
def test_run_notes_errata_of_a_device_context(here: Here, model: str, tmp_path: Path) -> None:
    context = tmp_path / "column.bin"
    compiled = here("compile", model, *SM8650, "--errata", "warn", "-o", context, "--json")
    assert [(e["erratum"], e["policy"]) for e in compiled.document["errata"]] == [(FAULT, "warn")]
    line = f"compiled for a device, run in emulation: it may show {FAULT}"
    assert here("run", context, "--inputs", "random:0").out.splitlines()[-1].strip() == line
    assert here("run", context, "--inputs", "random:0", "--json").document["notice"] == line
    refused = here("run", context, "--inputs", "random:0", "--errata", "avoid")
    assert refused.code == 2 and "compile it with --execution emulator" in refused.err
    assert (
        here("run", context, "--inputs", "random:0", "--errata", "ignore", "--json").document["notice"]
        is None
    )
    assert here("compile", model, *SM8650, "--execution", "emulator", "-o", context).code == 0
    assert here("run", context, "--inputs", "random:0", "--json").document["notice"] is None
