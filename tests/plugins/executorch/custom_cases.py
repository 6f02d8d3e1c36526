"""A torch operator of a custom library in ExecuTorch's flow; runs in a child process of the tests."""

from __future__ import annotations

from typing import Any

import torch

from opdb.core.errors import OpdbError
from opdb.plugins.executorch import flow, registration
from opdb.runtime.forms import Lowered, NodeView, one_op

TARGET = "opdb_custom.my_relu.default"


@torch.library.custom_op("opdb_custom::my_relu", mutates_args=())
def my_relu(x: torch.Tensor) -> torch.Tensor:
    return torch.clamp(x, min=0)


@my_relu.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = my_relu(x * 2)
        return y + 1


def to_relu(view: NodeView, target: Any) -> Lowered:
    return one_op("Relu", inputs={"x": view.arg("x")}, outputs={"y": view.result(0)})


def to_package(view: NodeView, target: Any) -> Lowered:
    return one_op("MyRelu", inputs={"x": view.arg("x")}, outputs={"y": view.result(0)}, package="MyOps")


def run() -> dict[str, Any]:
    """Returns the delegated operators and the error if a QNN op takes it, and HTP's answer if an op of a package does."""
    model, x = Model(), torch.randn(2, 5)
    found: dict[str, Any] = {
        "taken": registration.register(lower=to_relu, target=None, targets=[TARGET], preserve_ops=()).builders
    }
    compiled = flow.compile_module(model, (x,), "SM8650")
    found |= {"delegated": compiled.delegated, "rest": compiled.not_delegated, "forms": dict(compiled.forms)}
    (got,) = flow.run_pte(compiled.pte, (x,))
    found["error"] = float((got - model(x)).abs().max())
    registration.unregister()

    registration.register(lower=to_package, target=None, targets=[TARGET], preserve_ops=())
    try:
        flow.compile_module(model, (x,), "SM8650")
    except Exception as error:  # ExecuTorch has no kernel of its own for the operator
        found["without the package"] = type(error).__name__
    found["reasons"] = [(r.form, r.rule) for reasons in registration.reasons().values() for r in reasons]
    registration.unregister()
    try:
        registration.register(
            lower=to_relu, target=None, targets=["opdb_custom.no_such.default"], preserve_ops=()
        )
    except OpdbError as error:
        found["unknown"] = str(error)
    return found
