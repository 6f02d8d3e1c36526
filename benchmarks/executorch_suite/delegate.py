"""A pytest plugin for the operator tests of ExecuTorch's Qualcomm delegate (``test_qnn_delegate.py``).

Its tests of operators, in floats and quantized, run in the wheel's runtime instead of on a phone or in a runner that has to
be built; see ``recording`` for the environment.  Tests of models, scripts and the tools of Qualcomm's SDK do not run.

Each test is judged twice: by the suite's own tolerance (0.1, and 100 % for quantized ones), and by an honest one (``judge``).
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Sequence
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from judge import honest, output_steps
from recording import register_opdb, seen
from torch.utils._pytree import tree_leaves

SUITE = "executorch.backends.qualcomm.tests.test_qnn_delegate"
CLASSES = ("TestQNNFloatingPointOperator", "TestQNNQuantizedOperator")


def pytest_configure(config: pytest.Config) -> None:
    _leave_out_models()
    from executorch.backends.qualcomm.tests.utils import TestQNN

    TestQNN.enable_x86_64 = True
    TestQNN.backend = "htp"
    TestQNN.soc_model = os.environ["OPDB_SUITE_SOC"]
    TestQNN.verify_output = verify
    register_opdb()


def _leave_out_models() -> None:
    """Makes empty classes for networks that the file imports and this environment lacks (torchvision's): no test here uses one."""
    spec = util.find_spec(SUITE)
    assert spec is not None and spec.origin is not None
    found = re.findall(r"^from (executorch\.examples\.\S+) import (\w+)", Path(spec.origin).read_text(), re.M)
    for module, class_name in found:
        try:
            importlib.import_module(module)
        except ImportError:
            sys.modules[module] = ModuleType(module)
            setattr(sys.modules[module], class_name, type(class_name, (), {}))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [i for i in items if i.nodeid.split("::")[1] in CLASSES]


def verify(
    self: Any, module: Any, sample_inputs: Sequence[Any], executorch_prog: Any, *_: Any,
    method_index: int = 0, input_encodings: Sequence[Any] = (), output_encodings: Sequence[Any] = (),
    expected_profile_events: int = -1, expected_compared_events: int = -1, **more: Any,
) -> None:  # fmt: skip
    """The suite's check of outputs, with the wheel's runtime instead of a runner."""
    if expected_profile_events != -1 or expected_compared_events != -1 or more.get("output_callback"):
        pytest.skip("asks for what the built runner writes")
    if input_encodings or output_encodings or method_index:
        pytest.skip("stored values at the ends, or another method: the built runner's")
    import executorch.backends.qualcomm  # noqa: F401  loads the backend
    from executorch.extension.pybindings import portable_lib

    reference = [r.detach() for r in tree_leaves(module(*sample_inputs))]
    program = portable_lib._load_for_executorch_from_buffer(executorch_prog.buffer)
    outputs = [o.clone() for o in program.run_method("forward", tuple(tree_leaves(list(sample_inputs))))]
    del program
    outputs = [got.reshape(wanted.shape) for got, wanted in zip(outputs, reference, strict=True)]
    seen["runs"] = seen.get("runs", 0) + 1
    if wrong := honest(outputs, reference, _steps(module)):
        seen.setdefault("wrong", []).append(wrong)
    self._assert_outputs_equal(outputs, reference)


def _steps(module: Any) -> list[float | None] | None:
    if not isinstance(module, torch.fx.GraphModule):
        return None
    steps = output_steps(module)
    return steps if any(steps) else None
