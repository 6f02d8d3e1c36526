"""Models for the flow tests; ``run`` is what the tests' child process executes."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import hand_lowering
import torch
from torch import nn

import opdb.lower
from opdb.errors import OpdbError
from opdb.executorch import flow, register
from opdb.generated.builders import TARGETS
from opdb.runtime.lowering import Reason
from opdb.validate import Target

SOC = "SM8650"


class WithConv(nn.Module):
    """A convolution puts what follows into ExecuTorch's channels-last region."""

    def __init__(self, after: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.after = after
        self.bias = nn.Parameter(torch.randn(1, 8, 1, 6))

    def forward(self, x: torch.Tensor) -> Any:
        return self.after(self, self.conv(x))


class Multiply(nn.Module):
    """A matrix product of two tensors that ExecuTorch stores transposed: it does not commute with that."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.bmm(torch.softmax(x, 1), torch.relu(x))


class SecondResult(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y, mean, _ = torch.native_layer_norm(x, [6], None, None, 1e-5)
        return y, mean


def demo() -> nn.Module:
    return nn.Sequential(nn.LayerNorm([768], eps=1e-6), nn.Linear(768, 100))


def trailing() -> nn.Module:
    norm = nn.LayerNorm((8, 6))
    with torch.no_grad():
        norm.weight.copy_(torch.randn(8, 6))
        norm.bias.copy_(torch.randn(8, 6))
    return norm


IMAGE, BLOCK = (1, 3, 10, 12), (2, 4, 8, 6)
CASES: dict[str, tuple[Callable[[], nn.Module], list[tuple[int, ...]]]] = {
    "demo": (demo, [(200, 768)]),
    "layer_norm_over_two_dims": (trailing, [BLOCK]),
    "layer_norm_without_weights": (lambda: nn.LayerNorm((8, 6), elementwise_affine=False), [BLOCK]),
    "conv_relu": (lambda: nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU()), [IMAGE]),
    "conv_grouped_without_bias": (
        lambda: nn.Conv2d(4, 8, 3, groups=2, dilation=2, bias=False),
        [(1, 4, 9, 7)],
    ),
    "conv_softmax_over_channels": (lambda: WithConv(lambda m, y: torch.softmax(y, 1)), [IMAGE]),
    "conv_add_constant": (lambda: WithConv(lambda m, y: torch.relu(y + m.bias)), [IMAGE]),
    "conv_cat_mean": (
        lambda: WithConv(lambda m, y: torch.cat([y, torch.relu(y)], -3).mean((1, -1), keepdim=True)),
        [IMAGE],
    ),
    "conv_split": (lambda: WithConv(lambda m, y: torch.split(torch.relu(y), [3, 5], 1)), [IMAGE]),
    "conv_layer_norm": (lambda: WithConv(lambda m, y: nn.functional.layer_norm(y, (5, 6))), [IMAGE]),
    "matmul_in_region": (Multiply, [(2, 6, 6)]),
    "second_result": (SecondResult, [(4, 6)]),
}


def everything() -> dict[str, Any]:
    """All that the tests look at, in one process: importing the flow takes longer than most cases."""
    whole = [n for n in CASES if n != "second_result"]
    return {
        "plugged": run(whole, "generated"),
        "by_hand": run(["matmul_in_region"], "by hand"),
        "stock": run(["demo", "layer_norm_over_two_dims", "conv_relu", "matmul_in_region"], None),
        "direct": run(["layer_norm_over_two_dims"], "by hand"),
        "second_result": run(["second_result"], "generated"),
        "quantized": run(QUANTIZED, "generated", "quantized"),
        "stock_quantized": run(["demo", "conv_relu"], None, "quantized"),
        "registry": register_and_undo(),
        "failing": run_failing(),
        "refusals": refusals(),
    }


QUANTIZED = ["demo", "conv_relu", "layer_norm_without_weights", "matmul_in_region"]


def quantized(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> nn.Module:
    """8-bit weights per channel and activations, calibrated on ``inputs``, by ExecuTorch's quantizer."""
    from executorch.backends.qualcomm.quantizer.quantizer import QnnQuantizer, QuantDtype
    from executorch.backends.qualcomm.serialization.qc_schema import QcomChipset
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    quantizer = QnnQuantizer(soc_model=QcomChipset[SOC])
    quantizer.set_default_quant_config(
        QuantDtype.use_8a8w, is_conv_per_channel=True, is_linear_per_channel=True
    )
    prepared = prepare_pt2e(torch.export.export(module, inputs, strict=True).module(), quantizer)
    prepared(*inputs)
    return convert_pt2e(prepared)  # type: ignore[no-any-return]


def run(names: list[str], form: str | None, precision: str = "fp16") -> dict[str, SimpleNamespace]:
    """Each case through the whole flow.

    ``form``: "generated" for opdb's builders, None for the stock ones, "by hand" for hand_lowering.py.

    ``error``: the largest difference from PyTorch, over the largest value that PyTorch gives.
    ``ops``: QNN op types of the graphs that were built, in order.
    """
    out = {}
    for name in names:
        torch.manual_seed(0)
        make, shapes = CASES[name]
        module, inputs = make().eval(), tuple(torch.randn(s) for s in shapes)
        if precision == "quantized":
            module = quantized(module, inputs)
        if form == "generated":
            register.register(opdb.lower.lower, Target("HTP", SOC), TARGETS)
        elif form is not None:
            register.register(hand_lowering.lower, form, hand_lowering.FORMS)
        try:
            with torch.no_grad(), Recorder() as recorder:
                compiled = flow.compile_module(module, inputs, SOC, precision)
                got = flow.run_pte(compiled.pte, inputs)
                expected = module(*inputs)
        finally:
            register.unregister()
        pairs = list(zip(got, expected if isinstance(expected, tuple) else (expected,), strict=True))
        assert all(g.shape == e.shape for g, e in pairs)
        out[name] = SimpleNamespace(
            error=max(float((g - e).abs().max() / e.abs().max()) for g, e in pairs),
            delegated=compiled.delegated,
            not_delegated=compiled.not_delegated,
            forms=dict(compiled.forms),
            reasons=dict(compiled.reasons),
            ops=tuple(recorder.ops),
        )
    return out


def refusals() -> dict[str, str]:
    """What the user is told: an operator that cannot fall back, a SoC that is misspelt."""
    told = {}
    x = (torch.randn(2, 4),)
    register.register(hand_lowering.lower_no_linear, None, ["aten.linear.default"])
    for name, soc in (("kept whole", SOC), ("misspelt", "SM8651")):
        try:
            flow.compile_module(nn.Linear(4, 3), x, soc)
        except OpdbError as e:
            told[name] = str(e)
    register.unregister()
    return told


class Recorder:
    """Notes the types of the ops that ExecuTorch hands to QNN to compile."""

    def __init__(self) -> None:
        self.ops: list[str] = []

    def __enter__(self) -> Recorder:
        from executorch.backends.qualcomm.qnn_preprocess import QnnBackend

        self.stock = QnnBackend._build_op_wrappers

        def build(*args: Any, **kwargs: Any) -> Any:
            wrappers = self.stock(*args, **kwargs)
            self.ops += [w.GetOpWrapper().GetOpType() for w in wrappers]
            return wrappers

        QnnBackend._build_op_wrappers = staticmethod(build)
        return self

    def __exit__(self, *_: object) -> None:
        from executorch.backends.qualcomm.qnn_preprocess import QnnBackend

        QnnBackend._build_op_wrappers = staticmethod(self.stock)


def register_and_undo() -> dict[str, bool]:
    """What ``register`` changes, and that ``unregister`` puts everything back."""
    from executorch.backends.qualcomm.builders import node_visitor_manager
    from executorch.backends.qualcomm.partition import qnn_partitioner
    from executorch.backends.qualcomm.utils import utils

    before = dict(node_visitor_manager._node_visitor_dict)
    tables = (qnn_partitioner.get_skip_decomp_table, utils.get_skip_decomp_table)
    targets = [*hand_lowering.FORMS, "aten.softplus.default"]
    taken = register.register(hand_lowering.lower, "", targets, whole=["aten.softplus.default"])
    seen = {
        "copying forms are taken over": "aten.view_copy.default" in taken and "aten.view.default" in taken,
        "replaced": all(node_visitor_manager._node_visitor_dict[t] is not before.get(t) for t in taken),
        "others stay": all(
            node_visitor_manager._node_visitor_dict[t] is v for t, v in before.items() if t not in taken
        ),
        "kept whole": all(
            torch.ops.aten.softplus.default in m.get_skip_decomp_table() for m in (qnn_partitioner, utils)
        ),
    }
    try:
        register.register(hand_lowering.lower, "", targets)
        seen["twice is refused"] = False
    except OpdbError as e:
        seen["twice is refused"] = "unregister()" in str(e)
    register.unregister()
    register.unregister()
    seen["put back"] = dict(node_visitor_manager._node_visitor_dict) == before
    seen["tables put back"] = tables == (qnn_partitioner.get_skip_decomp_table, utils.get_skip_decomp_table)
    try:
        register.register(hand_lowering.lower, "", ["aten.no_such.default"])
        seen["an unknown name is refused"] = False
    except OpdbError as e:
        seen["an unknown name is refused"] = "not an ATen operator" in str(e)
    seen["after a refusal nothing is changed"] = dict(node_visitor_manager._node_visitor_dict) == before
    return seen


def failing_lower(view: Any, target: Any) -> Any:
    """A builder with a fault, and one that changes its mind between partitioning and building."""
    if target == "fault":
        raise ZeroDivisionError("a fault in a builder")
    if view.target == "aten.relu.default" and target.append(view.name) is None and len(target) > 1:
        return hand_lowering.Rejected((Reason("Relu", "Relu.C1", "changed its mind"),))
    return hand_lowering.lower(view, "by hand")


def run_failing() -> dict[str, str]:
    """What a faulty builder does to an export."""
    x = (torch.randn(2, 3),)
    register.register(failing_lower, "fault", ["aten.relu.default"])
    faulty = flow.compile_module(nn.ReLU(), x, SOC)
    register.unregister()
    register.register(failing_lower, [], ["aten.relu.default"])
    try:
        flow.compile_module(nn.ReLU(), x, SOC)
        changed = "no error"
    except Exception as e:
        changed = f"{type(e).__name__}: {e}"
    register.unregister()
    return {"fault": faulty.reasons[faulty.not_delegated[0]][0].message, "changed": changed}
