"""Models for the flow tests; the tests' child process executes ``run``."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import hand_lowering
import torch
from torch import nn

import opdb.lower.select
from opdb.catalog.targets.target import Target
from opdb.core.errors import OpdbError
from opdb.generated.builders import TARGETS
from opdb.plugins.executorch import flow, registration
from opdb.plugins.executorch.builder import operators
from opdb.plugins.executorch.patches.registry import BACKEND, states
from opdb.runtime.forms import Reason, one_op

SOC = "SM8650"
INT64 = f"{BACKEND}_passes.i64_to_i32:I64toI32.I64_IN_OPS"
MISSING = f"{BACKEND}partition.common_defs:to_be_implemented_operator"
RULES = (
    f"{BACKEND}quantizer.annotators.htp_rules:get_rules",
    f"{BACKEND}quantizer.annotators.lpai_rules:get_rules",
)


class WithConv(nn.Module):
    """A convolution starts ExecuTorch's channels-last region."""

    def __init__(self, after: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.after = after
        self.bias = nn.Parameter(torch.randn(1, 8, 1, 6))
        self.register_buffer("pick", torch.tensor([3, -1, 0]))

    def forward(self, x: torch.Tensor) -> Any:
        return self.after(self, self.conv(x))


class Call(nn.Module):
    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.call = call

    def forward(self, x: torch.Tensor) -> Any:
        return self.call(x)


class Multiply(nn.Module):
    """A product of two matrices that ExecuTorch stores transposed; it does not commute with that."""

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


class Table(nn.Module):
    """A position table resized at run time, as in Depth Anything: it is computed only from constants."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(1, 4, 4, 8))
        self.conv = nn.Conv2d(3, 8, 4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x).flatten(2).transpose(1, 2)
        factor = ((y.shape[1] / 3 + 0.1) / 4, 3.1 / 4)
        table = nn.functional.interpolate(self.table.permute(0, 3, 1, 2), scale_factor=factor, mode="bicubic")
        return y + table.permute(0, 2, 3, 1).reshape(1, -1, 8)


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
    "conv_index": (lambda: WithConv(lambda m, y: y[:, m.pick]), [IMAGE]),
    "conv_index_apart": (lambda: WithConv(lambda m, y: y[:, m.pick, :, m.pick[:, None]]), [IMAGE]),
    "conv_index_put": (
        lambda: WithConv(lambda m, y: torch.index_put(y, (m.pick * 0, m.pick), y[0, :3] * 2)),
        [IMAGE],
    ),
    "conv_slice_scatter": (
        lambda: WithConv(lambda m, y: torch.slice_scatter(y, y[:, :2] * 2, 1, 1, 7, 3)),
        [IMAGE],
    ),
    "conv_scatter_add": (
        lambda: WithConv(
            lambda m, y: y.scatter_add(1, m.pick.abs()[:, None, None].expand(1, 3, 5, 6), y[:, 3:6])
        ),
        [IMAGE],
    ),
    "truth": (lambda: Call(lambda x: torch.where(x.to(torch.bool), x + 1, x)), [(3, 4)]),
    "integers": (lambda: Call(lambda x: (x * 5).to(torch.int32) * 3), [(3, 4)]),
    "matmul_in_region": (Multiply, [(2, 6, 6)]),
    "resized_table": (Table, [(1, 3, 8, 12)]),
    "second_result": (SecondResult, [(4, 6)]),
}


def everything() -> dict[str, Any]:
    """The results for all tests, in one process: importing the flow takes longer than most cases."""
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
    """Runs each case through the whole flow.

    ``form``: "generated" for opdb's builders, None for the stock ones, "by hand" for hand_lowering.py.

    ``error``: the largest difference from PyTorch relative to PyTorch's largest value.
    ``ops``: QNN op types of the built graphs, in order.
    """
    out = {}
    for name in names:
        torch.manual_seed(0)
        make, shapes = CASES[name]
        module, inputs = make().eval(), tuple(torch.randn(s) for s in shapes)
        if precision == "quantized":
            module = quantized(module, inputs)
        if form == "generated":
            registration.register(
                lower=opdb.lower.select.lower,
                target=Target("HTP", SOC, execution="emulator"),
                targets=TARGETS,
                preserve_ops=(),
            )
        elif form is not None:
            registration.register(
                lower=hand_lowering.lower, target=form, targets=hand_lowering.FORMS, preserve_ops=()
            )
        try:
            with torch.no_grad(), Recorder() as recorder:
                compiled = flow.compile_module(module, inputs, SOC, precision)
                got = flow.run_pte(compiled.pte, inputs)
                expected = module(*inputs)
        finally:
            registration.unregister()
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
    """Messages to the user: for an operator that cannot fall back, and for a misspelled SoC."""
    told = {}
    x = (torch.randn(2, 4),)
    registration.register(
        lower=hand_lowering.lower_no_linear, target=None, targets=["aten.linear.default"], preserve_ops=()
    )
    for name, soc in (("kept whole", SOC), ("misspelt", "SM8651")):
        try:
            flow.compile_module(nn.Linear(4, 3), x, soc)
        except OpdbError as e:
            told[name] = str(e)
    registration.unregister()
    return told


class Recorder:
    """Records the types of the ops that ExecuTorch gives QNN to compile."""

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


def touched() -> dict[str, Any]:
    """The state of ExecuTorch and PyTorch that ``register`` may change: the builders, and the symbols of patches."""
    from executorch.backends.qualcomm.builders import node_visitor_manager

    symbols = {s for state in states() if state.applied for s in state.patch.symbols}
    return {"builders": dict(node_visitor_manager._node_visitor_dict), **{s: held(s) for s in symbols}}


def held(symbol: str) -> Any:
    module, _, names = symbol.partition(":")
    value: Any = import_module(module)
    for name in names.split("."):
        value = getattr(value, name)
    value = value() if names == "get_rules" else value
    return copy(value) if isinstance(value, (dict, list, set)) else value


def register_and_undo() -> dict[str, bool]:
    """Checks the changes made by ``register``, and that ``unregister`` reverts them all."""
    before = touched()
    targets = [*hand_lowering.FORMS, "aten.softplus.default", "aten.scatter_add.default", "aten.asinh.default",
               "aten.select.int", "aten.max_pool3d_with_indices.default", "aten.max_pool2d_with_indices.default",
               "aten.any.dims", "aten.remainder.Tensor", "aten.div.Tensor_mode", "aten.floor_divide.default",
               "aten.scaled_dot_product_attention.default", "aten.roll.default"]  # fmt: skip
    targets = [t for t in targets if t != "aten.relu.default"]
    softplus = torch.ops.aten.softplus.default
    taken = registration.register(
        lower=hand_lowering.lower,
        target="",
        targets=[*targets, "aten.relu.default"],
        without=["aten.relu.default"],
    )
    now = touched()
    old, new = before["builders"], now["builders"]
    seen = {
        "copying forms are taken over": {"aten.view_copy.default", "aten.view.default"}
        <= set(taken.builders),
        "added ones are named": "aten.softplus.default" in taken.added
        and "aten.view_copy.default" not in taken.added,
        "replaced": all(new[t] is not old.get(t) for t in taken.builders),
        "others stay": all(new[t] is v for t, v in old.items() if t not in taken.builders),
        "opted out": "aten.relu.default" not in taken.builders,
        "quantizer rules are added": all(
            softplus in now[rules] and softplus not in before[rules] for rules in RULES
        ),
        "int64": {*now[INT64]} == {*before[INT64], *operators.edge_operators(["aten.scatter_add.default"])},
    }
    try:
        registration.register(lower=hand_lowering.lower, target="", targets=targets)
        seen["twice is refused"] = False
    except OpdbError as e:
        seen["twice is refused"] = "unregister()" in str(e)
    registration.unregister()
    registration.unregister()
    seen["put back"] = touched() == before
    for name, arguments in (
        ("targets", {"targets": ["aten.no_such.default"]}),
        ("without", {"without": ["aten.no_such.default"]}),
    ):
        try:
            registration.register(**arguments)
            seen[f"an unknown name is refused in {name}"] = False
        except OpdbError as e:
            seen[f"an unknown name is refused in {name}"] = "not an ATen operator" in str(e)
    registration.register()
    full = touched()
    seen["all of the specs"] = set(TARGETS) <= set(full["builders"])
    seen["missing ones are asked about"] = len(full[MISSING]) < len(before[MISSING])
    for state in states():
        seen[state.patch.id] = not state.applied or any(full[s] != before[s] for s in state.patch.symbols)
    registration.unregister()
    seen["after all that nothing is changed"] = touched() == before
    return seen


def failing_lower(view: Any, target: Any) -> Any:
    """A builder with a fault, one refused by QNN (always, or once), and one that changes its decision before building."""
    if target == "fault":
        raise ZeroDivisionError("a fault in a builder")
    once = target == set()  # the set has the nodes refused so far
    if target == "refused" or once:  # a Transpose without its permutation
        if once:
            target.add(view.name)
        return one_op("Transpose", inputs={"x": view.arg("self")}, outputs={"y": view.result(0)})
    if isinstance(target, list) and target.append(view.name) is None and len(target) > 1:
        return hand_lowering.Rejected((Reason("Relu", "Relu.C1", "changed its mind"),))
    return hand_lowering.lower(view, "by hand")


def run_failing() -> dict[str, str]:
    """The effect of a faulty builder on an export."""
    x = (torch.randn(2, 3),)
    registration.register(lower=failing_lower, target="fault", targets=["aten.relu.default"], preserve_ops=())
    faulty = flow.compile_module(nn.ReLU(), x, SOC)
    registration.unregister()
    registration.register(
        lower=failing_lower, target="refused", targets=["aten.relu.default"], preserve_ops=()
    )
    refused = flow.compile_module(nn.ReLU(), x, SOC)
    registration.unregister()
    registration.register(lower=failing_lower, target=set(), targets=["aten.relu.default"], preserve_ops=())
    once = flow.compile_module(nn.ReLU(), x, SOC)
    registration.unregister()
    registration.register(lower=failing_lower, target=[], targets=["aten.relu.default"], preserve_ops=())
    try:
        flow.compile_module(nn.ReLU(), x, SOC)
        changed = "no error"
    except Exception as e:
        changed = f"{type(e).__name__}: {e}"
    registration.unregister()
    said = {n: c.reasons[c.not_delegated[0]][0].message for n, c in (("fault", faulty), ("refused", refused))}
    return {**said, "changed": changed, "refused once": str(dict(once.reasons) or once.delegated)}
