"""Builds runtime/src with the C compiler and calls it through ctypes: the structs of opdb/runtime.h."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from opdb.core.dtypes import BY_SHORT

ROOT = Path(__file__).resolve().parents[3]
SOURCES = [ROOT / "runtime/src/lists.c", ROOT / "runtime/src/report.c"]
SOURCES += sorted((ROOT / "runtime/src/kernels").glob("*.c"))
SOURCES += sorted((ROOT / "generated/c/kernels").glob("*.c"))
INCLUDES = [
    f"-I{ROOT / folder}" for folder in ("runtime/include", "generated/c/include", "runtime/src/kernels")
]
CC = os.environ.get("CC", "gcc")
FLAGS = ["-std=c99", "-O3", "-fPIC", "-Wall", "-Wextra", "-Werror", "-pedantic", "-ffp-contract=off"]
UNDEFINED = ["-O1", "-g", "-fsanitize=undefined", "-fno-sanitize-recover=all"]
ADDRESS = [
    "-O1",
    "-g",
    "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
]

STATUS = ("OK", "INVALID", "UNSUPPORTED", "UNKNOWN_OP", "TOO_SMALL", "UNDECIDABLE", "OUTSIDE")
NUMPY_TO_DTYPE = {
    np.dtype(np.float16): "f16", np.dtype(np.float32): "f32", np.dtype(np.float64): "f64",
    np.dtype(np.int8): "i8", np.dtype(np.int16): "i16", np.dtype(np.int32): "i32", np.dtype(np.int64): "i64",
    np.dtype(np.uint8): "u8", np.dtype(np.uint16): "u16", np.dtype(np.uint32): "u32",
    np.dtype(np.uint64): "u64", np.dtype(np.bool_): "bool8",
}  # fmt: skip


def compile_c(sources: Sequence[Path], to: Path, flags: Sequence[str]) -> None:
    """Compiles and links; an error has the compiler's messages."""
    if shutil.which(CC) is None:
        raise RuntimeError(f"the C compiler {CC!r} is not installed; install gcc or set CC")
    command = [CC, *FLAGS, *INCLUDES, *flags, *map(str, sources), "-o", str(to)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")


def build_library(folder: Path, flags: Sequence[str] = (), extra: Sequence[Path] = ()) -> Path:
    """runtime/src (and ``extra`` sources) as a shared library in ``folder``."""
    path = folder / "libopdb_test.so"
    compile_c([*SOURCES, *extra], path, [*flags, "-shared", "-lm"])
    return path


class Quant(ctypes.Structure):
    _fields_ = (
        ("n", ctypes.c_int64), ("scales", ctypes.POINTER(ctypes.c_float)),
        ("offsets", ctypes.POINTER(ctypes.c_int32)), ("bits", ctypes.c_uint32),
    )  # fmt: skip


class Ints(ctypes.Structure):
    _fields_ = (("n", ctypes.c_int64), ("v", ctypes.POINTER(ctypes.c_int64)))


#: Qnn_TensorType_t.
NATIVE = 3


class Tensor(ctypes.Structure):
    _fields_ = (
        ("rank", ctypes.c_uint32), ("dims", ctypes.POINTER(ctypes.c_int64)), ("dtype", ctypes.c_int),
        ("encoding", ctypes.c_int), ("symmetric", ctypes.c_bool), ("type", ctypes.c_int),
        ("is_sparse", ctypes.c_bool), ("axis", ctypes.c_int32), ("data", ctypes.c_void_p), ("quant", ctypes.POINTER(Quant)),
        ("values", ctypes.POINTER(Ints)),
    )  # fmt: skip


class List(ctypes.Structure):
    _fields_ = (("n", ctypes.c_int64), ("v", ctypes.c_int64 * 64))


class Tensors(ctypes.Structure):
    _fields_ = (("n", ctypes.c_int64), ("v", ctypes.POINTER(ctypes.POINTER(Tensor))))


class Rows(ctypes.Structure):
    _fields_ = (("n", ctypes.c_int64), ("width", ctypes.c_int64), ("v", ctypes.POINTER(ctypes.c_int64)))


#: OPDB_MAX_GOT of opdb/runtime.h
MAX_GOT = int(re.findall(r"OPDB_MAX_GOT = (\d+)", (ROOT / "runtime/include/opdb/runtime.h").read_text())[0])


class Violation(ctypes.Structure):
    _fields_ = (
        ("rule", ctypes.c_char_p), ("sentence", ctypes.c_char_p), ("why", ctypes.c_char_p),
        ("undecidable", ctypes.c_bool), ("strength", ctypes.c_int), ("erratum", ctypes.c_char_p),
        ("effect", ctypes.c_char_p), ("got", ctypes.c_char * MAX_GOT),
    )  # fmt: skip


class Report(ctypes.Structure):
    _fields_ = (("n", ctypes.c_size_t), ("dropped", ctypes.c_size_t), ("v", Violation * 64))


def int64s(values: Sequence[int]) -> Any:
    return (ctypes.c_int64 * len(values))(*values)


def ints(values: Sequence[int]) -> Ints:
    return Ints(len(values), int64s(values))


def rows(values: Sequence[Sequence[int]]) -> Rows:
    width = len(values[0]) if values else 0
    return Rows(len(values), width, int64s([v for row in values for v in row]))


def tensor(array: np.ndarray, dtype: str | None = None) -> Tensor:
    """A view of ``array`` (C-contiguous), which must outlive it.  ``dtype`` overrides the element type."""
    assert array.flags.c_contiguous
    short = dtype or NUMPY_TO_DTYPE[array.dtype]
    code = BY_SHORT[short].code
    return Tensor(
        array.ndim, int64s(array.shape), code, 0x7FFFFFFF, True, NATIVE, False, -1, array.ctypes.data
    )


def tensors(items: Sequence[Tensor]) -> Tensors:
    return Tensors(len(items), (ctypes.POINTER(Tensor) * len(items))(*map(ctypes.pointer, items)))


def argument(value: Any) -> Any:
    """A Python value as a C argument: arrays are tensors, lists are ints, rows or variadic tensors."""
    if value is None or isinstance(value, (Tensors, Rows, Ints)):
        return value
    if isinstance(value, np.ndarray):
        return ctypes.pointer(tensor(value))
    if isinstance(value, Tensor):
        return ctypes.pointer(value)
    if isinstance(value, bool):
        return ctypes.c_bool(value)
    if isinstance(value, int):
        return ctypes.c_int64(value)
    if isinstance(value, float):
        return ctypes.c_double(value)
    if value and isinstance(value[0], np.ndarray):
        return tensors([tensor(v) for v in value])
    if value and isinstance(value[0], (list, tuple)):
        return rows(value)
    return ints(value)


def call(library: ctypes.CDLL, kernel: str, *arguments: Any) -> str:
    """The status of ``kernel``; writes the outputs among the arguments."""
    return STATUS[getattr(library, kernel)(*map(argument, arguments))]
