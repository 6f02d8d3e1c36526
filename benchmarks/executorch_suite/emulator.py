"""A pytest plugin for ExecuTorch's emulator suite: another runner, builders, SoC and tolerances.

The suite (``executorch/backends/qualcomm/tests/rework``) starts a runner that has to be built from source.
Here the runtime in the wheel runs the program.  Environment variables, beside those of ``recording``:

* ``OPDB_SUITE_BUILDERS``: ``stock`` (ExecuTorch's) or ``opdb``;
* ``OPDB_SUITE_SOC``: the SoC used instead of the suite's SM8350; e.g. SM8650.

Each test is judged twice: by the suite's own tolerance, and by an honest one (``honest``).  Where the suite
expects a refusal, outputs that are right by the honest tolerance also pass.
"""

from __future__ import annotations

import ctypes
import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from _pytest.subtests import SubtestReport
from judge import honest, output_steps
from recording import register_opdb, seen
from torch.utils._pytree import tree_leaves

#: mallopt(3): memory of malloc is filled with the complement of the value's byte.
M_PERTURB = -6


def pytest_configure(config: pytest.Config) -> None:
    for name in ("nms", "qnms"):  # a torchvision that is built for another PyTorch stops transformers here
        if not hasattr(torch.ops.torchvision, name):
            torch.library.define(
                f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            )
    from executorch.backends.qualcomm.tests.rework import conftest

    conftest.verify_output_emulator = verify
    conftest.calibrate.__enter__ = _remembering(conftest.calibrate.__enter__)
    # The suite's summary asks for a plugin that pytest 9 has taken in under another name.
    sys.modules["pytest_subtests.plugin"] = SimpleNamespace(SubTestReport=SubtestReport)  # type: ignore[assignment]
    register_opdb()


def _remembering(enter: Any) -> Any:
    def wrapper(self: Any) -> Any:
        module = enter(self)
        seen["quantized"] = None if self.quantizer is None else module
        return module

    return wrapper


def verify(module: Any, inputs: Any, executorch_prog: Any, metrics: Any, **_: Any) -> None:
    """The suite's check of outputs, with the wheel's runtime instead of the built runner."""
    import executorch.backends.qualcomm  # noqa: F401  loads the backend
    from executorch.backends.qualcomm.tests.rework.conftest import _get_expected_output
    from executorch.extension.pybindings import portable_lib

    reference = _get_expected_output(module=module, inputs=inputs)
    buffer = executorch_prog.buffer
    # The suite's flow leaves a buffer that the program changes without its first values: chance would decide.
    ctypes.CDLL(None).mallopt(M_PERTURB, 0xFF)
    program = portable_lib._load_for_executorch_from_buffer(buffer)
    outputs = [o.clone() for o in program.run_method("forward", tuple(tree_leaves(inputs)))]
    del program
    ctypes.CDLL(None).mallopt(M_PERTURB, 0)
    for got, wanted in zip(outputs, reference, strict=True):
        assert got.numel() == wanted.numel(), f"shape {tuple(got.shape)}, not {tuple(wanted.shape)}"
    outputs = [got.reshape(wanted.shape) for got, wanted in zip(outputs, reference, strict=True)]
    seen["runs"] = seen.get("runs", 0) + 1
    if wrong := _wrong(outputs, reference, inputs):
        seen.setdefault("wrong", []).append(wrong)
    if hasattr(metrics, "assert_close"):  # else the suite expects a refusal, and fails with "DID NOT RAISE"
        metrics.assert_close(device_output=outputs, ref_output=reference)


def _wrong(outputs: list[Any], reference: list[Any], inputs: Any) -> str:
    from executorch.backends.qualcomm.tests.rework.conftest import _get_expected_output

    quantized = seen.get("quantized")
    if quantized is None:
        return honest(outputs, reference, None)
    return honest(outputs, _get_expected_output(module=quantized, inputs=inputs), output_steps(quantized))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    soc = os.environ["OPDB_SUITE_SOC"]
    for plugin in config.pluginmanager.get_plugins():
        if stock := getattr(plugin, "_get_htp_arch", None):  # the suite's conftest
            plugin._get_htp_arch = lambda stock=stock: [(arch, soc) for arch, _ in stock()]
