"""The allowed difference of a library's results from PyTorch's.

Floats: BOUNDS of modules.py, relative to 1 and the value; for sums, relative to the largest of 1 and the results,
because the terms may cancel.  HTP computes in half precision: its result may also be off by as much as PyTorch's changes
when every input moves by UNITS of half precision, and any result is right beyond half's largest number.  NaN and
infinities have to match.  Integers and booleans are equal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from modules import BOUNDS
from torch import Tensor

#: Targets that sum terms.
SUMS = re.compile(
    r"aten\.(\w*norm|\w*conv\w*|\w*mm|matmul|linear|mv|dot|outer|\w*sum\w*|mean|var\w*|std\w*|\w*avg_pool\w*|\w*cdist\w*|"
    r"\w*attention\w*|\w*upsample\w*|grid_sampler\w*|scatter_add|index_add|scatter_reduce|col2im|index_put)\."
)
HALF = torch.finfo(torch.float16)
EPS = {"CPU": torch.finfo(torch.float32).eps, "HTP": HALF.eps, "KERNELS": torch.finfo(torch.float32).eps}
#: Distance and number of the moves of inputs that show how much a result depends on their last digits.
UNITS, DRAWS = 4, 6
Array = np.ndarray[Any, Any]


def rounded(x: Tensor) -> Tensor:
    """``x`` rounded to half precision."""
    if x.dtype != torch.float32:
        return x
    half = x.half().float()
    return torch.where(half.isinf(), x, half)


def difference(
    got: Sequence[Array],
    inputs: Sequence[Tensor],
    call: Callable[[Sequence[Tensor]], list[Tensor]],
    backend: str,
    targets: Sequence[str],
) -> str:
    """The first result that is too far from ``call(inputs)``, with its worst element; "" for none."""
    wanted = call(inputs)
    off = [_off(g, t, backend, targets, ()) for g, t in zip(got, wanted, strict=True)]
    if any(off):
        moved = [call([_moved(x, draw, backend) for x in inputs]) for draw in range(DRAWS)]
        off = [
            _off(g, t, backend, targets, m)
            for g, t, m in zip(got, wanted, zip(*moved, strict=True), strict=True)
        ]
    return next((f"result {i}: {text}" for i, text in enumerate(off) if text), "")


def _moved(x: Tensor, draw: int, backend: str) -> Tensor:
    """``x`` with each value UNITS units of the backend's precision up or down; draw 0: all up, 1: all down."""
    if x.dtype != torch.float32:
        return x
    way = torch.randint(0, 2, x.shape, generator=torch.Generator().manual_seed(draw)) * 2 - 1
    way = torch.full_like(way, 1 - 2 * draw) if draw < 2 else way
    return x * (1 + way * UNITS * EPS[backend])


def _off(stored: Array, truth: Tensor, backend: str, targets: Sequence[str], moved: Sequence[Tensor]) -> str:
    want = truth.detach().numpy()
    got = stored.reshape(want.shape)
    if not truth.is_floating_point():
        off = np.asarray(got != want)
    else:
        with np.errstate(invalid="ignore", over="ignore"):
            near = np.abs(got.astype(np.float64) - want) <= _room(want, backend, targets, moved)
            off = ~(near | (got == want) | (np.isnan(got) & np.isnan(want)))
            if backend == "HTP":
                off &= ~(np.abs(want) > HALF.max)
    return _told(got, want, off) if off.any() else ""


def _room(want: Array, backend: str, targets: Sequence[str], moved: Sequence[Tensor]) -> Array:
    size = np.where(np.isfinite(want), np.abs(want), 0).astype(np.float64)
    if any(SUMS.match(t) for t in targets):
        size = np.full_like(size, np.max(size, initial=0))
    room: Array = BOUNDS["CPU" if backend == "KERNELS" else backend] * np.maximum(size, 1)
    further = [np.abs(m.detach().numpy().astype(np.float64) - want) for m in moved]
    return room + np.nan_to_num(np.max(further, axis=0), nan=0, posinf=0) if further else room


def _told(got: Array, want: Array, off: Array) -> str:
    with np.errstate(invalid="ignore", over="ignore"):
        far = np.abs(got.astype(np.float64) - want.astype(np.float64))
    far = np.where(off, np.nan_to_num(far, nan=np.inf, posinf=np.inf), -1.0)
    at = np.unravel_index(int(np.argmax(far)), off.shape)
    place = ", ".join(map(str, at))
    return f"[{place}] is {got[at]:.6g}, PyTorch has {want[at]:.6g}; {int(off.sum())} of {off.size} differ"
