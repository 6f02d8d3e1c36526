"""Ops of packages as torch operators: PyTorch's own checks, export, ONNX, and ONNX Runtime with and without QNN."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import opdb.programs.torch_ops
from opdb.catalog.targets.target import Target
from opdb.checks.verdicts import check_program
from opdb.core.errors import OpdbError
from opdb.execute.libraries import onnx_runtime
from opdb.execute.packages.package import PackageFolder
from opdb.plugins.packages import ort_package
from opdb.programs.torch.export import export
from opdb.programs.torch_ops import onnx as to_onnx
from opdb.runtime.qnn import libraries
from opdb.spec.catalog import Catalog

pytestmark = [pytest.mark.torch, pytest.mark.native, pytest.mark.slow]
X = torch.arange(-60, 60, dtype=torch.int8).reshape(2, 15, 4)
BIAS = torch.tensor([-3.0, 0.5, 1e-3, 7.0])


class Custom(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(BIAS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = torch.ops.OpdbCustom.DequantizeAdd(x, self.bias, scale=0.5)
        return y


class Parameters(torch.nn.Module):
    """Parameters: a string, rows, a list; several results."""

    def forward(self, x: torch.Tensor) -> Any:
        y = torch.ops.qnn.Pad(x, scheme="MIRROR_REFLECT", pad_amount=[0, 0, 1, 2, 3, 0])
        y = torch.ops.qnn.Transpose(y, perm=[2, 0, 1])
        return torch.ops.qnn.Moments(y, axes=[0, 2], keep_dims=True)


def test_a_call_runs_the_kernel() -> None:
    call = torch.ops.OpdbCustom.DequantizeAdd
    assert torch.equal(call(X, BIAS, scale=0.5), X * 0.5 + BIAS)
    with pytest.raises(OpdbError, match=r"DequantizeAdd\.C2: .*got scale = -1"):
        call(X, BIAS, scale=-1.0)
    with pytest.raises(OpdbError, match=r"DequantizeAdd\.SHAPE_bias: .*got bias\.shape = \[3\]"):
        call(X, torch.ones(3), scale=1.0)
    assert "OpdbCustom.DequantizeAdd.default" in opdb.programs.torch_ops.targets()


def test_operators_pass_pytorchs_own_checks() -> None:
    call = torch.ops.OpdbCustom.DequantizeAdd.default
    found = torch.library.opcheck(call, (X, BIAS), {"scale": 0.5})
    assert set(found.values()) == {"SUCCESS"} and len(found) == 4


def test_a_package_operator_is_exported_and_supported() -> None:
    program = export(Custom(), (X,))
    found = check_program(program, Target("HTP", "SM8650", execution="emulator"))
    assert [(r.target, r.verdict, r.form) for r in found.rows] == [
        ("OpdbCustom.DequantizeAdd.default", "supported", "DequantizeAdd")
    ]


def written(model: torch.nn.Module, x: torch.Tensor, path: Path) -> Path:
    pytest.importorskip("onnxscript")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model.eval(), (x,), path, custom_translation_table=to_onnx.table("com.example"), verbose=False
        )
    return path


def test_onnx_export_has_strings_rows_and_several_results(catalog: Catalog, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    root, _ = ort_package.write(
        catalog, ["Moments", "Pad", "Transpose"], "mine", tmp_path / "ort", domain="com.example"
    )
    library, x = ort_package.build(root, "mine"), torch.randn(2, 3, 4)
    model = written(Parameters(), x, tmp_path / "model.onnx")
    mean, variance = onnx_runtime.run(model, onnx_runtime.on_cpu([library]), {"x": x.numpy()}).values()
    padded = np.pad(x.numpy(), [(0, 0), (1, 2), (3, 0)], "reflect").transpose(2, 0, 1)
    assert np.allclose(mean, padded.mean((0, 2), keepdims=True), atol=1e-6)
    assert np.allclose(variance, padded.var((0, 2), keepdims=True), atol=1e-6)


@pytest.mark.vendor
def test_a_pytorch_model_runs_on_qnn_through_onnx_runtime(
    catalog: Catalog, custom_htp: PackageFolder, tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime")
    try:
        libraries.find("2.51")
    except OpdbError as missing:
        pytest.skip(str(missing))
    root, _ = ort_package.write(catalog, ["DequantizeAdd"], "one", tmp_path / "ort", domain="com.example")
    library = ort_package.build(root, "one")
    model = written(Custom(), X, tmp_path / "model.onnx")
    settings = onnx_runtime.on_qnn(["DequantizeAdd"], [custom_htp.library], custom_ops=[library])
    for each in (onnx_runtime.on_cpu([library]), settings):
        (got,) = onnx_runtime.run(model, each, {"x": X.numpy()}).values()
        assert np.array_equal(got, Custom()(X).detach().numpy())
