"""Access to QNN's C interface: the compiled module, opening a library, and owned C memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from opdb.core.errors import OpdbError
from opdb.generated.constants.qnn_layouts import OLDEST_CORE_API

try:
    from opdb.runtime.qnn._qnn import ffi, lib
except ImportError as error:  # the package was not built
    raise OpdbError(
        f"the compiled part of opdb.runtime.qnn is missing ({error}); build it: pip install -e ."
    ) from None

__all__ = ["CODE", "NULL", "Arena", "CData", "ffi", "lib", "open_library", "text", "version"]

#: A cffi object: a pointer, struct or array in C memory.
CData = Any
NULL: CData = ffi.NULL
#: Debian packages of dependencies of Qualcomm's libraries that a minimal system lacks (Debian 12, QNN 2.47 and 2.51).
PACKAGES = {"libatomic.so.1": "libatomic1"}
CODE = 0xFFFF  # the low 16 bits of Qnn_ErrorHandle_t are the error code


def open_library(path: Path) -> CData:
    """The ``QnnInterface_t`` of a library, which stays loaded until the process ends.

    Raises OpdbError with the path and the loader's reason, or for a core API whose layouts differ.
    """
    why = ffi.new("char[1024]")
    interface = lib.opdb_qnn_open(str(path).encode(), why, ffi.sizeof(why))
    if interface == NULL:
        raise not_opened(path, text(why))
    core = version(interface.apiVersion.coreApiVersion)
    if core[0] != OLDEST_CORE_API[0] or core[:2] < OLDEST_CORE_API:
        raise OpdbError(
            f"{path}: its core API is {'.'.join(map(str, core))}; opdb needs {OLDEST_CORE_API[0]}.x from "
            f"{OLDEST_CORE_API[0]}.{OLDEST_CORE_API[1]} (QNN 2.25)"
        )
    return interface


def not_opened(path: Path, why: str) -> OpdbError:
    """The error for a library that dlopen refuses with ``why``; names the package of a missing dependency."""
    reason = why.replace(f"{path}: ", "")
    name, told, _ = reason.partition(": cannot open shared object file")
    if told and name != str(path):
        package = PACKAGES.get(name)
        reason += f"; install {f'it (Debian: apt-get install {package})' if package else 'what has it'}"
    return OpdbError(f"{path}: cannot open this QNN library: {reason}")


def text(pointer: CData) -> str:
    """A C string as text; "" for NULL."""
    return "" if pointer == NULL else ffi.string(pointer).decode(errors="replace")


def version(struct: CData) -> tuple[int, int, int]:
    """A ``Qnn_Version_t`` as a tuple."""
    return struct.major, struct.minor, struct.patch


class Arena:
    """Owns C memory: everything allocated through it lives as long as it does."""

    def __init__(self) -> None:
        self._kept: list[Any] = []

    def new(self, type_: str, init: Any = None) -> CData:
        """Allocates zeroed or initialized C memory, e.g. new("uint32_t[]", [2, 3])."""
        memory = ffi.new(type_, init)
        self._kept.append(memory)
        return memory

    def text(self, value: str) -> CData:
        return self.new("char[]", value.encode())

    def buffer(self, owner: Any) -> CData:
        """The memory of a contiguous numpy array; keeps the array alive."""
        memory = ffi.from_buffer(owner)
        self._kept.append(memory)
        return memory

    def configs(self, type_: str, *configs: CData) -> CData:
        """A NULL-terminated array of pointers to configurations; NULL if there are none."""
        if not configs:
            return NULL
        return ffi.cast(f"const {type_} **", self.new(f"{type_} *[]", [*configs, NULL]))
