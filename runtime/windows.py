"""Static tensors computed by formulas, which generated builders use for windows and resizing.

Means and linear and cubic interpolation are sums with fixed weights: a matrix [inputs, outputs] for each
dimension.  Maxima and nearest neighbors are gathers: a list of i32 indices.  The formulas are those of
PyTorch's CPU kernels (aten/src/ATen/native: AdaptivePooling.h, Pool.h, UpSample.h, and
cpu/UpSampleKernel.cpp), whose steps are in single precision.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, product

from opdb.core.names import counted
from opdb.runtime.tensors import Rejection, TensorRef, dtype_of

MAX_VALUES = 1 << 22  # maximum size of one tensor
Columns = Sequence[dict[int, float]]  # for each output, the weights of the inputs it reads


def is_whole(value: float) -> bool:
    """True if ``value`` is an integer that fits INT_32."""
    return math.isfinite(value) and value == math.floor(value) and -(2**31) <= value < 2**31


def root(value: float) -> float:
    """The square root.  Raises Rejection for a negative value."""
    if value < 0:
        raise Rejection(f"{value} has no square root")
    return math.sqrt(value)


def power(base: float, exponent: float) -> float:
    """``base`` to the power of ``exponent``.  Raises Rejection if the result is not real or overflows a double."""
    try:
        return math.pow(base, exponent)
    except (OverflowError, ValueError) as error:
        raise Rejection(f"{base} to the power of {exponent} is not a number") from error


def causal_mask(rows: int, columns: int, value: float, like: TensorRef | str) -> TensorRef:
    """[rows, columns]: ``value`` above the main diagonal, zero elsewhere."""
    return _made(
        (rows, columns), lambda: (value if c > r else 0.0 for r in range(rows) for c in range(columns)), like
    )


def window_means(
    size: int, kernel: int, stride: int, pad: int, out: int, counted: bool, like: TensorRef | str
) -> TensorRef:
    """[size, out]: weights for the mean of each window.  ``counted``: the divisor includes the padding."""
    columns = []
    for i in range(out):
        start = i * stride - pad
        stop = min(start + kernel, size + pad)
        inside = range(max(start, 0), min(stop, size))
        columns.append(dict.fromkeys(inside, 1.0 / max((stop - start) if counted else len(inside), 1)))
    return _matrix(size, columns, like)


def window_sums(size: int, kernel: int, stride: int, pad: int, out: int, like: TensorRef | str) -> TensorRef:
    """[size, out]: weights for the sum of each window."""
    starts = [i * stride - pad for i in range(out)]
    columns = [dict.fromkeys(range(max(s, 0), min(s + kernel, size)), 1.0) for s in starts]
    return _matrix(size, columns, like)


def window_factors(
    sizes: Sequence[int],
    kernels: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    outs: Sequence[int],
    counted: bool,
    like: TensorRef | str,
) -> TensorRef:
    """[*outs]: factors that turn the mean over a whole window, including zeros beyond the edges, into the mean
    over the values that count.  ``counted``: the padding counts.
    """
    along = []
    for size, kernel, stride, pad, out in zip(sizes, kernels, strides, pads, outs, strict=True):
        starts = [i * stride - pad for i in range(out)]
        stops = [min(s + kernel, size + pad) for s in starts]
        counts = [e - s if counted else min(e, size) - max(s, 0) for s, e in zip(starts, stops, strict=True)]
        along.append([kernel / max(c, 1) for c in counts])
    return _made(tuple(outs), lambda: map(math.prod, product(*along)), like)


def adaptive_means(size: int, out: int, like: TensorRef | str) -> TensorRef:
    """[size, out]: weights for the means of ``out`` windows that divide ``size`` elements."""
    return _matrix(size, [dict.fromkeys(w, 1.0 / len(w)) for w in _shares(size, out)], like)


def window_places(size: int, kernel: int, stride: int, pad: int, dilation: int, out: int) -> TensorRef:
    """[out * kernel]: the indices of each window, clamped to its first and last valid ones; with dilation 0 all are equal."""
    places: list[int] = []
    for i in range(out):
        window = [i * stride - pad + j * dilation for j in range(kernel)]
        inside = [p for p in window if 0 <= p < size]
        if not inside:
            raise Rejection(f"window {i} of {kernel} lies outside of {counted(size, 'place')}")
        places += [min(max(p, inside[0]), inside[-1]) for p in window]
    return _places(places)


def fold_sums(
    size: int, kernel: int, stride: int, pad: int, dilation: int, out: int, like: TensorRef | str
) -> TensorRef:
    """[kernel * out, size]: weights for the sums of the window values at each position.

    The values are [kernel, out]: the first of each window, then the second of each.
    """
    at = [(j * dilation + i * stride - pad, j * out + i) for j in range(kernel) for i in range(out)]
    return _matrix(
        kernel * out, [dict.fromkeys((n for p, n in at if p == place), 1.0) for place in range(size)], like
    )


def fold_places(
    sizes: Sequence[int],
    kernels: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    outs: Sequence[int],
) -> TensorRef:
    """[kernel size * image size]: the index, among the window values, of each kernel position over each image position.

    The values are [kernel height, kernel width, windows down, windows across], counted from 1; 0 means no window.
    """
    if math.prod(kernels) * math.prod(sizes) > MAX_VALUES:
        raise Rejection(f"windows of {list(kernels)} over {list(sizes)} have more than {MAX_VALUES} places")

    def windows(axis: int) -> list[list[int]]:
        """The window for each kernel position and each image position; -1 if there is none."""
        stride, out = strides[axis], outs[axis]
        gaps = (
            [p + pads[axis] - j * dilations[axis] for p in range(sizes[axis])] for j in range(kernels[axis])
        )
        return [
            [g // stride if g % stride == 0 and 0 <= g < stride * out else -1 for g in row] for row in gaps
        ]

    down, across = windows(0), windows(1)
    return _places(
        ((i * kernels[1] + j) * outs[0] + y) * outs[1] + x + 1 if min(y, x) >= 0 else 0
        for i, j in product(range(kernels[0]), range(kernels[1]))
        for y, x in product(down[i], across[j])
    )


def adaptive_window(size: int, out: int) -> int:
    """The width of the widest of ``out`` windows that divide ``size`` elements."""
    return max(len(window) for window in _shares(size, out))


def adaptive_places(size: int, out: int) -> TensorRef:
    """[out * adaptive_window(size, out)]: the indices of each window; narrower windows repeat the last index."""
    widest = adaptive_window(size, out)
    return _places(min(w.start + i, w.stop - 1) for w in _shares(size, out) for i in range(widest))


def nearest_places(size: int, out: int, factor: float, exact: bool) -> TensorRef:
    """[out]: the nearest input of each output.  ``factor``: the scale factor, 0 for ``out / size``.

    ``exact``: nearest to the middle of each output instead of its start.
    """
    step = _step(size, out, factor)
    shift = 0.5 if exact else 0.0
    places = [min(math.floor(_single((i + shift) * step)), size - 1) for i in range(out)]
    if not exact and out in (size, 2 * size) and places != [i * size // out for i in range(out)]:
        raise Rejection(
            f"PyTorch's kernels do not agree on a factor {factor} from {size} to {counted(out, 'value')}"
        )
    return _places(places)


def padded_places(size: int, before: int, after: int, mode: str) -> TensorRef:
    """[before + size + after]: the input indices of a padded dimension; negative amounts crop.

    ``mode``: reflect (without the edge), replicate (the edge), or circular.
    """
    places = range(-before, size + after)
    if mode == "circular":
        kept = range(size)[max(-before, 0) : size + min(after, 0)]
        return _places(kept[p % len(kept)] for p in range(-max(before, 0), len(kept) + max(after, 0)))
    if mode == "replicate":
        return _places(min(max(p, 0), size - 1) for p in places)
    if mode != "reflect":
        raise Rejection(f"there is no padding '{mode}' that repeats places")
    return _places(size - 1 - abs(size - 1 - abs(p)) for p in places)


def slice_places(sizes: Sequence[int], count: int, start: int, step: int) -> TensorRef:
    """[*sizes, count, rank]: ScatterNd's index of each of ``count`` slices that follow dimensions of ``sizes``."""
    indices = product(*map(range, sizes), range(start, start + count * step, step))
    return _made((*sizes, count, len(sizes) + 1), lambda: chain.from_iterable(indices), "i32")


