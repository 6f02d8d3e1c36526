"""Errata in check, compile, the file, and run: those of the graph that is compiled."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from .conftest import Run

pytestmark = [pytest.mark.torch, pytest.mark.vendor]
#: ElementWisePower of floats returns wrong numbers; Lrn does not.
POWER = "HTP-0318"


def test_the_file_and_the_command_say_the_same(opdb: Run, tmp_path: Path) -> None:
    """`check --strict` passes, and the metadata of the compiled file has no erratum."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 8, 8, 8]) for n in "xy")
    graph = helper.make_graph([helper.make_node("LRN", ["x"], ["y"], size=5)], "g", [x], [y])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), str(tmp_path / "lrn.onnx")
    )
    np.save(tmp_path / "x.npy", np.ones((1, 8, 8, 8), np.float32))
    done = opdb("check", "lrn.onnx", "--soc", "SM8650", "--strict", cwd=tmp_path)
    assert done.returncode == 0 and POWER not in done.stdout + done.stderr
    done = opdb("compile", "lrn.onnx", "--soc", "SM8650", "-o", "lrn.bin", "--json", cwd=tmp_path)
    assert done.returncode == 0 and json.loads(done.stdout)["errata"] == []
    shown = json.loads(opdb("context", "show", "lrn.bin", "--json", cwd=tmp_path).stdout)
    assert shown["header"]["metadata"]["errata"] == {"avoid": [], "warn": []}
    done = opdb("run", "lrn.bin", "--inputs", "x.npy", cwd=tmp_path)
    assert done.returncode == 0 and POWER not in done.stdout + done.stderr
