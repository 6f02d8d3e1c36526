"""Layout arithmetic, against PyTorch's own permute, reshape and operators."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from opdb.plugins.executorch.builder import layout
from opdb.runtime.forms import layout_ops
from opdb.runtime.tensors import Rejection, TensorRef, Transform

pytestmark = [pytest.mark.slow, pytest.mark.executorch]

ORDERS = [(0, 2, 1), (0, 2, 3, 1), (0, 2, 3, 4, 1)]


def apply(x: torch.Tensor, steps: tuple[Transform, ...]) -> torch.Tensor:
    for s in steps:
        x = x.permute(s.values) if s.kind == "permute" else x.reshape(s.values)
    return x


@st.composite
def cases(draw: st.DrawFn) -> tuple[torch.Tensor, tuple[int, ...], tuple[Transform, ...]]:
    """A tensor, its storage order, and transforms requested by a builder."""
    order = draw(st.sampled_from(ORDERS))
    sizes = {3: [2, 3, 20], 4: [2, 3, 4, 5], 5: [2, 3, 4, 5, 1]}[len(order)]
    x = torch.arange(120.0).reshape(draw(st.permutations(sizes)))
    steps: list[Transform] = []
    shape = x.shape
    for _ in range(draw(st.integers(0, 4))):
        if draw(st.booleans()):
            steps.append(Transform("permute", tuple(draw(st.permutations(range(len(shape)))))))
        else:
            steps.append(
                Transform("reshape", tuple(draw(st.sampled_from([(120,), (6, 20), (5, 4, 6), (2, 3, 4, 5)]))))
            )
        shape = apply(x, tuple(steps)).shape
    return x, order, tuple(steps)


@given(cases())
def test_remaining_transforms_lead_from_storage_to_the_request(
    case: tuple[torch.Tensor, tuple[int, ...], tuple[Transform, ...]],
) -> None:
    x, order, steps = case
    left = layout.remaining(steps, order, x.dim())
    assert torch.equal(apply(x.permute(order), left), apply(x, steps))
    assert all(a.kind != b.kind for a, b in itertools.pairwise(left))


@given(cases())
def test_inverse_ops_of_an_output_restore_the_storage_order(
    case: tuple[torch.Tensor, tuple[int, ...], tuple[Transform, ...]],
) -> None:
    x, order, steps = case
    left = layout.remaining(steps, order, x.dim())
    stored = x.permute(order)
    ref = TensorRef(tuple(apply(x, steps).shape), "f32", base_shape=tuple(stored.shape), transforms=left)
    y = apply(x, steps)
    for op in layout_ops(ref, inverse=True):
        y = y.permute(op.params[0].value) if op.op == "Transpose" else y.reshape(op.outputs[0].shape)
    assert torch.equal(y, stored)


def test_a_convolution_needs_no_extra_transpose() -> None:
    order = (0, 2, 3, 1)
    assert layout.remaining([Transform("permute", order)], order, 4) == ()
    assert layout.remaining([], order, 4) == (Transform("permute", (0, 3, 1, 2)),)
    assert layout.remaining([], order, 1) == ()
    assert layout.stored((1, 8, 5, 6), order) == (1, 5, 6, 8)
    assert layout.stored((8,), order) == (8,)


def test_a_rank_that_does_not_match_the_order_is_rejected() -> None:
    with pytest.raises(Rejection, match="rank 3"):
        layout.stored((2, 3, 4), (0, 2, 3, 1))
    with pytest.raises(Rejection, match="dimension 4"):
        layout.renumber(4, (0, 2, 3, 1))


ALONG = {
    "aten._softmax.default": lambda x, d: torch.softmax(x, d(1)),
    "aten._log_softmax.default": lambda x, d: torch.log_softmax(x, d(-3)),
    "aten.mean.dim": lambda x, d: torch.mean(x, d([1, -1]), keepdim=True),
    "aten.sum.dim_IntList": lambda x, d: torch.sum(x, d([2]), keepdim=True),
    "aten.amax.default": lambda x, d: torch.amax(x, d([1, 3]), keepdim=True),
    "aten.cat.default": lambda x, d: torch.cat([x, x], d(1)),
    "aten.cumsum.default": lambda x, d: torch.cumsum(x, d(-1)),
    "aten.flip.default": lambda x, d: torch.flip(x, d([1, 2])),
    "aten.slice_copy.Tensor": lambda x, d: torch.ops.aten.slice_copy.Tensor(x, d(-3), 1, 3),
    "aten.topk.default": lambda x, d: torch.topk(x, 2, d(1))[0],
    "aten.split_with_sizes_copy.default": lambda x, d: torch.ops.aten.split_with_sizes_copy(x, [1, 2], d(1))[
        1
    ],
}


@pytest.mark.parametrize("target", ALONG)
def test_operators_listed_as_commuting_do_commute(target: str) -> None:
    order = (0, 2, 3, 1)
    x = torch.randn(2, 3, 4, 5)
    assert layout.commutes(target)
    expected = ALONG[target](x, lambda dims: dims).permute(order)
    got = ALONG[target](x.permute(order), lambda dims: layout.renumber(dims, order))
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize(
    "target",
    [
        "aten.bmm.default",
        "aten.linear.default",
        "aten.prelu.default",
        "aten.convolution.default",
        "my.relu.x",
    ],
)
def test_non_commuting_operators_are_not_listed(target: str) -> None:
    assert not layout.commutes(target)
