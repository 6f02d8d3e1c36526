"""Annotations for ExecuTorch's quantizer, from the ``quant`` sections of the specs.

If a node is one QNN op, the form of its builder says which argument is which slot, and the op's rules
(opdb.core.quant_rules) say how the slot gets its encoding.  A node that becomes several ops with results in between
is not annotated: the intermediates have no range, so it is computed in fp16.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from executorch.backends.qualcomm.quantizer.qconfig import QuantizationConfig
from executorch.backends.qualcomm.quantizer.rules import _is_annotated, _is_float_tensor
from torchao.quantization.pt2e import FixedQParamsObserver
from torchao.quantization.pt2e.quantizer import (
    QuantizationAnnotation,
    QuantizationSpec,
    SharedQuantizationSpec,
)
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

from opdb.core.op_config import Quant
from opdb.core.quant_rules import QuantRules, SlotRule
from opdb.generated.constants.quant import RULES
from opdb.lower.candidates import forms
from opdb.lower.ranges import unranged
from opdb.plugins.executorch.builder.preserve_ops import Key, Tensors, View
from opdb.runtime.checks import Undecidable
from opdb.runtime.forms import LoweredOp
from opdb.runtime.tensors import Rejection, TensorRef


class _AsQuantized(Tensors):
    """The tensors of a graph before quantization: floating-point ones get an encoding, as forms will see them later."""

    def ref(self, key: Key, node: torch.fx.Node | None = None) -> TensorRef:
        found = super().ref(key, node)
        return replace(found, quant=_SOME) if found.dtype in ("f32", "f16") else found


#: A placeholder: the encoding is unknown before calibration.
_SOME = Quant("SCALE_OFFSET", (1.0,), (0,))


def annotate(node: torch.fx.Node, config: QuantizationConfig) -> None:
    """Sets the annotation of ``node`` if it is one op whose operands' encodings the specs determine."""
    if _is_annotated([node]):
        return
    tensors = _AsQuantized.of_graph(node.graph)
    op = _one_op(View(tensors, node))
    if op is None:
        return
    found = _Specs(node, op, tensors, config)
    if found.inputs or found.output is not None:
        node.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation(
            input_qspec_map=found.inputs, output_qspec=found.output, _annotated=True
        )


def _one_op(view: View) -> LoweredOp | None:
    """The op that computes the node, in the first form that builds; layout ops may surround it."""
    for form in forms(view.target):
        try:
            lowered = form.build(view)
        except (Rejection, Undecidable):
            continue
        computing = [op for op in lowered.ops if not RULES[op.op].shared or len(lowered.ops) == 1]
        return None if len(computing) != 1 or unranged(lowered) else computing[0]
    return None


class _Specs:
    """Quantization specs of the operands of one node.  ``output``: the spec of its result, or None."""

    def __init__(
        self, node: torch.fx.Node, op: LoweredOp, tensors: Tensors, config: QuantizationConfig
    ) -> None:
        self.node, self.config = node, config
        self.inputs: dict[torch.fx.Node, Any] = {}
        self.output: Any = None
        self.rules: QuantRules = RULES[op.op]
        self.values = {p.name: p.value for p in op.params}
        self.first: torch.fx.Node | None = None  # the first one that shares an encoding
        slots = op.slots or ("",) * (len(op.inputs) + len(op.outputs))
        for slot, ref in zip(slots, (*op.inputs, *op.outputs), strict=False):
            source = None if ref is None else tensors.node(ref)
            if ref is not None and source is not None and _is_float_tensor(source):
                self._add(slot, ref, source)

    def _add(self, slot: str, ref: TensorRef, source: torch.fx.Node) -> None:
        if source is self.node:
            self.output = self._spec(slot, ref, self.config.output_activation)
        elif source not in self.inputs:
            spec = self._spec(slot, ref, self.config.input_activation)
            if slot in self.rules.shared and self.first is None:
                self.first = source
            if spec is not None:
                self.inputs[source] = spec

    def _spec(self, slot: str, ref: TensorRef, activation: Any) -> Any:
        if activation is None:
            return None
        if slot in self.rules.shared and self.first is not None:
            return SharedQuantizationSpec((self.first, self.node))
        rule = self.rules.rule(slot, self.values)
        if rule.range is not None:
            return _fixed(rule, activation)
        if rule.scale and ref.static:
            return self.config.bias(self.node) if callable(self.config.bias) else self.config.bias
        if rule.symmetric and ref.static:
            return self.config.weight
        return activation


def _fixed(rule: SlotRule, activation: QuantizationSpec) -> QuantizationSpec:
    """The encoding for a range that the op determines; e.g. 0 to 1."""
    assert rule.range is not None
    info = torch.iinfo(activation.dtype)
    low = info.min if activation.quant_min is None else activation.quant_min
    high = info.max if activation.quant_max is None else activation.quant_max
    steps = dict(rule.steps).get(f"{'s' if low < 0 else 'u'}q{(high - low).bit_length()}")
    scale = (rule.range[1] - rule.range[0]) / (high - low) if steps is None else 1.0 / steps
    observer = FixedQParamsObserver.with_args(
        scale=scale,
        zero_point=low - round(rule.range[0] / scale),
        dtype=activation.dtype,
        qscheme=torch.per_tensor_affine,
        quant_min=low,
        quant_max=high,
    )
    return QuantizationSpec(
        dtype=activation.dtype,
        quant_min=low,
        quant_max=high,
        qscheme=torch.per_tensor_affine,
        observer_or_fake_quant_ctr=observer,
    )