def linear_weights(size: int, out: int, factor: float, corners: bool, like: TensorRef | str) -> TensorRef:
    """[size, out]: weights of linear interpolation; ``factor`` as in ``nearest_places``, unused with ``corners``."""

    def weights(i: int) -> dict[int, float]:
        at = float(i) if out == size else max(_source(i, size, out, factor, corners), 0.0)
        low = min(math.floor(at), size - 1)
        share = min(at - low, 1.0)
        return _summed([(low, 1.0 - share), (min(low + 1, size - 1), share)])

    return _matrix(size, [weights(i) for i in range(out)], like)


def cubic_weights(size: int, out: int, factor: float, corners: bool, like: TensorRef | str) -> TensorRef:
    """[size, out]: weights of cubic convolution with the coefficient -0.75 and repeated edges."""

    def weights(i: int) -> dict[int, float]:
        at = _source(i, size, out, factor, corners)
        low = math.floor(at)
        share = at - low
        parts = (_far(share + 1), _near(share), _near(1 - share), _far(2 - share))
        return _summed((min(max(low - 1 + n, 0), size - 1), w) for n, w in enumerate(parts))

    return _matrix(size, [weights(i) for i in range(out)], like)


def _near(d: float) -> float:
    return (1.25 * d - 2.25) * d * d + 1


def _far(d: float) -> float:
    return ((-0.75 * d + 3.75) * d - 6) * d + 3


def _single(value: float) -> float:
    """``value`` rounded to single precision."""
    single: float = struct.unpack("f", struct.pack("f", value))[0]
    return single


def _step(size: int, out: int, factor: float) -> float:
    return _single(1.0 / factor) if factor > 0 else _single(size / out)


def _source(i: int, size: int, out: int, factor: float, corners: bool) -> float:
    """The fractional input position that output ``i`` reads."""
    if corners:
        return _single(_single((size - 1) / (out - 1)) * i) if out > 1 else 0.0
    return _single(_single(_step(size, out, factor) * (i + 0.5)) - 0.5)


def _shares(size: int, out: int) -> list[range]:
    return [range(i * size // out, -(-(i + 1) * size // out)) for i in range(out)]


def _summed(parts: Iterable[tuple[int, float]]) -> dict[int, float]:
    total: dict[int, float] = {}
    for place, weight in parts:
        total[place] = total.get(place, 0.0) + weight
    return total


def _matrix(size: int, columns: Columns, like: TensorRef | str) -> TensorRef:
    return _made((size, len(columns)), lambda: (c.get(i, 0.0) for i in range(size) for c in columns), like)


def _places(places: Iterable[int]) -> TensorRef:
    listed = tuple(places)
    return _made((len(listed),), lambda: listed, "i32")


def _made(shape: tuple[int, ...], values: Callable[[], Iterable[float]], like: TensorRef | str) -> TensorRef:
    if math.prod(shape) > MAX_VALUES:
        raise Rejection(f"a constant of the shape {list(shape)} has more than {MAX_VALUES} values")
    return TensorRef(shape, dtype_of(like), static=True, data=tuple(values()), base_shape=shape)
