"""A quantized node that no form accepts becomes floating-point ops between two conversions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from opdb.catalog.targets.target import Target
from opdb.core.op_config import Quant
from opdb.lower.select import lower
from opdb.runtime.forms import Lowered, Rejected
from opdb.runtime.tensors import TensorRef

HTP, V68 = (Target("HTP", soc, execution="emulator") for soc in ("SM8650", "SM8350"))
QUANT = Quant("SCALE_OFFSET", (0.02,), (-128,))
X = TensorRef((2, 3, 4), "uq8", key=("x", 0), quant=QUANT, base_shape=(2, 3, 4))
FLOATS = replace(X, dtype="f32", quant=None)


class View:
    """A call of an operator whose result has the shape of ``like``."""

    def __init__(self, target: str, arguments: Mapping[str, Any], *results: TensorRef) -> None:
        self.target, self.name = target, "node"
        self._arguments = arguments
        self._results = [replace(r, key=("node", i)) for i, r in enumerate(results)]

    def arg(self, name: str) -> Any:
        return self._arguments[name]

    def result(self, index: int) -> TensorRef:
        return self._results[index]

    def results(self) -> Sequence[TensorRef]:
        return self._results

    def result_used(self, index: int) -> bool:
        return index < len(self._results)


def elu(x: TensorRef, result: TensorRef) -> View:
    return View("aten.elu.default", {"self": x, "alpha": 1.0, "scale": 0.7, "input_scale": 0.5}, result)


@pytest.mark.parametrize(
    ("x", "result", "first", "last"),
    [(X, X, True, True), (X, FLOATS, True, False), (FLOATS, X, False, True), (FLOATS, FLOATS, False, False)],
)
def test_only_quantized_ends_are_converted(x: TensorRef, result: TensorRef, first: bool, last: bool) -> None:
    lowered = lower(elu(x, result), HTP)
    assert isinstance(lowered, Lowered)
    kinds = [op.op for op in lowered.ops]
    assert kinds.count("Dequantize") == (kinds[0] == "Dequantize") == first
    assert kinds.count("Quantize") == (kinds[-1] == "Quantize") == last
    assert lowered.form == ("elu_scaled in floats" if first or last else "elu_scaled")
    assert lowered.ops[0].inputs[0] is not None and lowered.ops[0].inputs[0].key == x.key
    assert lowered.ops[-1].outputs[0].key == ("node", 0)
    between = [t for op in lowered.ops[first : len(kinds) - last] for t in op.outputs]
    assert {t.dtype for t in between} == {"f32"}


def test_v68_rejects_nodes_in_floats() -> None:
    assert isinstance(lower(elu(X, X), V68), Rejected)


@pytest.mark.parametrize(("lead", "taken"), [((4,), True), ((2, 4), True), ((2, 2, 4), False)])
def test_v68_rejects_a_quantize_before_a_5d_reshape(lead: tuple[int, ...], taken: bool) -> None:
    def tensor(*shape: int, dtype: str = "uq16") -> TensorRef:
        return TensorRef(
            shape, dtype, key=("x", len(shape)), quant=Quant("SCALE_OFFSET", (1e-4,), (0,)), base_shape=shape
        )

    given = {"self": tensor(*lead, 6, 5), "other": tensor(4, 5, 3, dtype="sq16")}
    lowered = lower(View("aten.matmul.default", given, tensor(*lead, 6, 3)), V68)
    if taken:
        assert isinstance(lowered, Lowered) and lowered.form == "MatMul in floats"
    else:
        assert isinstance(lowered, Rejected) and any(r.rule == "HTP-0397" for r in lowered.reasons)


def test_a_quantized_op_is_preferred() -> None:
    lowered = lower(View("aten.relu.default", {"self": X}, X), HTP)
    assert isinstance(lowered, Lowered) and [op.op for op in lowered.ops] == ["Relu"]


def test_a_result_is_quantized_before_its_layout_change() -> None:
    """BatchNorm of images is computed with channels last; the op that restores the layout follows the Quantize."""
    image = replace(X, shape=(1, 3, 4, 5), base_shape=(1, 3, 4, 5))
    numbers = TensorRef((3,), "f32", static=True, key=("weight", 0), base_shape=(3,))
    arguments = {"input": image, "weight": numbers, "bias": numbers, "running_mean": numbers,
                 "running_var": replace(numbers, key=("variance", 0)), "momentum": 0.1, "eps": 1e-5}  # fmt: skip
    lowered = lower(View("aten._native_batch_norm_legit_no_training.default", arguments, image), HTP)
    assert isinstance(lowered, Lowered) and lowered.ops[-1].op == "Quantize"
    (result,) = lowered.ops[-1].outputs
    assert result.key == ("node", 0) and result.quant == QUANT


def test_encodings_unsupported_by_dequantize_are_refused() -> None:
    along = replace(X, quant=Quant("AXIS_SCALE_OFFSET", (0.1, 0.2), (0, 0), 0))
    refused = lower(elu(along, X), HTP)
    assert isinstance(refused, Rejected)
    assert any("a tensor with the encoding AXIS_SCALE_OFFSET" in r.message for r in refused.reasons)


def test_constants_are_dequantized_ahead_of_time() -> None:
    weight = TensorRef((4,), "sq8", static=True, key=("w", 0), base_shape=(4,),
                       quant=Quant("AXIS_SCALE_OFFSET", (0.1, 0.2, 0.3, 0.4), (0, 0, 0, 0), 0))  # fmt: skip
    lowered = lower(View("aten.hypot.default", {"self": X, "other": weight}, X), HTP)
    assert isinstance(lowered, Lowered)
    read = [t for op in lowered.ops for t in op.inputs if t is not None and t.key == ("w", 0)]
    assert read and all(t.dtype == "f32" and t.quant is None for t in read)
    assert {t.transforms[0].kind for t in read} == {"dequantize"}


def test_a_single_pad_is_not_computed_in_floats() -> None:
    """HTP fuses it with the conversions and leaves elements after the last dimension undefined (HTP-0396): it uses the steps of x."""
    wide = replace(X, shape=(2, 3, 6), base_shape=(2, 3, 6), quant=replace(QUANT, scale=(0.03,)))
    arguments = {"self": X, "pad": [0, 2], "mode": "constant", "value": 1.0}
    taken = lower(View("aten.pad.default", arguments, wide), HTP)
    assert isinstance(taken, Lowered) and taken.form == "Pad in steps of x"
    assert [op.op for op in taken.ops] == ["Pad", "Convert"]


def test_a_layout_change_precedes_quantize_if_integers_lack_it() -> None:
    """QNN's CPU has Dequantize and Quantize of sq8, but no Transpose of it."""
    image = replace(
        X, dtype="sq8", shape=(1, 3, 4, 5), base_shape=(1, 3, 4, 5), quant=replace(QUANT, offset=(0,))
    )
    arguments = {"self": image, "kernel_size": [2, 2], "stride": [1, 1], "padding": [0, 0], "ceil_mode": False,
                 "count_include_pad": True, "divisor_override": None}  # fmt: skip
    smaller = replace(image, shape=(1, 3, 3, 4), base_shape=(1, 3, 3, 4))
    lowered = lower(View("aten.avg_pool2d.default", arguments, smaller), Target("CPU", execution="emulator"))
    assert isinstance(lowered, Lowered), lowered
    assert [op.op for op in lowered.ops] == ["Dequantize", "PoolAvg2d", "Quantize"]
    (pooled,), (result,) = (op.outputs for op in lowered.ops[1:])
    assert pooled.dtype == "f32" and pooled.transforms and not result.transforms
