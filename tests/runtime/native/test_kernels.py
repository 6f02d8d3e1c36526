"""Every kernel against PyTorch: in float64 if rounding matters, in the same type if bits matter."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from collections import defaultdict
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Any

import c_library as c
import numpy as np
import pytest
import torch
from case import Case
from cases_elementwise import BINARIES
from kernel_cases import all_cases

import opdb
from opdb.core.dtypes import DTYPES

pytestmark = [pytest.mark.slow, pytest.mark.native]

CASES: dict[str, list[Case]] = defaultdict(list)
for _case in all_cases():
    CASES[_case.kernel].append(_case)

GENERATED = sorted((c.ROOT / "generated/c/kernels").glob("*.c"))
KERNEL_SOURCES = sorted((c.ROOT / "runtime/src/kernels").glob("*.c")) + GENERATED
OF_ELEMENTS = {f"opdb_{p.stem}" for p in GENERATED}
#: Sums of products, in float32.
PRODUCTS = {"opdb_conv2d", "opdb_depth_wise_conv2d", "opdb_fully_connected", "opdb_mat_mul"}
GUARD = 8  # elements before and after an output that must stay as they are


def run(kernels: ctypes.CDLL, case: Case) -> list[np.ndarray]:
    """The outputs, each written into the middle of a buffer whose ends are checked afterwards."""
    buffers = [np.full(int(np.prod(s)) + 2 * GUARD, 77, kind) for s, kind in case.outputs]
    outs = [b[GUARD:-GUARD].reshape(s) for b, (s, _) in zip(buffers, case.outputs, strict=True)]
    arguments = [outs] if case.variadic else outs
    assert c.call(kernels, case.kernel, *case.arguments, *arguments) == "OK"
    for b in buffers:
        assert (b[:GUARD] == b.dtype.type(77)).all() and (b[-GUARD:] == b.dtype.type(77)).all(), (
            "out of bounds"
        )
    return outs


def wanted(case: Case) -> list[np.ndarray]:
    def t(array: np.ndarray) -> torch.Tensor:
        tensor = torch.from_numpy(array)
        return tensor if case.exact else tensor.double()

    found = case.oracle(torch, t)
    return [v.contiguous().numpy() for v in (found if isinstance(found, (tuple, list)) else [found])]


def sums_of_sizes(case: Case) -> list[np.ndarray]:
    """The magnitudes for the tolerance of products: the same sums of the absolute values."""
    return wanted(replace(case, oracle=lambda pt, t: case.oracle(pt, lambda a: t(a).abs())))


def difference(case: Case, got: np.ndarray, want: np.ndarray, sizes: np.ndarray | float = 0) -> str:
    """Describes where ``got`` is off by more than ``case.ulp`` units in the last place; empty if nowhere."""
    assert got.shape == want.shape
    if case.exact:
        wrong = ~((got == want) | (np.isnan(got) & np.isnan(want)))
        if got.dtype == np.float32:
            wrong |= (np.signbit(got) != np.signbit(want)) & ~np.isnan(want)
    else:
        with np.errstate(all="ignore"):
            rounded = want.astype(np.float32)
            off = np.abs(got - want)
            units = case.ulp(want) if callable(case.ulp) else case.ulp
            room = units * np.spacing(np.abs(rounded)).astype(np.float64) + case.absolute
            room = room + sizes * 2.0**-22  # sums in float32
            wrong = ~((got == rounded) | (np.isnan(got) & np.isnan(rounded)) | (off <= room))
    at = np.argwhere(wrong)
    return (
        "" if not len(at) else f"{case.name} at {at[0]}: {got[tuple(at[0])]!r}, want {want[tuple(at[0])]!r}"
    )


@pytest.mark.parametrize("kernel", CASES)
def test_kernels_match_pytorch(kernels: ctypes.CDLL, kernel: str) -> None:
    wrong = []
    for case in CASES[kernel]:
        sizes = sums_of_sizes(case) if kernel in PRODUCTS else repeat(0.0)
        for got, want, size in zip(run(kernels, case), wanted(case), sizes, strict=False):
            wrong += filter(None, [difference(case, got, want, size)])
    assert not wrong, f"{len(wrong)} of {len(CASES[kernel])} cases\n" + "\n".join(wrong[:20])


def test_every_kernel_has_cases() -> None:
    """Elementwise kernels have theirs in test_elements; test_samples runs all on their ops' samples."""
    declared = set(
        re.findall(r"opdb_status (opdb_\w+)\(", (c.ROOT / "generated/c/include/opdb/kernels.h").read_text())
    )
    assert set(CASES) | OF_ELEMENTS <= declared


#: Kernels that take other types than float32 themselves.
ANY_TYPE = {"opdb_concat", "opdb_split", "opdb_reshape", "opdb_reduce_mean"}


def other_types(case: Case) -> list[tuple[Any, ...]]:
    """The case's arguments and outputs with one float32 tensor at a time labeled float16."""
    whole = [*case.arguments, *(np.zeros(s, kind) for s, kind in case.outputs)]
    at = [i for i, v in enumerate(whole) if isinstance(v, np.ndarray) and v.dtype in (np.float32, np.bool_)]
    return [(*whole[:i], c.tensor(whole[i], "f16"), *whole[i + 1 :]) for i in at]


