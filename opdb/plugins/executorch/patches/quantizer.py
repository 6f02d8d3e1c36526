"""Patches of how ExecuTorch's quantizer annotates nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from opdb.plugins.executorch.builder.operators import overload
from opdb.plugins.executorch.patches.graphs import nodes, raises, traced
from opdb.plugins.executorch.patches.registry import Context, patch
from opdb.plugins.executorch.patches.undo import Undo, all_of, replaced


def _biases_repeat_scales() -> bool:
    """True if channels 0 and 1 get one scale; with two groups and four channels out, channel c has the filter's scale c % 2."""
    import torch
    from executorch.backends.qualcomm.quantizer import qconfig
    from torchao.quantization.pt2e import MinMaxObserver, PerChannelMinMaxObserver

    layer = torch.nn.ConvTranspose2d(4, 4, 1, groups=2)
    module = traced(layer, torch.ones(1, 4, 2, 2))
    (node,) = nodes(module, torch.ops.aten.conv_transpose2d.input)
    spec = qconfig._derived_bias_quant_spec(node)
    inputs, filters = MinMaxObserver(dtype=torch.uint8), PerChannelMinMaxObserver(ch_axis=1, dtype=torch.int8)
    inputs(torch.tensor([0.0, 1.0]))
    filters(torch.tensor([[[[1.0]], [[8.0]]]] * 4))
    scales = spec.derive_qparams_fn([inputs, filters])[0].flatten()
    return bool(scales[0] == scales[1])


@patch(
    "biases-of-groups",
    "bug",
    "the bias of a transposed convolution with groups has the scale of another channel",
    "quantizer.qconfig:_derived_bias_quant_spec",
    needed=_biases_repeat_scales,
)
def biases_of_groups(context: Context) -> Undo:
    """Gives the bias of a transposed convolution with groups the product of its channel's scales.

    The filter has out / groups scales.  Channel c of the output has the one at c % (out / groups); ExecuTorch gives
    its bias the one at c // groups, unlike HTP.
    """
    import torch
    from executorch.backends.qualcomm.quantizer import qconfig

    stock = qconfig._derived_bias_quant_spec
    transposed = (torch.ops.aten.conv_transpose2d.input, torch.ops.aten.conv_transpose3d.input)

    def derived(node: Any) -> Any:
        spec = stock(node)
        groups = node.args[6] if node.target in transposed and len(node.args) > 6 else 1
        if groups == 1:
            return spec

        def of_channels(observers: Any) -> Any:
            scale, zero = spec.derive_qparams_fn(observers)
            return scale.view(-1, groups).t().reshape(-1), zero

        return replace(spec, derive_qparams_fn=of_channels)

    return replaced(qconfig, "_derived_bias_quant_spec", derived)


def _lacks_rules() -> bool:
    import torch
    from executorch.backends.qualcomm.quantizer.annotators import htp_rules

    return torch.ops.aten.softplus.default not in htp_rules.get_rules()


@patch(
    "quantizer-rules",
    "feature",
    "the quantizer has no rule for operators that QNN computes quantized",
    "quantizer.annotators.htp_rules:get_rules",
    "quantizer.annotators.lpai_rules:get_rules",
    "quantizer.rules:OpQuantRule",
    needed=_lacks_rules,
)
def quantizer_rules(context: Context) -> Undo:
    """Adds rules for operators that ExecuTorch's quantizer has none for, for HTP and LPAI."""
    from executorch.backends.qualcomm.quantizer.annotators import htp_rules, lpai_rules
    from executorch.backends.qualcomm.quantizer.rules import GeneralOpDef, OpQuantRule

    from opdb.lower.candidates import forms
    from opdb.plugins.executorch.builder.annotate import annotate

    wanted = {overload(t): forms(t)[0].name for t in context.targets if forms(t)}

    def added(rules: dict[Any, Any]) -> Undo:
        new = [op for op in wanted if op not in rules]
        for op in new:
            rules[op] = OpQuantRule(op, wanted[op], annotate, GeneralOpDef.validate)

        def undo() -> None:
            for op in new:
                del rules[op]

        return undo

    return all_of(added(module.get_rules()) for module in (htp_rules, lpai_rules))


def _takes_any_reader() -> bool:
    """True if an input that a relu reads before its observer does makes ConcatObserver raise."""
    import torch
    from executorch.backends.qualcomm.quantizer.observers.concat_observer import ConcatObserver
    from torchao.quantization.pt2e import MinMaxObserver

    module = torch.fx.GraphModule(torch.nn.Module(), torch.fx.Graph())
    module.add_module("observer", MinMaxObserver())
    x = module.graph.placeholder("x")
    relu = module.graph.call_function(torch.relu, (x,))
    observed = module.graph.call_module("observer", (x,))
    joined = module.graph.call_function(torch.cat, ([x],))
    module.graph.output((relu, observed, joined))
    return raises(ConcatObserver(joined.name, module.graph), torch.ones(2))


