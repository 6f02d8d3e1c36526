"""What commands say beside their result: why the exit code is 1, where an error is, what input is odd, which code to explain."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from .conftest import Run
from .natural_mistakes import write_files

#: HTP does not finalize a Concat without the parameter axis (HTP-0002).
CONCAT = {
    "op": "Concat",
    "inputs": [{"name": n, "dtype": "FLOAT_32", "shape": [1, 4]} for n in ("a", "b")],
    "outputs": [{"name": "y", "dtype": "FLOAT_32", "shape": [1, 8]}],
}
HTP = ("--backend", "HTP", "--soc", "SM8650")
BROKEN = {
    "op": "Relu",
    "inputs": [{"dtype": "FLOAT_32", "shape": [1, 1, 1, 1, 1, 8]}],
    "outputs": [{"dtype": "FLOAT_32", "shape": [1, 1, 1, 1, 1, 8]}],
}


def test_validate_says_why_it_exits_1_for_an_accepted_config(opdb: Run) -> None:
    done = opdb("validate", "-", *HTP, stdin=json.dumps(CONCAT))
    assert done.returncode == 1
    assert done.stdout.splitlines()[0] == "standard input: Concat on HTP SM8650: accept"
    assert done.stdout.splitlines()[-1] == (
        "  exit 1: accepted, but HTP-0002 makes it fail or compute wrong results; --lenient or --ignore-erratum HTP-0002 lets it pass"
    )
    for option in (("--lenient",), ("--ignore-erratum", "HTP-0002")):
        done = opdb("validate", "-", *HTP, *option, stdin=json.dumps(CONCAT))
        assert done.returncode == 0 and "exit 1" not in done.stdout
    done = opdb("validate", "-", *HTP, "--lenient", "--strict", stdin=json.dumps(CONCAT))
    assert done.returncode == 2


@pytest.mark.vendor
def test_a_code_of_the_library_names_its_explanation(opdb: Run) -> None:
    done = opdb("validate", "-", *HTP, "--against", "vendor", stdin=json.dumps(BROKEN))
    assert done.returncode == 1
    (said,) = (line for line in done.stdout.splitlines() if line.startswith("  vendor: reject"))
    assert said == "  vendor: reject 3110 QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE; see opdb explain 3110"
    assert opdb("explain", "3110").returncode == 0


@pytest.mark.vendor
@pytest.mark.torch
def test_run_warns_of_inputs_that_are_no_numbers(opdb: Run, tmp_path: Path) -> None:
    write_files(tmp_path)
    done = opdb("compile", "relu.onnx", "--soc", "SM8650", "-o", "relu.bin", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    values = np.ones((1, 4), np.float32)
    np.save(tmp_path / "fine.npy", values)
    values[0, 1:3] = np.nan, np.inf
    np.save(tmp_path / "odd.npy", values)
    done = opdb("run", "relu.bin", "--inputs", "odd.npy", cwd=tmp_path)
    assert done.returncode == 0
    assert "opdb: warning: the input x has 2 NaN or infinite values; QNN defines no result for them" in (
        done.stderr.splitlines()
    )
    assert "warning" not in opdb("run", "relu.bin", "--inputs", "fine.npy", cwd=tmp_path).stderr


@pytest.mark.torch
def test_rules_that_no_library_was_asked_about_are_marked(opdb: Run, tmp_path: Path) -> None:
    write_files(tmp_path)
    said = "The rules of GPU are those of Qualcomm's documents; no library was asked, which may refuse more."
    done = opdb("check", "relu.onnx", "--backend", "GPU", cwd=tmp_path)
    assert done.returncode == 0 and said in done.stdout.splitlines()
    assert "documents" not in opdb("check", "relu.onnx", "--soc", "SM8650", cwd=tmp_path).stdout


@pytest.mark.torch
def test_the_log_of_pytorch_is_for_v(opdb: Run, tmp_path: Path) -> None:
    """Without -v, the line of test_natural_mistakes.py is all."""
    write_files(tmp_path)
    done = opdb("check", "model.py:other", "--soc", "SM8650", "-v", cwd=tmp_path)
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert len(lines) > 5 and "torch/_subclasses/fake_tensor.py" in done.stderr
    assert lines[-1].startswith(
        "opdb: model.py:other cannot be exported: RuntimeError: a and b must have same"
    )
