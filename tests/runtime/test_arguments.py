"""Lists made of PyTorch's arguments, compared with PyTorch."""

from __future__ import annotations

import itertools

import pytest

from opdb.runtime.arguments import (
    batched,
    pads_of,
    pool_over,
    pool_stride,
    same_padding,
    slice_ranges,
    swapped,
)
from opdb.runtime.checks import Undecidable
from opdb.runtime.tensors import Rejection, TensorRef

torch = pytest.importorskip("torch")
functional = torch.nn.functional
pytestmark = pytest.mark.torch


def test_batched() -> None:
    image = TensorRef((3, 5, 7), "f32", base_shape=(3, 5, 7))
    assert batched(image, 4).shape == (1, 3, 5, 7)
    assert batched(image, 3) is image
    for rank in (2, 5):
        with pytest.raises(Rejection, match=f"a tensor of rank 3 is no batch of {rank} dimensions"):
            batched(image, rank)


def test_the_stride_of_a_pooling() -> None:
    assert pool_stride([], [2, 3], 2) == [2, 3]
    assert pool_stride([], [2], 2) == [2, 2]
    assert pool_stride([1], [2, 3], 2) == [1, 1]
    with pytest.raises(Undecidable):
        pool_stride([1, 2, 3], [2], 2)


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding"), [*itertools.product((5, 8), (2, 3), ([], [1], [2], [3]), (0, 1))]
)
def test_how_far_windows_reach(size: int, kernel: int, stride: list[int], padding: int) -> None:
    x = torch.zeros(1, 1, size, size)
    for ceil in (False, True):
        out = functional.max_pool2d(x, kernel, stride or None, padding, ceil_mode=ceil).shape[2:]
        over = pool_over(x.shape[2:], [kernel], stride, [padding], out)
        step = stride[0] if stride else kernel
        last = [(o - 1) * step - padding + kernel - 1 for o in out]  # the last place of the last window
        assert over == [place - (size - 1) for place in last]
        assert ceil or all(o <= padding for o in over)


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize(("kernel", "dilation"), [*itertools.product(((1, 2), (3, 4)), ([1], [2, 3]))])
def test_the_padding_that_a_word_means(kernel: tuple[int, int], dilation: list[int]) -> None:
    x, weight = torch.randn(1, 1, 9, 9), torch.randn(1, 1, *kernel)
    (top, bottom), (left, right) = same_padding("same", kernel, dilation)
    wide = functional.pad(x, (left, right, top, bottom))
    found = functional.conv2d(wide, weight, dilation=dilation)
    assert torch.equal(found, functional.conv2d(x, weight, padding="same", dilation=dilation))
    assert same_padding("valid", kernel, dilation) == [[0, 0], [0, 0]]


@pytest.mark.parametrize("pad", [[], [1, 2], [1, 2, 3, 4], [1, 0, 0, 2, 3, 0]])
def test_pads(pad: list[int]) -> None:
    x = torch.zeros(2, 3, 4)
    amounts = pads_of(pad, 3)
    assert [d + sum(a) for d, a in zip(x.shape, amounts, strict=True)] == list(functional.pad(x, pad).shape)
    assert pads_of([1, 2, 3, 4], 1) == [[1, 2]]
    assert pads_of([1, 2], 0) == []


def test_ranges_of_a_slice() -> None:
    assert slice_ranges([4, 5, 6], -1, 2, 6, 3) == [[0, 4, 1], [0, 5, 1], [2, 6, 3]]
    assert slice_ranges([4, 5], 0, 1, 2) == [[1, 2, 1], [0, 5, 1]]
    assert slice_ranges([], 0, 0, 1) == []


def test_swapped() -> None:
    for a, b in itertools.product(range(-3, 3), repeat=2):
        x = torch.zeros(2, 3, 4)
        assert x.permute(swapped(3, a, b)).shape == x.transpose(a, b).shape
    assert swapped(0, -1, 0) == []
