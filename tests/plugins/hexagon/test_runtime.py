"""The C runtime for Hexagon, compiled by clang and run by QEMU, against this machine's arithmetic and Python's formatting."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

pytestmark = pytest.mark.slow

Program = Callable[[str, bytes], bytes]
PAIRS = 20_000
EDGES = (0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.0, 1e-310, -5e-324, 2.0**-1022, 1.7976931348623157e308, 2.0**52,
         2.0**52 + 1, 2.0**53 - 1, -(2.0**63), float("inf"), float("-inf"), float("nan"))  # fmt: skip


def numbers() -> tuple[np.ndarray, np.ndarray]:
    """Random bits, some near 1, and all pairs of edge cases."""
    draw = np.random.default_rng(36)
    any_bits = draw.integers(0, 2**64, (PAIRS, 2), dtype=np.uint64).view(np.float64)
    usual = draw.standard_normal((PAIRS, 2)) * np.exp2(draw.integers(-20, 20, (PAIRS, 2)))
    edges = np.array([(a, b) for a in EDGES for b in EDGES])
    pairs = np.concatenate([any_bits, usual, edges])
    return np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])


@pytest.fixture(scope="module")
def rows(run_program: Program) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    a, b = numbers()
    out = run_program("arithmetic.c", np.stack([a, b], 1).tobytes())
    return a, b, np.frombuffer(out, np.uint64).reshape(len(a), -1)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_correctly_rounded_functions_match_bit_for_bit(rows: tuple[np.ndarray, ...]) -> None:
    a, b, got = rows
    a32, b32 = a.astype(np.float32), b.astype(np.float32)
    up = (b.view(np.uint64) >> np.uint64(54)).astype(np.int32)
    want = {
        "a / b": a / b, "a / b of floats": a32 / b32, "sqrt": np.sqrt(a), "sqrtf": np.sqrt(a32), "fmod": np.fmod(a, b),
        "fmodf": np.fmod(a32, b32), "rint": np.rint(a), "floor": np.floor(a), "ceil": np.ceil(a), "ldexp": np.ldexp(a, up),
        "ldexp down": np.ldexp(a, -up),
    }  # fmt: skip
    for column, (name, expected) in enumerate(want.items()):
        values = expected.astype(np.float64)
        same = (got[:, column] == values.view(np.uint64)) | (
            np.isnan(values) & np.isnan(got[:, column].view(np.float64))
        )
        assert same.all(), f"{name}: {(~same).sum()} of {len(a)}, first of {a[~same][0]!r}, {b[~same][0]!r}"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_other_functions_are_within_about_half_a_unit(rows: tuple[np.ndarray, ...]) -> None:
    a, _, got = rows
    exact = a.astype(np.longdouble)
    for column, function in enumerate((np.exp, np.sin, np.cos), 11):
        within = np.isfinite(a) & (np.abs(a) < (700 if function is np.exp else 2**20))
        want = function(exact[within])
        have = got[within, column].view(np.float64)
        unit = np.spacing(np.abs(want).astype(np.float64)).astype(np.longdouble)
        assert within.sum() > PAIRS and float(np.max(np.abs(have - want) / unit)) < 0.501, function
    assert np.isnan(got[~(np.abs(a) < 2**20), 12:14].view(np.float64)).all()
    outside = got[:, 11].view(np.float64)
    assert (outside[a > 710] == np.inf).all() and (outside[a < -746] == 0).all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_integers_are_divided_as_in_c(rows: tuple[np.ndarray, ...]) -> None:
    a, b, got = rows
    m, n = a.view(np.uint64), b.view(np.uint64)
    u, v = m >> np.uint64(32), n >> np.uint64(40)
    i, j = (x.astype(np.uint32).view(np.int32).astype(np.int64) for x in (u, v))
    sides = [(m, n), (m.view(np.int64), n.view(np.int64)), (u, v), (i, j)]
    for at, (x, y) in enumerate(sides):
        for column, function in (
            (14 + 2 * at, lambda p, q: abs(p) // abs(q)),
            (15 + 2 * at, lambda p, q: abs(p) % abs(q)),
        ):
            for row in range(0, len(a), 3):
                p, q = int(x[row]), int(y[row])
                if q == 0:
                    continue
                size = function(p, q)
                negative = p < 0 if column % 2 else (p < 0) != (q < 0)
                want = (-size if negative else size) % 2**64
                assert int(got[row, column]) == want, (p, q, column)


def rest(value: int, of: int) -> int:
    """C's %."""
    return value % of if value >= 0 else -(-value % of)


def test_number_formatting_matches_python(run_program: Program) -> None:
    draw = np.random.default_rng(36)
    values = np.concatenate([
        draw.integers(0, 2**64, 2000, dtype=np.uint64).view(np.float64),
        np.round(draw.standard_normal(2000), 6),
        10.0 ** np.arange(-12, 22),
        [0.0, 0.5, 2.5, 0.00012345678949999, 999999.5, 9999995.0, 123456789.5, 1234567885.0, 0.1, -1.0, 5e-324],
    ])  # fmt: skip
    values = values[np.isfinite(values)]
    lines = run_program("text.c", values.tobytes()).decode().split("\n")
    assert lines.pop() == "0123456"
    for value, line in zip(values, lines, strict=True):
        bits = int(value.view(np.int64))
        low = bits % 2**32
        signed = low - 2**32 if low >= 2**31 else low
        v = float(value)
        want = f"{v:.9g} {v:.17g} {v:g} {bits} {bits % 2**64:x} {signed} {low} abc xyz!"
        want += f" {low % 4096:08x} {rest(bits, 100):5d} {rest(bits, 1000):012d}"
        assert line == want, v


def test_excessive_scratch_is_refused(run_program: Program) -> None:
    lines = run_program("scratch.c", b"").decode().splitlines()
    assert lines == [f"{2**31 - 1} 4"] * 4  # SIZE_MAX / 2, OPDB_TOO_SMALL
