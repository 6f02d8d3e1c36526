"""Who owns which of the vendor's handles, and in which order they are released."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from opdb.errors import OpdbError
from opdb.runtime.qnn.native import CData


class Handle:
    """One handle of the vendor's, with those that were made from it.

    It is released once, after all that was made from it, newest first.  ``lock`` is its library's: nothing is
    released while another thread is inside the library.
    """

    def __init__(
        self,
        pointer: CData,
        release: Callable[[CData], object] | None,
        parent: Handle | None,
        lock: threading.RLock | None = None,
    ) -> None:
        self.pointer = pointer
        self.alive = True
        self.lock: threading.RLock = lock or (parent.lock if parent else threading.RLock())
        self._release = release
        self._parent = parent
        self._children: list[Handle] = []
        if parent is not None:
            with self.lock:
                parent._children.append(self)

    def close(self) -> None:
        """Releases what was made from this handle, then the handle; nothing the second time."""
        with self.lock:
            if not self.alive:
                return
            for child in reversed(list(self._children)):
                child.close()
            self.alive = False
            if self._parent is not None:
                self._parent._children.remove(self)
            if self._release is not None:
                self._release(self.pointer)


class Resource:
    """A Python object over a handle: a context manager, released with ``close`` or when nothing refers to it.

    It keeps its owner alive; closing an owner closes all that was made from it.  Every use after that raises
    OpdbError, never a crash.
    """

    _finalizer: weakref.finalize[Any, Any]

    def __init__(self, what: str, handle: Handle, owner: Resource | None) -> None:
        self.what = what  # for messages; ex) "the HTP backend"
        self._handle = handle
        self._owner = owner
        self._finalizer = weakref.finalize(self, handle.close)

    @property
    def closed(self) -> bool:
        return not self._handle.alive

    @property
    def pointer(self) -> CData:
        """QNN's handle.  Raises OpdbError when it is released."""
        if not self._handle.alive:
            raise OpdbError(f"{self.what} is closed; make a new one")
        return self._handle.pointer

    def close(self) -> None:
        """Releases this and everything that was made from it; safe to repeat, from any thread."""
        self._finalizer()
        self._handle.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
