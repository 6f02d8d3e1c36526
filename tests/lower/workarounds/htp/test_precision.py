"""Floats on SM8350 that stay in single precision before half-precision ops: HTP finalizes no graph of their plain form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from htp_module import V68, Call, Htp
from torch import Tensor
from torch.nn import functional as f

from opdb.catalog.targets.target import Target
from opdb.checks.coverage import Coverage
from opdb.checks.verdicts import check_nodes
from opdb.execute.dispatch.plan import partition
from opdb.lower.workarounds.htp.precision import in_half_precision
from opdb.programs.torch.export import export
from opdb.programs.torch.program import Program
from opdb.runtime.forms import LoweredOp, lowered_op
from opdb.runtime.tensors import TensorRef, full

W = torch.linspace(-1, 1, 8 * 8 * 9).reshape(8, 8, 3, 3)
#: name -> function, shapes of its inputs
CHAINS: dict[str, tuple[Callable[..., Tensor], tuple[tuple[int, ...], ...]]] = {
    "a quotient and erf": (lambda x: (x / 1.5).erf(), ((1, 16, 64),)),
    "a maximum and a product": (lambda x, y: torch.maximum(x, y) * 1.5, ((4, 16), (4, 16))),
    "with others between": (lambda x: (torch.maximum(x, x * 0 + 0.5).relu() + 0.5).abs() * x, ((2, 7, 24),)),
    "beside a product": (lambda x: torch.exp(x) + x * 1.5, ((1, 16, 64),)),
    "a root of several images": (lambda x: x.abs().sqrt() * 3.0, ((2, 3, 9, 5),)),
    "a quotient of one column": (lambda x: x / (x.abs() + 1) * 2.0, ((14, 1),)),
    "an image in tiles": (lambda x, y: (x - y) * y, ((1, 16, 16, 16), (1, 16, 16, 16))),
    "behind a convolution": (lambda x: f.conv2d(x, W, padding=1).exp() * x, ((1, 8, 12, 16),)),
    "sums and a matrix product": (lambda x, y: x.sum(1, keepdim=True) @ y, ((2, 7, 24), (2, 24, 5))),
}


def checked(function: Callable[..., Tensor], *shapes: tuple[int, ...], target: Target = V68) -> Coverage:
    return check_nodes(Program(export(Call(function), tuple(torch.rand(s) for s in shapes))), target)


@pytest.mark.vendor
@pytest.mark.parametrize("name", CHAINS)
def test_a_mixed_precision_chain_finalizes_and_is_right(name: str, v68: Htp) -> None:
    call, shapes = CHAINS[name]
    torch.manual_seed(0)
    assert v68.run(call, tuple(torch.rand(s) - 0.4 for s in shapes)).error <= 1e-2


def test_check_names_the_avoided_erratum_and_its_cost() -> None:
    coverage = checked(*CHAINS["a maximum and a product"][:1], (4, 16), (4, 16))
    first, second = coverage.rows
    assert (first.avoided, second.avoided) == (("HTP-0361",), ())
    assert first.ops[:2] == ("ElementWiseMultiply", "ElementWiseMultiply") and first.ops[-1] == "Prelu"
    extra = first.extra["HTP-0361"]
    assert extra is not None and extra.ops == 3


def test_an_erratum_that_is_not_avoided_is_warned_of() -> None:
    told = Target("HTP", "SM8350", errata="warn")
    first, _ = checked(*CHAINS["a maximum and a product"][:1], (4, 16), (4, 16), target=told).rows
    assert (first.avoided, first.warned, len(first.ops)) == ((), ("HTP-0361",), 1)
    assert [w["rule"] for w in first.warnings] == ["HTP-0361"]


def test_other_chips_and_pure_single_precision_are_unchanged() -> None:
    call, shapes = CHAINS["a maximum and a product"]
    later = checked(call, *shapes, target=Target("HTP", "SM8650", execution="emulator"))
    single = checked(lambda x: torch.exp(x.relu()) - 0.5, (4, 16))
    assert [len(r.ops) for r in (*later.rows, *single.rows)] == [1, 1, 1, 1, 1]


def test_the_dispatcher_applies_the_workaround_too() -> None:
    call, shapes = CHAINS["a maximum and a product"]
    plan = partition(export(Call(call), tuple(torch.rand(s) for s in shapes)), V68)
    (segment,) = plan.segments
    assert segment.part is not None
    assert "Prelu" in [op.op for op in segment.part.graph.ops]


def op(name: str, *inputs: Any, key: str, shape: tuple[int, ...] = (2, 3)) -> LoweredOp:
    slots = {str(i): t for i, t in enumerate(inputs)}
    return lowered_op(name, inputs=slots, outputs={"y": tensor(key, shape)})


def tensor(key: str, shape: tuple[int, ...] = (2, 3)) -> TensorRef:
    return TensorRef(shape, "f32", key=(key, 0), base_shape=shape)


def changed(*ops: LoweredOp) -> dict[str, list[str]]:
    found = in_half_precision({f"n{i}": [each] for i, each in enumerate(ops)})
    return {node: [each.op for each in new] for node, new in found.items()}


def test_only_ops_with_unsupported_precision_change() -> None:
    x, number = tensor("x"), full([1], 2.0, "f32")
    kept = op("ElementWiseExp", x, key="kept")
    assert changed(kept, op("Relu", tensor("kept"), key="y")) == {}
    behind = op("ElementWiseMultiply", tensor("kept"), number, key="y")
    assert changed(kept, behind) == {"n0": ["ElementWiseMultiply", "ElementWiseExp", "Prelu"]}
    mean = op("ReduceMean", tensor("kept"), key="mean", shape=(2, 1))
    assert changed(kept, mean, op("ElementWiseFloor", tensor("mean", (2, 1)), key="y")) == {}


def test_a_half_precision_input_is_not_multiplied_again() -> None:
    half = op("ElementWiseFloor", tensor("x"), key="half")
    both = op("ElementWiseSubtract", tensor("half"), tensor("x"), key="kept")
    behind = op("MatMul", tensor("kept"), tensor("w"), key="y")
    assert changed(half, both, behind) == {"n1": ["ElementWiseMultiply", "ElementWiseSubtract", "Prelu"]}