@patch(
    "observers-of-joined",
    "bug",
    "the export ends where a tensor that is joined has another reader: it is taken for its observer",
    "quantizer.observers.concat_observer:ConcatObserver.forward",
    needed=_takes_any_reader,
)
def observers_of_joined(context: Context) -> Undo:
    from executorch.backends.qualcomm.quantizer.observers.concat_observer import ConcatObserver
    from torchao.quantization.pt2e import ObserverBase

    stock = ConcatObserver.forward

    def forward(self: Any, x_orig: Any) -> Any:
        if not self.input_observers:
            for node in self.input_nodes:
                readers = [user for user in node.users if user.op == "call_module"]
                modules = [user.graph.owning_module.get_submodule(user.target) for user in readers]
                self.input_observers += [m for m in modules if isinstance(m, ObserverBase)][:1]
        return stock(self, x_orig)

    return replaced(ConcatObserver, "forward", forward)


def _asks_of_computed_weights() -> bool:
    import torch
    from executorch.backends.qualcomm.quantizer.annotators import htp_rules
    from executorch.backends.qualcomm.quantizer.qconfig import get_ptq_per_channel_quant_config
    from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.conv2d(x, w * 2)

    (node,) = nodes(
        traced(function, torch.ones(1, 2, 3, 3), torch.ones(2, 2, 1, 1)), torch.ops.aten.conv2d.default
    )
    htp_rules.get_rules()[node.target].annotate_fn(node, get_ptq_per_channel_quant_config())
    return any(_by_channel(spec) for spec in node.meta[Q_ANNOTATION_KEY].input_qspec_map.values())


@patch(
    "annotations-of-what-is-no-weight",
    "bug",
    "whole numbers are annotated as floats are, and computed weights by channel, at which the passes end",
    "quantizer.annotators.htp_rules:get_rules",
    "quantizer.annotators.lpai_rules:get_rules",
    "quantizer.rules:_is_float_tensor",
    needed=_asks_of_computed_weights,
)
def of_what_is_no_weight(context: Context) -> Undo:
    """Drops what rules ask of whole numbers and booleans, and corrects it for weights and biases that are computed.

    Computed per-channel weights get one scale like activations; a computed bias, which would have 32 bits, no encoding.
    """
    from executorch.backends.qualcomm.quantizer.annotators import htp_rules, lpai_rules
    from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

    def floats_only(annotate: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
        def annotated(node: Any, config: Any) -> None:
            annotate(node, config)
            found = node.meta.get(Q_ANNOTATION_KEY)
            if found is None:
                return
            wanted = {n: spec for n, spec in found.input_qspec_map.items() if _of_floats(n)}
            if len(wanted) < len(found.input_qspec_map) and not _of_floats(node):
                found.output_qspec = None
            computed = {n for n, spec in wanted.items() if n.op != "get_attr" and _by_channel(spec)}
            wanted |= {n: config.input_activation for n in computed if not _derived(wanted[n])}
            found.input_qspec_map = {
                n: spec
                for n, spec in wanted.items()
                if not (n.op != "get_attr" and _of_bias(spec)) and not (computed and _derived(spec))
            }

        return annotated

    def changed(rules: dict[Any, Any]) -> Undo:
        before = dict(rules)
        rules.update(
            {op: replace(rule, annotate_fn=floats_only(rule.annotate_fn)) for op, rule in before.items()}
        )
        return lambda: rules.update(before)

    return all_of(changed(module.get_rules()) for module in (htp_rules, lpai_rules))


def _of_floats(node: Any) -> bool:
    """True if a rule may ask for an encoding: observers take no float16 activations, but float16 weights."""
    import torch
    from executorch.backends.qualcomm.quantizer.rules import _is_float_tensor

    held = node.op == "get_attr" and isinstance(node.meta.get("val"), torch.Tensor)
    return bool(_is_float_tensor(node) or (held and node.meta["val"].dtype.is_floating_point))


def _by_channel(spec: Any) -> bool:
    import torch

    return getattr(spec, "qscheme", None) in (torch.per_channel_affine, torch.per_channel_symmetric)


def _of_bias(spec: Any) -> bool:
    """True for a spec with 32 bits; 16-bit activations are also held as int32, so the dtype does not tell."""
    return getattr(spec, "quant_max", None) == 2**31 - 1


def _derived(spec: Any) -> bool:
    from torchao.quantization.pt2e.quantizer import DerivedQuantizationSpec

    return isinstance(spec, DerivedQuantizationSpec)
