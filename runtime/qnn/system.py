"""libQnnSystem.so: describes the contents of a context binary without the backend that wrote it."""

from __future__ import annotations

import threading
from functools import lru_cache
from pathlib import Path

from opdb.core.errors import OpdbError
from opdb.runtime.qnn import binary_info
from opdb.runtime.qnn.binary_info import BinaryInfo
from opdb.runtime.qnn.errors import QnnError
from opdb.runtime.qnn.libraries import Libraries
from opdb.runtime.qnn.native import CODE, NULL, ffi, lib, not_opened, text, version

_lock = threading.RLock()


class System:
    """The library, which stays loaded until the process ends; threads may share it.

    ``api`` is its version, e.g. (1, 11, 0) in QNN 2.47.  Raises OpdbError if it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        why = ffi.new("char[1024]")
        self._interface = lib.opdb_qnn_open_system(str(path).encode(), why, ffi.sizeof(why))
        if self._interface == NULL:
            raise not_opened(path, text(why))
        self.api = version(self._interface.systemApiVersion)
        if self.api[0] != 1:
            raise OpdbError(f"{path}: its API is {'.'.join(map(str, self.api))}; opdb needs 1.x")

    def binary_info(self, binary: bytes | memoryview) -> BinaryInfo:
        """The contents of a library's context binary.  Raises QnnError, OpdbError.

        Damaged bytes may crash the process: use opdb.runtime.qnn.context_info for data without a verified checksum.
        """
        api = self._interface.api
        handle = ffi.new("QnnSystemContext_Handle_t *")
        info = ffi.new("const QnnSystemContext_BinaryInfo_t **")
        data = ffi.from_buffer(binary)
        with _lock:
            _check(api.systemContextCreate(handle), "open QnnSystem")
            try:
                _check(
                    api.systemContextGetMetaData(handle[0], data, len(data), info), "read the context binary"
                )
                if info[0] == NULL:
                    raise OpdbError("QnnSystem says nothing about this context binary")
                return binary_info.decode(info[0], self.api)
            finally:
                api.systemContextFree(handle[0])


@lru_cache(maxsize=8)
def _opened(path: Path) -> System:
    return System(path)


def system(libraries: Libraries) -> System:
    """The System library in the backends' folder.  Raises OpdbError if there is none."""
    return _opened(libraries.path("SYSTEM"))


def _check(code: int, stage: str) -> None:
    if code & CODE:
        raise QnnError(stage, code & CODE)
