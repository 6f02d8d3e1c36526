"""Prints the numbers of runtime/src/kernels/real_math.h, real_float.h and quarter_turns.h.

    python tools/approximations.py

Needs mpmath and numpy.  Polynomials interpolate at Chebyshev points; each line gives the largest error relative to the
function in the range where it is used.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from mpmath import mp, mpf

mp.dps = 60


def fitted(function: Callable[[mpf], mpf], low: float, high: float, degree: int) -> list[mpf]:
    """Coefficients, lowest power first, of the polynomial that equals ``function`` at the Chebyshev points."""
    middle, half = (mpf(low) + mpf(high)) / 2, (mpf(high) - mpf(low)) / 2
    points = [middle + half * mp.cos(mp.pi * (2 * k + 1) / (2 * degree + 2)) for k in range(degree + 1)]
    rows = mp.matrix([[p**k for k in range(degree + 1)] for p in points])
    return list(mp.lu_solve(rows, mp.matrix([function(p) for p in points])))


def fitted_ratio(function: Callable[[mpf], mpf], points: list[mpf], degree: int) -> list[list[mpf]]:
    """Numerator and denominator, lowest power first, of the fraction that equals ``function`` at the points.

    The denominator's highest power is ``degree``, with coefficient 1; the numerator uses the remaining points.
    """
    above = len(points) - degree
    rows = mp.matrix(
        [[p**k for k in range(above)] + [-function(p) * p**k for k in range(degree)] for p in points]
    )
    found = list(mp.lu_solve(rows, mp.matrix([function(p) * p**degree for p in points])))
    return [found[:above], [*found[above:], mpf(1)]]


def off(function: Callable[[mpf], mpf], coefficients: list[mpf], low: float, high: float) -> mpf:
    points = [mpf(low) + (mpf(high) - mpf(low)) * k / 2000 for k in range(1, 2000)]
    return max(abs(mp.polyval(coefficients[::-1], p) / function(p) - 1) for p in points)


def tail(t: mpf) -> mpf:
    """erfc(x) exp(x * x) / t for t = 2 / (2 + x)."""
    x = 2 / t - 2
    return mp.erfc(x) * mp.exp(x * x) / t


def arctangent(z: mpf) -> mpf:
    return mp.atan(mp.sqrt(z)) / mp.sqrt(z)


def arcsine(z: mpf) -> mpf:
    return mp.asin(mp.sqrt(z)) / mp.sqrt(z)


def exponential(r: mpf) -> mpf:
    """(exp(r) - 1 - r) / (r * r)."""
    return (mp.expm1(r) - r) / (r * r) if abs(r) > 1e-20 else mpf("0.5")


def half_exponential(r: mpf) -> mpf:
    """(exp(-r / 2) - 1 + r / 2) / (r * r)."""
    return exponential(-r / 2) / 4


def normal_tail(x: mpf) -> mpf:
    """The probability that a normal number is above x, times exp(x * x / 2)."""
    return mp.erfc(x / mp.sqrt(2)) / 2 * mp.exp(x * x / 2)


def sine(z: mpf) -> mpf:
    """(sin(r) / r - 1) / z for z = r * r."""
    r = mp.sqrt(z)
    return (mp.sin(r) / r - 1) / z


def sine_rest(z: mpf) -> mpf:
    """The rest of ``sine`` after its term -1 / 6, rounded to float, divided by z."""
    return (sine(z) + mpf(float(np.float32(1 / 6)))) / z


FUNCTIONS: tuple[tuple[str, Callable[[mpf], mpf], float, float, int], ...] = (
    ("erfc: TAIL of t = 2 / (2 + x)", tail, 0.15, 1.0, 13),
    ("atan: of x * x up to 1", arctangent, 1e-30, 1.0, 11),
    ("asin: of x * x up to 1 / 4", arcsine, 1e-30, 0.25, 7),
    ("float expm1: EXPM1 of r up to log(2)", exponential, -0.6932, 0.6932, 6),
    ("float gelu: HALF_EXP of r", half_exponential, -0.6932, 0.8631, 4),
    (
        "float sine: SINE after -1 / 6, of r * r up to (pi / 2)^2, for where it weighs",
        sine_rest,
        1.2,
        2.468,
        2,
    ),
)
#: Beyond it gelu(-x) is below 2^-126.
GELU_NORMAL = mpf("13.2")


def quarter_turns(k: int) -> tuple[float, float, float]:
    """2^k * 2 / pi, less whole turns (4), in parts: a multiple of 2^-27, one of 2^-56, the rest."""
    with mp.workprec(400):
        left = mpf(2) ** (k + 1) / mp.pi
        left -= 4 * mp.floor(left / 4)
        high = mp.floor(left * 2**27) / 2**27
        middle = mp.floor((left - high) * 2**56) / 2**56
        return float(high), float(middle), float(left - high - middle)


def gelus() -> None:
    """Prints the fraction of real_geluf, through the Chebyshev points of 1 / (1 + 0.3 x)."""
    places = [mpf(k) / 2000 * GELU_NORMAL for k in range(2001)]
    low = 1 / (1 + mpf("0.3") * GELU_NORMAL)
    middle, half = (1 + low) / 2, (1 - low) / 2
    points = [(1 / (middle + half * mp.cos(mp.pi * (2 * k + 1) / 20)) - 1) / mpf("0.3") for k in range(10)]
    ratio = [
        [mpf(float(np.float32(float(c)))) for c in part] for part in fitted_ratio(normal_tail, points, 5)
    ]
    above, below = ([mp.polyval(part[::-1], p) for p in places] for part in ratio)
    worst = max(abs(a / b / normal_tail(p) - 1) for a, b, p in zip(above, below, places, strict=True))
    print(f"float gelu: ABOVE and BELOW of x: off by {mp.nstr(worst, 2)}")
    for part in ratio:
        print("   ", ", ".join(str(np.float32(float(c))) for c in part))


def main() -> None:
    for name, function, low, high, degree in FUNCTIONS:
        coefficients = fitted(function, low, high, degree)
        print(f"{name}: off by {mp.nstr(off(function, [mpf(float(c)) for c in coefficients], low, high), 2)}")
        print("   ", ", ".join(repr(float(c)) for c in coefficients))
    gelus()
    for name, part in zip(
        ("HIGH", "MIDDLE", "LOW"), zip(*map(quarter_turns, range(105)), strict=True), strict=True
    ):
        print(f"quarter turns, {name}:\n   ", ", ".join(x.hex() for x in part))


if __name__ == "__main__":
    main()
