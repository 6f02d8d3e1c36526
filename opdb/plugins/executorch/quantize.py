"""Adds the quantize and dequantize nodes of ExecuTorch's quantizer to a program, following a recipe of opdb.lower.quantize."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp
from opdb.lower.quantize import Recipe, Source, named
from opdb.lower.quantize.recipe import Activations, Rule, Weights
from opdb.plugins.executorch import env
from opdb.plugins.executorch.env import chipset

#: The bits of activations and of weights of the quantizer's types, e.g. `use_16a8w`.
BITS = ((8, 8), (16, 8), (16, 4), (8, 4), (16, 16))


def quantize(
    module: Any,
    example_inputs: Sequence[Any],
    soc: str,
    recipe: Recipe | str,
    samples: Sequence[Sequence[Any]] | None = None,
) -> Any:
    """``module`` with the quantize and dequantize nodes of ExecuTorch's quantizer.

    ``samples``: the inputs (tensors) for calibration; None: only ``example_inputs``.
    ``recipe``: its name, or a recipe.  If it has blocks, a weight gets them if ``opdb.plugins.executorch.builder.blocks`` has a size
    for it.  Raises OpdbError for a recipe that ExecuTorch's quantizer does not support.
    """
    recipe = named(recipe) if isinstance(recipe, str) else recipe
    check(recipe)
    env.require_active()
    import torch
    from executorch.backends.qualcomm.quantizer.quantizer import QnnQuantizer
    from executorch.backends.qualcomm.serialization.qc_schema import QnnExecuTorchBackendType
    from torchao.quantization.pt2e.constant_fold import constant_fold
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    from opdb.plugins.executorch.builder import blocks
    from opdb.plugins.executorch.edge import exporting

    quantizer = QnnQuantizer(backend=QnnExecuTorchBackendType.kHtpBackend, soc_model=chipset(soc))
    assert recipe.activations is not None and recipe.weights is not None
    quantizer.set_default_quant_config(**_config(recipe.activations, recipe.weights))
    inputs = tuple(example_inputs)
    with exporting():
        exported = torch.export.export(module, inputs, strict=True).module()
        # Folding makes a part of a parameter (e.g. of attention's joined weights) a parameter: ExecuTorch's passes fail at
        # one that is computed and then quantized per channel.
        constant_fold(exported)
        _obey(quantizer, recipe, exported)
        begun = {name: buffer.clone() for name, buffer in exported.named_buffers()}
        prepared = prepare_pt2e(exported, quantizer)
        for sample in samples or (inputs,):
            prepared(*sample)
        # Undo calibration's changes of buffers, which belong to the user's module.
        for name, buffer in prepared.named_buffers():
            if name in begun:
                buffer.copy_(begun[name])
        quantized = convert_pt2e(prepared)
        blocks.round_scales(quantized)
        return quantized


def check(recipe: Recipe) -> None:
    """Raises OpdbError for a recipe that ExecuTorch's quantizer does not support."""
    if recipe.activations is None or recipe.weights is None:
        raise OpdbError(f"the recipe {recipe.name} quantizes nothing; leave it out")
    for where, activations, weights in _parts(recipe):
        bits = (activations.bits, weights.bits)
        if bits not in BITS:
            known = ", ".join(f"{a} and {w}" for a, w in BITS)
            raise OpdbError(
                f"{where}: ExecuTorch has no activations of {bits[0]} bits with weights of {bits[1]}; it has {known}"
            )
        if weights.rounding != "nearest":
            raise OpdbError(
                f"{where}: rounding: {weights.rounding} is for a context file; give rounding: nearest for a .pte"
            )
        if not weights.symmetric:
            raise OpdbError(f"{where}: ExecuTorch's weights are symmetric; give symmetric: true")
        if activations.observer not in OBSERVERS:
            raise OpdbError(
                f"{where}: PyTorch has no observer '{activations.observer}'; a .pte takes {', '.join(OBSERVERS)}"
            )
    if rule := next((r for r in recipe.rules if r.pattern is not None), None):
        raise OpdbError(
            f"the recipe {recipe.name}: pattern: {rule.pattern} is for a context file; ExecuTorch quantizes before there are candidates"
        )


def _parts(recipe: Recipe) -> list[tuple[str, Activations, Weights]]:
    """The settings of the recipe and of each rule that quantizes, with their places."""
    assert recipe.activations is not None and recipe.weights is not None
    found = [(f"the recipe {recipe.name}", recipe.activations, recipe.weights)]
    for place, rule in enumerate(recipe.rules, 1):
        if not rule.float:
            found.append((f"rule {place} of the recipe {recipe.name}", *recipe.of(rule)))
    return found


#: PyTorch's observers by opdb's names; min-max: ExecuTorch's default, which averages the samples' ranges.
OBSERVERS = {"min-max": None, "mse": "HistogramObserver"}


def _config(activations: Activations, weights: Weights) -> dict[str, Any]:
    """The arguments of ExecuTorch's ModuleQConfig."""
    from executorch.backends.qualcomm.quantizer.quantizer import QuantDtype
    from torchao.quantization.pt2e import observer

    kind = f"use_{activations.bits}a{weights.bits}w" + ("_block" if weights.block else "")
    name = OBSERVERS[activations.observer]
    given: dict[str, Any] = {} if name is None else {"act_observer": getattr(observer, name)}
    return given | {
        "quant_dtype": getattr(QuantDtype, kind),
        "is_conv_per_channel": weights.per_channel,
        "is_linear_per_channel": weights.per_channel,
        "act_symmetric": activations.symmetric,
    }


def _obey(quantizer: Any, recipe: Recipe, exported: Any) -> None:
    """Passes the recipe's rules and blocks to the quantizer; it will annotate ``exported``."""
    from executorch.backends.qualcomm.quantizer.quantizer import ModuleQConfig

    from opdb.plugins.executorch.builder import blocks

    assert recipe.weights is not None
    rules = list(reversed(recipe.rules))  # ExecuTorch takes the first rule that fits
    configs: list[tuple[Callable[[Any], bool], Any]] = []
    floats, sizes = set(), {}
    every_size: Mapping[str, tuple[int, ...]] = blocks.sizes(exported)
    for node in exported.graph.nodes:
        rule = next((r for r in rules if _fits(r, node)), None)
        weights = recipe.weights if rule is None or rule.float else recipe.of(rule)[1]
        if rule is not None and rule.float:
            floats.add(node.name)
        elif weights.block and node.name in every_size:
            first, largest, *rest = every_size[node.name]
            sizes[node.name] = (first, min(largest, weights.block), *rest)  # both are powers of 2
    for rule in rules:
        if not rule.float:
            configs.append((partial(_fits, rule), ModuleQConfig(**_config(*recipe.of(rule)))))
    if configs:
        quantizer.set_submodule_qconfig_list(configs)
    if floats:
        quantizer.add_discard_nodes(sorted(floats))
    if sizes:
        quantizer.set_block_size_map(sizes)


def _fits(rule: Rule, node: Any) -> bool:
    from opdb.checks.verdicts import module_of

    target = str(node.target)
    source = Source((node.name,), module_of(node), (target, *target.split(".")[1:2]))
    return node.op == "call_function" and source.fits(rule, GraphOp(node.name, "", (), (), ()))
