"""Prints the numbers of runtime/src/kernels/real_math.h, real_float.h and quarter_turns.h.

    python tools/approximations.py

Needs mpmath.  Polynomials go through Chebyshev's points; each line says how far one is off at most, relative to the
function, where it is used.
"""

from __future__ import annotations

from collections.abc import Callable

from mpmath import mp, mpf

mp.dps = 60


def fitted(function: Callable[[mpf], mpf], low: float, high: float, degree: int) -> list[mpf]:
    """The coefficients, lowest power first, of the polynomial that is ``function`` at Chebyshev's points."""
    middle, half = (mpf(low) + mpf(high)) / 2, (mpf(high) - mpf(low)) / 2
    points = [middle + half * mp.cos(mp.pi * (2 * k + 1) / (2 * degree + 2)) for k in range(degree + 1)]
    rows = mp.matrix([[p**k for k in range(degree + 1)] for p in points])
    return list(mp.lu_solve(rows, mp.matrix([function(p) for p in points])))


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


def normal_tail(t: mpf) -> mpf:
    """The chance that a normal number is above x, times exp(x * x / 2) / t, for t = 1 / (1 + 0.35 x)."""
    x = (1 / t - 1) / mpf("0.35")
    return mp.erfc(x / mp.sqrt(2)) / 2 * mp.exp(x * x / 2) / t


def sine(z: mpf) -> mpf:
    """(sin(r) / r - 1) / z for z = r * r."""
    r = mp.sqrt(z)
    return (mp.sin(r) / r - 1) / z


def cosine(z: mpf) -> mpf:
    """(cos(r) - 1 + z / 2) / (z * z) for z = r * r."""
    return (mp.cos(mp.sqrt(z)) - 1 + z / 2) / (z * z)


FUNCTIONS: tuple[tuple[str, Callable[[mpf], mpf], float, float, int], ...] = (
    ("erfc: TAIL of t = 2 / (2 + x)", tail, 0.15, 1.0, 13),
    ("atan: of x * x up to 1", arctangent, 1e-30, 1.0, 11),
    ("asin: of x * x up to 1 / 4", arcsine, 1e-30, 0.25, 7),
    ("float expm1: EXPM1 of r up to log(2)", exponential, -0.6932, 0.6932, 6),
    ("float normal_cdf: TAIL of t = 1 / (1 + 0.35 x)", normal_tail, 1 / (1 + 0.35 * 14.5), 1.0, 8),
    ("float sine: SINE of r * r up to (pi / 4)^2", sine, 1e-30, 0.617, 2),
    ("float cosine: COSINE of r * r up to (pi / 4)^2", cosine, 1e-30, 0.617, 2),
)


def quarter_turns(k: int) -> tuple[float, float, float]:
    """2^k * 2 / pi, less whole turns (4), in parts: a multiple of 2^-27, one of 2^-56, the rest."""
    with mp.workprec(400):
        left = mpf(2) ** (k + 1) / mp.pi
        left -= 4 * mp.floor(left / 4)
        high = mp.floor(left * 2**27) / 2**27
        middle = mp.floor((left - high) * 2**56) / 2**56
        return float(high), float(middle), float(left - high - middle)


def main() -> None:
    for name, function, low, high, degree in FUNCTIONS:
        coefficients = fitted(function, low, high, degree)
        print(f"{name}: off by {mp.nstr(off(function, [mpf(float(c)) for c in coefficients], low, high), 2)}")
        print("   ", ", ".join(repr(float(c)) for c in coefficients))
    for name, part in zip(
        ("HIGH", "MIDDLE", "LOW"), zip(*map(quarter_turns, range(105)), strict=True), strict=True
    ):
        print(f"quarter turns, {name}:\n   ", ", ".join(x.hex() for x in part))


if __name__ == "__main__":
    main()
