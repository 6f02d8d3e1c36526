"""The constants of windows and resizes against PyTorch, for many sizes."""

from __future__ import annotations

import math

import pytest

from opdb.runtime.tensors import Rejection, TensorRef
from opdb.runtime.windows import (
    adaptive_means,
    adaptive_places,
    adaptive_window,
    causal_mask,
    cubic_weights,
    fold_places,
    fold_sums,
    is_whole,
    linear_weights,
    nearest_places,
    padded_places,
    power,
    root,
    slice_places,
    window_factors,
    window_means,
    window_places,
    window_sums,
)

torch = pytest.importorskip("torch")
functional = torch.nn.functional
pytestmark = pytest.mark.torch
SIZES = [(s, o) for s in (1, 2, 3, 7, 10, 16) for o in (1, 2, 3, 5, 8, 16, 23)]
FACTORS = [(s, f) for s in (2, 3, 7, 10, 16) for f in (0.5, 2.0, 1.5, 1.7, 0.61, 3.0)]
WINDOWS = [
    (size, kernel, step, pad)
    for size in (5, 8, 11)
    for kernel in (1, 2, 3, 4)
    for step in (1, 2, 3)
    for pad in sorted({0, kernel // 2})
]


def matrix(made: TensorRef) -> object:
    assert made.data is not None and made.static and made.dtype == "f32"
    return torch.tensor(made.data).reshape(made.shape)


def places(made: TensorRef) -> list[int]:
    assert made.data is not None and made.dtype == "i32"
    return [int(p) for p in made.data]


@pytest.mark.parametrize(("size", "kernel", "step", "pad"), WINDOWS)
@pytest.mark.parametrize("ceil", [False, True])
def test_windows_match_pytorch(size: int, kernel: int, step: int, pad: int, ceil: bool) -> None:
    eye, line = torch.eye(size).reshape(size, 1, size), torch.randn(1, 1, size)
    for counted in (False, True):
        truth = functional.avg_pool1d(eye, kernel, step, pad, ceil, counted)[:, 0]
        made = window_means(size, kernel, step, pad, truth.shape[-1], counted, "f32")
        torch.testing.assert_close(matrix(made), truth)
        factors = window_factors([size], [kernel], [step], [pad], [truth.shape[-1]], counted, "f32")
        torch.testing.assert_close(matrix(factors) * (truth > 0) / kernel, truth.float())
    sums = matrix(window_sums(size, kernel, step, pad, truth.shape[-1], "f32"))
    assert torch.equal(sums, (truth > 0).float())
    largest = functional.max_pool1d(line, kernel, step, pad, 1, ceil).flatten()
    picked = places(window_places(size, kernel, step, pad, 1, len(largest)))
    assert torch.equal(line.flatten()[picked].reshape(-1, kernel).amax(1), largest)


@pytest.mark.parametrize("kernels", [(1, 1), (3, 3), (2, 4)])
@pytest.mark.parametrize("strides", [(1, 1), (2, 1), (3, 2)])
@pytest.mark.parametrize("dilations", [(1, 1), (1, 2)])
@pytest.mark.parametrize("pads", [(0, 0), (1, 2)])
def test_folds_match_pytorch(
    kernels: tuple[int, int], strides: tuple[int, int], dilations: tuple[int, int], pads: tuple[int, int]
) -> None:
    sizes = (7, 10)
    axes = list(zip(sizes, kernels, strides, pads, dilations, strict=True))
    outs = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in axes]
    x = torch.randint(-9, 9, (*kernels, *outs)).float()
    truth = functional.fold(
        x.reshape(1, math.prod(kernels), -1), sizes, kernels, dilations, pads, strides
    ).reshape(sizes)
    picked = places(fold_places(sizes, kernels, strides, pads, dilations, outs))
    more = torch.cat([torch.zeros(1), x.flatten()])
    assert torch.equal(more[picked].reshape(math.prod(kernels), *sizes).sum(0), truth)
    down, across = (matrix(fold_sums(*axis, out, "f32")) for axis, out in zip(axes, outs, strict=True))
    columns = x.permute(0, 2, 1, 3).reshape(kernels[0] * outs[0], kernels[1] * outs[1])
    assert torch.equal(down.T @ columns @ across, truth)


@pytest.mark.parametrize(("size", "out"), SIZES)
def test_adaptive_windows_and_sizes_match_pytorch(size: int, out: int) -> None:
    eye, line = torch.eye(size).reshape(size, 1, size), torch.randn(1, 1, size)
    torch.testing.assert_close(
        matrix(adaptive_means(size, out, "f32")), functional.adaptive_avg_pool1d(eye, out)[:, 0]
    )
    picked = line.flatten()[places(adaptive_places(size, out))].reshape(out, adaptive_window(size, out))
    assert torch.equal(picked.amax(1), functional.adaptive_max_pool1d(line, out).flatten())
    check_resizes(size, out, 0.0, {"size": out})


@pytest.mark.parametrize(("size", "factor"), FACTORS)
def test_resizes_by_a_factor_match_pytorch(size: int, factor: float) -> None:
    check_resizes(size, int(size * factor), factor, {"scale_factor": factor})


def check_resizes(size: int, out: int, factor: float, how: dict[str, float]) -> None:
    count = torch.arange(size, dtype=torch.float32).reshape(1, 1, size)
    for exact in (False, True):
        truth = functional.interpolate(count, mode="nearest-exact" if exact else "nearest", **how)
        assert places(nearest_places(size, out, factor, exact)) == truth.flatten().int().tolist()
    eye = torch.eye(size).reshape(size, 1, size)
    rows = {k: (1, v) for k, v in how.items()}
    for corners in (False, True):
        linear = functional.interpolate(eye, mode="linear", align_corners=corners, **how)[:, 0]
        cubic = functional.interpolate(eye[:, :, None], mode="bicubic", align_corners=corners, **rows)
        for weights, truth in ((linear_weights, linear), (cubic_weights, cubic[:, 0, 0])):
            made = matrix(weights(size, out, factor, corners, "f32"))
            torch.testing.assert_close(made, truth, rtol=0, atol=5e-5)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize(("before", "after"), [(0, 0), (3, 4), (1, 0), (-2, 3), (2, -1), (-1, -3)])
def test_padding_indices_match_pytorch(mode: str, before: int, after: int) -> None:
    count = torch.arange(6, dtype=torch.float32).reshape(1, 1, 6)
    truth = functional.pad(count, (before, after), mode=mode).flatten().int().tolist()
    assert places(padded_places(6, before, after, mode)) == truth


def test_slice_indices_match_pytorch() -> None:
    made = slice_places([2, 3], 2, 1, 4)
    written = torch.zeros(2, 3, 9, 4)
    written[tuple(torch.tensor(made.data).reshape(made.shape).movedim(-1, 0))] = 1.0
    truth = torch.zeros(2, 3, 9, 4)
    truth[:, :, 1:9:4] = 1.0
    assert made.shape == (2, 3, 2, 3)
    assert torch.equal(written, truth)


def test_impossible_constants_are_rejected() -> None:
    with pytest.raises(Rejection, match="window 0 of 2 lies outside of 2 places"):
        window_places(2, 2, 1, 2, 1, 3)
    with pytest.raises(Rejection, match="do not agree on a factor"):
        nearest_places(11, 22, 2.06, False)
    with pytest.raises(Rejection, match="there is no padding"):
        padded_places(4, 1, 1, "wrap")
    with pytest.raises(Rejection, match="has more than"):
        adaptive_means(4096, 2048, "f32")
    with pytest.raises(Rejection, match="have more than"):
        fold_places([2048, 2048], [2, 2], [1, 1], [0, 0], [1, 1], [2047, 2047])
    with pytest.raises(Rejection, match="has no square root"):
        root(-1.0)
    for base, exponent in ((-1.0, 0.5), (10.0, 400.0), (0.0, -1.0)):
        with pytest.raises(Rejection, match="is not a number"):
            power(base, exponent)


def test_numeric_helpers_give_exact_values() -> None:
    assert is_whole(-3.0) and is_whole(2.0**31 - 1) and root(9.0) == 3.0 and power(2.0, -3.0) == 0.125
    assert not (is_whole(0.5) or is_whole(2.0**31) or is_whole(math.inf) or is_whole(math.nan))
    assert matrix(causal_mask(2, 3, -5.0, "f32")).tolist() == [[0, -5, -5], [0, 0, -5]]
