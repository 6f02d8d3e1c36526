"""One call of a kernel, and helpers shared by the modules of cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """One call.  ``arguments`` are those before the outputs; ``oracle(torch, t)`` gives the wanted arrays,
    with ``t(array)`` a double tensor (or the array's own type if ``exact``).
    """

    name: str
    kernel: str
    arguments: tuple[Any, ...]
    outputs: tuple[tuple[Shape, Any], ...]  # shape and numpy type
    oracle: Callable[[Any, Callable[[Array], Any]], Any]
    variadic: bool = False  # the outputs are one variadic slot
    exact: bool = False  # bit-exact, and computed by PyTorch in the same type
    ulp: float | Callable[[Array], Array] = 1.0  # of the wanted value; or as many as a function of it says
    absolute: float = 0.0  # additional absolute tolerance


SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-40, 1e-8, -1e-8, 3e38, -3e38, 88.8, -88.8, 104, -104,
     1, -1, 0.5, 2, -2, 3, -3, 6, 7, -7, 20, -20, 1000, -1000, 0.1, -0.1, 1e10],
    np.float32,
)  # fmt: skip


def normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def f32(shape: Sequence[int]) -> tuple[tuple[Shape, Any], ...]:
    return ((tuple(shape), np.float32),)


def tag(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "scalar"
