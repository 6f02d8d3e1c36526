"""Places of ExecuTorch 1.4.1 that raise at valid graphs; ``accepted`` makes them take these and returns what undoes it.

=======================================  ==============================================================
``DecomposeCDist``                       ``call``: asserts that distances are of the second norm
``DecomposeScaledDotProductAttention``   ``call``: takes the rows of attention without heads for heads
``DecomposeDiagonal``                    ``_get_ops``: a view of what a permutation has moved
``LiftConstantScalarOperands``           ``_lift``: the ``alpha`` of ``add(x, 2, 3)`` becomes a tensor
``ConcatObserver``                       ``forward``: takes any reader of an input for its observer
``htp_rules``, ``lpai_rules``            ``_RULES``: whole numbers; scales by channel of computed weights
PyTorch's named results                  have no name to be saved by; ex) what ``torch.topk`` returns
=======================================  ==============================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from opdb.executorch.undo import Undo, all_of, replaced, sparing


def accepted() -> Undo:
    return all_of(
        (
            _other_norms(),
            _attention_without_heads(),
            _diagonals_of_permuted(),
            _alphas(),
            _observers_of_joined(),
            _annotations(),
            _named_results(),
        )
    )


def _other_norms() -> Undo:
    from executorch.backends.qualcomm._passes.decompose_cdist import DecomposeCDist

    def spared(node: Any) -> bool:
        return node.target in DecomposeCDist.cdist_targets and len(node.args) > 2 and node.args[2] != 2

    return sparing(DecomposeCDist, spared)


def _attention_without_heads() -> Undo:
    import torch
    from executorch.backends.transforms.decompose_sdpa import DecomposeScaledDotProductAttention

    attention = torch.ops.aten.scaled_dot_product_attention.default

    def spared(node: Any) -> bool:
        return node.target is attention and node.meta["val"].dim() != 4

    return sparing(DecomposeScaledDotProductAttention, spared)


def _diagonals_of_permuted() -> Undo:
    import torch
    from executorch.backends.qualcomm._passes.decompose_diagonal import DecomposeDiagonal

    stock = DecomposeDiagonal._get_ops

    def operators(self: Any, is_edge: bool) -> Any:
        found = stock(self, is_edge)
        return found if is_edge else {**found, "view": torch.ops.aten.reshape.default}

    return replaced(DecomposeDiagonal, "_get_ops", operators)


def _alphas() -> Undo:
    """Numbers are multiplied by theirs; ``rsub``, which multiplies the tensor, gets it by its name."""
    import torch
    from executorch.backends.qualcomm._passes.lift_constant_scalar_operands import LiftConstantScalarOperands

    aten = torch.ops.aten
    stock = LiftConstantScalarOperands._lift

    def lift(self: Any, module: Any) -> None:
        for node in module.graph.nodes:
            if node.target not in (aten.add.Scalar, aten.sub.Scalar, aten.rsub.Scalar) or len(node.args) < 3:
                continue
            tensor, number, alpha = node.args
            if node.target is aten.rsub.Scalar:
                node.args, node.kwargs = (tensor, number), {"alpha": alpha}
            else:
                node.args = (tensor, number * alpha)
        stock(self, module)

    return replaced(LiftConstantScalarOperands, "_lift", lift)


def _observers_of_joined() -> Undo:
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


def _annotations() -> Undo:
    """What a rule asks of whole numbers and booleans is dropped, and what it asks of weights and biases that are computed.

    Weights by channel get one scale as activations do; a bias, which would have 32 bits, has no encoding.
    """
    from executorch.backends.qualcomm.quantizer.annotators import htp_rules, lpai_rules
    from executorch.backends.qualcomm.quantizer.rules import _is_float_tensor
    from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

    def mended(annotate: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
        def annotated(node: Any, config: Any) -> None:
            annotate(node, config)
            found = node.meta.get(Q_ANNOTATION_KEY)
            if found is None:
                return
            wanted = {n: spec for n, spec in found.input_qspec_map.items() if _is_float_tensor(n)}
            if len(wanted) < len(found.input_qspec_map) and not _is_float_tensor(node):
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
        rules.update({op: replace(rule, annotate_fn=mended(rule.annotate_fn)) for op, rule in before.items()})
        return lambda: rules.update(before)

    return all_of(changed(module.get_rules()) for module in (htp_rules, lpai_rules))


def _by_channel(spec: Any) -> bool:
    import torch

    return getattr(spec, "qscheme", None) in (torch.per_channel_affine, torch.per_channel_symmetric)


def _of_bias(spec: Any) -> bool:
    """Activations of 16 bits are held as int32, too."""
    return getattr(spec, "quant_max", None) == 2**31 - 1


def _derived(spec: Any) -> bool:
    from torchao.quantization.pt2e.quantizer import DerivedQuantizationSpec

    return isinstance(spec, DerivedQuantizationSpec)


def _named_results() -> Undo:
    """A ``.pte`` keeps the shape of what the module returned as text, in which each type has a name."""
    import torch
    from torch.utils import _pytree as pytree

    types, names = pytree.SUPPORTED_SERIALIZED_TYPES, pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE
    unnamed = [
        t
        for t in torch.return_types.all_return_types
        if t in types and types[t].serialized_type_name == pytree.NO_SERIALIZED_TYPE_NAME_FOUND
    ]
    before = {t: types[t] for t in unnamed}
    named = {f"torch.return_types.{t.__name__}": t for t in unnamed}
    types.update({t: before[t]._replace(serialized_type_name=name) for name, t in named.items()})
    names.update(named)

    def undo() -> None:
        types.update(before)
        for name in named:
            del names[name]

    return undo
