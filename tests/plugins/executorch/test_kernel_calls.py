"""Calls and expected values in the generated tests of a kernel library."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from opdb.core.op_config import OpConfig
from opdb.plugins.executorch.codegen.glue import NoForm
from opdb.plugins.executorch.codegen.gtests import HeldTensor, KernelCall, KernelTests
from opdb.plugins.executorch.portable_kernels.kernel_calls import tests_of as made_for
from opdb.plugins.executorch.portable_kernels.out_variants import Kernels
from opdb.programs.torch_ops.call import TORCH
from opdb.runtime import native
from opdb.spec.catalog import Catalog

pytestmark = [pytest.mark.executorch, pytest.mark.slow]


@pytest.fixture(scope="module")
def known(catalog: Catalog) -> Kernels:
    return Kernels(catalog)


def made(known: Kernels, word: str, *held: str) -> KernelTests:
    variant = known.variant(word)
    forms = known.forms(variant)
    return made_for(known, variant, forms, {f.op: frozenset(held) for f in forms})


def taken(tests: KernelTests, dtype: str) -> list[KernelCall]:
    return [c for c in tests.calls if c.taken and c.dtype == dtype]


def tensor(held: HeldTensor) -> torch.Tensor:
    return torch.tensor(held.values, dtype=TORCH[held.dtype]).reshape(held.shape)


def test_expected_floats_come_from_pytorch_in_double_precision(known: Kernels) -> None:
    for dtype in ("f32", "f16", "bf16"):
        for call in taken(made(known, "aten::gelu.out"), dtype):
            x = tensor(call.arguments["self"])
            assert torch.equal(tensor(call.outs[0]), torch.nn.functional.gelu(x.double()).to(x.dtype))


def test_bounds_come_from_the_specs(known: Kernels) -> None:
    (single,) = {c.bounds for c in taken(made(known, "aten::gelu.out"), "f32")}
    assert single == ((16 * 2.0**-23, 1e-6),)
    assert {c.bounds for c in taken(made(known, "aten::add.out"), "i32")} == {((0.0, 0.0),)}
    (moved,) = {c.bounds for c in taken(made(known, "aten::permute_copy.out"), "f32")}
    assert moved == ((0.0, 0.0),)


def test_inputs_are_in_the_domain_of_the_op(known: Kernels) -> None:
    for word in ("aten::log.out", "aten::sqrt.out", "aten::asin.out", "aten::div.Scalar_out"):
        for call in taken(made(known, word), "f32"):
            assert all(map(math.isfinite, call.outs[0].values)), word


def test_conditions_and_rules_decide_the_supported_types(known: Kernels) -> None:
    assert made(known, "aten::gelu.out").features == {"f16": True, "f32": True, "f64": False, "bf16": True}
    # Requirements only of QNN's libraries do not apply here.
    assert made(known, "aten::exp.out").features["f32"]
    assert made(known, "aten::bitwise_and.Tensor_out").features["bool8"]
    assert not made(known, "aten::bitwise_and.Tensor_out").features[
        "i32"
    ]  # QNN has no bitwise ops on numbers
    index = {c.arguments["index"].dtype for c in made(known, "aten::gather.out").calls if c.taken}
    assert index == {"i32"}  # the mapping has no 64-bit indices


def test_qnn_ops_are_called_like_the_oracle(known: Kernels) -> None:
    call = taken(made(known, "LayerNorm"), "f32")[0]
    x, gamma, axes = (call.arguments[n] for n in ("x", "gamma", "axes"))
    beta = call.arguments["beta"]
    want = torch.nn.functional.layer_norm(
        tensor(x), [x.shape[a] for a in axes], None if gamma is None else tensor(gamma),
        None if beta is None else tensor(beta), call.arguments["epsilon"],
    )  # fmt: skip
    assert torch.allclose(tensor(call.outs[0]), want, atol=1e-5)


def test_ops_with_a_variadic_slot_are_called(known: Kernels) -> None:
    calls = [c for c in taken(made(known, "Concat"), "u8") if c.arguments["axis"] is not None]
    for call in calls:
        xs = [tensor(x) for x in call.arguments["xs"]]
        assert torch.equal(tensor(call.outs[0]), torch.cat(xs, call.arguments["axis"]))
    assert calls


def test_excluded_types_are_listed(known: Kernels) -> None:
    assert made(known, "aten::gelu.out", "f32").left_out == ["f16", "bf16"]
    assert made(known, "aten::gelu.out").left_out == []


@pytest.fixture(scope="module")
def every(known: Kernels) -> tuple[dict[str, KernelTests], set[str]]:
    """All possible out variants of kernels, and the ops whose C kernel reported a missing type."""
    asked: set[str] = set()
    plain = native.run

    def run(config: OpConfig, arrays: Sequence[Any]) -> Any:
        try:
            return plain(config, arrays)
        except native.KernelError as error:
            if error.status == "unsupported":
                asked.add(config.op)
            raise

    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "run", run)
        for variant in known.every():
            with contextlib.suppress(NoForm):
                known.forms(variant)
                found[variant.name] = made(known, variant.name)
    return found, asked


def test_every_kernel_has_calls(every: tuple[dict[str, KernelTests], set[str]]) -> None:
    found, _ = every
    assert len(found) > 200 and all(t.calls for t in found.values())
    assert all(any(t.features.values()) for t in found.values())


def test_kernels_are_queried_only_if_types_depend_on_a_parameter(
    every: tuple[dict[str, KernelTests], set[str]],
) -> None:
    """Otherwise a kernel that wrongly refuses a type would pass for one without that type."""
    assert every[1] == {
        "ElementWiseBinary",
        "ElementWiseNeuron",
        "ElementWiseUnary",
        "ScatterElements",
        "ScatterNd",
    }
