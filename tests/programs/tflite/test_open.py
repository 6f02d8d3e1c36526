"""Files with open dimensions, and with operators without results: sizes from --dim, rows, or one message."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
import torch
from ai_edge_litert import schema_py_generated as schema

from opdb.catalog.targets.target import Target
from opdb.checks.verdicts import read_and_check
from opdb.core.errors import OpdbError
from opdb.programs.load import load_model, load_program

pytestmark = [pytest.mark.torch, pytest.mark.slow]
FILES = Path(__file__).parent / "files"
HTP = Target("HTP", "SM8650", execution="emulator")


def changed(name: str, folder: Path, change: Callable[[Any], None]) -> str:
    """A file with a changed main subgraph."""
    made = schema.ModelT.InitFromPackedBuf((FILES / name).read_bytes(), 0)
    change(made)
    builder = flatbuffers.Builder(1024)
    builder.Finish(made.Pack(builder), b"TFL3")
    path = folder / "changed.tflite"
    path.write_bytes(bytes(builder.Output()))
    return str(path)


def opened(axes: tuple[int, ...], tensors: Callable[[int], bool]) -> Callable[[Any], None]:
    """Leaves axes open in the non-constant tensors at these places."""

    def change(model: Any) -> None:
        for place, tensor in enumerate(model.subgraphs[0].tensors):
            data = model.buffers[tensor.buffer].data
            if tensors(place) and (data is None or not len(data)):
                shape = [int(n) for n in tensor.shape]
                tensor.shape = [-1 if axis in axes else n for axis, n in enumerate(shape)]

    return change


def test_an_open_input_asks_for_its_size(tmp_path: Path) -> None:
    path = changed("abs.tflite", tmp_path, opened((1,), lambda place: True))
    with pytest.raises(
        OpdbError, match=r"the input x_0 has the shape .*; fix all dimensions, e.g. --dim x_0:1=1$"
    ):
        load_model(path)
    module, (x,) = load_model(path, dims={"x_0:1": 7})
    assert x.shape == (2, 7, 12)
    np.testing.assert_array_equal(module(x).numpy(), np.abs(x.numpy()))


def test_an_open_result_gets_the_operators_shape(tmp_path: Path) -> None:
    path = changed("abs.tflite", tmp_path, opened((0, 1), lambda place: place > 0))
    module, (x,) = load_model(path)
    torch.testing.assert_close(module(x), x.abs())


def test_an_operator_that_needs_a_size_is_a_row_with_a_fix(tmp_path: Path) -> None:
    path = changed("average_pool_same.tflite", tmp_path, opened((1,), lambda place: True))
    program = load_program(path, dims={"x_0:1": 7})
    _, coverage = read_and_check(program, HTP)
    (row,) = (r for r in coverage.rows if r.verdict == "host")
    (reason,) = row.reasons
    assert reason["message"].endswith("convert the model with fixed shapes")


def test_an_operator_without_results_is_ignored(tmp_path: Path) -> None:
    """The operator is CALL_ONCE, which initializes variables."""

    def change(model: Any) -> None:
        code = schema.OperatorCodeT()
        code.builtinCode, code.version = schema.BuiltinOperator.CALL_ONCE, 1
        code.deprecatedBuiltinCode = 127
        model.operatorCodes.append(code)
        call = schema.OperatorT()
        call.opcodeIndex, call.inputs, call.outputs = len(model.operatorCodes) - 1, [], []
        model.subgraphs[0].operators.insert(0, call)

    path = changed("abs.tflite", tmp_path, change)
    _, coverage = read_and_check(load_program(path), HTP)
    assert coverage.complete and len(coverage.rows) == 1
