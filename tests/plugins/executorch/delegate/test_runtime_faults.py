"""Refusals of opdb's backend, with ExecuTorch's error codes: damaged blobs, other libraries, bad arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from opdb.plugins.executorch.delegate.specs import KERNELS, Options

from .runtime_cases import Classifier, Ends, Made, X, changed, child, made

pytestmark = [pytest.mark.slow, pytest.mark.executorch]

#: ExecuTorch's runtime/core/error.h
NOT_FOUND, INVALID_PROGRAM, INVALID_ARGUMENT = "0x20", "0x23", "0x12"
INVALID_STATE, OPERATOR_MISSING, INCOMPATIBLE = "0x2", "0x14", "0x30"
WIDE = torch.tensor([4, 2**40, 2])
FACTOR = torch.ones(3, 4)
MUTANTS = 10_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="module")
def classifier(folder: Path) -> Made:
    return made(folder / "kernels", Classifier(), [[X]], Options(KERNELS, weights="blob"))


@pytest.fixture(scope="module")
def chip(folder: Path) -> Made:
    return made(folder / "chip", Classifier(), [[X]], Options("HTP", "SM8650"))


def text(content: bytearray, before: str, after: str) -> None:
    """Replaces a string in STRINGS by another of the same length."""
    assert len(before) == len(after) and content.count(before.encode() + b"\0") == 1
    at = content.index(before.encode() + b"\0")
    content[at : at + len(before)] = after.encode()


def newer(content: bytearray) -> None:
    content[8:12] = (2).to_bytes(4, "little")


def another_build(content: bytearray) -> None:
    at = content.index(b"v2.")
    content[at : at + 3] = b"v9."


def another_op(content: bytearray) -> None:
    text(content, "FullyConnected", "HalfyConnected")


def another_shape(content: bytearray) -> None:
    """Changes the classifier's hidden tensor from [2, 16] to [16, 2]."""
    before, after = ((2).to_bytes(8, "little") + (16).to_bytes(8, "little") for _ in "ab")
    after = before[8:] + before[:8]
    assert content.count(before) == 1
    at = content.index(before)
    content[at : at + 16] = after


@pytest.fixture(scope="module")
def found(folder: Path, classifier: Made, chip: Made) -> dict[str, Any]:
    ends = made(folder / "ends", Ends(), [[WIDE, FACTOR]], Options(KERNELS))
    other = made(folder / "other", Classifier(), [[X]], Options("HTP", "SA8255", payload="graph"))
    empty = folder / "empty"
    empty.mkdir()
    cases = {
        "no library": chip.case(libraries=[str(empty)]),
        "too wide": ends.case(),
        "newer": changed(classifier, "newer.pte", newer).case(),
        "op": changed(classifier, "op.pte", another_op).case(),
        "shape": changed(classifier, "shape.pte", another_shape).case(),
        "build": changed(chip, "build.pte", another_build).case(),
        "chips": {
            "do": "together",
            "pte": str(chip.pte),
            "inputs": str(chip.inputs),
            "second": str(other.pte),
        },
        "registered": {"do": "registered"},
    }
    results, said = child(folder, list(cases.values()))
    return {**dict(zip(cases, results, strict=True)), "log": said}


def refused(found: dict[str, Any], name: str, code: str) -> str:
    result = found[name]
    assert f"{code}" in result["error"].split(), result
    reason: str = result["reason"]
    assert f"opdb: {reason}" in found["log"]
    return reason


def test_the_backend_is_registered_once(found: dict[str, Any]) -> None:
    assert found["registered"] == {"available": True, "again": True}


def test_a_missing_library_is_named_with_the_option(found: dict[str, Any]) -> None:
    reason = refused(found, "no library", NOT_FOUND)
    assert "libQnnHtp.so" in reason and "option qnn_libraries or in OPDB_QNN_LIBRARIES" in reason


def test_another_build_of_the_library_is_named(found: dict[str, Any]) -> None:
    reason = refused(found, "build", INCOMPATIBLE)
    assert reason.startswith("the blob was made by build v9.") and "here is v2." in reason


def test_one_process_has_one_chip(found: dict[str, Any]) -> None:
    assert "is open for the SoC number 57" in refused(found, "chips", INVALID_STATE)


def test_a_newer_format_is_not_read(found: dict[str, Any]) -> None:
    assert refused(found, "newer", INCOMPATIBLE).startswith("blob format 2; this backend reads 1")


def test_an_op_without_a_kernel_is_refused(found: dict[str, Any]) -> None:
    assert "no C kernel of HalfyConnected" in refused(found, "op", OPERATOR_MISSING)


def test_an_inconsistent_shape_is_refused(found: dict[str, Any]) -> None:
    assert "FullyConnected" in refused(found, "shape", INVALID_PROGRAM)


def test_an_int64_beyond_32_bits_is_refused(found: dict[str, Any]) -> None:
    reason = refused(found, "too wide", INVALID_ARGUMENT)
    assert reason == "argument 0 has a number that does not fit into 32 bits"


@pytest.fixture(scope="module")
def endured(folder: Path, classifier: Made, chip: Made) -> dict[str, Any]:
    """Mutated blobs and a thousand loads of each program."""
    cases = {}
    for name, program in (("kernels", classifier), ("chip", chip)):
        cases[f"{name}, mutated"] = program.case(do="mutate", seed=1, count=MUTANTS // 2)
        cases[f"{name}, loaded"] = program.case(do="grow", warm=100, count=1000)
    results, _ = child(folder, list(cases.values()))
    return dict(zip(cases, results, strict=True))


@pytest.mark.parametrize("target", ["kernels", "chip"])
def test_no_mutated_blob_is_accepted(target: str, endured: dict[str, Any]) -> None:
    result = endured[f"{target}, mutated"]
    assert (result["accepted"], sum(result["reasons"].values())) == (0, MUTANTS // 2)
    assert {r for r in result["reasons"] if not r.startswith(("the blob", "not a blob"))} == set()


@pytest.mark.parametrize("target", ["kernels", "chip"])
def test_a_thousand_loads_do_not_leak(target: str, endured: dict[str, Any]) -> None:
    """HTP keeps less than a KiB per load."""
    assert min(endured[f"{target}, loaded"]["kib"]) < 250