@pytest.mark.parametrize("kernel", [k for k in CASES if k not in ANY_TYPE | OF_ELEMENTS])
def test_a_type_without_a_kernel_is_unsupported(kernels: ctypes.CDLL, kernel: str) -> None:
    case = next(x for x in CASES[kernel] if x.outputs[0][0] and 0 not in x.outputs[0][0])
    for arguments in other_types(case):
        assert c.call(kernels, kernel, *arguments) == "UNSUPPORTED"
        assert not arguments[-1].any() if isinstance(arguments[-1], np.ndarray) else True


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.short)
def test_types_of_whole_bytes_are_moved(kernels: ctypes.CDLL, dtype: Any) -> None:
    """Reshape, Concat, Split and Transpose know each type's size; 4-bit and string elements have none."""
    size = dtype.bits // 8 if dtype.short != "str" else 0
    raw = np.arange(6 * 8, dtype=np.uint8)
    x, out = np.zeros((2, 3), np.uint64), np.zeros((2, 3), np.uint64)
    x.view(np.uint8).flat = raw
    tx, ty = c.tensor(x, dtype.short), c.tensor(out, dtype.short)
    status = "OK" if size else "UNSUPPORTED"
    for kernel, arguments in (
        ("opdb_reshape", (tx, ty)),
        ("opdb_concat", (c.tensors([tx]), 0, ty)),
        ("opdb_split", (tx, 0, c.tensors([ty]))),
        ("opdb_transpose", (tx, [0, 1], ty)),
    ):
        out.fill(0)
        assert c.call(kernels, kernel, *arguments) == status
        written = out.view(np.uint8).ravel()
        assert (written[: 6 * size] == raw[: 6 * size]).all()
        assert not written[6 * size :].any()


def test_moved_types_must_agree(kernels: ctypes.CDLL) -> None:
    x, y = np.ones((2, 2), np.float32), np.zeros((2, 2), np.int32)
    assert c.call(kernels, "opdb_reshape", x, y) == "UNSUPPORTED"
    assert c.call(kernels, "opdb_concat", [x], 0, y) == "UNSUPPORTED"
    assert c.call(kernels, "opdb_split", x, 0, [y]) == "UNSUPPORTED"
    assert c.call(kernels, "opdb_transpose", x, [1, 0], y) == "UNSUPPORTED"
    assert not y.any()


@pytest.mark.parametrize("operation", [-1, len(BINARIES), 2**40])
def test_an_unknown_operation_is_unsupported(kernels: ctypes.CDLL, operation: int) -> None:
    x = np.ones(3, np.float32)
    assert c.call(kernels, "opdb_element_wise_binary", x, x, operation, x.copy()) == "UNSUPPORTED"
    assert (
        c.call(kernels, "opdb_element_wise_neuron", x, operation, 0.0, 0.0, 0.0, 0.0, 0.0, x.copy())
        == "UNSUPPORTED"
    )


@pytest.mark.breadth
def test_all_cases_pass_under_address_sanitizer(tmp_path: Path) -> None:
    """Runs in a child process: reads and writes out of bounds, and undefined behavior, end it."""
    library = c.build_library(tmp_path, c.ADDRESS)
    asan = subprocess.run([c.CC, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    environment = os.environ | {
        "LD_PRELOAD": asan.stdout.strip(),
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": str(Path(opdb.__file__).parents[1]),
    }
    program = Path(__file__).with_name("run_cases.py")
    done = subprocess.run(
        [sys.executable, str(program), str(library)], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == [str(sum(map(len, CASES.values()))), "cases"]


# Functions a kernel may call: the C library's memory and mathematics, and other kernels.
ALLOWED = re.compile(
    r"mem(cpy|set|move)|(exp|sin|cos|sincos|sqrt|fmod|floor|ceil|rint|ldexp|copysign)f?|opdb_\w+"
)


@pytest.mark.parametrize("source", KERNEL_SOURCES, ids=lambda p: p.stem)
def test_kernels_do_not_allocate_print_or_keep_state(source: Path, tmp_path: Path) -> None:
    obj = tmp_path / "kernel.o"
    c.compile_c([source], obj, ["-c", "-fno-pic", "-fno-stack-protector", "-DOPDB_NO_CLONES"])
    lines = subprocess.run(["nm", str(obj)], capture_output=True, text=True, check=True).stdout.splitlines()
    symbols = [line.split()[-2:] for line in lines]
    called = {name for kind, name in symbols if kind == "U"}
    assert not {name for name in called if not ALLOWED.fullmatch(name)}
    assert not [name for kind, name in symbols if kind in "bBdDC"], "state"


@pytest.mark.parametrize("source", [*KERNEL_SOURCES, *sorted((c.ROOT / "runtime/src/kernels").glob("*.h"))],
                         ids=lambda p: p.name)  # fmt: skip
def test_kernel_sources_include_only_allowed_headers(source: Path) -> None:
    included = set(re.findall(r"#\s*include\s+[<\"]([^>\"]+)", source.read_text()))
    own = {p.name for p in (c.ROOT / "runtime/src/kernels").glob("*.h")}
    assert included <= own | {
        "math.h",
        "stdbool.h",
        "stdint.h",
        "string.h",
        "opdb/checked.h",
        "opdb/kernels.h",
    }


def test_the_headers_are_valid_cxx(tmp_path: Path) -> None:
    source = tmp_path / "all.cpp"
    source.write_text('#include "opdb/checked.h"\n#include "opdb/kernels.h"\n')
    command = [
        os.environ.get("CXX", "g++"),
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pedantic",
        *c.INCLUDES,
        "-c",
        str(source),
    ]
    done = subprocess.run([*command, "-o", str(tmp_path / "all.o")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
